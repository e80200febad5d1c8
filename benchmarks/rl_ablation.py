"""Ways to set GRPO, side by side: wins before and after, from one start, at equal processor seconds.

    wordle-rl run quickstart --traces.num-games 12000 --sft.epochs 2 --until sft --out runs/weak
    python benchmarks/rl_ablation.py runs/weak --out runs/ablation.jsonl --seconds 120

A way is a table of `[grpo]` over the preset's (`WAYS`), or several that share the time. The package's GRPO plays and
learns; only the end is another: the learning rate falls to 0 over `--seconds` of processor time, in which evaluation
does not count. `sft` is the control: as many seconds of the teacher's games.

Examined are training words (`--exam` of them, 0: all), validation words, and with `--judge` all held-out ones. Without
it nothing can be chosen by words that the table is judged on.
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
from turn_critic import CriticGRPO

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.data.game_record import read_traces
from wordle_rl.pipeline.stages import load_learner
from wordle_rl.policy.constrain import make_constraint
from wordle_rl.rollout import play
from wordle_rl.runs import Run
from wordle_rl.runs.trackers import GameLog
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.learner import Learner, Update
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.train.micro_batches import micro_batches
from wordle_rl.train.play_loop import Stage
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import Training

Way = Mapping[str, Any]
"""A table of `[grpo]`; with `momentum`, SGD descends at the rate of AdamW; with `critic`, a critic gives
credit (`turn_critic.py`)."""
TRIED_HERE = {"momentum", "critic"}
"""What no stage of the package has."""
PLACES = 1000
"""Places of the learning rate's schedule."""
ROWS = 60
"""Most steps of a curve."""


def paid(**weights: float) -> Way:
    """Return a table with these weights of the reward."""
    return {"reward": {"weights": weights, "keep_order": False}}


def rates(adamw: float, muon: float | None) -> Way:
    """Return a table with these peak rates."""
    optimizer = {"learning_rate": adamw, "muon_learning_rate": muon, "schedule": "linear", "warmup": 0.0}
    return {"optimizer": optimizer}


BASE: Way = {
    "group_size": 8,
    "groups_per_step": 64,
    "temperature": 0.5,
    "prioritized_fraction": 0.0,
    "max_refills": 0,
    "validate_every_steps": 0,
    "sample_games": 0,
    "gradient_noise_every": 4,
    **paid(win=1.0, speed=0.5),
    **rates(1e-3, 0.003),
}
DENSE = {**paid(win=1.0, consistency=1.0, valid_word=1.0, repeat=-1.0), "credit": "guess"}
WINS = {"temperature": 1.0, "group_size": 16, "groups_per_step": 32, **rates(2e-3, 0.004)}  # as the preset `grpo`
BELIEF = {**paid(win=1.0), "belief_weight": 1 / 3}
ONE_GUESS = {"guesses": 1, "starts": {"max_prefix_guesses": 4, "player": "consistent"}, "groups_per_step": 256}
LIMITED = {"constrain": "words", "temperature": 1.0, **rates(5e-4, 0.001)}

WAYS: dict[str, Way | Sequence[Way]] = {
    "wins": {},
    "information": {**paid(win=1.0, information=1.0), "credit": "guess"},
    "regret": {**paid(quick_regret=-6.0), "credit": "guess"},
    "feedback": {**paid(win=1.0, feedback=1.0, valid_word=1.0, repeat=-1.0), "credit": "guess"},
    "belief": BELIEF,
    "dense": DENSE,
    "dense, credit of turns": {**DENSE, "credit": "turn"},
    "dense, win counts 2": {**DENSE, **paid(win=2.0, consistency=1.0, valid_word=1.0, repeat=-1.0)},
    "dense, T = 0.3": {**DENSE, "temperature": 0.3},
    "dense, T = 1": {**DENSE, "temperature": 1.0},
    "dense, T = 1, Muon 0.004": {**DENSE, "temperature": 1.0, **rates(1e-3, 0.004)},
    "dense, T = 1, then 0.5": [{**DENSE, "temperature": 1.0}, {**DENSE, "temperature": 0.5}],
    "dense, half the rates": {**DENSE, **rates(5e-4, 0.0015)},
    "dense, twice the rate of Muon": {**DENSE, **rates(1e-3, 0.006)},
    "dense, AdamW 1e-3": {**DENSE, **rates(1e-3, None)},
    "dense, AdamW 3e-3": {**DENSE, **rates(3e-3, None)},
    "dense, SGD 0.3": {**DENSE, **rates(0.3, None), "momentum": 0.9},
    "dense, SGD 0.03": {**DENSE, **rates(0.03, None), "momentum": 0.9},
    "dense, 128 games a step": {**DENSE, "groups_per_step": 16},
    "dense, 2,048 games a step": {**DENSE, "groups_per_step": 256},
    "dense, groups of 16": {**DENSE, "group_size": 16, "groups_per_step": 32},
    "dense, 2 updates a batch": {**DENSE, "updates_per_batch": 2},
    "dense, 4 updates a batch": {**DENSE, "updates_per_batch": 4},
    "dense, divided by deviation": {**DENSE, "scale_advantages": True},
    "dense, 4 candidates a turn": {**DENSE, "turn_candidates": 4, "group_size": 16, "groups_per_step": 32},
    "dense, one guess on boards of consistent guesses": {**DENSE, **ONE_GUESS},
    "wins, T = 1": WINS,
    "wins, T = 1, a quarter of the rates": {**WINS, **rates(5e-4, 0.001)},
    "wins, a critic of turns": {**WINS, "critic": 0.95},
    "limited, wins": LIMITED,
    "limited, dense": {**LIMITED, **DENSE, "temperature": 1.0},
}


