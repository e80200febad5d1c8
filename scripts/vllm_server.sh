#!/bin/sh
# A vLLM server that plays for GRPO and takes the weights of each step (grpo.engine "http://localhost:8000").
#   scripts/vllm_server.sh MODEL [OPTIONS OF vllm serve]
# MODEL has the shape of the model in training: its directory, or what it was loaded from. Options given count last:
#   CUDA_VISIBLE_DEVICES=0 scripts/vllm_server.sh runs/mine/sft --port 8001 --max-model-len 2048 --tensor-parallel-size 1
# The routes that take weights ask for no token, so the server listens on this machine alone unless --host says otherwise.
set -eu
model=${1:?"usage: scripts/vllm_server.sh MODEL [OPTIONS OF vllm serve]"}
shift
command -v vllm > /dev/null || { echo "vllm is missing: pip install vllm, in an environment of its own" >&2; exit 127; }
VLLM_SERVER_DEV_MODE=1 exec vllm serve "$model" \
  --host 127.0.0.1 --port 8000 \
  --weight-transfer-config '{"backend": "nccl"}' \
  --logprobs-mode processed_logprobs \
  --generation-config vllm \
  "$@"
