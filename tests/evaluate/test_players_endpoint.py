"""Laws of `wordle-rl eval --player openai:MODEL`, against a small server on this machine."""

import csv
import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, Answer, FakeEndpoint, chat

from wordle_rl.evaluate import Evaluation, Journal
from wordle_rl.samplers.endpoint.providers import PROVIDERS, Provider
from wordle_rl.words.split import Split

InitialState = Callable[[Callable[[int, dict], Answer]], FakeEndpoint]


def arguments(endpoint: FakeEndpoint, words: Path, *more: object) -> list[object]:
    return ["eval", "--player", "openai:org/m", "--base-url", endpoint.url, "--words", words, "--split", "test", *more]


def first_word(split: Split) -> Callable[[int, dict], Answer]:
    """A player that opens with the first secret of the test split, and goes on with it."""
    return lambda *_: chat(f"<guess>{split.test[0]}</guess>")


def test_an_evaluation_is_written_as_json_and_csv_and_read_by_compare(
    cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    endpoint = serve(first_word(split))
    json_file, csv_file = tmp_path / "m.json", tmp_path / "m.csv"
    code, out, err = cli(*arguments(endpoint, word_directory, "--out", json_file, "--csv", csv_file, "--json"))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["player"], found["num_games"], found["num_errors"]) == ("openai:org/m", len(split.test), 0)
    assert found["win_rate"] == 1 / len(split.test)
    assert found["mean_regret"] > 0
    kept = Evaluation.load(json_file)
    assert [record.secret for record in kept.records] == list(split.test)
    assert (kept.name, kept.records[0].won, kept.records[0].turns[0].regret is None) == ("m", True, False)
    rows = list(csv.DictReader(io.StringIO(csv_file.read_text())))
    assert [(row["secret"], row["split"]) for row in rows] == [(secret, "test") for secret in split.test]
    code, out, err = cli("compare", json_file, csv_file)
    assert (code, out) == (2, "")
    assert f"{csv_file} is no evaluation" in err


