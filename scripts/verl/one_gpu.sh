#!/usr/bin/env bash
# One GPU: scripts/verl/one_gpu.sh CONFIG.toml RUN [options of `python -m wordle_rl.trainers.verl`]
set -euo pipefail
config=${1:?"usage: scripts/verl/one_gpu.sh CONFIG.toml RUN [options]"} run=${2:?"a run directory"}
shift 2
exec python -m wordle_rl.trainers.verl "$config" --out "$run" --offload --memory-fraction 0.5 "$@"
