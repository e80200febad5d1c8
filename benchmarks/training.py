"""Training tokens a second: our SFT beside a bare PyTorch loop, and where a GRPO step spends its time.

    python benchmarks/training.py [--games 6000] [--batch-size 64] [--repeats 3] [--grpo-steps 3]
                                  [--threads 1] [--float32] [--json]

`train_sft` and the loop train the same fresh model on the same teacher games of `imitation`, cut into the same
batches in the same order, with the same optimizer, precision and learning rates. The loop is as plain as it gets: pad,
forward without an attention mask, cross-entropy of the learnt tokens, backward, clip, step; it logs nothing and never
looks back. Tokens are those of the games, padding left out. The clock runs from the end of the second step to the end
of the last, so that neither side pays for being set up; a row of its own counts all of `train_sft`, from dataset to
saved model. Both sides' losses are compared at the end of the epoch.

GRPO goes on from the model just trained. Its rows share out the median step by the clocks in metrics.jsonl; `rest`
is what of a step they leave over.

On a machine that does other work at the same time, `--threads 1` keeps torch's threads from waiting for each other.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from measure import Rate, Timing, rate_of, ratio_of, show_rates, take_turns
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.stages import GRPOSettings, SFTSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.loading import load_model
from wordle_rl.runs import Run
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.optimizer import make_optimizer, set_rate, wants_bf16
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.sft import Plan, train_sft
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import Training

WARM_UP_STEPS = 2
SEED = 0
CONFIG = load_config(Path(__file__).parents[1] / "src" / "wordle_rl" / "config" / "presets" / "imitation.toml")
CLOCKS = ("rollout", "reward", "forward", "backward", "update")


@dataclass(frozen=True)
class Lesson:
    """Training data, and everything needed to play afterwards."""

    context: GameContext
    examples: Sequence[Example]
    settings: SFTSettings

    def batches(self) -> list[list[Example]]:
        """The batches of the epoch, in the order in which `train_sft` meets them."""
        lengths = [len(example.token_ids) for example in self.examples]
        size = self.settings.batch_size
        order = Plan(lengths, *CONFIG.model.batches(size), self.settings.epochs, SEED).order(0)
        return [[self.examples[i] for i in order[at : at + size]] for at in range(0, len(order), size)]


def main() -> None:
    """Time SFT against the loop, then GRPO, and print both."""
    parser = argparse.ArgumentParser(description="Time training.")
    parser.add_argument("--games", type=int, default=6000, help="teacher games per epoch")
    parser.add_argument("--batch-size", type=int, default=CONFIG.sft.batch_size, help="games per optimizer step")
    parser.add_argument("--repeats", type=int, default=3, help="epochs of each side; the median is shown")
    parser.add_argument("--grpo-steps", type=int, default=3, help="GRPO steps after the first; 0: none")
    parser.add_argument("--threads", type=int, help="torch's threads; default: its choice")
    parser.add_argument("--float32", action="store_true", help="train in float32 on any processor")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.float32:  # Muon asks the processor, too
        torch.cpu.get_capabilities = dict  # type: ignore[assignment]  # called for its mapping alone
    lesson = prepare(options.games, CONFIG.sft.model_copy(update={"batch_size": options.batch_size}))
    if len(lesson.batches()) <= WARM_UP_STEPS:
        parser.error(f"{options.games} games make no more than {WARM_UP_STEPS} batches of {options.batch_size}")
    with tempfile.TemporaryDirectory() as directory:
        rates, model, codec = time_sft(lesson, options.repeats, Path(directory))
        timings = []
        if options.grpo_steps:
            timings = time_grpo(lesson, model, codec, options.grpo_steps, Path(directory) / "grpo")
    title = f"Training: SFT in batches of {options.batch_size} games, parts of a GRPO step"
    show_rates(title, "tokens", rates, timings, as_json=options.json)


def prepare(num_games: int, settings: SFTSettings) -> Lesson:
    """Play the teacher's games and turn them into tokens."""
    context = GameContext.of(CONFIG).for_training
    words = context.solver.words
    traces = CONFIG.traces.model_copy(update={"num_games": num_games})
    secrets = draw_secrets(words, context.split, traces, SEED)
    games = solver_traces(secrets, SolverTeacher(context.solver), traces, SEED)
    _, codec = load_model(CONFIG.model, SEED)
    examples = encode_traces(games, context.prompter, codec, CONFIG.model.max_length).examples
    return Lesson(context, examples, settings)


