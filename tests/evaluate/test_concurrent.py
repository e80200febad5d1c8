"""Laws of games with a server: each at its own pace, always ending, kept as they finish, gone on with later."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from scripted import planned

from wordle_rl.config import PatienceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.play import Journal, evaluate, evaluate_concurrently, with_regret
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.base import Ask, Completion, Request, run_async
from wordle_rl.policy.scripted import RandomSampler, SolverSampler
from wordle_rl.prompt import Prompter
from wordle_rl.runs import RunError
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

SETTINGS = {"player": "openai:m", "temperature": 0.0, "words": "abc"}


class Server:
    """Answers as a function of the request says; counts what it is asked and what is in play at once."""

    def __init__(self, answer: Callable[[Request], Awaitable[Completion]]) -> None:
        self.answer, self.asked, self.open = answer, [], False
        self.in_play: set[int] = set()
        self.most_in_play = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        self.open = True
        try:
            yield self._ask
        finally:
            self.open = False

    async def _ask(self, request: Request) -> Completion:
        assert self.open
        self.asked.append(request.game_id)
        self.in_play.add(request.game_id)
        self.most_in_play = max(self.most_in_play, len(self.in_play))
        completion = await self.answer(request)
        if completion.error or "crane" in completion.text or len(request.turns) == 5:
            self.in_play.discard(request.game_id)
        return completion


def says(word: str) -> Completion:
    return Completion(f"<guess>{word}</guess>")


async def wins(request: Request) -> Completion:
    await asyncio.sleep(0)
    return says("crane")


async def hangs(request: Request) -> Completion:
    await asyncio.sleep(3600)
    raise AssertionError


def patience(**changes: object) -> PatienceSettings:
    return PatienceSettings(**{"concurrency": 4, "max_failures": 0} | changes)


def play(
    server: Server,
    words: WordList,
    secrets: list[str],
    journal: Journal | None = None,
    on_finished: Callable[[GameRecord], None] | None = None,
    **changes: object,
) -> Evaluation:
    return evaluate_concurrently(
        planned(words, Prompter()),
        secrets,
        words,
        Prompter(),
        server,
        patience(**changes),
        journal=journal,
        on_finished=on_finished,
    )


# --- playing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3, 100])
@pytest.mark.parametrize("kind", [SolverSampler, RandomSampler])
def test_the_games_and_their_regret_are_those_of_lockstep(kind, concurrency, small_words) -> None:
    solver = Solver(small_words)
    first = solver if kind is SolverSampler else small_words
    # One sampler per game, so that neither order nor lockstep shows in the random player's words.
    samplers = {place: kind(first, Prompter(), place) for place in range(len(small_words.answers))}

    class Lockstep:
        codec = None

        def begin(self) -> None:
            for sampler in samplers.values():
                sampler.begin()

        def sample(self, requests):
            return [samplers[request.game_id].sample([request])[0] for request in requests]

    async def answer(request: Request) -> Completion:
        await asyncio.sleep(0)
        return samplers[request.game_id].sample([request])[0]

    together = evaluate(
        planned(small_words, Prompter()), small_words.answers, small_words, Prompter(), Lockstep(), solver=solver
    )
    Lockstep().begin()
    apart = play(Server(answer), small_words, list(small_words.answers), concurrency=concurrency)
    assert apart != together
    assert with_regret(apart, small_words, solver) == together


# --- it always ends ---------------------------------------------------------------------------------------------------


def test_a_stuck_game_is_an_error_and_the_others_are_played(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return await (hangs if request.game_id == 0 and request.turns else wins)(request)

    evaluation = play(Server(answer), small_words, ["speed", "crane", "crane"], concurrency=1, game_timeout_s=0.1)
    stuck, *others = evaluation.records
    assert (stuck.failed, stuck.won, stuck.error) == (True, False, "the game took longer than 0.1 s")
    assert len(stuck.turns) == 1, "what was played of it is kept to look at"
    assert all(record.won for record in others)


def test_when_time_is_up_finished_games_stay_and_the_rest_are_errors(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return await (wins if request.game_id < 2 else hangs)(request)

    server = Server(answer)
    evaluation = play(server, small_words, ["crane"] * 9, concurrency=3, max_minutes=0.1 / 60)
    assert [record.won for record in evaluation.records] == [True, True] + [False] * 7
    assert evaluation.figures().num_errors == 7
    assert {record.error for record in evaluation.records[2:]} == {"not finished within 0.00166667 minutes"}
    assert not server.open


def test_an_endpoint_that_fails_game_after_game_is_left_alone(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return says("crane") if request.game_id == 2 else Completion("", error="down")

    server = Server(answer)
    evaluation = play(server, small_words, ["crane"] * 50, concurrency=1, max_failures=4)
    assert server.asked == [0, 1, 2, 3, 4, 5, 6], "a finished game starts the count again"
    assert evaluation.figures().num_errors == 49
    assert evaluation.records[-1].error == "not played after 4 games in a row were errors"
    assert evaluation.records[-1].stop_reason is StopReason.REQUEST_FAILED
    assert len(play(server, small_words, ["crane"] * 9, max_failures=0).records) == 9
    assert server.asked[7:] == list(range(9)), "without a bound every game is asked for"


# --- finished games are kept ------------------------------------------------------------------------------------------


def test_a_second_call_plays_only_what_is_missing(small_words, tmp_path: Path) -> None:
    async def failing(request: Request) -> Completion:
        return Completion("", error="down") if request.game_id in (1, 3) else says("speed")

    async def winning(request: Request) -> Completion:
        return says(["crane", "speed", "crane", "grape", "crane"][request.game_id])

    secrets, path = ["crane", "speed", "crane", "grape"], tmp_path / "new" / "eval.games.jsonl"
    first = play(Server(failing), small_words, secrets, Journal(path, SETTINGS))
    assert [record.failed for record in first.records] == [False, True, False, True]
    told: list[GameRecord] = []
    server = Server(winning)
    second = play(server, small_words, secrets, Journal(path, SETTINGS), told.append)
    assert sorted(server.asked) == [1, 3], "errors are played again, finished games are not"
    assert [record.won for record in second.records] == [False, True, False, True]
    assert second.records[0] == first.records[0]
    assert sorted(record.secret for record in told) == ["grape", "speed"]
    third = Server(winning)
    assert play(third, small_words, [*secrets, "crane"], Journal(path, SETTINGS)).records[:4] == second.records
    assert third.asked == [4], "the third game of a secret is another game than the first"


def test_a_game_that_cannot_be_kept_stops_the_evaluation(small_words, tmp_path: Path) -> None:
    class FullDisk(Journal):
        def store(self, secret: str, occurrence: int, game: GameRecord) -> None:
            raise RunError("cannot write: no space left")

    server = Server(wins)
    with pytest.raises(RunError, match="no space"):
        play(server, small_words, ["crane"] * 40, FullDisk(tmp_path / "eval.games.jsonl", SETTINGS))
    assert not server.open
    assert len(server.asked) <= 8


# --- loops ------------------------------------------------------------------------------------------------------------


def test_an_interrupt_in_a_notebook_cancels_the_work() -> None:
    ended = []
    press = threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))

    async def work() -> None:
        try:
            press.start()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("tidied up")
            raise

    async def notebook() -> None:
        with pytest.raises(KeyboardInterrupt):
            run_async(work())
        assert ended == ["tidied up"]

    loop = asyncio.new_event_loop()  # unlike asyncio.run, a notebook's loop lets an interrupt through
    try:
        loop.run_until_complete(notebook())
    finally:
        loop.close()
