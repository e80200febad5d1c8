#!/usr/bin/env bash
# One machine of eight GPUs under SkyRL: scripts/skyrl/eight_gpus.sh [KEY=VALUE ...], for example trainer.logger=console
#
# In an environment of its own, with Python 3.12: pip install wordle-rl "skyrl[fsdp]==0.3.0" skyrl-gym==0.4.0
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python -m wordle_rl.trainers.skyrl_train scripts/skyrl/eight_gpus.yaml "$@"