def test_a_served_model_is_shown_by_its_alias_and_asked_for_by_its_name(
    cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    endpoint = serve(first_word(split))
    name = "openai:mine=runs/quick/grpo"
    asked = [name if each == "openai:org/m" else each for each in arguments(endpoint, word_directory)]
    code, out, err = cli(*asked, "--out", tmp_path / "m.json", "--max-games", 1)
    assert code == 0, err
    assert {body["model"] for body in endpoint.requests} == {"runs/quick/grpo"}
    kept = Evaluation.load(tmp_path / "m.json")
    assert (kept.name, kept.player) == ("mine", "openai:mine=runs/quick/grpo"), "the file keeps both"
    assert "mine" in out
    for name in ("openai:=m", "openai:mine="):
        code, _, err = cli("eval", "--player", name, "--base-url", endpoint.url, "--words", word_directory)
        assert code == 2
        assert "give ALIAS=MODEL, or MODEL alone" in err


@pytest.mark.parametrize("thinking", ["required", "optional", "off"])
def test_thinking_sent_apart_loses_no_game(thinking: str, cli, serve: InitialState, word_directory, split) -> None:
    endpoint = serve(lambda *_: chat(f"<guess>{split.test[0]}</guess>", reasoning_content="why"))
    code, out, err = cli(*arguments(endpoint, word_directory, "--thinking", thinking, "--max-games", 1, "--json"))
    assert (code, json.loads(out)["win_rate"]) == (0, 1.0), err


def test_the_same_command_plays_only_what_is_missing(
    cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    ill = True

    def answer(number: int, body: dict) -> Answer:
        return (400, {"error": {"message": "ill"}}) if ill and number in (0, 7, 20) else chat("<guess>zzzzz</guess>")

    endpoint = serve(answer)
    command = arguments(endpoint, word_directory, "--out", tmp_path / "m.json", "--no-regret", "--concurrency", 1)
    code, _, err = cli(*command, "--max-failures", 0)
    errors = Evaluation.load(tmp_path / "m.json").figures().num_errors
    assert code == 0
    assert 0 < errors < len(split.test)
    assert f"{errors} games could not be played" in err
    assert "BadRequestError" in err
    assert "the same command plays them again" in err
    ill, before = False, len(endpoint.requests)
    code, _, err = cli(*command, "--max-failures", 0)
    assert (code, Evaluation.load(tmp_path / "m.json").figures().num_errors) == (0, 0)
    assert f"{len(split.test) - errors} of {len(split.test)} games are kept from before" in err
    assert len(endpoint.requests) - before == 6 * errors
    before = len(endpoint.requests)
    assert cli(*command)[0] == 0
    assert len(endpoint.requests) == before, "nothing is missing any more"
    code, out, err = cli(*command, "--temperature", 0.5)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "m.json holds an evaluation of openai:org/m, this would be" in err
    assert "with temperature 0.5 instead of 0;" in err
    (tmp_path / "m.json").unlink()
    code, out, err = cli(*command, "--temperature", 0.5)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "m.games.jsonl holds games with temperature 0.0, not 0.5" in err
    assert cli(*command, "--temperature", 0.5, "--overwrite")[0] == 0
    assert len(endpoint.requests) == before + 6 * len(split.test)


def test_the_key_and_the_user_of_an_address_are_not_kept(
    cli, serve: InitialState, word_directory, split, tmp_path
) -> None:
    endpoint = serve(first_word(split))
    endpoint.url = endpoint.url.replace("http://", "http://me:hidden@") + "?token=hidden"
    cli(*arguments(endpoint, word_directory, "--out", tmp_path / "m.json", "--max-games", 1))
    kept = (tmp_path / "m.games.jsonl").read_text()
    assert '"base_url":"http://127.0.0.1:' in kept
    assert "hidden" not in kept
    assert os.environ["OPENAI_API_KEY"] not in kept


def test_a_key_from_a_file_is_sent_to_its_provider_and_found_nowhere_else(
    cli, serve: InitialState, word_directory, split, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    endpoint = serve(lambda *_: chat(f"{KEY} <guess>{split.test[0]}</guess>"))
    named = Provider(endpoint.url, "TOGETHER_API_KEY", limit_name="max_completion_tokens")
    monkeypatch.setitem(PROVIDERS, "together", named)
    command = ["eval", "--player", "openai:m", "--provider", "together", "--words", word_directory, "--split", "test"]
    command += ["--out", "m.json", "--csv", "m.csv", "--max-games", 2, "--max-completion-tokens", 9, "--no-regret"]
    code, _, err = cli(*command)
    assert (code, err) == (
        2,
        "error: together needs a key; set TOGETHER_API_KEY, or write TOGETHER_API_KEY=… into .env\n",
    )
    (tmp_path / ".env").write_text(f"TOGETHER_API_KEY={KEY}\n")
    code, out, err = cli(*command)
    assert code == 0, err
    assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    assert {body["max_completion_tokens"] for body in endpoint.requests} == {9}
    assert KEY not in out + err
    assert f'"base_url":"{endpoint.url}"' in (tmp_path / "m.games.jsonl").read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".env"]
    assert not [path for path in files if KEY in path.read_text(errors="replace")]


def test_drawing_can_be_left_to_the_endpoint(cli, serve: InitialState, word_directory, split, tmp_path: Path) -> None:
    endpoint = serve(first_word(split))
    command = arguments(endpoint, word_directory, "--out", tmp_path / "m.json", "--max-games", 1, "--no-regret")
    assert cli(*command, "--temperature", "None")[0] == 0
    assert not {"temperature", "top_p"} & set(endpoint.requests[0])
    assert '"temperature":null,"top_p":null' in (tmp_path / "m.games.jsonl").read_text()
    assert Evaluation.load(tmp_path / "m.json").conditions.temperature is None
    assert (
        "with temperature 0 instead of the endpoint's own, with top_p 1 instead of the endpoint's own;"
        in cli(*command)[2]
    )
    (tmp_path / "m.json").unlink()
    assert "with temperature null, not 0.0" in cli(*command)[2]
    code, _, err = cli("eval", "--player", "solver", "--words", word_directory, "--temperature", "None")
    assert (code, err) == (2, "error: --temperature None is for openai:MODEL; give solver a number, 0 is greedy\n")


def test_each_seed_of_a_sampled_endpoint_is_a_replication(
    cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    endpoint = serve(first_word(split))
    command = arguments(endpoint, word_directory, "--temperature", 1, "--max-games", 2, "--no-regret")
    for seed in (1, 2):  # names that differ in what looks like a suffix
        before = len(endpoint.requests)
        assert cli(*command, "--seed", seed, "--out", tmp_path / f"rep.{seed}")[0] == 0
        assert len(endpoint.requests) > before, "the games of one replication are not those of another"
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {"rep.1.games.jsonl", "rep.2.games.jsonl"}
    assert "with seed 2 instead of 1;" in cli(*command, "--seed", 2, "--out", tmp_path / "rep.1")[2]
    (tmp_path / "rep.1").unlink()
    assert "holds games with seed 1, not 2" in cli(*command, "--seed", 2, "--out", tmp_path / "rep.1")[2]
    before = len(endpoint.requests)
    assert cli(*command, "--seed", 1, "--out", tmp_path / "rep.1")[0] == 0
    assert len(endpoint.requests) == before


@pytest.mark.parametrize(
    "bound", [("--timeout-s", 0.1, "--game-timeout-s", 0.3), ("--max-minutes", 0.01), ("--game-timeout-s", 0.3)]
)
def test_a_stuck_server_is_left_in_time_and_told_in_one_line(
    bound, cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    def stuck(*_: object) -> Answer:
        time.sleep(30)
        return chat("late")

    started = time.perf_counter()
    command = arguments(serve(stuck), word_directory, "--out", tmp_path / "m.json", "--csv", tmp_path / "m.csv", *bound)
    code, out, err = cli(*command)
    assert time.perf_counter() - started < 20
    assert (code, out) == (2, "")
    assert err.startswith("error: no game could be played: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "m.json").exists()
    assert not (tmp_path / "m.csv").exists()


def test_what_a_dying_server_still_played_is_reported(
    cli, serve: InitialState, word_directory, split, tmp_path
) -> None:
    def dying(number: int, _body: dict) -> Answer:
        if number >= 12:
            time.sleep(30)
        return chat("<guess>zzzzz</guess>")

    command = arguments(serve(dying), word_directory, "--concurrency", 1, "--max-minutes", 0.05, "--no-regret")
    started = time.perf_counter()
    code, out, err = cli(*command, "--out", tmp_path / "m.json", "--json")
    assert time.perf_counter() - started < 20
    found = json.loads(out)
    assert (code, found["num_games"], found["num_errors"]) == (0, 2, len(split.test) - 2)
    assert "not finished within 0.05 minutes" in err


def test_a_file_that_another_evaluation_writes_is_refused_before_any_game(
    cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    endpoint = serve(first_word(split))
    command = arguments(endpoint, word_directory, "--out", tmp_path / "m.json", "--max-games", 1)
    with closing(Journal(tmp_path / "m.games.jsonl", {"mine": True})):
        for more in ((), ("--overwrite",)):
            code, out, err = cli(*command, *more)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert "m.games.jsonl is being written by another process" in err
    assert not endpoint.requests
    assert (tmp_path / "m.games.jsonl").read_text() == '{"settings":{"mine":true}}\n'
    assert cli(*command, "--overwrite")[0] == 0


@pytest.mark.parametrize("option", ["--out", "--csv"])
def test_a_file_that_cannot_be_written_is_refused_before_any_game(
    option: str, cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    endpoint = serve(first_word(split))
    (tmp_path / "taken").write_text("mine")
    for place in (tmp_path, tmp_path / "taken" / "m.json"):
        code, out, err = cli(*arguments(endpoint, word_directory, option, place))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "cannot be written" in err
    assert not endpoint.requests


def test_a_table_of_something_else_is_refused_before_any_game(
    cli, serve: InitialState, word_directory, split, tmp_path: Path
) -> None:
    endpoint = serve(first_word(split))
    table = tmp_path / "m.csv"
    table.write_text("secret,turns\nmine,6\n")
    command = arguments(endpoint, word_directory, "--csv", table, "--no-regret")
    code, out, err = cli(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "name another --csv" in err
    assert table.read_text() == "secret,turns\nmine,6\n"
    assert not endpoint.requests
    table.unlink()
    assert [cli(*command)[0] for _ in range(2)] == [0, 0]


def test_ctrl_c_keeps_the_finished_games(cli, serve: InitialState, word_directory, split, tmp_path: Path) -> None:
    ill = True

    def answer(number: int, _body: dict) -> Answer:
        if ill and number >= 12:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(30)
        return chat("<guess>zzzzz</guess>")

    endpoint = serve(answer)
    command = arguments(endpoint, word_directory, "--out", tmp_path / "m.json", "--no-regret", "--concurrency", 1)
    started = time.perf_counter()
    code, out, err = cli(*command)
    assert time.perf_counter() - started < 20
    assert (code, out) == (130, "")
    assert "the same command resumes" in err
    assert len((tmp_path / "m.games.jsonl").read_text().splitlines()) == 1 + 2
    ill, before = False, len(endpoint.requests)
    assert cli(*command)[0] == 0
    assert len(endpoint.requests) - before == 6 * (len(split.test) - 2)
    assert Evaluation.load(tmp_path / "m.json").figures().num_games == len(split.test)
