"""Game contexts of small word lists."""

from wordle_rl.config.context import GameContext
from wordle_rl.config.run import RunConfig
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words import WordList
from wordle_rl.words.split import Split, split_secrets


def context_of(config: RunConfig, words: WordList) -> GameContext:
    """The context of a config, with these words instead of its own."""
    solver = Solver(words)
    return GameContext(words, split_secrets(words), config.game.prompter(words.word_length), solver)


def context_for(words: WordList, prompter: Prompter, solver: Solver, split: Split | None = None) -> GameContext:
    """The context of a word list, a prompter and a solver, with the list's own split unless another is given."""
    return GameContext(words, split or split_secrets(words), prompter, solver)
