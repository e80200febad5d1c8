"""Train and evaluate gpu, then load a model of Qwen3-1.7B's shape: one call, ten minutes at most.

    python scripts/gpu_check.py --out runs/gpu-check
    python scripts/gpu_check.py --out runs/small-check --small

Stages, each a process of its own, so that none holds memory when the next begins:

    embedded   `wordle-rl run gpu`, with fewer games and steps, evaluation included
    weights    random weights in the shape of Qwen3-1.7B, bfloat16
    play       games with them: tokens a second, memory; by vLLM where it is installed, else by our own sampler
    sft        a few steps of SFT with them: memory, beside what preflight counts

A stage is not begun when less time is left than it needs at least, and is interrupted when its own time is over; either
is printed, with the reason. OUT/record.json holds the figures, the versions, the hardware, the commit, and what was
changed in the configs; it is written after every stage. Random weights win no game: only speed and memory are read off.

`--small` has the same stages with models that any processor trains in a minute, played by our own sampler.
"""

import argparse
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PATHS = [str(ROOT / "src"), str(ROOT / "benchmarks")]
"""Directories of the package and of `rollouts`: this checkout is measured, installed or not."""
QWEN_1_7B: dict[str, Any] = {
    "vocab_size": 151_936, "hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144, "max_position_embeddings": 4096,
}  # fmt: skip
"""Numbers of its config.json, but for the context, which is as long as our games."""
TINY: dict[str, Any] = {
    "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "intermediate_size": 64, "max_position_embeddings": 4096,
}  # fmt: skip
SHORTER = (
    "--traces.num-games 120000 --sft.epochs 2 --grpo.steps 30 --grpo.validate-every-steps 15 "
    "--grpo.interpolation-alphas 1"
)
SMALLER = (
    "--traces.num-games 60 --sft.epochs 1 --sft.batch-size 32 --model.hidden-size 32 "
    "--grpo.steps 1 --grpo.groups-per-step 2 "
    "--grpo.group-size 4 --model.micro-batch-size 8 --grpo.validate-every-steps 0 --grpo.interpolation-alphas 1 "
    "--grpo.probe-every-steps 0 --grpo.prioritized-fraction 0 --eval.max-games 4 --traces.pseudo-rate 0 "
    "--traces.outside-rate 0 --grpo.outside-rate 0"
)
QWEN_SFT = """\
max_completion_tokens = 256
[model]
max_length = 3072
gradient_checkpointing = true
[game]
style = "english"
thinking = "optional"
[traces]
num_games = {games}
narrate = true
rl_only_fraction = 0.0
[sft]
batch_size = {rows}
validations_per_epoch = 0
"""


@dataclass(frozen=True)
class Stage:
    """One part of the check: a command of this Python, its limits of time, and what reads its figures.

    It is not begun with less time left than `least_s`, or if the stage `after`, whose files it reads, did not finish.
    """

    name: str
    command: tuple[str, ...]
    least_s: float
    most_s: float
    figures: Callable[[], dict[str, Any]]
    after: str = ""


@dataclass
class Result:
    """Outcome of a stage: done, skipped, interrupted or failed; `reason` if it is not done."""

    stage: str
    outcome: str
    seconds: float = 0.0
    reason: str = ""
    command: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


def main() -> int:
    """Run the stages in the time there is; the exit code is 1 if one did not finish, 2 if none was begun."""
    parser = argparse.ArgumentParser(description="Train, evaluate and measure on one GPU, in one call.")
    parser.add_argument("--out", type=Path, required=True, help="directory of the record and of the runs; new or empty")
    parser.add_argument("--small", action="store_true", help="tiny models, for any processor: tries the script itself")
    parser.add_argument("--seconds", type=float, default=560.0, help="time for all of it")
    parser.add_argument("--stage", choices=("weights", "play"), help=argparse.SUPPRESS)  # the call of a stage
    options = parser.parse_args()
    sys.path[:0] = PATHS
    if fault := misplaced(options.out, options.small, inside=options.stage is not None):
        print(f"error: {fault}", file=sys.stderr)
        return 2
    if options.stage:
        {"weights": make_weights, "play": play_games}[options.stage](options.out, options.small)
        return 0
    results = check(options.out, options.small, options.seconds)
    outcomes = {result.outcome for result in results}
    return 2 if outcomes == {"skipped"} else int(bool(outcomes & {"failed", "interrupted"}))


def misplaced(out: Path, small: bool, *, inside: bool) -> str:
    """Error message if there is no GPU, or the directory holds an earlier check; else ''."""
    import torch

    if not (small or torch.cuda.is_available()):
        return "torch finds no GPU here; --small tries every stage with tiny models on this processor"
    if not inside and out.exists() and any(out.iterdir()):
        return f"{out} is not empty, and a run in it would be resumed; name another --out"
    return ""


