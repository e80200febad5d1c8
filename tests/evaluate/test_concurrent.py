"""Laws of games that may be broken off, with a server or in this process: they always end, and resume as they were."""

import asyncio
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from scripted import planned

from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.journal import Journal, journal_of, num_kept
from wordle_rl.evaluate.play import evaluate, evaluate_concurrently, with_regret
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.base import Ask, Completion, Request, run_async
from wordle_rl.policy.scripted import RandomSampler, SolverSampler
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Prompter
from wordle_rl.runs import RunError
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

SETTINGS = {"player": "openai:m", "temperature": 0.0, "words": "abc"}
PROMPTER = Prompter()


class Server:
    """Answers as a function of the request says, and keeps which games asked."""

    def __init__(self, answer: Callable[[Request], Awaitable[Completion]]) -> None:
        self.answer, self.asked, self.open = answer, [], False

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
        return await self.answer(request)


def says(word: str) -> Completion:
    return Completion(f"<guess>{word}</guess>")


async def wins(request: Request) -> Completion:
    await asyncio.sleep(0)
    return says("crane")


async def hangs(request: Request) -> Completion:
    await asyncio.sleep(3600)
    raise AssertionError


def play(server: Server, words: WordList, secrets: Sequence[str], journal=None, on_finished=None, **changes):
    """Have games played with this patience, which by default takes any number of failures."""
    patience = PatienceSettings(**{"concurrency": 4, "max_failures": 0} | changes)
    asked = {"journal": journal, "on_finished": on_finished}
    return evaluate_concurrently(planned(words, PROMPTER), secrets, words, PROMPTER, server, patience, **asked)


@pytest.mark.parametrize("concurrency", [1, 3, 100])
@pytest.mark.parametrize("kind", [SolverSampler, RandomSampler])
def test_the_games_and_their_regret_are_those_of_lockstep(kind, concurrency, small_words) -> None:
    solver, secrets = Solver(small_words), small_words.answers
    # One sampler per game, so that neither order nor lockstep shows in the random player's words.
    first = solver if kind is SolverSampler else small_words
    samplers = {place: kind(first, PROMPTER, place) for place in range(len(secrets))}

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

    header = planned(small_words, PROMPTER)
    together = evaluate(header, secrets, small_words, PROMPTER, Lockstep(), solver=solver)
    Lockstep().begin()
    apart = play(Server(answer), small_words, secrets, concurrency=concurrency)
    assert apart != together
    assert with_regret(apart, small_words, solver) == together