def laid_over(settings: GRPOSettings, *tables: Way) -> GRPOSettings:
    """Return settings with tables laid over them, the later ones above."""
    laid = {key: value for table in tables for key, value in table.items() if key not in TRIED_HERE}
    return GRPOSettings.model_validate(settings.model_dump() | laid)


class Trial:
    """One way from one start."""

    def __init__(self, run: Path, start: Path | None, seed: int, scratch: Path) -> None:
        self.run, self.seed, self.scratch = run, seed, scratch
        self.config: RunConfig = stored_config(run / "config.json")
        self.context = GameContext.of(self.config)
        self.learner = self.loaded(start or run / "sft", 1.0)
        self.seconds, self.games = 0.0, 0
        self.curve: list[dict[str, float]] = []

    def loaded(self, model: Path, temperature: float, *, constrained: bool = False) -> Learner:
        """Load a model to train."""
        context = self.context.for_training
        limit = partial(make_constraint, context.words, context.prompter) if constrained else None
        path = self.config.model.model_copy(update={"path": str(model)})
        return load_learner(self.config, path, self.seed, temperature, limit)

    def learn(self, tables: Sequence[Way], seconds: float) -> None:
        """Learn by GRPO; each table has an equal part of the time."""
        for part, table in enumerate(tables):
            settings = laid_over(self.config.grpo, BASE, table)
            kept = self.scratch / f"part-{part}"
            self.learner.save_model(kept)
            self.learner = self.loaded(kept, settings.temperature, constrained=settings.constrain == "words")
            training = Training(self.learner, Run(self.scratch), "grpo", seed=self.seed)
            split, sampling = self.context.split, self.config.sampling
            setup = GameSetup(self.context.for_training, split.train, split.val, sampling=sampling)
            stage = Stage(training, setup, GameLog(training.run), self.learner.policy)
            method = CriticGRPO(stage, settings, table["critic"]) if "critic" in table else GRPO(stage, settings)
            if method.loss.needs_reference:
                self.learner.remember_start()
            self.learner.start(settings.optimizer, PLACES)
            if "momentum" in table:
                self.descend_by_sgd(settings.optimizer.learning_rate, table["momentum"])
            begin, end, number = self.seconds, seconds * (part + 1) / len(tables), 0
            while self.seconds < end:
                began, number = time.process_time(), number + 1
                place = 1 + int(PLACES * (self.seconds - begin) / (end - begin))
                games = method.next_games(number)
                batches = [*method.batches(games, number)] * settings.updates_per_batch
                updates = [self.learner.update(batch, method.loss, place) for batch in batches]
                method.note_metrics(games.metrics)
                self.games += settings.groups_per_step * settings.group_size
                self.seconds += time.process_time() - began
                self.note(games.metrics, updates)
            method.close()

    def descend_by_sgd(self, rate: float, momentum: float) -> None:
        """Put SGD in the place of the optimizer; the package has none, so this reaches inside the learner."""
        trained = [weight for weight in self.learner.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=rate, momentum=momentum)
        self.learner._optimizer = optimizer  # type: ignore[attr-defined]

    def note(self, metrics: Mapping[str, float], updates: Sequence[Update]) -> None:
        """Keep figures of a step."""
        kept = (
            "win_rate",
            "reward",
            "reward_std",
            "constant_group_rate",
            "format_compliance",
            "mean_guesses",
            "critic/explained",
        )
        row = {"games": self.games, "seconds": self.seconds}
        row |= {name: metrics[name] for name in kept if name in metrics} | {"entropy": updates[0].figures["entropy"]}
        row |= {name: value for name, value in updates[0].figures.items() if name.startswith("gradient/")}
        self.curve.append({name: round(value, 5) for name, value in row.items()})
        if len(self.curve) % 10 == 1:
            print(self.curve[-1], flush=True)

    def imitate(self, seconds: float) -> None:
        """Learn the teacher's games by SFT, at the rates of the run."""
        codec, settings = self.learner.codec, self.config.sft
        traces = read_traces(self.run / "traces.jsonl")
        rows = encode_traces(traces, self.context.prompter, codec, self.config.model.max_length).examples
        self.learner.start(settings.optimizer, PLACES)
        rng = random.Random(self.seed)
        order: list[Example] = []
        while self.seconds < seconds:
            began = time.process_time()
            if len(order) < settings.batch_size:
                order = rng.sample(rows, len(rows))
            batch, order = order[: settings.batch_size], order[settings.batch_size :]
            cut = micro_batches(batch, self.learner.micro_batch_size, sharing=self.learner.shares_prefixes)
            self.learner.update(cut, CrossEntropy(), 1 + int(PLACES * self.seconds / seconds))
            self.games += len(batch)
            self.seconds += time.process_time() - began

    def examine(self, exam: int, *, judge: bool) -> dict[str, Any]:
        """Play greedily and sampled at T = 1; with `judge`, keep the wins of every word, in the order of the split."""
        split = self.context.split
        train = random.Random(1).sample(list(split.train), exam) if exam else list(split.train)
        parts = {"train": train, "val": list(split.val)}
        if judge:
            parts |= {"test": list(split.test), "all": list(split.named("all"))}
        context, found = self.context.for_training, dict[str, Any]()
        for name, secrets in parts.items():
            for how, temperature in (("greedy", 0.0), ("T=1", 1.0)):
                sampling = self.config.sampling.model_copy(update={"temperature": temperature})
                with self.learner.policy(sampling, 99_999) as (sampler, _):
                    starts = [InitialState(secret) for secret in secrets]
                    played = [game.transcript for game in play(starts, context.words, context.prompter, sampler)]
                turns = [turn.turn for transcript in played for turn in transcript.turns]
                wins = [transcript.turns_used for transcript in played if transcript.won]
                found[f"{name}/{how}"] = round(100 * len(wins) / len(played), 1)
                found[f"{name}/{how}/guesses"] = round(fmean(wins), 3) if wins else None
                found[f"{name}/{how}/unlisted"] = round(100 * fmean(turn.marks is None for turn in turns), 1)
                if judge:
                    found[f"{name}/{how}/won"] = "".join(str(int(transcript.won)) for transcript in played)
        return found