def check(out: Path, small: bool, seconds: float) -> list[Result]:
    """Run one stage after the other and write the record after each."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    facts = facts_of_this_machine()
    for stage in stages(out, small):
        left = seconds - (time.monotonic() - started)
        lost = [result.stage for result in results if result.stage == stage.after and result.outcome != "done"]
        if lost:
            results.append(Result(stage.name, "skipped", reason=f"it needs {stage.after}, which did not finish"))
        else:
            results.append(run_stage(stage, left))
        shown = results[-1]
        print(
            f"{shown.stage}: {shown.outcome}, {shown.seconds:.1f} s{shown.reason and f' ({shown.reason})'}", flush=True
        )
        for name, value in shown.figures.items():
            print(f"  {name}: {value}", flush=True)
        record = {
            **facts, "small": small, "seconds_allowed": seconds, "seconds": round(time.monotonic() - started, 1),
            "stages": [asdict(result) for result in results],
        }  # fmt: skip
        (out / "record.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return results


def run_stage(stage: Stage, left: float) -> Result:
    """Run a stage as a process, if there is time for it; its output goes through."""
    if left < stage.least_s:
        return Result(stage.name, "skipped", reason=f"{max(left, 0):.0f} s left, it needs {stage.least_s:.0f}")
    command = [sys.executable, *stage.command]
    result = Result(stage.name, "done", command=shlex.join(["python", *stage.command]))
    paths = [*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
    started, limit = time.monotonic(), min(stage.most_s, left)
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        result.outcome, result.reason = "interrupted", f"not finished after {limit:.0f} s"
        stop(process)
    else:
        if code:
            result.outcome, result.reason = "failed", f"exit code {code}; its error stands above"
    result.seconds = round(time.monotonic() - started, 1)
    if result.outcome != "failed":
        result.figures = stage.figures()
    return result


def stop(process: "subprocess.Popen[bytes]", patience_s: float = 15.0) -> None:
    """Have a process stop as on Ctrl-C, by which a training saves a checkpoint, then end it."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def facts_of_this_machine() -> dict[str, Any]:
    """Commit, versions, hardware and command, as the manifest of a run has them."""
    from wordle_rl.config.context import GameContext
    from wordle_rl.config.files import load_config
    from wordle_rl.runs.provenance import manifest

    config = load_config(ROOT / "src" / "wordle_rl" / "config" / "presets" / "gpu.toml")
    facts = manifest(config, GameContext.of(config).split)
    kept = ("wordle_rl", "git_commit", "seed", "libraries", "python", "hardware")
    return {
        "command": shlex.join(["python", *sys.argv]),
        "config": "gpu",
        **{name: facts[name] for name in kept},
    }


def stages(out: Path, small: bool) -> tuple[Stage, ...]:
    """The stages, with the time that each may take: ten minutes together, no bound for small models."""
    out = out.resolve()
    gpu, qwen, settings = out / "gpu", out / "qwen-sft", out / "qwen-sft.toml"
    sizes = {"games": 10, "rows": 4} if small else {"games": 240, "rows": 16}
    settings.write_text(QWEN_SFT.format(**sizes), encoding="utf-8")
    run, own = ("-m", "wordle_rl", "run"), (str(Path(__file__).resolve()), "--out", str(out), *["--small"] * small)
    changed = shlex.split(SMALLER if small else SHORTER)
    dtype = () if small else ("--model.dtype", "bfloat16")
    weights = ("--model.path", str(out / "weights"), *dtype)
    found = (
        Stage("embedded", (*run, "gpu", "--out", str(gpu), *changed), 120, 270, lambda: of_run(gpu)),
        Stage("weights", (*own, "--stage", "weights"), 30, 60, dict),
        Stage("play", (*own, "--stage", "play"), 60, 150, lambda: read(out / "play.json"), "weights"),
        Stage(
            "sft", (*run, str(settings), "--out", str(qwen), "--until", "sft", *weights), 60, 90, lambda: of_sft(qwen),
            "weights",
        ),
    )  # fmt: skip
    return tuple(replace(stage, least_s=1.0, most_s=math.inf) for stage in found) if small else found


