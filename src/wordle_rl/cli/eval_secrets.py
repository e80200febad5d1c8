"""Secrets that `eval` plays: a part of the split, words outside the answers, or those of a file; and their boards."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wordle_rl.config import ConfigError, PlayerEvalSettings, WordSettings
from wordle_rl.evaluate.boards import prefix_boards
from wordle_rl.evaluate.players import words_of
from wordle_rl.game import Rules
from wordle_rl.solver import Solver
from wordle_rl.words import WordList
from wordle_rl.words.split import Split, SplitName

OUTSIDE = "outside"
"""Name of the listed words that are no answers."""
MARKED_PARTS: tuple[SplitName, ...] = ("train", "val", "held_out")
"""Parts of the split that words of a file are marked by; the others are `outside`."""


@dataclass(frozen=True)
class Source:
    """Secrets to play; words and split that are left out are those it was trained with.

    `named` stands in place of a part: `outside`, or a file of words.
    """

    player: str
    words: str | None
    split_seed: int | None
    part: SplitName
    max_games: int
    games_per_secret: int = 1
    named: str | None = None

    def settings(self) -> WordSettings:
        """The word list and the seed of the split.

        Raises:
            ConfigError: If there is no such player, or its own words are not here.
        """
        settings = words_of(self.player, self.words)
        return settings if self.split_seed is None else settings.model_copy(update={"split_seed": self.split_seed})

    def parts(self, split: Split) -> tuple[SplitName, ...]:
        """The parts that are played. A bound cuts every part to the same count: an `all` figure would be skewed."""
        if self.named is not None:
            return ()
        bounded = self.part == "all" and len(split.of_each_part(self.max_games)) < len(split.named("all"))
        return ("train", "val", "held_out") if bounded else (self.part,)

    def secrets(self, split: Split) -> list[str]:
        """The secrets to play, each as often as asked for.

        Raises:
            ConfigError: If the part is empty.
        """
        if self.part == "strict" and not split.strict:
            raise ConfigError(
                "this split has no strict words; train with words.strict_fraction above 0, or play another part"
            )
        if self.part == "all":
            return split.of_each_part(self.max_games) * self.games_per_secret
        return list(split.named(self.part)[: self.max_games or None]) * self.games_per_secret


@dataclass(frozen=True)
class NamedSecrets:
    """Words to play by name, and how many lines of their file were left out, with the reasons."""

    words: tuple[str, ...]
    left_out: str = ""


def named_secrets(name: str, words: WordList, max_games: int, seed: int) -> NamedSecrets:
    """The words outside the answers, or those of a file.

    Of a file the first column is read (up to a comma, semicolon or blank), each word once, in its order. Of the words
    outside the answers, in an order that the seed shuffles, the first `max_games` are taken; 0: all.

    Raises:
        ConfigError: If there is no such file, or it has no word that may be played.
    """
    if name == OUTSIDE:
        outside = sorted(words.outside)
        random.Random(seed).shuffle(outside)
        return NamedSecrets(_checked(outside, name)[: max_games or None])
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--secrets {name} is no file of words ({type(error).__name__}); give one with a word per line, or outside"
        ) from None
    column = [re.split(r"[,;\s]", line.strip(), maxsplit=1)[0].strip("\"'").lower() for line in text.splitlines()]
    spelled = [word for word in column if len(word) == words.word_length and word.isascii() and word.isalpha()]
    listed = list(dict.fromkeys(word for word in spelled if word in words))
    num_unlisted = len({word for word in spelled if word not in words})
    num_other = sum(map(bool, column)) - len(spelled)
    reasons = {
        f"{num_other:,} lines that are no word of {words.word_length} letters": num_other,
        f"{num_unlisted:,} words that list {words.name!r} lacks (--words names another)": num_unlisted,
    }
    return NamedSecrets(
        _checked(listed, name)[: max_games or None], "; ".join(text for text, count in reasons.items() if count)
    )


def _checked(found: Sequence[str], name: str) -> tuple[str, ...]:
    if not found:
        raise ConfigError(f"--secrets {name} names no word that may be played; name a file, or another --words")
    return tuple(found)


def boards_of(
    secrets: Sequence[str], settings: PlayerEvalSettings, rules: Rules, solver: Solver, seed: int
) -> list[tuple[str, ...]] | None:
    """Guesses on the board of each game when play begins; None: every board is empty.

    Raises:
        ConfigError: If they would leave no turn to play.
    """
    if not settings.prefix_turns:
        if settings.prefix_choice != "consistent":
            raise ConfigError("--prefix-choice is for boards with earlier turns; give --prefix-turns, 4 is usual")
        return None
    if settings.prefix_turns >= rules.max_turns:
        raise ConfigError(
            f"--prefix-turns {settings.prefix_turns} leaves none of {rules.max_turns} turns to play; give fewer"
        )
    return prefix_boards(
        secrets, solver, settings.prefix_turns, settings.prefix_choice, seed, hard_mode=rules.hard_mode
    )


def boards_name(settings: PlayerEvalSettings, seed: int) -> str | None:
    """Name of the boards, as an evaluation's conditions record it; None: every board is empty."""
    if not settings.prefix_turns:
        return None
    return f"0 to {settings.prefix_turns} {settings.prefix_choice} turns, seed {seed}"


def marked(secrets: Sequence[str], split: Split) -> dict[str, list[str]]:
    """Secrets by what training knew of them: `train`, `val`, `held_out`, `outside`; parts without any are left out."""
    names = {"train": "train", "val": "val", "test": "held_out"}
    found: dict[str, list[str]] = {name: [] for name in (*MARKED_PARTS, OUTSIDE)}
    for secret in dict.fromkeys(secrets):
        found[names.get(split.part_of(secret), OUTSIDE)].append(secret)
    return {name: words for name, words in found.items() if words}
