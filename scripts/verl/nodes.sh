#!/usr/bin/env bash
# Several machines of eight GPUs. Start it on each of them, with the same number of machines and the head's address:
#
#   NODE_RANK=0 NODES=4 HEAD=10.0.0.1 scripts/verl/nodes.sh CONFIG.toml RUN [options of `python -m wordle_rl.trainers.verl`]
#   NODE_RANK=1 NODES=4 HEAD=10.0.0.1 scripts/verl/nodes.sh
#
# The first machine waits ten minutes for the others (120 tries; NODE_WAIT_TRIES sets another number).
# RUN and the model must lie on a file system that all of them see. Whoever can talk to Ray can run any code on the
# cluster, so it asks for a token: copy the file that RAY_AUTH_TOKEN_PATH names to every machine beforehand, made by
#
#   python -c 'import secrets; print(secrets.token_hex(32), end="")' > ~/.ray/auth_token
set -euo pipefail
: "${NODE_RANK:?}" "${NODES:?}" "${HEAD:?}"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}
port=${RAY_PORT:-6379} gpus=${GPUS_PER_NODE:-8}

if [ ! -s "$RAY_AUTH_TOKEN_PATH" ]; then
  echo "no token in $RAY_AUTH_TOKEN_PATH; see the head of this script" >&2
  exit 2
fi

python -c 'import ray, sys; sys.exit(tuple(map(int, ray.__version__.split(".")[:2])) < (2, 52))' || {
  echo "no Ray from 2.52 on, which asks for the token, in this environment" >&2
  exit 2
}

if [ "$NODE_RANK" != 0 ]; then
  exec ray start --address "$HEAD:$port" --num-gpus "$gpus" --block
fi

config=${1:?"usage: scripts/verl/nodes.sh CONFIG.toml RUN [options]"} run=${2:?"a run directory"}
shift 2
ray start --head --node-ip-address "$HEAD" --port "$port" --num-gpus "$gpus" --dashboard-host 127.0.0.1
trap 'ray stop' EXIT
tries=0
until [ "$(python -c 'import ray; ray.init("auto", logging_level="ERROR"); print(sum(n["Alive"] for n in ray.nodes()))' || echo 0)" -ge "$NODES" ]; do
  tries=$((tries + 1))
  if [ "$tries" -ge "${NODE_WAIT_TRIES:-120}" ]; then
    echo "fewer than $NODES machines have joined after $tries tries; see the output above, and the other machines" >&2
    exit 1
  fi
  sleep 5
done
python -m wordle_rl.trainers.verl "$config" --out "$run" --nodes "$NODES" --gpus-per-node "$gpus" "$@"
