"""`GameContext`: words, split, prompts and solver of a config, made once and passed on as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class GameContext:
    """Everything that the games of a run have in common.

    Attributes:
        words: The word list.
        split: Its training, validation and test secrets.
        prompter: Wording, tags and rules.
        solver: The solver of the word list.
    """

    words: WordList
    split: Split
    prompter: Prompter
    solver: Solver

    @cached_property
    def for_training(self) -> GameContext:
        """The context of everything that a learner learns from; this one unless the split has strict words.

        There a strict word is listed, so that a policy may say it, but no answer: it is never a secret, and no reward,
        label or initial state takes it for one. The solver, and so every teacher, does not know it at all.
        """
        if not self.split.strict:
            return self
        words = self.words.reserving(self.split.strict)
        return replace(self, words=words, solver=Solver(words.named))

    def validating(self, secrets: Sequence[str]) -> GameContext:
        """The context of a run whose checkpoints are selected by these secrets, so that nothing is trained on them.

        Raises:
            ConfigError: If no training secret is left.
        """
        split, chosen = self.split, frozenset(secrets)
        train = tuple(secret for secret in split.train if secret not in chosen)
        val = (*secrets, *(secret for secret in split.val if secret not in chosen))
        if not train:
            raise ConfigError("grpo.validation_file names every training secret; leave some to train on")
        return replace(self, split=replace(split, train=train, val=val))

    @classmethod
    def of(cls, config: RunConfig) -> GameContext:
        """Load the words of a config and derive the rest.

        Raises:
            WordListError: If there is no such list, or it is too small to be split.
        """
        return cls.from_settings(config.words, config.game)

    @classmethod
    def from_settings(cls, words: WordSettings, game: GameSettings) -> GameContext:
        """Load the words of settings that belong to no run, and derive the rest.

        Raises:
            WordListError: If there is no such list, or it is too small to be split.
        """
        loaded = load_words(words.source)
        return cls(loaded, words.split_of(loaded), game.prompter(loaded.word_length), Solver(loaded))

    def for_part(self, part: str) -> GameContext:
        """The context of games with secrets of one part: `for_training` where they are training secrets."""
        return self.for_training if part == "train" else self