def read(path: Path) -> dict[str, Any]:
    """A JSON object; empty if an interrupted stage did not write it."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def of_run(run: Path) -> dict[str, Any]:
    """Seconds and memory by stage, wins by model and part with their intervals."""
    spent, found = read(run / "timings.json"), read(run / "results.json")
    figures: dict[str, Any] = {name: spent[name] for name in ("seconds", "memory") if name in spent}
    for model in ("sft", "grpo"):
        for part in ("all", "held_out", "strict"):
            if row := found.get(model, {}).get(part):
                low, high = (round(row[f"win_rate_{end}"], 4) for end in ("low", "high"))
                figures[f"{model} {part}"] = {
                    "games": row["num_games"],
                    "win_rate": round(row["win_rate"], 4),
                    "interval": [low, high],
                }
    return figures


def of_sft(run: Path) -> dict[str, Any]:
    """Seconds and peak memory of the steps, and what preflight counts for them."""
    from wordle_rl.config.files import stored_config
    from wordle_rl.preflight.report import preflight

    spent = read(run / "timings.json")
    figures: dict[str, Any] = {name: spent[name] for name in ("seconds", "memory") if name in spent}
    if not (run / "config.json").is_file():  # interrupted before the run began
        return figures
    report = preflight(stored_config(run / "config.json"), 0, None)
    gib = {"preflight_counted_gib": report.memory["sft"].counted, "preflight_total_gib": report.memory["sft"].total}
    return {**figures, **{name: round(size / 2**30, 6) for name, size in gib.items()}}


def make_weights(out: Path, small: bool) -> None:
    """A model of random weights with the embedded tokenizer, whose tokens are the first few of the vocabulary."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from wordle_rl.chat.codec import ChatCodec
    from wordle_rl.policy.device import device_of_process
    from wordle_rl.policy.loading import save_model
    from wordle_rl.policy.tiny import make_tokenizer

    tokenizer = make_tokenizer()
    dtype = torch.float32 if small else torch.bfloat16
    config = Qwen3Config(
        **(TINY if small else QWEN_1_7B), tie_word_embeddings=True, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=None, dtype=dtype,
    )  # fmt: skip
    torch.manual_seed(0)
    with device_of_process():
        model = Qwen3ForCausalLM(config)
    model.to(dtype)  # type: ignore[arg-type]  # transformers decorates `to` without its type
    save_model(model, ChatCodec(tokenizer), out / "weights")


def play_games(out: Path, small: bool) -> None:
    """Time batches of games after a small one to warm up; random weights hardly ever end a reply.

    The figures are written after each batch, so that those of an interrupted stage are not lost.
    """
    from rollouts import Played, Table, ours

    from wordle_rl.config.model import GameSettings, ModelSettings
    from wordle_rl.config.training import SamplingSettings
    from wordle_rl.policy.loading import load_codec, load_model
    from wordle_rl.policy.transformers import TransformersSampler
    from wordle_rl.policy.vllm import make_engine
    from wordle_rl.words import load_words

    settings = ModelSettings(path=str(out / "weights"), dtype="auto")
    engine = "vllm" if not small and find_spec("vllm") else "transformers"
    if engine == "transformers" and not small:
        print("play: vLLM is not installed (pip install 'vllm>=0.22,<0.32'); our own sampler plays", flush=True)
    sampling = SamplingSettings(max_completion_tokens=8 if small else 32, max_batch_size=256)
    started, words = time.perf_counter(), load_words()
    prompter = GameSettings(style="compact").prompter(words.word_length)
    model: Any = None  # the engine alone holds the weights
    if engine == "vllm":
        codec = load_codec(settings)
        sampler: Any = make_engine(out / "weights", codec, sampling)
    else:
        model, codec = load_model(settings, 0)
        sampler = TransformersSampler(model, codec, sampling, 0)
    figures: dict[str, Any] = {"engine": engine, "seconds_to_load": round(time.perf_counter() - started, 1)}
    log: list[Played] = []
    table, secrets = Table(words, prompter, model, codec), words.answers[: 8 if small else 128]
    ours(table, secrets[:8], log, sampler)()
    rates: list[float] = []
    for _ in range(3):
        seconds = ours(table, secrets, log, sampler)()
        rates.append(round(log[-1].tokens / seconds, 1))
        figures |= {"games": len(secrets), "tokens": log[-1].tokens, "tokens_per_s": rates, **memory_in_use()}
        (out / "play.json").write_text(json.dumps(figures), encoding="utf-8")


def memory_in_use() -> dict[str, float]:
    """GiB in use on the GPU by all processes, and all that it has; elsewhere the most that this process has had."""
    import torch

    from wordle_rl.pipeline.timings import memory_now

    if not torch.cuda.is_available():
        return {"peak_gib": round(memory_now().peak_gib, 3)}
    free, total = torch.cuda.mem_get_info()
    return {"device_used_gib": round((total - free) / 2**30, 2), "device_total_gib": round(total / 2**30, 2)}


if __name__ == "__main__":
    sys.exit(main())
