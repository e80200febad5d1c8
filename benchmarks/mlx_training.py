"""GRPO on MLX beside GRPO with torch, from one start: does what is learnt depend on the library?

    python benchmarks/mlx_training.py [--seeds 3] [--steps 20] [--games 16000] [--answers 60] [--json]

A small model of the embedded kind is fine-tuned once, by torch, on a part of the embedded words. From there each seed
is trained by both libraries with the same settings in float32. Seeds give both the same secrets; their random numbers
differ. Win rates are those of all training secrets, played by transformers: greedily, and sampled with four games a
secret. The last line says whether the mean over the seeds on MLX lies between the worst and the best seed of torch.

Runs where both stand, as after `make test-mlx`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.model import GameSettings, ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings, SFTSettings
from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.config.training import OptimizerSettings, RLOptimizerSettings, SamplingSettings
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import load_model as load_on_mlx
from wordle_rl.policy.loading import load_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Style, Thinking
from wordle_rl.rollout import play
from wordle_rl.runs import Run, read_jsonl
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.example import encode_traces
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.learner import Learner, TorchLearner
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.sft import train_sft
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import Training
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import split_secrets

SAMPLING = SamplingSettings(max_completion_tokens=12)
MODEL = ModelSettings(path="tiny", hidden_size=64, max_length=256)


@dataclass(frozen=True)
class Result:
    """One training.

    Attributes:
        library: What trained it.
        seed: Of its secrets and samples.
        reward: Mean reward of the last five steps.
        greedy: Win rate of greedy play.
        sampled: Win rate of sampled play.
        seconds: Duration of the training.
    """

    library: str
    seed: int
    reward: float
    greedy: float
    sampled: float
    seconds: float


def main() -> None:
    """Train, measure, print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--games", type=int, default=16_000)
    arguments.add_argument("--answers", type=int, default=60)
    arguments.add_argument("--json", action="store_true")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        results = measure(Path(place), asked.seeds, asked.steps, asked.games, asked.answers)
    if asked.json:
        print(json.dumps([vars(result) for result in results]))
        return
    print("library  seed  reward  greedy wins  sampled wins  seconds")
    for each in results:
        print(
            f"{each.library:<7}  {each.seed:>4}  {each.reward:>6.3f}  {each.greedy:>11.1%}  {each.sampled:>12.1%}  "
            f"{each.seconds:>7.0f}"
        )
    for name in ("reward", "greedy", "sampled"):
        print(verdict(name, *([getattr(r, name) for r in results if r.library == lib] for lib in ("torch", "mlx"))))


def verdict(name: str, torch: Sequence[float], mlx: Sequence[float]) -> str:
    """Means and ranges of both libraries in a line."""
    inside = min(torch) <= statistics.fmean(mlx) <= max(torch)
    shown = (f"{statistics.fmean(found):.3f} ({min(found):.3f} to {max(found):.3f})" for found in (torch, mlx))
    where = "within" if inside else "outside"
    return f"{name}: torch {next(shown)}, MLX {next(shown)}; {where} the range of torch's seeds"


def small_words(num_answers: int) -> WordList:
    """Answers evenly spaced in the embedded list, and a third as many listed words besides."""
    whole = load_words()
    outside = [word for word in whole.guesses if word not in whole.answer_index]
    answers = whole.answers[:: len(whole.answers) // num_answers][:num_answers]
    others = outside[:: len(outside) // (num_answers // 3)][: num_answers // 3]
    return WordList("part", answers, tuple(sorted([*answers, *others])))


def measure(place: Path, num_seeds: int, steps: int, games: int, num_answers: int) -> list[Result]:
    """Train the start once and each seed by both libraries."""
    words = small_words(num_answers)
    prompter = GameSettings(style=Style.COMPACT, thinking=Thinking.OFF).prompter(5)
    split, solver = split_secrets(words), Solver(words)
    context = GameContext(words, split, prompter, solver)
    traces = TraceSettings(num_games=games, outside_rate=0.2, teacher=TeacherSettings(random_opener_rate=0.3))
    taught = solver_traces(draw_secrets(words, split, traces, 0), SolverTeacher(solver), traces, 0)
    model, codec = load_model(MODEL, 0)
    examples = encode_traces(taught, prompter, codec, 256).examples
    sft = SFTSettings(batch_size=64, optimizer=OptimizerSettings(learning_rate=3e-3))
    run = Run.create(place / "start", RunConfig(), split)
    start = train_sft(Training(TorchLearner(model, codec, precision="fp32"), run, "sft"), examples, sft)
    settings = GRPOSettings(
        steps=steps,
        groups_per_step=6,
        group_size=8,
        optimizer=RLOptimizerSettings(learning_rate=3e-4, schedule="cosine"),
        sample_games=0,
    )
    setup = GameSetup(context, split.train, sampling=SAMPLING)
    found = [_measured("start", 0, start, start.parent, words, setup, 0.0)]
    libraries: dict[str, Callable[[ModelSettings], Learner]] = {
        "torch": lambda settings: TorchLearner(*load_model(settings, 0), precision="fp32"),
        "mlx": lambda settings: MLXLearner(*load_on_mlx(settings, 0)),
    }
    for seed in range(num_seeds):
        for library, load in libraries.items():
            run = Run.create(place / f"{library}-{seed}", RunConfig(), split)
            began = time.perf_counter()
            training = Training(load(ModelSettings(path=str(start))), run, "grpo", seed)
            directory = learn_by_play(GRPO, training, setup, settings)
            seconds = time.perf_counter() - began
            found.append(_measured(library, seed, directory, run.directory, words, setup, seconds))
    return found


def _measured(
    library: str, seed: int, directory: Path, run: Path, words: WordList, setup: GameSetup, seconds: float
) -> Result:
    model, codec = load_model(ModelSettings(path=str(directory)), 0)
    rates = []
    for sampling, times in ((SAMPLING.greedy(), 1), (SAMPLING, 4)):
        starts = [InitialState(secret) for secret in setup.secrets for _ in range(times)]
        games = play(starts, words, setup.prompter, TransformersSampler(model, codec, sampling, 0))
        rates.append(statistics.fmean(game.transcript.won for game in games))
    rewards = [float(row["reward"]) for row in read_jsonl(run / "metrics.jsonl") if row["stage"] == "grpo"]
    return Result(
        library,
        seed,
        statistics.fmean(rewards[-5:]) if rewards else 0.0,
        greedy=rates[0],
        sampled=rates[1],
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
