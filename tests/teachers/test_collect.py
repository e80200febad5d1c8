"""Laws of buying games by command: only what is missing, never a test secret by accident, and no key anywhere."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, chat
from training_fixtures import rows

from wordle_rl.config import LARGEST_SEED
from wordle_rl.runs import RunError, exclusive_lock

PROGRAM = [sys.executable, "-m", "wordle_rl.cli"]


@pytest.fixture
def buy(cli, word_directory, tmp_path: Path, monkeypatch):
    """`wordle-rl traces --teacher openai` into t.jsonl, from a directory of its own; exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def run(endpoint, *arguments: object) -> tuple[int, str, str]:
        url = getattr(endpoint, "url", endpoint)
        given = ("--out", "t.jsonl", "--words", word_directory, "--provider", url, "--model", "m", *arguments)
        return cli("traces", "--teacher", "openai", *given)

    return run


def guesser(word: str = "zzzzz"):
    return lambda *_: chat(f"<guess>{word}</guess>", usage=(100, 10))


def test_the_same_command_plays_only_what_is_missing(serve, buy, split) -> None:
    endpoint = serve(guesser(split.train[0]))
    code, out, err = buy(endpoint, "--max-secrets", 3, "--json")
    assert code == 0, err
    first = json.loads(out)
    assert (first["num_games"], first["num_wins"], first["num_before"], first["num_missing"]) == (3, 1, 0, 0)
    code, out, _ = buy(endpoint, "--max-secrets", 4, "--games-per-word", 2, "--json")
    assert (json.loads(out)["num_games"], json.loads(out)["num_before"]) == (5, 3)
    keys = [(row["secret"], row["seed"], row["teacher"]) for row in rows(Path("t.jsonl"))]
    assert sorted(keys) == sorted((secret, seed, "m") for secret in split.train[:4] for seed in (0, 1))
    asked = len(endpoint.requests)
    code, out, _ = buy(endpoint, "--max-secrets", 4, "--games-per-word", 2)
    assert (code, len(endpoint.requests)) == (0, asked)
    assert "8 were there" in out


def test_games_of_a_word_have_seeds_that_could_be_asked_for(serve, buy, split) -> None:
    largest = ("--max-secrets", 1, "--games-per-word", 3, "--seed", LARGEST_SEED)
    assert buy(serve(guesser(split.train[0])), *largest)[0] == 0
    assert sorted(row["seed"] for row in rows(Path("t.jsonl"))) == [0, 1, LARGEST_SEED]


def test_the_address_goes_by_two_names_of_which_one_is_given(serve, cli, word_directory, split, tmp_path: Path) -> None:
    endpoint = serve(guesser(split.train[0]))
    path = tmp_path / "t.jsonl"
    address = ("--base-url", endpoint.url)
    teacher = ("traces", "--out", path, "--words", word_directory, "--teacher")
    asked = (*teacher, "openai", "--model", "m", "--max-secrets", 1, *address)
    for refused, named in {
        (*asked, "--provider", endpoint.url): "--provider and --base-url both name",
        (*asked, "--provider", "local"): "--provider and --base-url both name",
        (*teacher, "solver", *address): "--base-url is for --teacher openai",
    }.items():
        code, out, err = cli(*refused)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert named in err
    assert not path.exists()
    assert not endpoint.requests
    assert cli(*asked)[0] == 0
    assert len(rows(path)) == 1


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (("--game.hard-mode",), "game.hard_mode False there, True here"),
        (("--temperature", 1.5), "temperature None there, 1.5 here"),
        (("--top-p", 0.5, "--game.max-turns", 3), "top_p None there, 0.5 here, game.max_turns 6 there, 3 here"),
        (("--game.style", "symbols"), "game.style english there, symbols here"),
        (("--max-completion-tokens", 5), "max_completion_tokens 4096 there, 5 here"),
    ],
)
def test_other_settings_make_other_games_and_want_another_file(other, told: str, serve, buy, split) -> None:
    endpoint = serve(guesser(split.train[0]))
    assert buy(endpoint, "--max-secrets", 1)[0] == 0
    for count in (1, 2):
        code, out, err = buy(endpoint, "--max-secrets", count, *other)
        assert (code, out, err.count("\n"), len(endpoint.requests)) == (2, "", 1, 1)
        assert f"t.jsonl holds games of m by other settings ({told}); name another --out" in err
    assert buy(endpoint, "--max-secrets", 1, "--model", "n", *other)[0] == 0, "another model may be asked otherwise"
    assert len(endpoint.requests) == 2
    code, _, err = buy(endpoint, "--max-secrets", 2, "--model", "n")
    assert code == 2
    assert "holds games of n" in err
    assert buy(endpoint, "--max-secrets", 1, "--max-concurrent", 3, "--games-per-word", 2)[0] == 0


