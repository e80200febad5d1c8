"""Laws of `wordle-rl eval --player openai:MODEL`, against a small server on this machine."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, Answer, FakeEndpoint, chat

from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.providers import PROVIDERS, Endpoint
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
    endpoint.url = endpoint.url.replace("http://", "http://me:hidden@") + "?token=hidden"
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
    games = (tmp_path / "m.games.jsonl").read_text()
    assert '"base_url":"http://127.0.0.1:' in games
    assert "hidden" not in games


def test_a_key_from_a_file_is_sent_to_its_provider_and_found_nowhere_else(
    cli, serve: InitialState, word_directory, split, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    endpoint = serve(lambda *_: chat(f"{KEY} <guess>{split.test[0]}</guess>"))
    named = Endpoint(endpoint.url, "TOGETHER_API_KEY", limit_name="max_completion_tokens")
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
    assert '"temperature":null' in (tmp_path / "m.games.jsonl").read_text()
    assert Evaluation.load(tmp_path / "m.json").conditions.temperature is None
    assert "the endpoint's own" in cli(*command)[2]
    assert cli("eval", "--player", "solver", "--words", word_directory, "--temperature", "None")[0] == 2


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
    (tmp_path / "rep.1").unlink()
    assert "holds games with seed 1, not 2" in cli(*command, "--seed", 2, "--out", tmp_path / "rep.1")[2]
