"""Games in play: those of players to watch, as events, one per turn; and games by hand.

A page names a player by its id in a list, never by a path. Before the last event, events depend only on the board so
far and the player: marks, candidates left, information, probabilities. So two secrets with the same marks give the
same events. The secret of a game by hand stays on the server until the game is over.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordle_rl.boards import InitialState
from wordle_rl.config.base import LARGEST_SEED, ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.training import SamplingSettings
from wordle_rl.env import WordleEnv
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.players import OpenModel, make_player, open_model, reply_bound, words_of
from wordle_rl.game import Dictionary, Rules
from wordle_rl.policy.base import Completion, Request, Sampler
from wordle_rl.policy.directory import is_model, weights_mark
from wordle_rl.policy.scripted import PLAYER_NAMES
from wordle_rl.prompt import Guess, Prompter, Shape, Style, Thinking
from wordle_rl.rollout import ActiveGame, advance, open_game
from wordle_rl.runs import has_weights, stages_at, trained_model
from wordle_rl.runs.lineage import is_trained
from wordle_rl.serve.watch.review import Reviewer
from wordle_rl.serve.watch.run_files import find_runs
from wordle_rl.solver import Solver
from wordle_rl.words import load_words

if TYPE_CHECKING:
    from wordle_rl.policy.word_search import GuessProbabilities


MAX_MODELS = 2
"""Most models in memory; the least recently used one is dropped."""
_LABELS = {
    "solver": "solver: best play",
    "consistent": "consistent: any answer that fits",
    "random": "random: any listed word",
}


@dataclass(frozen=True)
class Seat:
    """A player for one game. Hold `lock` while it samples: two games can share a model.

    A local model has `probabilities`, which find its likeliest guesses.
    """

    label: str
    sampler: Sampler
    context: GameContext
    lock: AbstractContextManager[object] = field(default_factory=threading.Lock)
    probabilities: GuessProbabilities | None = None


class Players:
    """The players of a page: built-in ones in `context`, models of the runs, and `others` by name."""

    def __init__(
        self, runs: Path, context: GameContext, others: Sequence[str] = (), base_url: str | None = None
    ) -> None:
        self._runs, self._context = runs, context
        self._others, self._base_url = tuple(others), base_url
        # By directory and mark of its weights, so that changed ones are read again.
        self._opened = lru_cache(MAX_MODELS)(_load)
        self._solvers = {context.words.fingerprint: context.solver}
        self._solver_locks: dict[int, threading.Lock] = {}  # the solvers stay
        self._lock = threading.Lock()

    def ids(self) -> dict[str, str]:
        """Return the labels of all players by id."""
        models = {identity: f"model {identity}" for identity in self._models()}
        return {**models, **{other: other for other in self._others}, **_LABELS}

    def seat(self, identity: str, temperature: float, seed: int) -> Seat:
        """Return one of `ids` for one game; load a model that is not in memory or has changed since."""
        if identity not in self.ids():
            raise ConfigError(f"unknown player {identity!r}; use {', '.join(self.ids())}")
        name = str(self._models().get(identity, identity))
        if not is_model(name):
            return self._without_weights(name, temperature, seed)
        directory = Path(name)
        with self._lock:
            opened, probabilities, lock = self._opened(directory, weights_mark(trained_model(directory) or directory))
        from wordle_rl.policy.transformers import TransformersSampler

        sampling = SamplingSettings(temperature=temperature, max_completion_tokens=reply_bound(name, None))
        sampler = TransformersSampler(opened.model, opened.codec, sampling, seed)
        return Seat(identity, sampler, opened.context, lock, probabilities)

    def solver_of(self, source: str) -> Solver:
        """Return the solver of a word list; each list has only one."""
        words = load_words(source)
        return self._solvers.setdefault(words.fingerprint, Solver(words))

    def lock_of(self, solver: Solver) -> threading.Lock:
        """Return the lock to hold while one asks a solver, whose memory is not thread-safe."""
        return self._solver_locks.setdefault(id(solver), threading.Lock())

    def _models(self) -> dict[str, Path]:
        found = {}
        for name, run in find_runs(self._runs).items():
            for stage in reversed(stages_at(run)):
                if has_weights(run / stage) or is_trained(run / stage):  # without weights, `seat` names what is lost
                    found[f"{name}/{stage}"] = run / stage
        return found

    def _without_weights(self, name: str, temperature: float, seed: int) -> Seat:
        context = self._context
        if name not in PLAYER_NAMES:
            known = words_of(name)
            words = load_words(known.source)
            context = GameContext(words, known.split_of(words), context.prompter, self.solver_of(known.source))
        sampling = SamplingSettings(temperature=temperature, max_completion_tokens=reply_bound(name, None))
        asked = PlayerSpec(name, sampling, seed)
        if asked.is_served:
            asked = replace(asked, base_url=self._base_url)
        player = make_player(asked, context.words, context.solver)
        lock = self.lock_of(context.solver)
        return Seat(player.label, player.sampler, replace(context, prompter=player.prompter), lock)


def _load(directory: Path, _mark: str) -> tuple[OpenModel, GuessProbabilities, threading.Lock]:
    opened = open_model(directory)
    from wordle_rl.policy.word_search import GuessProbabilities

    found = GuessProbabilities(opened.model, opened.codec, opened.context.prompter.guess_tags)
    return opened, found, threading.Lock()


Json = dict[str, Any]


def live_events(seat: Seat, secret: str, reviewer: Reviewer) -> Iterator[Json]:
    """Play a game and yield one `start`, a `turn` for each reply, then `end` with the secret, or `error`."""
    game = open_game(0, InitialState(secret), seat.context.words, seat.context.prompter, seat.sampler.codec)
    rules = seat.context.prompter.rules
    yield {
        "event": "start",
        "player": seat.label,
        "max_turns": rules.max_turns,
        "word_length": seat.context.words.word_length,
        "words": seat.context.words.name,
        "prompt": [dict(message) for message in game.env.conversation],
        "candidates": len(seat.context.words.answers),
        "has_probabilities": seat.probabilities is not None,
    }
    # Held turn by turn, not for the game: a viewer who stops reading would lock out all others.
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
        {"guess": each.guess, "probability": round(each.probability, 6), "listed": each.guess in seat.context.words}
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
        "reply": played.reply,
        "thinking": played.parsed.thinking if isinstance(played.parsed, Guess) else "",
        **({} if isinstance(played.parsed, Guess) else {"failure": played.parsed.reason.value}),
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


MAX_GAMES = 1000
"""Most games by hand to keep; the least recently played one is dropped."""
_MAX_REFUSALS = 100


class HandGames:
    """Games by hand with the word list of the reviewer's solver; `answers` can be secrets."""

    def __init__(self, reviewer: Reviewer, answers: tuple[str, ...], max_turns: int) -> None:
        self._reviewer, self._words = reviewer, reviewer.solver.words
        self._answers, self._max_turns = answers, max_turns
        self._games: OrderedDict[str, WordleEnv] = OrderedDict()  # least recently played first

    def open(self, dictionary: Dictionary, hard_mode: bool, seed: int | None = None) -> Json:
        """Begin a game and return its id and board. The same seed draws the same secret; None: a random one.

        An unlisted word is refused without cost under `app`, and costs the turn under `strict`.
        """
        drawn = secrets.randbelow(LARGEST_SEED) if seed is None else seed
        secret = random.Random(drawn).choice(self._answers)
        rules = Rules(self._max_turns, dictionary, hard_mode, max_refusals=_MAX_REFUSALS)
        prompter = Prompter(Style.SYMBOLS, Shape.TRANSCRIPT, Thinking.OFF, self._words.word_length, rules)
        identity = secrets.token_urlsafe(16)
        self._games[identity] = env = WordleEnv(secret, self._words, prompter)
        # Nobody says when a game is left, so the oldest ones make room.
        while len(self._games) > MAX_GAMES:
            self._games.popitem(last=False)
        return {"id": identity, "candidates": len(self._words.answers), **_board(env)}

    def guess(self, identity: str, word: str) -> Json | None:
        """Play a word and return its outcome and the board, with the last turn the secret; None without such a game."""
        # Taken out while it is played, so a second request cannot play the same turn, and put back as the newest.
        env = self._games.pop(identity, None)
        if env is None:
            return None
        env.step(env.prompter.reply(word.strip().lower()))
        turn = env.turns[-1]
        answer = {
            "guess": turn.guess,
            "marks": turn.marks,
            "outcome": turn.outcome.value,
            "costs_turn": turn.costs_turn,
            "left": self._reviewer.count(env.turns),
            **_board(env),
        }
        if env.stop_reason is None:
            self._games[identity] = env
            return answer
        return {**answer, "won": env.transcript().won, "secret": env.transcript().secret}


def _board(env: WordleEnv) -> Json:
    rules = env.prompter.rules
    return {
        "max_turns": rules.max_turns,
        "word_length": env.prompter.word_length,
        "turns_left": env.observation.turns_left,
        "over": env.stop_reason is not None,
    }
