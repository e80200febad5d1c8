"""A few teacher games as token sequences, to measure them before a run makes all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.data.game_record import GameRecord
from wordle_rl.data.trace_filter import TracesFromFile
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.own_teacher import own_teacher, own_teacher_traces
from wordle_rl.teachers.solver import SolverTeacher

_TEACHER_GAMES = 256
_OWN_TEACHER_GAMES = 16
"""Games of your own teacher, which can be slow or cost money."""


def teacher_examples(config: RunConfig, context: GameContext, codec: ChatCodec) -> list[Example]:
    """Encode a few teacher games as sequences to train on."""
    context = context.for_training
    settings = config.traces.model_copy(update={"num_games": _TEACHER_GAMES})
    traces: Iterable[GameRecord]
    if settings.file is not None:
        traces = TracesFromFile(context.words, context.split, settings, config.game)
    elif settings.teacher.is_own:
        words = context.solver.words
        teacher = own_teacher(words, settings.teacher, config.game, config.seed)
        secrets = draw_secrets(words, context.split, settings, config.seed)[:_OWN_TEACHER_GAMES]
        traces = own_teacher_traces(words, secrets, teacher, config.seed)
    else:
        secrets = draw_secrets(context.words, context.split, settings, config.seed)
        solver_teacher = SolverTeacher(context.solver)
        traces = solver_traces(
            solver_teacher.words, secrets, solver_teacher, settings, config.seed, None, config.game.max_turns
        )
    return encode_traces(traces, context.prompter, codec, max_length=10**9).examples


def reply_lengths(examples: Iterable[Example]) -> list[int]:
    """Return the length of each trained reply in tokens, including the closing token."""
    runs = (groupby(example.loss_mask) for example in examples)
    return [len(list(run)) for found in runs for learnt, run in found if learnt]
