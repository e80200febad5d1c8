"""A player's game as events, one per turn, while it is played.

Before the last event, events depend only on the board so far and the player: marks, candidates left, information,
probabilities. Two secrets that give the same marks give the same events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from wordle_rl.env import PlayedTurn
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Guess
from wordle_rl.rollout import ActiveGame, InitialState, advance, open_game
from wordle_rl.serve.watch.players import Seat
from wordle_rl.serve.watch.review import Reviewer

Json = dict[str, Any]


def live_events(seat: Seat, secret: str, reviewer: Reviewer) -> Iterator[Json]:
    """Play a game and describe it.

    Args:
        seat: The player.
        secret: The secret.
        reviewer: Reviewer of the player's word list.

    Yields:
        One `start`, a `turn` for each reply, then `end` with the secret, or `error`.
    """
    game = open_game(0, InitialState(secret), seat.words, seat.prompter, seat.sampler.codec)
    rules = seat.prompter.rules
    yield {
        "event": "start",
        "player": seat.label,
        "max_turns": rules.max_turns,
        "word_length": seat.words.word_length,
        "words": seat.words.name,
        "prompt": [dict(message) for message in game.env.conversation],
        "candidates": len(seat.words.answers),
        "has_probabilities": seat.probabilities is not None,
    }
    with seat.lock:
        seat.sampler.begin()
    while game.env.stop_reason is None:
        completion, likely, seconds = _reply(seat, game)
        advance(game, completion, seat.sampler.codec)
        if game.error is not None:
            yield {"event": "error", "message": f"{seat.label} gave no reply: {game.error}"}
            return
        turn = _described(game, reviewer)
        yield {"event": "turn", **turn, "likely": likely, "overlong": completion.overlong, "seconds": round(seconds, 3)}
    transcript = game.env.transcript()
    yield {
        "event": "end",
        "won": transcript.won,
        "turns_used": transcript.turns_used,
        "stop_reason": transcript.stop_reason.value,
        "secret": secret,
    }


def _reply(seat: Seat, game: ActiveGame) -> tuple[Completion, list[Json], float]:
    # The reply, the likeliest guesses in place of its own, and the seconds it took.
    prompt_ids = game.all_ids()
    request = Request(0, game.env.conversation, game.env.turns, prompt_ids)
    with seat.lock:
        started = time.perf_counter()
        completion = seat.sampler.sample([request])[0]
        seconds = time.perf_counter() - started
        likely = [] if seat.probabilities is None else seat.probabilities.likeliest(prompt_ids, completion.token_ids)
    found = [
        {"guess": each.guess, "probability": round(each.probability, 6), "listed": each.guess in seat.words}
        for each in likely
    ]
    return completion, found, seconds


def _described(game: ActiveGame, reviewer: Reviewer) -> Json:
    turns, env = game.env.turns, game.env
    played = env.played[-1]
    review = reviewer(turns, env.prompter.rules.max_turns)[-1]
    feedback = env.observation.messages[-1]["content"] if env.observation.messages else ""
    return {
        "turn": len(turns),
        **described_reply(played),
        "guess": played.turn.guess,
        "marks": played.turn.marks,
        "outcome": played.turn.outcome.value,
        "costs_turn": played.turn.costs_turn,
        "feedback": feedback,
        "candidates": review.candidates,
        "left": review.left,
        "bits": review.bits,
        "best": review.best,
        "best_bits": review.best_bits,
    }


def described_reply(played: PlayedTurn) -> Json:
    """Describe a reply: its thinking, or why it has no guess."""
    if isinstance(played.parsed, Guess):
        return {"reply": played.reply, "thinking": played.parsed.thinking}
    return {"reply": played.reply, "thinking": "", "failure": played.parsed.reason.value}