def test_a_stuck_game_is_an_error_and_the_others_are_played(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return await (hangs if request.game_id == 0 and request.turns else wins)(request)

    evaluation = play(Server(answer), small_words, ["speed", "crane", "crane"], concurrency=1, game_timeout_s=0.1)
    stuck, *others = evaluation.records
    assert (stuck.failed, stuck.won) == (True, False)
    assert len(stuck.turns) == 1, "what was played of it is kept to look at"
    assert all(record.won for record in others)


def test_when_time_is_up_finished_games_stay_and_the_rest_are_errors(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return await (wins if request.game_id < 2 else hangs)(request)

    server = Server(answer)
    evaluation = play(server, small_words, ["crane"] * 9, concurrency=3, max_minutes=0.1 / 60)
    assert [record.won for record in evaluation.records] == [True, True] + [False] * 7
    assert evaluation.figures().num_errors == 7
    assert not server.open


def test_an_endpoint_that_fails_game_after_game_is_left_alone(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return says("crane") if request.game_id == 2 else Completion("", error="down")

    server = Server(answer)
    evaluation = play(server, small_words, ["crane"] * 50, concurrency=1, max_failures=4)
    assert server.asked == [0, 1, 2, 3, 4, 5, 6], "a finished game starts the count again"
    assert evaluation.figures().num_errors == 49
    assert evaluation.records[-1].stop_reason is StopReason.REQUEST_FAILED
    assert len(play(server, small_words, ["crane"] * 9, max_failures=0).records) == 9
    assert server.asked[7:] == list(range(9)), "without a bound every game is asked for"


def test_a_second_call_plays_only_what_is_missing(small_words, tmp_path: Path) -> None:
    async def failing(request: Request) -> Completion:
        return Completion("", error="down") if request.game_id in (1, 3) else says("speed")

    async def winning(request: Request) -> Completion:
        return says(["crane", "speed", "crane", "grape", "crane"][request.game_id])

    def games(server: Server, secrets: list[str], *on_finished: Callable) -> list[GameRecord]:
        journal = Journal(tmp_path / "new" / "eval.games.jsonl", SETTINGS)
        return list(play(server, small_words, secrets, journal, *on_finished).records)

    secrets = ["crane", "speed", "crane", "grape"]
    first = games(Server(failing), secrets)
    assert [record.failed for record in first] == [False, True, False, True]
    told: list[GameRecord] = []
    server = Server(winning)
    second = games(server, secrets, told.append)
    assert sorted(server.asked) == [1, 3], "errors are played again, finished games are not"
    assert [record.won for record in second] == [False, True, False, True]
    assert second[0] == first[0]
    assert sorted(record.secret for record in told) == ["grape", "speed"]
    third = Server(winning)
    assert games(third, [*secrets, "crane"])[:4] == second
    assert third.asked == [4], "the third game of a secret is another game than the first"


def test_a_game_that_cannot_be_kept_stops_the_evaluation(small_words, tmp_path: Path) -> None:
    class FullDisk(Journal):
        def store(self, secret: str, occurrence: int, game: GameRecord) -> None:
            raise RunError("cannot write: no space left")

    server = Server(wins)
    with pytest.raises(RunError):
        play(server, small_words, ["crane"] * 40, FullDisk(tmp_path / "eval.games.jsonl", SETTINGS))
    assert not server.open
    assert len(server.asked) <= 8


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

    with closing(asyncio.new_event_loop()) as loop:  # unlike asyncio.run, a notebook's loop lets an interrupt through
        loop.run_until_complete(notebook())


class Stopping(SolverSampler):
    """The solver, who is pressed Ctrl-C on instead of its turn `stop_at`, and counts the games it is asked about."""

    num_turns = num_games = 0
    stop_at: int | None = None

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        if self.num_turns == self.stop_at:
            raise KeyboardInterrupt
        self.num_turns += 1
        self.num_games += sum(not request.turns for request in requests)
        return super().sample(requests)


def stopping(words: WordList, stop_at: int | None = None) -> Stopping:
    sampler = Stopping(Solver(words), PROMPTER)
    sampler.stop_at = stop_at
    return sampler


def keep(sampler, words: WordList, secrets: Sequence[str], journal: Journal | None, **more: object) -> Evaluation:
    return evaluate(planned(words, PROMPTER), secrets, words, PROMPTER, sampler, batch_size=10, journal=journal, **more)


@pytest.mark.parametrize("stop_at", [0, 3, 9])
def test_what_was_broken_off_goes_on_to_the_same_games(stop_at: int, small_words, tmp_path: Path) -> None:
    secrets, regret = [*small_words.answers, *small_words.answers[:3]], {"solver": Solver(small_words)}
    whole = keep(stopping(small_words), small_words, secrets, None, **regret)
    path = tmp_path / "new" / "m.games.jsonl"
    journal = Journal(path, SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        keep(stopping(small_words, stop_at), small_words, secrets, journal, **regret)
    journal.close()
    journal, sampler = Journal(path, SETTINGS), stopping(small_words)
    kept = len(journal.games)
    assert kept == num_kept(path)
    assert (kept > 0) == (stop_at > 1)
    assert keep(sampler, small_words, secrets, journal, **regret) == whole
    assert sampler.num_games == len(secrets) - kept
    assert len(journal.games) == len(secrets)
    journal.discard()
    assert not path.exists()


@pytest.mark.parametrize(("stop_at", "kept"), [(2, 0), (4, 10)])
def test_drawn_games_are_kept_a_whole_batch_at_a_time(stop_at: int, kept: int, small_words, tmp_path: Path) -> None:
    """The quick wins of a batch alone would flatter the player."""
    journal = Journal(tmp_path / "m.games.jsonl", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        keep(stopping(small_words, stop_at), small_words, small_words.answers, journal, drawn=True)
    assert {secret for secret, _ in journal.games} == {*small_words.answers[:kept]}


@pytest.mark.parametrize(("temperature", "batch_size", "turns"), [(0, 1, 60), (1, 8, 15)])
def test_the_same_command_goes_on_with_a_model(
    temperature: int, batch_size: int, turns: int, cli, finished_run: Path, word_directory, tmp_path: Path, monkeypatch
) -> None:
    model = Path(shutil.copytree(finished_run / "sft", tmp_path / "model"))
    command = ["eval", "--player", model, "--words", word_directory, "--split", "train", "--no-regret"]
    command += ["--max-batch-size", batch_size, "--max-completion-tokens", 12, "--temperature", temperature]
    assert cli(*command, "--out", tmp_path / "whole.json")[0] == 0
    assert not list(tmp_path.glob("*.games.jsonl")), "nothing is missing, so nothing is kept"
    sample, done = TransformersSampler.sample, []

    def pressed(self: TransformersSampler, requests: Sequence[Request]) -> list[Completion]:
        if len(done) == turns:
            raise KeyboardInterrupt
        done.append(requests)
        return sample(self, requests)

    command += ["--out", tmp_path / "m.json"]
    with monkeypatch.context() as patch:
        patch.setattr(TransformersSampler, "sample", pressed)
        assert cli(*command)[:2] == (130, "")
    kept = num_kept(tmp_path / "m.games.jsonl")
    whole = Evaluation.load(tmp_path / "whole.json").records
    assert 8 <= kept < len(whole)
    (model / "model.safetensors").touch()
    code, _, err = cli(*command)
    assert (code, "m.games.jsonl" in err) == (2, True), "these may be other weights"
    shutil.copystat(finished_run / "sft" / "model.safetensors", model / "model.safetensors")
    code, _, err = cli(*command)
    assert (code, f"{kept} of {len(whole)} games" in err) == (0, True)
    records = Evaluation.load(tmp_path / "m.json").records
    assert [record.secret for record in records] == [record.secret for record in whole]
    assert records[:8] == whole[:8]
    assert temperature or records == whole
    assert not list(tmp_path.glob("*.games.jsonl"))


def test_games_of_weights_that_are_gone_are_forgotten_in_a_run(tmp_path: Path, small_words) -> None:
    path = tmp_path / "sft.games.jsonl"
    held = journal_of(path, {"weights": "old"})
    keep(stopping(small_words), small_words, ["crane"], held)
    for weights, kept in (("old", 1), ("new", 0)):
        held.close()
        held = journal_of(path, {"weights": weights})
        assert len(held.games) == kept
