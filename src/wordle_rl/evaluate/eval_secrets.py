"""Secrets to evaluate on outside the split, and boards with earlier turns on which games begin."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.records import occurrences
from wordle_rl.game import Turn, scored_turn
from wordle_rl.solver import Solver, fitting_answers
from wordle_rl.words import WordList
from wordle_rl.words.split import Split, SplitName

OUTSIDE = "outside"
"""Name for listed words that are not answers."""
MARKED_PARTS: tuple[SplitName, ...] = ("train", "val", "held_out")
"""Parts of the split by which words of a file are grouped. All others are `outside`."""


@dataclass(frozen=True)
class ChosenSecrets:
    """Secrets to play, the parts of the split that they are, and how many lines of a file were left out and why."""

    words: tuple[str, ...]
    parts: tuple[SplitName, ...] = ()
    left_out: str = ""


def split_secrets(part: SplitName, split: Split, max_games: int) -> ChosenSecrets:
    """Return the secrets of a part of the split, at most `max_games` of each part; 0: all.

    A limit cuts every part to the same count, which would skew a figure of `all`. So `all` then names three parts.
    """
    if part == "strict" and not split.strict:
        raise ConfigError("this split has no strict words; train with words.strict_fraction above 0")
    if part != "all":
        return ChosenSecrets(split.named(part)[: max_games or None], (part,))
    words = tuple(split.of_each_part(max_games))
    return ChosenSecrets(words, MARKED_PARTS if len(words) < len(split.named("all")) else ("all",))


def named_secrets(name: str, words: WordList, max_games: int, seed: int) -> ChosenSecrets:
    """Return the words outside the answers, shuffled, or those of a file. At most `max_games` are taken; 0: all.

    A file's first column is read (up to a comma, semicolon or blank), each word once, in order.
    """
    if name == OUTSIDE:
        outside = sorted(words.outside)
        random.Random(seed).shuffle(outside)
        return ChosenSecrets(_checked(outside, name)[: max_games or None])
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--secrets {name} is no file of words ({type(error).__name__}); give one with a word per line, or outside"
        ) from None
    # Public lists come as tables, too, with a clue or a date behind the word, and quoted.
    column = [re.split(r"[,;\s]", line.strip(), maxsplit=1)[0].strip("\"'").lower() for line in text.splitlines()]
    spelled = [word for word in column if len(word) == words.word_length and word.isascii() and word.isalpha()]
    listed = list(dict.fromkeys(word for word in spelled if word in words))
    # What is left out is counted: a shorter list would otherwise pass for the whole one.
    num_unlisted = len({word for word in spelled if word not in words})
    num_other = sum(map(bool, column)) - len(spelled)
    reasons = [
        f"{num_other:,} lines that are no word of {words.word_length} letters" if num_other else "",
        f"{num_unlisted:,} words that list {words.name!r} lacks (--words names another)" if num_unlisted else "",
    ]
    return ChosenSecrets(_checked(listed, name)[: max_games or None], left_out="; ".join(filter(None, reasons)))


def _checked(found: Sequence[str], name: str) -> tuple[str, ...]:
    if not found:
        raise ConfigError(f"--secrets {name} names no word that may be played; name a file, or another --words")
    return tuple(found)


def marked(secrets: Sequence[str], split: Split) -> dict[str, list[str]]:
    """Group secrets by what training knew of them: `train`, `val`, `held_out`, `outside`; empty groups are dropped."""
    names = {"train": "train", "val": "val", "test": "held_out"}
    found: dict[str, list[str]] = {name: [] for name in (*MARKED_PARTS, OUTSIDE)}
    for secret in dict.fromkeys(secrets):
        found[names.get(split.part_of(secret), OUTSIDE)].append(secret)
    return {name: words for name, words in found.items() if words}


def starts_of(secrets: Sequence[str], context: GameContext, prefix_turns: int, seed: int) -> list[InitialState]:
    """Return where games of these secrets begin: on boards with 0 to `prefix_turns` earlier turns."""
    max_turns = context.prompter.rules.max_turns
    if prefix_turns >= max_turns:
        raise ConfigError(f"--prefix-turns {prefix_turns} leaves no turn of {max_turns}; lower it")
    return [*map(InitialState, secrets, prefix_boards(secrets, context.solver, prefix_turns, seed))]


def prefix_boards(secrets: Sequence[str], solver: Solver, max_turns: int, seed: int) -> list[tuple[str, ...]]:
    """Draw earlier guesses for each secret, 0 to `max_turns` of them with equal chances, never the secret itself.

    A board depends only on the seed, its secret and how often that came before, so all players begin at the same
    boards. Each guess fits all marks so far, as in sensible play. There are fewer if nothing but the secret fits.
    """
    fitting, answers = fitting_answers(solver), solver.words.answers
    boards = []
    for secret, occurrence in occurrences(secrets):
        # A stream of its own, so that a board does not depend on which other secrets are played.
        rng = random.Random(f"{seed}:{secret}:{occurrence}:boards")
        turns: list[Turn] = []
        for _ in range(rng.randint(0, max_turns)):
            # Never the secret itself: the game would be over before the player's first turn.
            left = [word for word in (answers[place] for place in fitting(turns)) if word != secret]
            if not left:
                break
            word = rng.choice(left)
            turns.append(scored_turn(secret, word))
        boards.append(tuple(turn.guess or "" for turn in turns))
    return boards


def by_earlier_turns(records: Sequence[GameRecord]) -> dict[int, list[GameRecord]]:
    """Group games by their number of prefix guesses, in rising order, without errors."""
    played = [record for record in records if not record.failed]
    return {
        count: [record for record in played if record.num_prefix == count]
        for count in sorted({record.num_prefix for record in played})
    }
