"""`rewards`: show the weights of rewards, and search for ways to earn them without winning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import tyro
from rich.table import Table

from wordle_rl.cli import console
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import find_config, load_config
from wordle_rl.config.model import GameSettings
from wordle_rl.config.options import FilesWords, Json, Seed
from wordle_rl.config.run import RunConfig
from wordle_rl.evaluate import results_table
from wordle_rl.evaluate.results_table import number_text
from wordle_rl.prompt import Prompter
from wordle_rl.report.terminal import figures_table
from wordle_rl.reward import CURRICULA, PRESETS, RewardError, Rubric, Schedule, named_schedule
from wordle_rl.reward.attack import Effort, Gameability, games_of_attack, words_for
from wordle_rl.reward.attack import attack as search
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words


def rewards(
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    attack: bool = False,
    no_keep_order: bool = False,
    words: FilesWords = None,
    answers: int = 200,
    secrets: int = 12,
    steps: int = 60,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show the weights of rewards, or search for reward hacking (--attack).

    The search plays thousands of adversarial replies by policies that know the secret and never guess it, in every
    wording, improved step by step. It reports the highest reward found, and how much more honest play earns. A reward
    that pays such a policy as much as honest play is an error.

    The reward of a config file is attacked in the game that the file describes, that of each GRPO stage apart.

    Args:
        names: Presets, curricula, or config files with your own reward. Default: all presets.
        attack: Search for reward without winning. Takes about half a minute per reward.
        no_keep_order: Use a preset's weights as published. By default the weights of winning and of broken rules are
            moved until every win earns more than every loss. A config file sets grpo.reward.keep_order itself.
        answers: Answers of the list, evenly taken, on which a reward that asks the solver is attacked.
        secrets: Number of secrets to play.
        steps: Number of changes to try on each policy.
    """
    if min(answers, secrets, steps) < 1:
        raise ConfigError("--answers, --secrets and --steps must be at least 1")
    rewards = {label: reward for name in names or PRESETS for label, reward in _rewards_of(name, not no_keep_order)}
    if not attack:
        _show_weights({label: reward.rubric for label, reward in rewards.items()}, as_json)
        return
    effort = Effort(secrets, steps, seed)
    found, played, total = {}, itertools.count(1), len(rewards) * games_of_attack(effort)
    # One bar over all rewards, counted in games: one that asks the solver takes many times as long as the others.
    with show_progress(console.messages, "attack", total, transient=True) as advance:
        for name, reward in rewards.items():
            tell = partial(_tell, advance, played, total, name)
            listed = load_words(words or reward.words)
            prompter = reward.game.prompter(listed.word_length) if reward.game else None
            found[name] = attacked(reward.rubric, listed, answers, effort, tell, prompter=prompter)
    told = {name: {**asdict(each), "gap": each.gap} for name, each in found.items()}
    best = [f"{name}: the best policy for all secrets is {each.policy}" for name, each in found.items()]
    failed = [name for name, each in found.items() if not each.holds]
    least, replies = min(each.gap for each in found.values()), sum(each.replies for each in found.values())
    verdict = f"verdict: winning pays {least:.3f} more than the best way found without it, in {replies:,} replies"
    console.show(told, [table_of(found), "", *_COLUMNS, "", *best, *([] if failed else [verdict])], as_json)
    if failed:
        raise RewardError(
            f"{', '.join(failed)}: a policy that never wins earns as much as honest play; keep order, or raise `win`"
        )


_COLUMNS = (
    "honest      mean of honest play: any answer that fits the marks",
    "lowest win  lowest reward of a game won honestly, or by the solver",
    "best loss   highest reward of one game that is not won",
    "floor       highest mean reward without a win, with a policy for each secret",
    "gap         honest play minus the floor; above 0, the reward asks for wins",
    "false wins  games counted as won though nobody guessed the secret: holes",
)
"""What the columns of the table mean."""


def _tell(advance: ProgressCallback, played: Iterator[int], total: int, name: str) -> None:
    advance(next(played), total, name)


def attacked(
    rubric: Rubric,
    words: WordList,
    num_answers: int,
    effort: Effort,
    tell: Callable[[], None] = lambda: None,
    *,
    prompter: Prompter | None = None,
) -> Gameability:
    """Attack one reward on a word list of suitable size, by default in the default game."""
    solver = Solver(words_for(rubric, words, num_answers))
    return search(rubric, solver, prompter or Prompter(word_length=words.word_length), effort, tell)


def table_of(found: dict[str, Gameability]) -> Table:
    """Return a table with one row per reward."""
    rows = []
    for name, each in found.items():
        win = None if math.isnan(each.lowest_win) else each.lowest_win
        figures = (each.honest, win, each.best_loss, each.floor, each.gap)
        rows.append((name, *map(number_text, figures), str(each.false_wins)))
    titles = ("honest", "lowest win", "best loss", "floor", "gap", "false wins")
    return figures_table(results_table.Table(titles, tuple(rows)), "Rewards without winning", "reward")


class _Reward(NamedTuple):
    # A reward, and the list and game of its config file.
    rubric: Rubric
    words: str = "default"
    game: GameSettings | None = None


def _rewards_of(name: str, keep_order: bool) -> list[tuple[str, _Reward]]:
    # One reward, or more if it changes during training.
    if name in PRESETS or name in CURRICULA:
        return _phases_of(name, replace(named_schedule(name), keep_order=keep_order))
    if not (name.endswith((".toml", ".json")) or find_config(name).is_file()):
        raise RewardError(f"unknown reward {name!r}; name a config file, or one of {', '.join([*PRESETS, *CURRICULA])}")
    config = load_config(name)
    stages = {stage: own.reward.schedule() for stage, own in config.stages_of("grpo")}
    stages = stages or {"grpo": config.grpo.reward.schedule()}
    return [
        found
        for stage, schedule in stages.items()
        for found in _phases_of(name if len(stages) == 1 else f"{name}, {stage}", schedule, config)
    ]


def _phases_of(name: str, schedule: Schedule, config: RunConfig | None = None) -> list[tuple[str, _Reward]]:
    # Every phase is attacked: training spends time with each, and a policy keeps what an earlier one taught it.
    its = (config.words.source, config.game) if config else ()
    return [
        (f"{name}, from {at:g}" if at else name, _Reward(Rubric(table, schedule.keep_order), *its))
        for at, table in schedule.phases
    ]


def _show_weights(rubrics: dict[str, Rubric], as_json: bool) -> None:
    weights: dict[str, dict[str, Any]] = {name: dict(rubric.effective_weights) for name, rubric in rubrics.items()}
    table = Table("reward", "weights", title="Weights used")
    for name, used in weights.items():
        table.add_row(name, ", ".join(f"{part} {weight:g}" for part, weight in used.items() if weight))
    console.show(weights, [table], as_json)
