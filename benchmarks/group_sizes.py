"""Group sizes of GRPO at equal games: seconds a step, groups that teach nothing, wins with their intervals.

    wordle-rl run imitation --out runs/groups --until sft
    python benchmarks/group_sizes.py runs/groups --out runs/group-sizes --svg docs/group-sizes.svg

Every training starts from the SFT model of the run, plays the same number of games a step for the same number of steps
and differs in the number of games that share a secret. Groups that all earned the same are not replaced, so that no
size plays more games than another. Each trained model then plays, greedily, the training secrets that were kept from
the teacher (what GRPO trains on) and the held-out ones. A training that is finished is not repeated.

Seconds a step are processor seconds of all threads, so that other work on the machine does not count: the median of
short trainings of their own (`--timed-steps`), the sizes in turn, kept as well.
"""

import json
import statistics
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib.figure import Figure
from measure import hardware, take_turns
from rich.console import Console
from rich.table import Table

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import RewardSettings, RLOptimizerSettings, SamplingSettings
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.stats import clustered_wilson_interval
from wordle_rl.policy.directory import weights_mark
from wordle_rl.policy.loading import load_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs import Run, RunError, read_jsonl, read_object, write_json
from wordle_rl.train import training_loop
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.starts import GameSetup


@dataclass(frozen=True)
class Training:
    """Figures of one training: means over its steps, and the secrets won afterwards (1) or not (0), by part."""

    group_size: int
    seed: int
    zero_variance: float
    sampled_wins: float
    kept: dict[str, int]
    held_out: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """Shared parts of all trainings: the run to start from, games and steps, reward preset."""

    start: Path
    games: int
    steps: int
    reward: str

    def about(self) -> dict[str, Any]:
        """What makes two trainings the same, with the weights that they start from."""
        return {**asdict(self), "start": weights_mark(self.start / "sft")}

    def settings(self, size: int) -> GRPOSettings:
        """Settings of a training with groups of this size."""
        return GRPOSettings(
            group_size=size,
            steps=self.steps,
            groups_per_step=self.games // size,
            max_refills=0,
            reward=RewardSettings(preset=self.reward),
            optimizer=RLOptimizerSettings(learning_rate=1e-4),
            sample_games=0,
        )


def train(plan: Plan, size: int, seed: int, directory: Path) -> Training:
    """One training from the start, and its figures; those of a finished one are read. Size 0 is the start itself."""
    done = directory / "figures.json"
    about = {**plan.about(), "seed": seed}
    if done.is_file():
        known = read_object(done) | {"group_size": size}
        if known.get("about") != about:
            raise SystemExit(
                f"{directory} holds a training of {known.get('about')}, not of {about}; name another --out"
            )
        return Training(**{field.name: known[field.name] for field in fields(Training)})
    config = stored_config(plan.start / "config.json")
    context = GameContext.of(config)
    model, codec = load_model(config.model_at(plan.start / "sft"), seed)
    _, secrets = context.split.shared(config.traces.rl_only_fraction)
    run = Run.create(directory, config, context.split)
    rows: list[dict[str, Any]] = []
    if size:
        learner = TorchLearner(model, codec, micro_batch_size=min(64, plan.games))
        training = training_loop.Training(learner, run, "grpo", seed)
        learn_by_play(GRPO, training, setup_of(context, config), plan.settings(size))
        rows = list(read_jsonl(directory / "metrics.jsonl"))
    won = {
        part: greedy_wins(TransformersSampler(model, codec, sampling_of(config).greedy(), seed), context, words)
        for part, words in (("kept", secrets), ("held_out", context.split.test))
    }
    found = Training(
        size,
        seed,
        statistics.fmean(row["constant_group_rate"] for row in rows) if rows else 0.0,
        statistics.fmean(row["win_rate"] for row in rows) if rows else 0.0,
        **won,
    )
    write_json(done, asdict(found) | {"about": about})
    return found


def setup_of(context: GameContext, config: RunConfig) -> GameSetup:
    """The games of a training: on the secrets that were kept from the teacher."""
    taught, secrets = context.split.shared(config.traces.rl_only_fraction)
    return GameSetup(context.for_training, secrets, context.split.val, taught, sampling=sampling_of(config))