def main(
    run: tyro.conf.Positional[Path],
    out: Path,
    ways: tuple[str, ...] = tuple(WAYS),
    start: Path | None = None,
    tables: str = "{}",
    seconds: float = 120.0,
    seed: int = 0,
    exam: int = 600,
    judge: bool = False,
    save: Path | None = None,
) -> None:
    """Run ways one after the other, and append a row of figures for each to `out`.

    Args:
        run: A run of the command line, for its settings, teacher games and split.
        out: File of JSON lines.
        ways: Names of `WAYS` or `tables`; `sft`: the control; `start`: the start alone.
        start: Model to start from; left out: the run's SFT.
        tables: JSON of further ways: {"name": {"grpo setting": value}}.
        seconds: Processor seconds of a way.
        seed: Random seed.
        exam: Training words to examine; 0: all.
        judge: Examine the held-out words and all words, too, and keep every win.
        save: Directory for the last model.
    """
    torch.set_num_threads(1)
    known = {**WAYS, **json.loads(tables), "sft": {}, "start": {}}
    before: dict[str, Any] = {}
    for name in ways:
        with tempfile.TemporaryDirectory() as scratch:
            trial, way = Trial(run, start, seed, Path(scratch)), known[name]
            own = before = before or trial.examine(exam, judge=judge)
            if name == "sft":
                trial.imitate(seconds)
            elif name != "start":
                parts = way if isinstance(way, list) else [way]
                if any(part.get("constrain") == "words" for part in parts):
                    # A limited way is compared with a limited start.
                    trial.learner = trial.loaded(start or run / "sft", 1.0, constrained=True)
                    own = trial.examine(exam, judge=judge)
                trial.learn(parts, seconds)
            after = own if name == "start" else trial.examine(exam, judge=judge)
            if save is not None:
                trial.learner.save_model(save)
        shown = {key: (own[key], value) for key, value in after.items() if not key.endswith("/won")}
        print(name, trial.games, shown, flush=True)
        row = {"way": name, "table": way, "start": str(start or "sft"), "seed": seed, "seconds": seconds}
        row |= {"games": trial.games, "hardware": hardware(), "before": own, "after": after}
        with out.open("a") as file:
            file.write(json.dumps(row | {"curve": trial.curve[:: max(1, len(trial.curve) // ROWS)]}) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