def test_a_teacher_under_an_alias_is_named_by_it_and_stays_the_same_model(serve, buy, split) -> None:
    endpoint = serve(guesser(split.train[0]))
    assert buy(endpoint, "--max-secrets", 1, "--model", "mine=org/large")[0] == 0
    assert [body["model"] for body in endpoint.requests] == ["org/large"] * len(endpoint.requests)
    assert [row["teacher"] for row in rows(Path("t.jsonl"))] == ["mine"]
    code, _, err = buy(endpoint, "--max-secrets", 2, "--model", "mine=org/small")
    assert code == 2
    assert "t.jsonl holds games of mine by other settings (model org/large there, org/small here)" in err
    code, _, err = buy(endpoint, "--max-secrets", 2, "--model", "solver=org/small")
    assert code == 2
    assert "would pass for the solver's own" in err


def test_games_of_another_word_list_want_another_file(serve, buy, split, small_words, tmp_path: Path) -> None:
    endpoint = serve(guesser(split.train[0]))
    assert buy(endpoint, "--max-secrets", 1)[0] == 0
    code, _, err = buy(endpoint, "--max-secrets", 1, "--words", "default")
    assert code == 2
    assert "t.jsonl holds games of m by other settings (words " in err


def test_only_games_that_are_there_hold_a_command_to_their_settings(serve, buy, split) -> None:
    record = Path("t.jsonl.settings.json")
    refused = serve(lambda *_: (400, {"error": {"message": "no temperature"}}))
    assert buy(refused, "--max-secrets", 1, "--temperature", 1)[0] == 2
    assert not record.exists(), "a game that failed is none"
    endpoint = serve(guesser(split.train[0]))
    assert buy(endpoint, "--max-secrets", 1)[0] == 0
    assert list(json.loads(record.read_text())) == ["m"]
    assert KEY not in record.read_text()
    assert "127.0.0.1" not in record.read_text()
    Path("t.jsonl").unlink()
    assert buy(endpoint, "--max-secrets", 1, "--temperature", 1)[0] == 0, "the games of the record are gone"
    assert json.loads(record.read_text())["m"]["temperature"] == 1


def test_a_file_without_a_record_of_settings_gets_one(serve, buy, split) -> None:
    endpoint, record = serve(guesser(split.train[0])), Path("t.jsonl.settings.json")
    assert buy(endpoint, "--max-secrets", 1)[0] == 0
    before = record.read_text()
    record.unlink()
    assert buy(endpoint, "--max-secrets", 2)[0] == 0
    assert record.read_text() == before
    for odd in ("[1]", "{", '{"m": 5}'):
        record.write_text(odd)
        code, _, err = buy(endpoint, "--max-secrets", 2)
        assert code == 2
        assert "t.jsonl.settings.json is no record of settings" in err


def test_words_of_a_file_with_a_byte_order_mark_are_read(serve, buy, split) -> None:
    Path("words.txt").write_text(f"{split.train[0]}\n", encoding="utf-8-sig")
    assert buy(serve(guesser(split.train[0])), "--words-file", "words.txt")[0] == 0
    assert [row["secret"] for row in rows(Path("t.jsonl"))] == [split.train[0]]


def test_a_second_process_does_not_buy_into_the_same_file(serve, buy, split) -> None:
    endpoint = serve(guesser(split.train[0]))
    with exclusive_lock(Path(".t.jsonl.lock")):
        code, out, err = buy(endpoint, "--max-secrets", 1)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "t.jsonl.lock is being written by another process" in err
        assert buy(endpoint, "--max-secrets", 1, "--out", "other.jsonl")[0] == 0
    assert not Path("t.jsonl").exists()
    assert len(endpoint.requests) == 1
    assert [buy(endpoint, "--max-secrets", 1)[0] for _ in range(2)] == [0, 0], "it is free again after each call"
    assert len(rows(Path("t.jsonl"))) == 1


def test_the_file_is_kept_while_games_are_bought(serve, buy, split) -> None:
    refused = []

    def answer(*_: object):
        with pytest.raises(RunError, match="another process"), exclusive_lock(Path(".t.jsonl.lock")):
            pass
        refused.append(True)
        return guesser(split.train[0])()

    assert buy(serve(answer), "--max-secrets", 1)[0] == 0
    assert refused == [True]