def sampling_of(config: RunConfig) -> SamplingSettings:
    """How all models sample: the token limit of the run, any number of games at once."""
    return SamplingSettings(max_completion_tokens=config.max_completion_tokens)


def time_steps(plan: Plan, sizes: tuple[int, ...], repeats: int) -> dict[int, float]:
    """Processor seconds a step of each size, the median over the repeats, in which the sizes take turns."""
    config = stored_config(plan.start / "config.json")
    context = GameContext.of(config)

    def seconds(size: int) -> float:
        model, codec = load_model(config.model_at(plan.start / "sft"), 0)
        marks: list[float] = []
        with tempfile.TemporaryDirectory() as directory:
            run = Run.create(Path(directory) / "run", config, context.split)
            learner = TorchLearner(model, codec, micro_batch_size=min(64, plan.games))
            training = training_loop.Training(
                learner, run, "grpo", progress=lambda *_: marks.append(time.process_time())
            )
            learn_by_play(GRPO, training, setup_of(context, config), plan.settings(size))
        return (marks[-1] - marks[0]) / (len(marks) - 1)

    taken = take_turns({str(size): partial(seconds, size) for size in sizes}, repeats)
    return {size: statistics.median(taken[str(size)]) for size in sizes}


def timed(plan: Plan, sizes: tuple[int, ...], repeats: int, path: Path) -> dict[int, float]:
    """`time_steps`, or what it found before for these sizes and games."""
    known = read_object(path) if path.is_file() else {}
    about = {**plan.about(), "repeats": repeats}
    if known.get("about") != about or not {*map(str, sizes)} <= known["seconds"].keys():
        found = time_steps(plan, sizes, repeats)
        known = {"about": about, "seconds": {str(size): seconds for size, seconds in found.items()}}
        write_json(path, known)
    return {size: known["seconds"][str(size)] for size in sizes}


def greedy_wins(sampler: TransformersSampler, context: GameContext, secrets: tuple[str, ...]) -> dict[str, int]:
    """Each secret and whether greedy play finds it."""
    asked = Asked(context, [*map(InitialState, secrets)])
    games = evaluate(asked, lambda _seed: nullcontext((sampler, None)), lambda game: game.transcript)
    return {game.secret: int(game.won) for game in games}


@dataclass(frozen=True)
class Line:
    """One size over its seeds: means, and win rates with the ends of their 95 % intervals, a secret being a cluster."""

    group_size: int
    seeds: int
    seconds_a_step: float
    zero_variance: float
    sampled_wins: float
    kept: tuple[float, float, float]
    held_out: tuple[float, float, float]


def line_of(found: list[Training], seconds: float) -> Line:
    """The trainings of one size together, and their processor seconds a step."""

    def mean(name: str) -> float:
        return statistics.fmean(getattr(training, name) for training in found)

    return Line(
        group_size=found[0].group_size,
        seeds=len(found),
        seconds_a_step=seconds,
        zero_variance=mean("zero_variance"),
        sampled_wins=mean("sampled_wins"),
        kept=win_rate([training.kept for training in found]),
        held_out=win_rate([training.held_out for training in found]),
    )


def win_rate(of_seeds: list[dict[str, int]]) -> tuple[float, float, float]:
    """Win rate of all seeds' games and its interval."""
    wins = [sum(seed[secret] for seed in of_seeds) for secret in of_seeds[0]]
    games = [len(of_seeds)] * len(wins)
    low, high = clustered_wilson_interval(wins, games)
    return sum(wins) / sum(games), low, high


def table_of(lines: list[Line], title: str) -> Table:
    """A row per size; the first row is the start, size 0."""
    table = Table(title=title, caption=hardware())
    for heading in ("group size", "CPU s a step", "zero variance", "sampled wins", "kept words", "held out", "seeds"):
        table.add_column(heading, justify="right")
    for line in lines:
        rates = (f"{100 * rate:.1f} ({100 * low:.1f} to {100 * high:.1f})" for rate, low, high in _parts(line))
        fractions = (f"{100 * value:.1f} %" for value in (line.zero_variance, line.sampled_wins))
        shown = (f"{line.seconds_a_step:.2f}", *fractions) if line.group_size else ("", "", "")
        table.add_row(str(line.group_size or "start"), *shown, *rates, str(line.seeds))
    return table