def time_sft(lesson: Lesson, repeats: int, directory: Path) -> tuple[list[Rate], PreTrainedModel, ChatCodec]:
    """Both sides in turn.

    Returns:
        The rates and the model that `train_sft` trained last, with its codec.
    """
    whole: list[float] = []
    losses: dict[str, float] = {}
    trained: list[tuple[PreTrainedModel, ChatCodec]] = []

    def ours() -> float:
        model, codec = load_model(CONFIG.model, SEED)
        run = Run.create(directory / f"sft-{len(whole)}", CONFIG, lesson.context.split)
        ends: list[float] = []
        started = time.perf_counter()
        learner = TorchLearner(
            model, codec, precision=CONFIG.model.precision, micro_batch_size=CONFIG.model.micro_batch_size
        )
        training = Training(learner, run, "sft", SEED, progress=lambda *_: ends.append(time.perf_counter()))
        train_sft(training, lesson.examples, lesson.settings)
        whole.append(time.perf_counter() - started)
        trained[:] = [(model, codec)]
        losses["train_sft"] = last_loss(run.directory)
        return ends[-1] - ends[WARM_UP_STEPS - 1]

    def bare() -> float:
        taken, losses["bare loop"] = bare_loop(lesson)
        return taken

    seconds = take_turns({"train_sft": ours, "bare loop": bare}, repeats)
    batches = lesson.batches()
    timed = sum(len(example.token_ids) for batch in batches[WARM_UP_STEPS:] for example in batch)
    everything = sum(len(example.token_ids) for example in lesson.examples)
    own, by_hand = seconds["train_sft"], seconds["bare loop"]
    games = sum(map(len, batches[WARM_UP_STEPS:])) / timed

    def about(name: str) -> str:
        return f"{timed * games / statistics.median(seconds[name]):,.0f} games/s; last loss {losses[name]:.4f}"

    times = f"{ratio_of(own, by_hand):.2f} times the bare loop"
    rates = [
        rate_of("train_sft", timed, own, f"{about('train_sft')}; {times}"),
        rate_of("bare loop", timed, by_hand, about("bare loop")),
        rate_of("train_sft, all of it", everything, whole, f"{len(batches)} steps, set-up and saving included"),
    ]
    return rates, *trained[0]


def last_loss(directory: Path) -> float:
    """The last loss in the metrics of a run, a mean over the steps since the line before."""
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return float([row["loss"] for row in map(json.loads, lines) if "loss" in row][-1])


def bare_loop(lesson: Lesson) -> tuple[float, float]:
    """One epoch by hand; the seconds after the warm-up, and the mean loss of the steps that `last_loss` covers."""
    settings = lesson.settings
    model, codec = load_model(CONFIG.model, SEED)
    optimizer = make_optimizer(model, settings.optimizer)
    batches = lesson.batches()
    device, bf16 = model.device, wants_bf16(CONFIG.model.precision)
    model.train()
    started, losses = 0.0, []
    for step, batch in enumerate(batches):
        if step == WARM_UP_STEPS:
            started = time.perf_counter()
        width = max(len(example.token_ids) for example in batch)
        ids = torch.full((len(batch), width), codec.pad_id)  # (B, T)
        learnt = torch.zeros(len(batch), width, dtype=torch.bool)  # (B, T)
        for row, example in enumerate(batch):
            ids[row, : len(example.token_ids)] = torch.tensor(example.token_ids)
            learnt[row, : len(example.token_ids)] = torch.tensor(example.loss_mask, dtype=torch.bool)
        ids, learnt = ids.to(device), learnt[:, 1:].to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1][learnt]  # (N, V)
        loss = cross_entropy(logits.float(), ids[:, 1:][learnt])
        losses.append(loss.item())  # as the learner reads it
        loss.backward()
        clip_grad_norm_(model.parameters(), settings.optimizer.max_grad_norm)
        set_rate(optimizer, settings.optimizer, step, len(batches))
        optimizer.step()
        optimizer.zero_grad()
    if device.type == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - started
    logged = len(losses) // settings.logging_steps * settings.logging_steps  # the steps after these are never logged
    return elapsed, statistics.fmean(losses[max(logged - settings.logging_steps, 0) : logged or None])


def time_grpo(lesson: Lesson, model: PreTrainedModel, codec: ChatCodec, steps: int, directory: Path) -> list[Timing]:
    """A few GRPO steps of that preset's size; the first is left out."""
    settings = GRPOSettings(steps=steps + 1)
    run = Run.create(directory, CONFIG, lesson.context.split)
    sampling = SamplingSettings(max_completion_tokens=12)
    setup = GameSetup(lesson.context, lesson.context.split.train, sampling=sampling)
    cpu: list[float] = []
    wall: list[float] = []

    def note_step(*_: object) -> None:
        cpu.append(time.process_time())
        wall.append(time.perf_counter())

    learner = TorchLearner(model, codec, precision=CONFIG.model.precision)
    learn_by_play(GRPO, Training(learner, run, "grpo", SEED, progress=note_step), setup, settings)
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["stage"] == "grpo"][1:]
    games = settings.groups_per_step * settings.group_size
    won = statistics.fmean(row["win_rate"] for row in rows)
    parts = {name: statistics.median(row[f"seconds/{name}"] for row in rows) for name in CLOCKS}
    step_wall, step_cpu = gaps(wall), gaps(cpu)
    whole = statistics.median(step_wall)
    parts["rest"] = whole - sum(parts.values())
    step = Timing("step", statistics.median(step_cpu), whole, len(step_wall), f"{games} games, {won:.0%} won")
    shares = [Timing(name, None, took, len(rows), f"{took / whole:.0%}") for name, took in parts.items()]
    return [step, *shares]


def gaps(times: Sequence[float]) -> list[float]:
    """Seconds from each moment to the next."""
    return [after - before for before, after in itertools.pairwise(times)]


if __name__ == "__main__":
    main()
