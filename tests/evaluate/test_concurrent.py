"""Laws of games that may be broken off, with a server or in this process: they always end, and resume as they were."""

import asyncio
import json
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import asked_of, opened

from wordle_rl.boards import InitialState
from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.journal import Journal, evaluate_to_file, open_journal
from wordle_rl.evaluate.play import evaluate, record_of
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Rules
from wordle_rl.policy.base import Ask, Completion, Request, run_async
from wordle_rl.policy.scripted import RandomSampler, SolverSampler
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Prompter, Style
from wordle_rl.runs import RunError
from wordle_rl.runs.jsonl_store import OtherSettingsError
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words


def num_kept(path: Path) -> int:
    return len(path.read_text().splitlines()) - 1


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


def play(server: Server, words: WordList, secrets: Sequence[str], journal=None, progress=None, **changes):
    """Have games played with this patience, which by default takes any number of failures."""
    patience = PatienceSettings(**{"concurrency": 4, "max_failures": 0} | changes)
    asked = asked_of(words, secrets, player=PlayerSpec(patience=patience))
    return evaluate(asked, opened(server), record_of, journal, progress)


@pytest.mark.parametrize("concurrency", [1, 3, 100])
@pytest.mark.parametrize("kind", [SolverSampler, RandomSampler])
def test_the_games_are_those_of_lockstep(kind, concurrency, small_words) -> None:
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

    together = evaluate(asked_of(small_words, secrets), opened(Lockstep()), record_of)
    Lockstep().begin()
    assert play(Server(answer), small_words, secrets, concurrency=concurrency) == together