def _parts(line: Line) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    return line.kept, line.held_out


def draw(lines: list[Line], title: str, path: Path) -> None:
    """Write three panels over the sizes: groups that teach nothing, seconds a step, wins of the kept words."""
    trained = [line for line in lines if line.group_size]
    figure = Figure((8.9, 3.5), layout="constrained")
    names = ("groups of zero variance, %", "processor seconds a step", "kept words won, % (95 %)")
    panels = figure.subplots(1, 3)
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(name, fontsize=10)
        axes.set_xticks(range(len(trained)), [str(line.group_size) for line in trained])
        axes.grid(axis="y", color="#dddddd")
    places = range(len(trained))
    panels[0].plot(places, [100 * line.zero_variance for line in trained], "o-", color="#1f6f43")
    panels[1].plot(places, [line.seconds_a_step for line in trained], "o-", color="#1f6f43")
    for axes in panels[:2]:
        axes.set_ylim(bottom=0)
    kept = 100 * np.array([line.kept for line in trained])  # (sizes, 3): rate, low, high
    panels[2].errorbar(places, kept[:, 0], yerr=np.abs(kept[:, 1:] - kept[:, :1]).T, fmt="o-", color="#1f6f43")
    for start in (line for line in lines if not line.group_size):
        panels[2].axhline(100 * start.kept[0], color="#888888", linestyle="dashed", label="start")
        panels[2].legend(frameon=False)
    figure.supxlabel(title, fontsize=10)
    figure.savefig(path, format="svg", metadata={"Date": None})


def main(
    start: tyro.conf.Positional[Path],
    out: Path = Path("runs/group-sizes"),
    sizes: tuple[int, ...] = (2, 4, 8, 16),
    seeds: tuple[int, ...] = (0, 1, 2),
    games: int = 128,
    steps: int = 40,
    reward: str = "sparse",
    timed_steps: int = 3,
    repeats: int = 2,
    svg: Path | None = None,
    as_json: bool = False,
) -> None:
    """Train, play and compare.

    Args:
        start: A run that has got as far as its SFT model.
        out: Where each training has a directory.
        sizes: Games that share a secret.
        seeds: Seeds of each size.
        games: Games a step, of which every size must be a divisor.
        steps: Optimizer steps of each training.
        reward: Reward preset.
        timed_steps: Steps of each training that is timed; the first is left out.
        repeats: Trainings of each size that are timed.
        svg: Where to put the plot.
        as_json: Print JSON instead of a table.

    Raises:
        ConfigError: If a size does not divide the games of a step, or the start holds no SFT model.
    """
    if timed_steps < 2 or repeats < 1:
        raise ConfigError(f"--timed-steps {timed_steps} must be at least 2, --repeats {repeats} at least 1")
    if bad := [size for size in sizes if size < 2 or games % size]:
        raise ConfigError(f"--sizes {bad[0]} must be at least 2 and divide --games {games}")
    if not (start / "sft" / "config.json").is_file():
        raise ConfigError(f"{start} holds no SFT model; make one with `wordle-rl run CONFIG.toml --until sft`")
    warnings.simplefilter("ignore", FutureWarning)  # TRL's own use of transformers
    plan = Plan(start, games, steps, reward)
    found = {0: [train(plan, 0, 0, out / "start")]}
    for seed in seeds:  # a machine that is slow for a while is then slow for all sizes
        for size in sizes:
            found.setdefault(size, []).append(train(plan, size, seed, out / f"{reward}-{size}-{seed}"))
            print(f"size {size}, seed {seed}: done", file=sys.stderr, flush=True)
    seconds = timed(replace(plan, steps=timed_steps), sizes, repeats, out / "seconds.json")
    lines = [line_of(trainings, seconds.get(size, 0.0)) for size, trainings in found.items()]
    title = f"{games} games a step, {steps} steps, reward {reward}"
    if as_json:
        print(json.dumps({"title": title, "hardware": hardware(), "lines": [asdict(line) for line in lines]}, indent=2))
    else:
        Console(width=120).print(table_of(lines, title))
    if svg is not None:
        draw(lines, f"games that share a secret; {title}", svg)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except (ConfigError, RunError) as error:
        sys.exit(f"error: {error}")
