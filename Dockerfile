# Training, evaluation and the environment server, for a processor or for GPUs:
#   docker build --tag wordle-rl:cpu .
#   docker build --tag wordle-rl:cuda --build-arg DEVICE=cuda .
#   docker run --rm --volume wordle-runs:/runs wordle-rl:cpu run quickstart --out /runs/quickstart
#   docker run --rm --gpus all --volume wordle-runs:/runs wordle-rl:cuda run gpu --out /runs/gpu
ARG DEVICE=cpu

FROM python:3.11-slim AS base
WORKDIR /app
COPY constraints.txt ./

# torch goes first: what is installed after it would bring the build for CUDA, gigabytes of it.
FROM base AS torch-cpu
RUN pip install --no-cache-dir --constraint constraints.txt --index-url https://download.pytorch.org/whl/cpu torch

# On Linux the index's own build of torch carries CUDA; the driver is the host's.
FROM base AS torch-cuda
RUN pip install --no-cache-dir --constraint constraints.txt torch

# hadolint ignore=DL3006
FROM torch-${DEVICE}
WORKDIR /app
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt ".[train,openai,serve]" \
    && useradd --create-home --uid 1000 player \
    && install --directory --owner 1000 /runs

USER 1000
# `runs/NAME`, where runs go unless --out says otherwise, is then in the volume, and so are weights from the hub.
WORKDIR /
ENV HF_HOME=/runs/.hub
VOLUME /runs
EXPOSE 8000
# Without a shell, so that a stop reaches the run, which then saves a checkpoint.
ENTRYPOINT ["wordle-rl"]
CMD ["run", "quickstart", "--out", "/runs/quickstart"]
STOPSIGNAL SIGINT
