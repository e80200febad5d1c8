"""Settings of GRPO side by side, from one start, at equal processor seconds: greedy and sampled wins, and the gradient.

    wordle-rl run quickstart --traces.num-games 12000 --sft.epochs 2 --until sft --out runs/weak
    python benchmarks/grpo_sweep.py runs/weak --out runs/sweep.jsonl --seconds 200 --ways wins dense belief

A way is a table of `[grpo]` over the preset's (`WAYS`), or a list of them that share the time. The package's own GRPO
plays and learns; only the end is another: the learning rate falls to 0 over `--seconds` of processor time, in which
evaluation does not count. `sft` is the control: as many seconds of the teacher's games, each pass in another order.

Examined, before and after: training words (`--exam` of them, or all with 0), validation words, and held-out words only
with `--judge`, so that nothing is chosen by them.
"""

import json
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import tyro
from measure import hardware

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import ExpertIterationSettings, GRPOSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.data.game_record import read_traces
from wordle_rl.pipeline.stages import load_learner
from wordle_rl.policy.constrain import make_constraint
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.rollout import Trajectory, play
from wordle_rl.runs import Run
from wordle_rl.runs.trackers import GameLog
from wordle_rl.train.algorithms import ALGORITHMS
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.train.micro_batches import micro_batches
from wordle_rl.train.play_loop import Stage
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import Training

Way = Mapping[str, Any]
PARTS = 1000
"""Places of the learning rate's schedule."""

BASE: Way = {
    "group_size": 8,
    "groups_per_step": 64,
    "temperature": 0.5,
    "validate_every_steps": 0,
    "max_refills": 0,
    "prioritized_fraction": 0.0,
    "sample_games": 0,
    "reward": {"weights": {"win": 1.0, "speed": 0.5}, "keep_order": False},
    "optimizer": {"learning_rate": 1e-3, "muon_learning_rate": 0.003, "schedule": "linear", "warmup": 0.0},
}


def reward(**weights: float) -> Way:
    """Return a table with these weights."""
    return {"reward": {"weights": weights, "keep_order": False}}


def rates(adamw: float, muon: float | None) -> Way:
    """Return a table with these learning rates."""
    return {"optimizer": {**BASE["optimizer"], "learning_rate": adamw, "muon_learning_rate": muon}}


DENSE = {**reward(win=1.0, consistency=1.0, valid_word=1.0, repeat=-1.0), "credit": "guess"}

WAYS: dict[str, Way | Sequence[Way]] = {
    "wins": {},
    "information": {**reward(win=1.0, information=1.0), "credit": "guess"},
    "regret": {**reward(quick_regret=-6.0), "credit": "guess"},
    "dense": DENSE,
}


def laid_over(settings: GRPOSettings, *tables: Way) -> GRPOSettings:
    """Return settings with tables laid over them, the later ones above."""
    merged = settings.model_dump() | {key: value for table in tables for key, value in table.items()}
    return GRPOSettings.model_validate(merged)


