"""Laws of runs that start groups from the boards of a file: played as given, resumed as begun, nothing held out."""

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import begun, rows, write_config

from wordle_rl.config import ConfigError, RunConfig, load_config
from wordle_rl.game import score_guess
from wordle_rl.pipeline import Pipeline
from wordle_rl.preflight.report import preflight
from wordle_rl.runs import Run, write_jsonl
from wordle_rl.runs.lineage import audit
from wordle_rl.train import starts_file
from wordle_rl.words.split import split_secrets

QUIET = Console(quiet=True)


def board(secret: str, *guesses: str) -> dict[str, object]:
    return {"word": secret, "turns": [{"guess": guess, "feedback": "GGGGG"} for guess in guesses]}


@pytest.fixture
def file(sixty, tmp_path: Path) -> Path:
    """Thirty boards of training secrets with two guesses, whose marks are wrong, and rows to be left out."""
    split = split_secrets(sixty)
    first, second = sixty.outside[:2]
    sound = [board(secret, first, second) for secret in split.train[:30]]
    others = [board(secret, first) for secret in (*split.val, *split.test[:2], sixty.outside[3])]
    path = tmp_path / "starts.jsonl"
    write_jsonl(path, [*others, *sound, board(split.train[0], *[split.train[0]] * 2), board(split.train[0], "zzzzz")])
    return path


def settings(tmp_path: Path, words: Path, file: Path, algorithm: str = "grpo", **changes: str):
    rounds = {"rounds": "2", "groups_per_round": "4", "group_size": "2"}
    for name in ("expert_iteration", "dpo", "distill"):
        changes |= {f"{name}__{key}": value for key, value in rounds.items()}
    changes |= {"rl.starts__file": f"'{file}'", "algorithm": f"'{algorithm}'"}
    return load_config(write_config(tmp_path / "mini.toml", words, eval__max_games="1", **changes))


@pytest.fixture(autouse=True)
def all_from_boards(monkeypatch) -> None:
    """Every group starts from a board of the file, where half of them do by default."""
    monkeypatch.setattr(starts_file, "_BOARD_FRACTION", 1.0)


def given_in(game: dict) -> tuple[tuple[str, str], ...]:
    return tuple((turn["guess"], turn["marks"]) for turn in game["turns"] if turn.get("given"))


def training_games(run: Path, stage: str) -> list[dict]:
    return [row for row in rows(run / "games.jsonl") if row["stage"] == stage]


@pytest.mark.parametrize("algorithm", ["grpo", "expert_iteration", "dpo", "distill"])
def test_groups_of_every_algorithm_start_at_the_boards_of_a_file(
    algorithm, finished_run, word_directory, sixty, file, tmp_path, capsys
) -> None:
    config, split = settings(tmp_path, word_directory, file, algorithm), split_secrets(sixty)
    run = begun(config, tmp_path / "run", finished_run)
    Pipeline(config, run, Console(width=300, force_terminal=False))(algorithm)
    outside = int(algorithm in ("dpo", "distill"))  # these learn without a win, GRPO for wins alone
    left_out = [f"{len(split.val)} val_secret", "2 test_secret", "1 already_won", "1 unlisted_guess"]
    left_out += [] if outside else ["1 outside_secret"]
    listed = ", ".join(sorted(left_out, key=lambda text: text.split()[1]))
    assert f"boards to start from in {file}: {30 + outside}; left out: {listed}\n" in capsys.readouterr().out
    games = training_games(run, algorithm)
    assert games
    for game in games:
        words = sixty.outside[: len(given_in(game))]
        assert given_in(game) == tuple((word, score_guess(game["secret"], word)) for word in words)
    assert sum(len(given_in(game)) == 2 for game in games) >= len(games) - outside
    drawn = {secret for row in rows(run / "secrets.jsonl") for secret in row["secrets"]}
    assert {game["secret"] for game in games} <= drawn
    assert drawn <= {*split.train[:30], *([sixty.outside[3]] if outside else [])}
    assert audit(run).clean
    assert [row["secret"] for row in rows(run / "boards.jsonl")][-30:] == list(split.train[:30])


@pytest.mark.parametrize(
    "changes",
    [
        {"grpo__turn_candidates": "2", "grpo__credit": '"guess"'},
        {"traces__rl_only_fraction": "0.5"},
        {"grpo__outside_rate": "1.0", "grpo.reward__weights": "{ quick_regret = -6.0 }"},
    ],
    ids=["candidates", "kept from the teacher", "outside"],
)
def test_boards_go_with_other_settings(changes, finished_run, word_directory, sixty, file, tmp_path) -> None:
    config = settings(tmp_path, word_directory, file, **changes)
    run = begun(config, tmp_path / "run", finished_run)
    Pipeline(config, run, QUIET)("grpo")
    games = training_games(run, "grpo")
    assert {len(given_in(game)) for game in games} <= {0, 1, 2}
    assert any(given_in(game) for game in games)
    assert audit(run).clean


def interrupted(directory: Path, config: RunConfig, monkeypatch) -> None:
    """Run up to Ctrl-C after the first step."""
    append = Run.append

    def interrupting(self, name, row) -> None:
        append(self, name, row)
        if name == "metrics.jsonl" and row["step"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "append", interrupting)
    with pytest.raises(KeyboardInterrupt):
        Pipeline(config, directory, QUIET)(config.algorithm)
    monkeypatch.setattr(Run, "append", append)


@pytest.mark.parametrize("algorithm", ["grpo", "distill"])
def test_a_resumed_run_draws_the_same_groups_even_if_the_file_is_gone(
    algorithm, finished_run, word_directory, file, tmp_path, monkeypatch
) -> None:
    config = settings(tmp_path, word_directory, file, algorithm, grpo__steps="3")
    whole, parts = (begun(config, tmp_path / name, finished_run) for name in ("whole", "parts"))
    Pipeline(config, whole, QUIET)(algorithm)
    interrupted(parts, config, monkeypatch)
    file.unlink()
    Pipeline(config, parts, QUIET)(algorithm)
    assert rows(parts / "secrets.jsonl") == rows(whole / "secrets.jsonl")
    assert training_games(parts, algorithm) == training_games(whole, algorithm)


def test_what_cannot_be_used_is_refused_before_anything_is_written(word_directory, sixty, file, tmp_path) -> None:
    for damage, error, message in (
        (lambda: None, None, ""),
        (lambda: file.write_text('{"name": "crane"}\n'), ConfigError, r"starts\.jsonl:1 "),
        (lambda: write_jsonl(file, [board(split_secrets(sixty).test[0])]), ConfigError, "line 1 .*test_secret"),
        (file.unlink, ConfigError, r"no file .*starts\.jsonl"),
    ):
        damage()
        config = settings(tmp_path, word_directory, file)
        found = [finding.message for finding in preflight(config, 0).findings if "starts" in finding.message]
        assert len(found) == 1
        if error is None:
            assert "30; left out" in found[0]
            continue
        with pytest.raises(error, match=message):
            Pipeline(config, tmp_path / "run", QUIET)()
        assert not (tmp_path / "run").exists()
    Pipeline(settings(tmp_path, word_directory, file), tmp_path / "run", QUIET)("traces")  # which needs no boards
