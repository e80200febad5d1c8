#!/usr/bin/env bash
# One GPU: scripts/verl/one_gpu.sh CONFIG.toml RUN [options of `python -m wordle_rl.trainers.verl`]
set -euo pipefail
config=$1 run=$2
shift 2
exec python -m wordle_rl.trainers.verl "$config" --out "$run" --offload --memory-fraction 0.5 "$@"