def test_a_stuck_game_is_an_error_and_the_others_are_played(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return await (hangs if request.game_id == 0 and request.turns else wins)(request)

    evaluation = play(Server(answer), small_words, ["speed", "crane", "crane"], concurrency=1, game_timeout_s=0.1)
    stuck, *others = evaluation
    assert (stuck.failed, stuck.won) == (True, False)
    assert len(stuck.turns) == 1, "what was played of it is kept to look at"
    assert all(record.won for record in others)


def test_when_time_is_up_finished_games_stay_and_the_rest_are_errors(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return await (wins if request.game_id < 2 else hangs)(request)

    server = Server(answer)
    evaluation = play(server, small_words, ["crane"] * 9, concurrency=3, max_minutes=0.1 / 60)
    assert [record.won for record in evaluation] == [True, True] + [False] * 7
    assert sum(record.failed for record in evaluation) == 7
    assert not server.open


def test_an_endpoint_that_fails_game_after_game_is_left_alone(small_words) -> None:
    async def answer(request: Request) -> Completion:
        return says("crane") if request.game_id == 2 else Completion("", error="down")

    server = Server(answer)
    evaluation = play(server, small_words, ["crane"] * 50, concurrency=1, max_failures=4)
    assert server.asked == [0, 1, 2, 3, 4, 5, 6], "a finished game starts the count again"
    assert sum(record.failed for record in evaluation) == 49
    assert evaluation[-1].stop_reason is StopReason.REQUEST_FAILED
    assert len(play(server, small_words, ["crane"] * 9, max_failures=0)) == 9
    assert server.asked[7:] == list(range(9)), "without a bound every game is asked for"


def test_a_second_call_plays_only_what_is_missing(small_words, tmp_path: Path) -> None:
    async def failing(request: Request) -> Completion:
        return Completion("", error="down") if request.game_id in (1, 3) else says("speed")

    async def winning(request: Request) -> Completion:
        return says(["crane", "speed", "crane", "grape", "crane"][request.game_id])

    def games(server: Server, secrets: list[str], *progress: Callable) -> list[GameRecord]:
        journal = Journal(tmp_path / "new" / "eval.games.jsonl", SETTINGS)
        return play(server, small_words, secrets, journal, *progress)

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


def keep(sampler, words: WordList, secrets: Sequence[str], journal: Journal | None, name: str = "") -> list[GameRecord]:
    asked = asked_of(words, secrets, player=PlayerSpec(name), batch_size=10)
    return evaluate(asked, opened(sampler), record_of, journal)


@pytest.mark.parametrize("stop_at", [0, 3, 9])
def test_what_was_broken_off_goes_on_to_the_same_games(stop_at: int, small_words, tmp_path: Path) -> None:
    secrets = [*small_words.answers, *small_words.answers[:3]]
    whole = keep(stopping(small_words), small_words, secrets, None)
    path = tmp_path / "new" / "m.games.jsonl"
    journal = Journal(path, SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        keep(stopping(small_words, stop_at), small_words, secrets, journal)
    journal.close()
    journal, sampler = Journal(path, SETTINGS), stopping(small_words)
    kept = len(journal.games)
    assert kept == num_kept(path)
    assert (kept > 0) == (stop_at > 1)
    assert keep(sampler, small_words, secrets, journal) == whole
    assert sampler.num_games == len(secrets) - kept
    assert len(journal.games) == len(secrets)
    journal.discard()
    assert not path.exists()


@pytest.mark.parametrize(("stop_at", "kept"), [(2, 0), (4, 10)])
def test_drawn_games_are_kept_a_whole_batch_at_a_time(stop_at: int, kept: int, small_words, tmp_path: Path) -> None:
    """The quick wins of a batch alone would flatter the player."""
    journal = Journal(tmp_path / "m.games.jsonl", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        keep(stopping(small_words, stop_at), small_words, small_words.answers, journal, "random")
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


def test_games_of_another_evaluation_are_refused_and_in_a_run_forgotten(tmp_path: Path, small_words) -> None:
    def journal_for(rules: Rules, **where: object):
        return open_journal(
            tmp_path / "sft.json", asked_of(small_words, ["crane"], Prompter(rules=rules)), print, **where
        )

    with journal_for(Rules()) as held:
        keep(stopping(small_words), small_words, ["crane"], held)
    with journal_for(Rules()) as again:
        assert len(again.games) == 1
    with pytest.raises(OtherSettingsError, match="hard_mode"), journal_for(Rules(hard_mode=True)):
        pass
    with journal_for(Rules(hard_mode=True), in_run=True) as other:
        assert other.games == {}


def test_a_journal_goes_once_the_file_holds_all_of_its_games(small_words, tmp_path: Path) -> None:
    out, journal = tmp_path / "m.json", tmp_path / "m.games.jsonl"
    for secrets, left in ((["crane"], True), (["speed"], True), (["speed", "crane"], False)):
        asked = asked_of(small_words, secrets)
        with open_journal(out, asked, print) as held:
            if secrets == ["crane"]:  # and was stopped before the file was written
                keep(stopping(small_words), small_words, secrets, held)
            else:
                evaluate_to_file(asked, opened(stopping(small_words)), out, held)
        assert journal.exists() == left
    assert {record.secret for record in Evaluation.load(out).records} == {"crane", "speed"}


def greedy(**more: object) -> Asked:
    return asked_of(load_words(), ["crane"], **more)


def sampled(**more: object) -> PlayerSpec:
    settings = {"sampling": SamplingSettings(temperature=1.0), "base_url": "http://127.0.0.1/v1", **more}
    return PlayerSpec("openai:m", **settings)


OTHER_GAMES = {
    "reward": greedy(reward="shaped"),
    "boards": greedy(boards="0 to 4 consistent turns, seed 0"),
    "rules": greedy(prompter=Prompter(rules=Rules(hard_mode=True))),
    "style": greedy(prompter=Prompter(Style.SYMBOLS)),
    "system prompt": greedy(prompter=Prompter(system_prompt="Play.")),
    "player": greedy(player=PlayerSpec("solver")),
    "sampled": greedy(player=sampled()),
    "seed": greedy(player=sampled(seed=1)),
    "temperature": greedy(player=sampled(sampling=SamplingSettings(temperature=0.5))),
    "token limit": greedy(player=sampled(sampling=SamplingSettings(temperature=1.0, max_completion_tokens=9))),
    "address": greedy(player=sampled(base_url="http://127.0.0.1:8000/v1")),
    "endpoint's own": greedy(player=sampled(endpoint_default_sampling=True)),
    "model": greedy(player=PlayerSpec("m", model=ModelSettings(path="m"))),
    "type": greedy(player=PlayerSpec("m", model=ModelSettings(path="m", dtype="bfloat16"))),
    "engine": greedy(player=PlayerSpec("m", model=ModelSettings(path="m"), engine="vllm")),
    "constraint": greedy(player=PlayerSpec("m", model=ModelSettings(path="m"), constrain="words")),
}


def test_everything_that_a_game_depends_on_is_in_the_key_of_its_journal(small_words) -> None:
    keys = [json.dumps(asked.key(), sort_keys=True) for asked in (greedy(), *OTHER_GAMES.values())]
    assert len({*keys}) == len(keys)
    assert greedy().key() != asked_of(small_words, ["crane"]).key()


@pytest.mark.parametrize(
    "same",
    [
        greedy(name="b", parts=("train",), batch_size=3, regret=True),
        replace(greedy(), starts=[InitialState("speed")]),
        greedy(player=PlayerSpec(seed=4, patience=PatienceSettings(concurrency=2))),
    ],
)
def test_what_changes_no_game_is_in_no_key(same: Asked) -> None:
    assert same.key() == greedy().key()
