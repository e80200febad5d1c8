#!/bin/sh
# A vLLM server that plays for GRPO and takes the weights of each step (grpo.engine "http://localhost:8000").
#   scripts/vllm_server.sh MODEL [OPTIONS OF vllm serve]
# MODEL has the shape of the model in training: its directory, or what it was loaded from. Variables set the usual
# options: LISTEN, PORT, TP and DP (GPUs that hold one copy of the model, and copies), MAX_MODEL_LEN (tokens of a game):
#   CUDA_VISIBLE_DEVICES=0,1 TP=2 MAX_MODEL_LEN=2048 PORT=8001 scripts/vllm_server.sh runs/mine/sft
# Options given count last.
# The routes that take weights ask for no token, so the server listens on this machine alone unless LISTEN (an address) or --host says
# otherwise.
set -eu
model=${1:?"usage: scripts/vllm_server.sh MODEL [OPTIONS OF vllm serve]"}
shift
command -v vllm > /dev/null || { echo "vllm is missing: pip install 'vllm>=0.22,<0.32', in an environment of its own" >&2; exit 127; }
VLLM_SERVER_DEV_MODE=1 exec vllm serve "$model" \
  --host "${LISTEN:-127.0.0.1}" --port "${PORT:-8000}" \
  ${TP:+--tensor-parallel-size "$TP"} ${DP:+--data-parallel-size "$DP"} \
  ${MAX_MODEL_LEN:+--max-model-len "$MAX_MODEL_LEN"} \
  --weight-transfer-config '{"backend": "nccl"}' \
  --logprobs-mode processed_logprobs \
  --generation-config vllm \
  "$@"