def test_failed_games_are_kept_as_errors_and_played_again(serve, buy, cli, word_directory, split) -> None:
    endpoint = serve(lambda number, body: guesser(split.train[0])() if number else (400, {"error": {"message": "no"}}))
    code, out, err = buy(endpoint, "--max-secrets", 2, "--max-concurrent", 1, "--json")
    assert code == 0
    assert (json.loads(out)["num_games"], json.loads(out)["num_errors"], json.loads(out)["num_missing"]) == (1, 1, 1)
    assert "failed and are no losses" in err
    assert [row.get("error") is None for row in rows(Path("t.jsonl"))] == [False, True]
    code, out, _ = cli("dataset", "t.jsonl", "--words", word_directory, "--json")
    found = json.loads(out)
    assert (found["num_games"], found["num_wins"], found["num_errors"]) == (1, 0, 1)
    assert buy(endpoint, "--max-secrets", 2)[0] == 0
    _, out, _ = cli("dataset", "t.jsonl", "--words", word_directory, "--json")
    assert (json.loads(out)["num_games"], json.loads(out)["num_errors"]) == (2, 0)
    code, _, err = buy(serve(lambda *_: (400, {"error": {"message": "no"}})), "--seed", 5, "--max-secrets", 2)
    assert code == 2
    assert "no game could be played" in err


def test_a_budget_is_said_and_what_is_finished_is_kept(serve, buy, split) -> None:
    arguments = ("--max-secrets", 5, "--max-concurrent", 1, "--price-in", 1000, "--price-out", 10_000)
    code, out, err = buy(serve(guesser()), *arguments, "--budget-money", 1.9)
    assert code == 0
    assert "budget is used up: 4 games are still to be played" in err
    assert "cost 2.0000" in out
    assert len(rows(Path("t.jsonl"))) == 1
    assert all(turn["outcome"] == "unlisted" for turn in rows(Path("t.jsonl"))[0]["turns"])


@pytest.mark.parametrize("unit", ["tokens", "money"])
def test_a_budget_counts_what_the_file_holds_of_the_same_games(unit: str, serve, buy, split) -> None:
    endpoint = serve(guesser())
    prices = ("--price-in", 1000, "--price-out", 1000)
    budget = {"tokens": ("--budget-tokens", 1320), "money": ("--budget-money", 1.32, *prices)}[unit]  # two games
    arguments = ("--max-secrets", 3, "--max-concurrent", 1, *budget)
    assert "1 games are still to be played\n" in buy(endpoint, *arguments)[2]
    assert (len(rows(Path("t.jsonl"))), len(endpoint.requests)) == (2, 12)
    code, out, err = buy(endpoint, *arguments, "--json")
    assert (code, len(endpoint.requests)) == (0, 12), "nothing is bought twice"
    found = json.loads(out)
    assert (found["over_budget"], found["tokens_before"], found["prompt_tokens"]) == (True, 1320, 0)
    assert "1 games are still to be played; 1,320 tokens of it by earlier calls" in err
    buy(endpoint, *arguments, "--seed", 1)
    assert len(endpoint.requests) == 24, "games of other seeds have a budget of their own"


def test_a_budget_counts_games_that_failed(serve, buy) -> None:
    endpoint = serve(lambda number, _: guesser()() if number == 0 else (400, {"error": {"message": "no"}}))
    for budget, asked in ((120, 2), (110, 2), (120, 3)):
        buy(endpoint, "--max-secrets", 1, "--budget-tokens", budget)
        assert len(endpoint.requests) == asked


def test_a_table_per_word_can_be_had_and_analysed(serve, buy, cli, word_directory, split) -> None:
    assert buy(serve(guesser(split.train[1])), "--max-secrets", 2, "--csv", "tables")[0] == 0
    assert {p.name for p in Path("tables").iterdir()} == {f"wordle_data_{w.upper()}.csv" for w in split.train[:2]}
    found = [json.loads(cli("dataset", path, "--words", word_directory, "--json")[1]) for path in ("t.jsonl", "tables")]
    assert found[0] == found[1]
    assert found[0]["num_wins"] == 1
    code, out, _ = cli("dataset", "tables", "--out", "set", "--words", word_directory, "--json")
    assert code == 0
    assert json.loads(out)["rows"]["sft_train"] == 1


