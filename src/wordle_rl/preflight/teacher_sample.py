"""A few teacher games as the token sequences they become, to be measured before a run makes all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import RunConfig
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.data.trace import Trace
from wordle_rl.data.trace_filter import GivenTraces
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

_TEACHER_GAMES = 256


def teacher_examples(
    config: RunConfig, words: WordList, split: Split, prompter: Prompter, codec: ChatCodec, solver: Solver
) -> list[Example]:
    """The sequences that a few teacher games make."""
    settings = config.traces.model_copy(update={"num_games": _TEACHER_GAMES})
    traces: Iterable[Trace]
    if settings.file is not None:
        traces = GivenTraces(words, split, settings, config.game)
    else:
        secrets = draw_secrets(words, split, settings, config.seed)
        traces = solver_traces(words, secrets, SolverTeacher(solver), settings, config.seed)
    return encode_traces(traces, prompter, codec, max_length=10**9).examples


def reply_lengths(examples: Iterable[Example]) -> list[int]:
    """Tokens of every reply that is learnt, its closing token included."""
    runs = (groupby(example.loss_mask) for example in examples)
    return [len(list(run)) for found in runs for learnt, run in found if learnt]
