#!/usr/bin/env bash
# One machine of eight GPUs: scripts/verl/eight_gpus.sh CONFIG.toml RUN [options of `python -m wordle_rl.trainers.verl`]
# For the recipe: scripts/verl/eight_gpus.sh qwen2.5-0.5b runs/half-billion
set -euo pipefail
config=${1:?"usage: scripts/verl/eight_gpus.sh CONFIG.toml RUN [options]"} run=${2:?"a run directory"}
shift 2
exec python -m wordle_rl.trainers.verl "$config" --out "$run" --gpus-per-node 8 --tensor-parallel 2 --memory-fraction 0.7 \
  --max-prompt-tokens 1024 --max-response-tokens 3072 --validate-every-steps 20 --epochs 15 --report-to wandb "$@"