def test_test_secrets_are_played_only_if_asked_for(serve, buy, cli, word_directory, split) -> None:
    endpoint = serve(guesser(split.test[0]))
    Path("words.txt").write_text(f"{split.train[0]}\n{split.test[0].upper()}\n")
    for arguments in (("--split", "test"), ("--split", "all"), ("--words-file", "words.txt")):
        code, _, err = buy(endpoint, *arguments)
        assert code == 2
        assert "--allow-test-secrets" in err
    assert not endpoint.requests
    assert not Path("t.jsonl").exists()
    assert buy(endpoint, "--words-file", "words.txt", "--allow-test-secrets")[0] == 0
    assert {row["secret"] for row in rows(Path("t.jsonl"))} == {split.train[0], split.test[0]}
    _, out, _ = cli("dataset", "t.jsonl", "--out", "set", "--words", word_directory, "--json")
    assert json.loads(out)["rejected"]["test_secret"] == 1
    assert json.loads(out)["rows"]["sft_train"] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model", ""], "--model"),
        (["--model", "solver"], "would pass for the solver's own"),
        (["--words-file", "odd.txt", "--split", "val"], "--split val and --words-file both choose"),
        (["--provider", "grok"], "no provider"),
        (["--provider", "together"], "TOGETHER_API_KEY"),
        (["--provider", "http://127.0.0.1:9/v1"], "no response from"),
        (["--words-file", "none.txt"], "none.txt"),
        (["--words-file", "odd.txt"], "not in word list"),
        (["--words-file", "empty.txt"], "holds no words"),
        (["--budget-money", 1], "price_in"),
        (["--num-games", 5], "num_games is a setting of --teacher solver"),
        (["--teacher", "solver"], "provider is a setting of --teacher openai"),
        (["--out", "diary"], "diary"),
        (["--out", "diary/t.jsonl"], "cannot write diary/.t.jsonl.lock"),
    ],
)
def test_a_wrong_input_is_one_line_before_anything_is_asked(arguments, named, serve, buy, monkeypatch) -> None:
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    Path("odd.txt").write_text("klingon\n")
    Path("empty.txt").write_text("\n")
    Path("diary").write_text("dear diary")
    endpoint = serve(guesser())
    code, out, err = buy(endpoint, *arguments)
    assert (code, out, endpoint.requests) == (2, "", [])
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert named in err
    assert not Path("t.jsonl").exists()
    assert Path("diary").read_text() == "dear diary"


def test_the_solver_never_overwrites_bought_games(serve, buy, cli, word_directory) -> None:
    assert buy(serve(guesser()), "--max-secrets", 1)[0] == 0
    before = Path("t.jsonl").read_bytes()
    code, _, err = cli("traces", "--out", "t.jsonl", "--words", word_directory, "--num-games", 5)
    assert code == 2
    assert "cost money" in err
    assert Path("t.jsonl").read_bytes() == before
    assert cli("traces", "--out", "s.jsonl", "--words", word_directory, "--num-games", 5)[0] == 0
    assert cli("traces", "--out", "s.jsonl", "--words", word_directory, "--num-games", 6)[0] == 0


def test_a_key_from_a_file_is_sent_and_found_nowhere_else(serve, buy, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    Path(".env").write_text(f"export OPENAI_API_KEY='{KEY}'\n")
    replies = [(400, {"error": {"message": f"bad {KEY}"}}), chat(f"{KEY} <guess>crane</guess>"), (401, {"key": KEY})]
    endpoint = serve(lambda number, _: replies[min(number, 2)])
    code, out, err = buy(endpoint, "--max-secrets", 4, "--max-concurrent", 1, "--csv", "tables")
    assert code == 2
    assert "refused" in err
    assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    assert KEY not in out + err
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".env"]
    assert "(key)" in Path("t.jsonl").read_text()
    assert not [path for path in files if KEY in path.read_text(errors="replace")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_keeps_its_games_and_goes_on(how, serve, buy, split, word_directory) -> None:
    def slow(*_: object):
        time.sleep(0.05)
        return guesser()()

    endpoint = serve(slow)
    arguments = ["--words", str(word_directory), "--provider", endpoint.url, "--model", "m", "--max-secrets", "8"]
    command = [*PROGRAM, "traces", "--teacher", "openai", "--out", "t.jsonl", *arguments, "--max-concurrent", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (Path("t.jsonl").is_file() and Path("t.jsonl").stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -9), err
    assert "Traceback" not in err
    before = rows(Path("t.jsonl"))
    assert 1 <= len(before) < 8
    with Path("t.jsonl").open("a") as file:
        file.write('{"secret":"cra')
    endpoint.answer = guesser()
    code, _, err = buy(endpoint, "--max-secrets", 8)
    assert code == 0
    assert "middle of a line" in err
    after = rows(Path("t.jsonl"))
    assert after[: len(before)] == before
    assert {row["secret"] for row in after} == set(split.train[:8])
    assert len(after) == 8
