"""Laws of buying games by command: only what is missing, never a test secret by accident, and no key anywhere."""

import json
from pathlib import Path

import pytest

pytest.importorskip("openai")

from fake_endpoint import chat
from training_fixtures import rows

from wordle_rl.runs import exclusive_lock


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
    keys = [(row["secret"], row.get("seed", 0), row["teacher"]) for row in rows(Path("t.jsonl"))]
    assert sorted(keys) == sorted((secret, seed, "m") for secret in split.train[:4] for seed in (0, 1))
    asked = len(endpoint.requests)
    assert buy(endpoint, "--max-secrets", 4, "--games-per-word", 2)[0] == 0
    assert len(endpoint.requests) == asked


@pytest.mark.parametrize(
    ("other", "told"), [(("--game.hard-mode",), "game.hard_mode"), (("--max-completion-tokens", 5), "max_completion")]
)
def test_other_settings_make_other_games_and_want_another_file(other, told: str, serve, buy, split) -> None:
    endpoint = serve(guesser(split.train[0]))
    assert buy(endpoint, "--max-secrets", 1)[0] == 0
    for count in (1, 2):
        code, out, err = buy(endpoint, "--max-secrets", count, *other)
        assert (code, out, err.count("\n"), len(endpoint.requests)) == (2, "", 1, 1)
        assert told in err
    assert buy(endpoint, "--max-secrets", 1, "--model", "n", *other)[0] == 0, "another model may be asked otherwise"
    assert len(endpoint.requests) == 2
    code, _, err = buy(endpoint, "--max-secrets", 2, "--model", "n")
    assert code == 2
    assert "holds games of n" in err
    assert buy(endpoint, "--max-secrets", 1, "--max-concurrent", 3, "--games-per-word", 2)[0] == 0


def test_a_second_process_does_not_buy_into_the_same_file(serve, buy, split) -> None:
    endpoint = serve(guesser(split.train[0]))
    with exclusive_lock(Path(".t.jsonl.lock")):
        code, out, err = buy(endpoint, "--max-secrets", 1)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "t.jsonl" in err
        assert buy(endpoint, "--max-secrets", 1, "--out", "other.jsonl")[0] == 0
    assert not Path("t.jsonl").exists()
    assert len(endpoint.requests) == 1
    assert [buy(endpoint, "--max-secrets", 1)[0] for _ in range(2)] == [0, 0], "it is free again after each call"
    assert len(rows(Path("t.jsonl"))) == 1


def test_failed_games_are_kept_as_errors_and_played_again(serve, buy, cli, word_directory, split) -> None:
    endpoint = serve(lambda number, body: guesser(split.train[0])() if number else (400, {"error": {"message": "no"}}))
    code, out, err = buy(endpoint, "--max-secrets", 2, "--max-concurrent", 1, "--json")
    assert code == 0
    assert (json.loads(out)["num_games"], json.loads(out)["num_errors"], json.loads(out)["num_missing"]) == (1, 1, 1)
    assert "1 games failed" in err
    assert [row.get("error") is None for row in rows(Path("t.jsonl"))] == [False, True]
    _, out, _ = cli("dataset", "t.jsonl", "--words", word_directory, "--json")
    assert [json.loads(out)[name] for name in ("num_games", "num_wins", "num_errors")] == [1, 0, 1]
    assert buy(endpoint, "--max-secrets", 2)[0] == 0
    _, out, _ = cli("dataset", "t.jsonl", "--words", word_directory, "--json")
    assert [json.loads(out)[name] for name in ("num_games", "num_errors")] == [2, 0]
    assert buy(serve(lambda *_: (400, {"error": {"message": "no"}})), "--seed", 5, "--max-secrets", 2)[0] == 2


@pytest.mark.parametrize("unit", ["tokens", "money"])
def test_a_budget_counts_what_the_file_holds_of_the_same_games(unit: str, serve, buy, split) -> None:
    endpoint = serve(guesser())
    prices = ("--price-in", 1000, "--price-out", 1000)
    budget = {"tokens": ("--budget-tokens", 1320), "money": ("--budget-money", 1.32, *prices)}[unit]  # two games
    arguments = ("--max-secrets", 3, "--max-concurrent", 1, *budget)
    assert "1 games are still missing" in buy(endpoint, *arguments)[2]
    assert (len(rows(Path("t.jsonl"))), len(endpoint.requests)) == (2, 12)
    code, out, err = buy(endpoint, *arguments, "--json")
    assert (code, len(endpoint.requests)) == (0, 12), "nothing is bought twice"
    found = json.loads(out)
    assert (found["over_budget"], found["tokens_before"], found["prompt_tokens"]) == (True, 1320, 0)
    assert "1,320 tokens" in err
    buy(endpoint, *arguments, "--seed", 1)
    assert len(endpoint.requests) == 24, "games of other seeds have a budget of their own"


def test_a_budget_counts_games_that_failed(serve, buy) -> None:
    endpoint = serve(lambda number, _: guesser()() if number == 0 else (400, {"error": {"message": "no"}}))
    for budget, asked in ((120, 2), (110, 2), (120, 3)):
        buy(endpoint, "--max-secrets", 1, "--budget-tokens", budget)
        assert len(endpoint.requests) == asked


def test_test_secrets_are_played_only_if_asked_for(serve, buy, cli, word_directory, split) -> None:
    endpoint = serve(guesser(split.test[0]))
    for arguments in (("--split", "test"), ("--split", "all")):
        code, _, err = buy(endpoint, *arguments)
        assert code == 2
        assert "--allow-test-secrets" in err
    code, _, err = buy(endpoint, "--split", "strict")
    assert (code, "has no secret" in err) == (2, True)
    assert not endpoint.requests
    assert not Path("t.jsonl").exists()
    assert buy(endpoint, "--split", "test", "--max-secrets", 1, "--allow-test-secrets")[0] == 0
    assert {row["secret"] for row in rows(Path("t.jsonl"))} == {split.test[0]}
    _, out, _ = cli("dataset", "t.jsonl", "--out", "set", "--words", word_directory, "--json")
    assert json.loads(out)["rejected"]["test_secret"] == 1
    assert json.loads(out)["rows"]["sft_train"] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model", "solver"], "--model solver"),
        (["--provider", "grok"], "'grok'"),
        (["--provider", "together"], "TOGETHER_API_KEY"),
        (["--provider", "http://127.0.0.1:9/v1"], "no response from"),
        (["--budget-money", 1], "price_in"),
        (["--num-games", 5], "num_games is a setting of --teacher solver"),
        (["--teacher", "solver"], "provider is a setting of --teacher openai"),
        (["--out", "diary/t.jsonl"], "cannot write diary/t.jsonl"),
    ],
)
def test_a_wrong_input_is_one_line_before_anything_is_asked(arguments, named, serve, buy, monkeypatch) -> None:
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
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
    assert "t.jsonl" in err
    assert Path("t.jsonl").read_bytes() == before
