"""`GameContext`: words, split, prompts and solver of a config, built once and passed on as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split

if TYPE_CHECKING:
    from wordle_rl.config.run import RunConfig


@dataclass(frozen=True)
class GameContext:
    """What all games of a run share: word list, split into secrets, prompts and rules, solver."""

    words: WordList
    split: Split
    prompter: Prompter
    solver: Solver

    @cached_property
    def for_training(self) -> GameContext:
        """Context for everything a learner learns from. The same context unless the split has strict words.

        A strict word is then listed, so the policy may guess it, but it is no answer: it is never a secret, and no
        reward, label or initial state treats it as one. The solver, and so every teacher, does not know it.
        """
        if not self.split.strict:
            return self
        words = self.words.reserving(self.split.strict)
        return replace(self, words=words, solver=Solver(words.named))

    def validating(self, secrets: Sequence[str]) -> GameContext:
        """Return a context that uses these secrets to select checkpoints, and never to train."""
        split, chosen = self.split, frozenset(secrets)
        train = tuple(secret for secret in split.train if secret not in chosen)
        val = (*secrets, *(secret for secret in split.val if secret not in chosen))
        if not train:
            raise ConfigError("grpo.validation_file names every training secret; leave some to train on")
        return replace(self, split=replace(split, train=train, val=val))

    @classmethod
    def of(cls, config: RunConfig) -> GameContext:
        """Build the context of a run's settings."""
        return cls.from_settings(config.words, config.game)

    @classmethod
    def from_settings(cls, words: WordSettings, game: GameSettings) -> GameContext:
        """Build a context from settings that belong to no run."""
        loaded = load_words(words.source)
        return cls(loaded, words.split_of(loaded), game.prompter(loaded.word_length), Solver(loaded))

    def for_part(self, part: str) -> GameContext:
        """Return the context for games of one part's secrets: `for_training` for training secrets."""
        return self.for_training if part == "train" else self
