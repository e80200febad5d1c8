"""Secrets by split and index, and the games that the sessions of a server share."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from wordle_rl.boards import random_board
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.model import GameSettings
from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Prompter, PromptError
from wordle_rl.reward import PRESETS, Rubric, TurnRewards
from wordle_rl.serve.openenv_client import ResetOptions
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.trainers.games import BoardTask

ResultT = TypeVar("ResultT")

SPLIT_TYPES = {"train": "train", "val": "validation", "test": "test"}
"""Parts of the answers, and OpenEnv's type of each."""


def difficulty_of(num_guesses: int) -> str:
    """Classify a secret by the guesses that the solver's best tree needs."""
    return "easy" if num_guesses <= 3 else "medium" if num_guesses == 4 else "hard"


class WordTasks:
    """The tasks of a word list.

    Args:
        context: The list, its split, and its solver, for difficulties. A task's index is its place in its part.
        key: Key of the ids.
        allowed: Held-out parts that can be played and listed.
    """

    def __init__(self, context: GameContext, key: bytes, allowed: Collection[str]) -> None:
        self.context, self._key = context, key
        self._open = {"train", *allowed}
        self._mark = f"{context.words.fingerprint}:{context.split.seed}"

    def secret(self, task: BoardTask) -> str:
        """Return the secret of a task; only the game may see it."""
        return self._part(task.split)[task.index]

    def pick(self, split: str, index: int | None, seed: int, given: Sequence[str] = ()) -> BoardTask:
        """Return the task of an index, or of a seed without an index, whose secret is not among `given` words.

        A game cannot begin with its secret on the board, and a refusal would tell the secret. So a seed draws from the
        other tasks, another one for other `given`; so does an index whose own secret is given.
        """
        self._check_open(split)
        part = self._part(split)
        if index is not None and not 0 <= index < len(part):
            raise Refusal(Reason.UNKNOWN_TASK, f"split {split!r} has tasks 0 to {len(part) - 1}, not {index}")
        # By index and words, without the seed: asking again with another seed tells nothing more.
        if index is None or part[index] in given:
            # A hash, not a random stream: the same on every machine and version of Python, and free of
            # state between sessions.
            place = ":".join((str(seed) if index is None else f"index {index}", *given))
            digest = hashlib.sha256(f"{self._mark}:{split}:{place}".encode()).digest()
            left = [number for number, word in enumerate(part) if word not in given] if given else range(len(part))
            if not left:
                raise Refusal(Reason.BAD_OPTION, f"given has every secret of split {split!r}; give fewer words")
            index = left[int.from_bytes(digest[:8], "big") % len(left)]
        return BoardTask(split=split, index=index)

    def task_id(self, task: BoardTask) -> str:
        """Return an opaque id: a keyed hash of the place.

        It names the secret all the same, since lists of tasks show it beside the index: keep it until the game is over.
        """
        place = f"{self._mark}:{task.split}:{task.index}"
        # Keyed, or whoever has the word list could hash every place and find the secret.
        return hmac.new(self._key, place.encode(), hashlib.sha256).hexdigest()[:32]

    def list_splits(self) -> list[dict[str, Any]]:
        """List the parts with type, number of tasks, and whether they can be played here."""
        return [
            {"name": name, "type": kind, "num_tasks": self.num_tasks(name), "playable": name in self._open}
            for name, kind in SPLIT_TYPES.items()
        ]

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a part, held out or not."""
        return len(self._part(split))

    def tasks(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Describe tasks `start` to `stop` of a part, as a slice takes them."""
        self._check_open(split)
        return [
            self.described(BoardTask(split=split, index=index)) for index in range(self.num_tasks(split))[start:stop]
        ]

    def described(self, task: BoardTask) -> dict[str, Any]:
        """Describe a task without its secret; the first time this builds the solver's tree, which takes seconds."""
        difficulty = self._difficulties[self.secret(task)]
        return {"id": self.task_id(task), "split": task.split, "index": task.index, "difficulty": difficulty}

    @cached_property
    def _difficulties(self) -> dict[str, str]:
        paths = self.context.solver.tree().paths  # without the secret itself where the tree does not reach it
        return {secret: difficulty_of(len(path) + (path[-1] != secret)) for secret, path in paths.items()}

    def _part(self, split: str) -> tuple[str, ...]:
        if split not in SPLIT_TYPES:
            raise Refusal(Reason.UNKNOWN_TASK, f"unknown split {split!r}; use {', '.join(SPLIT_TYPES)}")
        return self.context.split.named(split)  # type: ignore[arg-type]  # one of the three

    def _check_open(self, split: str) -> None:
        self._part(split)
        if split not in self._open:
            raise Refusal(Reason.HELD_OUT, f"split {split!r} is held out here; only its number of tasks is shown")


