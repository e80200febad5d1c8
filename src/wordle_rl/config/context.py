"""`GameContext`: words, split, prompts and solver of a config, made once and passed on as one value."""

from __future__ import annotations

from dataclasses import dataclass

from wordle_rl.config.run import RunConfig
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, split_secrets


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

    @classmethod
    def of(cls, config: RunConfig) -> GameContext:
        """Load the words of a config and derive the rest.

        Raises:
            WordListError: If there is no such list, or it is too small to be split.
        """
        words = load_words(config.words.source)
        split = split_secrets(words, config.words.split_seed)
        return cls(words, split, config.game.prompter(words.word_length), Solver(words))