class Trial:
    """One way from one start."""

    def __init__(self, run: Path, start: Path | None, seed: int, scratch: Path) -> None:
        self.config: RunConfig = stored_config(run / "config.json")
        self.run_dir, self.seed, self.scratch = run, seed, scratch
        self.context = GameContext.of(self.config)
        self.start = start or run / "sft"
        rng = random.Random(1)
        self.shuffled = rng.sample(list(self.context.split.train), len(self.context.split.train))
        self.used, self.games, self.metrics = 0.0, 0, []
        self.learner: TorchLearner | None = None

    def learn(self, tables: Sequence[Way], seconds: float) -> None:
        """Learn by GRPO."""
        for part, table in enumerate(tables):
            settings = laid_over(self.config.grpo, BASE, table)
            self.load(settings.temperature, part, constrained=settings.constrain == "words")
            training = Training(self.learner, Run(self.scratch), "grpo", seed=self.seed)
            setup = GameSetup(
                self.context.for_training, self.context.split.train, self.context.split.val, sampling=self.config.sampling
            )
            log = GameLog(training.run)
            method = ALGORITHMS[GRPOSettings](Stage(training, setup, log, self.learner.policy), settings)
            if method.loss.needs_reference:
                self.learner.remember_start()
            self.learner.start(settings.optimizer, PARTS)
            end, number = seconds * (part + 1) / len(tables), 0
            began_at = self.used
            while self.used < end:
                began = time.process_time()
                games = method.next_games(number + 1)
                place = int(PARTS * (self.used - began_at) / (end - began_at))
                norms = []
                for batch in method.batches(games, number + 1) * settings.updates_per_batch:
                    norms.append(self.learner.update(batch, method.loss, 1 + place))
                metrics = dict(games.metrics)
                method.note_metrics(metrics)
                number += 1
                self.games += settings.groups_per_step * settings.group_size
                self.used += time.process_time() - began
                self.note(metrics, norms)
            method.close()

    def note(self, metrics: Mapping[str, float], updates: Sequence[Any]) -> None:
        """Keep the metrics of a step."""
        kept = ("win_rate", "reward", "reward_std", "constant_group_rate", "format_compliance", "mean_guesses")
        row = {"games": self.games, "seconds": round(self.used, 1)} | {
            name: round(metrics[name], 4) for name in kept if name in metrics
        }
        row |= {name: round(fmean(u.figures[name] for u in updates), 4) for name in ("entropy", "kl") if name in updates[0].figures}
        row |= {name: round(value, 5) for name, value in updates[0].figures.items() if name.startswith("gradient")}
        self.metrics.append(row)

    def imitate(self, seconds: float) -> None:
        """Learn more of the teacher's games by SFT, at the rates that the run had."""
        self.load(1.0, 0)
        codec = self.learner.codec
        rows = encode_traces(
            read_traces(self.run_dir / "traces.jsonl"), self.context.prompter, codec, self.config.model.max_length
        ).examples
        size = self.config.sft.batch_size
        self.learner.start(self.config.sft.optimizer, PARTS)
        rng, order = random.Random(self.seed), []
        while self.used < seconds:
            began = time.process_time()
            if len(order) < size:
                order = rng.sample(rows, len(rows))
            batch, order = order[:size], order[size:]
            self.learner.update(
                micro_batches(batch, self.learner.micro_batch_size, sharing=self.learner.shares_prefixes),
                CrossEntropy(),
                1 + int(PARTS * self.used / seconds),
            )
            self.games += len(batch)
            self.used += time.process_time() - began

    def load(self, temperature: float, part: int, *, constrained: bool = False) -> None:
        """Load the start, or go on from the weights of the part before at another temperature."""
        path = self.start
        if self.learner is not None:
            path = self.scratch / f"part-{part}"
            self.learner.save_model(path)
        model = self.config.model.model_copy(update={"path": str(path)})
        words, prompter = self.context.for_training.words, self.context.for_training.prompter
        limit = partial(make_constraint, words, prompter) if constrained else None
        self.learner = load_learner(self.config, model, self.seed, temperature, limit)

    def play(self, secrets: Sequence[str], temperature: float) -> list[Trajectory]:
        """Play with the current weights."""
        sampling = self.config.sampling.model_copy(update={"temperature": temperature})
        sampler = TransformersSampler(self.learner.model, self.learner.codec, sampling, 99_999)
        context = self.context.for_training
        return play([InitialState(secret) for secret in secrets], context.words, context.prompter, sampler)

    def examine(self, exam: int, *, judge: bool) -> dict[str, float]:
        """Play greedily and sampled."""
        split = self.context.split
        parts = {"train": self.shuffled[: exam or None], "val": list(split.val)}
        if judge:
            parts["test"] = list(split.test)
            parts["all"] = list(split.named("all"))
        found = {}
        for name, secrets in parts.items():
            for how, temperature in (("greedy", 0.0), ("T=1", 1.0)):
                games = self.play(secrets, temperature)
                turns = [turn.turn for game in games for turn in game.transcript.turns]
                wins = [game.transcript.turns_used for game in games if game.transcript.won]
                found[f"{name}/{how}"] = round(100 * len(wins) / len(games), 1)
                found[f"{name}/{how}/guesses"] = round(fmean(wins), 3) if wins else 0.0
                found[f"{name}/{how}/unlisted"] = round(100 * fmean(turn.marks is None for turn in turns), 1)
                if judge:
                    found[f"{name}/{how}/won"] = "".join(str(int(game.transcript.won)) for game in games)
        return found


def main(
    run: tyro.conf.Positional[Path],
    out: Path,
    ways: tuple[str, ...] = tuple(WAYS),
    start: Path | None = None,
    tables: str = "",
    seconds: float = 200.0,
    seed: int = 0,
    exam: int = 300,
    judge: bool = False,
    save: Path | None = None,
) -> None:
    """Run ways one after the other, and append a row of figures for each to `out`.

    Args:
        start: Model to start from; left out: the run's SFT.
        tables: JSON of further ways, or of changes to one: {"name": {"grpo setting": value}}.
        judge: Play all training words, the held-out ones and all.
        save: Save the last model here.
    """
    torch.set_num_threads(1)
    known = {**WAYS, **(json.loads(tables) if tables else {})}
    for name in ways:
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(run, start, seed, Path(scratch))
            trial.load(1.0, 0)
            before = trial.examine(exam, judge=judge)
            trial.learner = None
            way = known.get(name, ())
            if name == "sft":
                trial.imitate(seconds)
            elif name != "start":
                trial.learn(way if isinstance(way, (list, tuple)) else [way], seconds)
            after = trial.examine(exam, judge=judge) if name != "start" else before
            if save is not None:
                trial.learner.save_model(save)
        about = {"way": name, "tables": way, "seed": seed, "seconds": seconds, "games": trial.games}
        shown = {key: value for key, value in after.items() if not key.endswith("/won")}
        print(name, trial.games, {key: (before[key], value) for key, value in shown.items()}, flush=True)
        every = max(1, len(trial.metrics) // 60)
        row = {**about, "hardware": hardware(), "before": before, "after": after, "curve": trial.metrics[::every]}
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