_SYSTEM_RANDOM = random.SystemRandom()


@dataclass(frozen=True)
class NewGame:
    """A game of a session."""

    env: WordleEnv
    rewards: TurnRewards
    rubric: Rubric
    reward: str
    """Name of the rubric."""
    words: str
    """Name of the word list."""
    task_id: str


class ServedGames:
    """Word lists, rewards and wordings of a server.

    Word lists are read at once; solvers compute nothing until they are needed.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        key = settings.id_key()
        offers = []
        for source in (settings.words.source, *settings.word_lists):
            words = settings.words.model_copy(update={"source": source})
            offers.append(WordTasks(GameContext.from_settings(words, settings.game), key, settings.allow_held_out))
        self.default_words = offers[0].context.words.name
        self._offers = {offer.context.words.name: offer for offer in offers}
        if len(self._offers) < len(offers):
            names = ", ".join(offer.context.words.name for offer in offers)
            raise ConfigError(f"word lists must have different names, not {names}; leave one of them out of word_lists")
        self.solver_thread = ThreadPoolExecutor(1, thread_name_prefix="solver")
        """The single thread for solvers, whose memory is not thread-safe; started on demand."""
        self._own_rubric = settings.rubric()
        self._rubrics = {name: Rubric(preset.weights, settings.keep_order) for name, preset in PRESETS.items()}

    async def in_solver_thread(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Call a function in the solvers' thread while the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self.solver_thread, function, *arguments)

    def offered(self, name: str | None = None) -> WordTasks:
        """Return the tasks of a word list; None: the default list."""
        name = self.default_words if name is None else name
        if name not in self._offers:
            raise Refusal(
                Reason.BAD_OPTION, f"this server has no word list of that name; use {', '.join(self._offers)}"
            )
        return self._offers[name]

    def new_game(self, options: ResetOptions, wording: Mapping[str, Any]) -> NewGame:
        """Create the game of a reset; `wording` has settings of the game that the session's protocol fixes."""
        offer = self.offered(options.words)
        seed = _SYSTEM_RANDOM.getrandbits(63) if options.seed is None else options.seed
        if options.given is not None and options.max_given:
            raise Refusal(Reason.BAD_OPTION, "given and max_given both set the board; leave out one of them")
        named = tuple(word.lower() for word in options.given or ())
        task = offer.pick(options.split or "train", options.index, seed, named)
        secret = offer.secret(task)
        context = offer.context.for_part(task.split)
        chosen = {"style": options.style, "hard_mode": options.hard_mode, **wording}
        changes = {name: value for name, value in chosen.items() if value is not None or name in wording}
        try:
            prompter = _prompter(self.settings.game.model_copy(update=changes), context.words.word_length)
        except PromptError as error:  # this server thinks, say, and the style cannot
            raise Refusal(Reason.BAD_OPTION, str(error)) from None
        rules = prompter.rules
        if options.max_given >= rules.max_turns:
            raise Refusal(Reason.BAD_OPTION, f"max_given must leave one of {rules.max_turns} turns to play; lower it")
        if options.max_given:
            # By secret, so that one seed does not put the same words on every board.
            rng = random.Random(f"{context.words.fingerprint}:{secret}:{seed}")
            given = random_board(context.words, secret, rng, options.max_given, hard_mode=rules.hard_mode)
        else:
            given = named
        try:
            env = WordleEnv(secret, context.words, prompter, given)
        except ValueError:
            raise Refusal(
                Reason.BAD_OPTION,
                f"given must have fewer than {rules.max_turns} words, all of which may be played",
            ) from None
        reward, rubric = self._rubric(options.reward)
        rewards = TurnRewards(rubric, context.solver, secret, env)
        return NewGame(env, rewards, rubric, reward, offer.context.words.name, offer.task_id(task))

    def _rubric(self, name: str | None) -> tuple[str, Rubric]:
        if name is None:
            own = "custom" if self.settings.reward_weights else self.settings.reward_preset
            return own, self._own_rubric
        if name not in self._rubrics:
            raise Refusal(Reason.BAD_OPTION, f"this server has no reward of that name; use {', '.join(self._rubrics)}")
        return name, self._rubrics[name]


@lru_cache(maxsize=256)
def _prompter(game: GameSettings, word_length: int) -> Prompter:
    # Prompters render their rules once; sessions by the hundred share them.
    return game.prompter(word_length)
