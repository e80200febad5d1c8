"""Laws of runs on data of one's own: secrets, validation, conversations and boards from files; nothing held out."""

import os
import re
import signal
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from training_fixtures import begun, compact, rows, write_config

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.evaluate.strata import strata_of_run
from wordle_rl.game import score_guess
from wordle_rl.pipeline import Pipeline
from wordle_rl.preflight.report import preflight
from wordle_rl.runs import Run, write_jsonl
from wordle_rl.runs.lineage import audit
from wordle_rl.train import starts_file

QUIET = Console(quiet=True)


def settings(tmp_path: Path, words: Path, **changes: str):
    small = {"traces__num_games": "40", "eval__max_games": "1", "grpo__steps": "2"}
    return load_config(write_config(tmp_path / "mini.toml", words, **small | changes))


def played(run: Path) -> set[str]:
    return {secret for row in rows(run / "secrets.jsonl") for secret in row["secrets"]}


@pytest.mark.parametrize("file", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_more_secrets_are_played_than_asked_for(file: bool, word_directory, split, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "own.txt").write_text("\n".join(split.train[10:20]))
    own = {"grpo.starts__file": f"'{tmp_path / 'own.txt'}'"} if file else {}
    Pipeline(settings(tmp_path, word_directory, grpo__max_secrets="3", **own), run, QUIET)("grpo")
    assert played(run) == {*(split.train[10:13] if file else split.train[:3])}


def test_checkpoints_are_selected_by_the_validation_file_alone(word_directory, split, tmp_path: Path) -> None:
    run, path = tmp_path / "run", tmp_path / "val.jsonl"
    wanted = (*split.train[:3], split.val[0])
    write_jsonl(path, [{"prompt": "p", "answer": word} for word in (*wanted, split.test[0], wanted[0], "zzzzz")])
    options = {"grpo__validation_file": f"'{path}'", "grpo__validate_every_steps": "1"}
    config = settings(tmp_path, word_directory, **options)
    assert preflight(config, 0).numbers is not None
    Pipeline(config, run, QUIET)("sft")
    path.unlink()  # what is resumed goes by what was kept
    Pipeline(config, run, QUIET)("grpo")
    assert [row["secret"] for row in rows(run / "validation_secrets.jsonl")] == list(wanted)
    shown = {row["secret"] for row in rows(run / "games.jsonl") if row["stage"] == "grpo/validation"}
    assert shown == {*wanted}
    taught = {row["secret"] for row in rows(run / "traces.jsonl")}
    assert not (taught | played(run)) & {*wanted}
    assert audit(run).clean
    with pytest.raises(ConfigError, match=r"val\.jsonl"):
        preflight(config, 0)


def test_a_validation_file_without_a_secret_to_select_by_is_refused(word_directory, split, tmp_path: Path) -> None:
    path = tmp_path / "val.txt"
    options = {"grpo__validation_file": f"'{path}'"}
    config = settings(tmp_path, word_directory, **options, grpo__validate_every_steps="1")
    for words in (split.test[:2], split.train):
        path.write_text("\n".join(words))
        with pytest.raises(ConfigError, match=r"grpo\.valid"):
            Pipeline(config, tmp_path / "run", QUIET)()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("form", ["messages", pytest.param("instruction", marks=pytest.mark.slow)])
def test_conversations_of_ones_own_are_learnt_from_and_audited(form, word_directory, split, tmp_path: Path) -> None:
    run, path = tmp_path / "run", tmp_path / "chat.jsonl"
    opening = [dict(message) for message in compact().opening()]
    secrets = (*split.train[:12], split.val[0], split.test[0])
    replies = [f"<guess>{secret}</guess>" for secret in secrets]
    given = {
        "messages": [{"messages": [*opening, {"role": "assistant", "content": said}]} for said in replies],
        "instruction": [{"instruction": opening[-1]["content"], "output": said} for said in replies],
    }
    write_jsonl(path, given[form])
    messages = Console(width=300, force_terminal=False, file=StringIO())
    options = {"traces__file": f"'{path}'", "stages": "['sft']"}
    Pipeline(settings(tmp_path, word_directory, **options), run, messages)()
    assert "1 test_secret" in messages.file.getvalue()
    assert {row["secret"] for row in rows(run / "traces.jsonl")} == {*split.train[:12]}
    assert any("validation_loss" in row for row in rows(run / "metrics.jsonl"))
    assert audit(run).clean
    assert not strata_of_run(run).complete, "which boards were shown is not known"
    assert (run / "report.html").is_file()


def test_unchecked_chat_is_learnt_and_the_run_says_so(word_directory, split, tmp_path: Path) -> None:
    run, path = tmp_path / "run", tmp_path / "chat.jsonl"
    sky = {"instruction": "sky", "output": "blue"}
    write_jsonl(path, [sky] * 8 + [{**sky, "answer": split.test[0]}])
    messages = Console(width=300, force_terminal=False, file=StringIO())
    options = {"traces__file": f"'{path}'", "traces__checked": "false", "stages": "['sft']"}
    Pipeline(settings(tmp_path, word_directory, **options), run, messages)("sft")
    said = messages.file.getvalue()
    assert "8 teacher games" in said
    assert "1 test_secret" in said
    assert "traces.checked" in said
    assert audit(run).clean


def board(secret: str, *guesses: str) -> dict[str, object]:
    return {"word": secret, "turns": [{"guess": guess, "feedback": "GGGGG"} for guess in guesses]}


@pytest.fixture
def file(sixty, split, tmp_path: Path, monkeypatch) -> Path:
    """Thirty boards of training secrets with two guesses, whose marks are wrong, and rows to be left out.

    Every group starts from a board, where half of them do by default.
    """
    monkeypatch.setattr(starts_file, "_BOARD_FRACTION", 1.0)
    first, second = sixty.outside[:2]
    sound = [board(secret, first, second) for secret in split.train[:30]]
    others = [board(secret, first) for secret in (*split.val, *split.test[:2], sixty.outside[3])]
    path = tmp_path / "starts.jsonl"
    write_jsonl(path, [*others, *sound, board(split.train[0], *[split.train[0]] * 2), board(split.train[0], "zzzzz")])
    return path


def from_boards(tmp_path: Path, words: Path, file: Path, stage: str = "grpo", **changes: str):
    rounds = {"rounds": "2", "groups_per_round": "4", "group_size": "2"}
    for name in ("expert_iteration", "dpo", "distill"):
        changes |= {f"{name}__{key}": value for key, value in rounds.items()}
    changes |= {f"{stage}.starts__file": f"'{file}'", "stages": f"['sft', '{stage}']"}
    return load_config(write_config(tmp_path / "mini.toml", words, eval__max_games="1", **changes))


def given_in(game: dict) -> tuple[tuple[str, str], ...]:
    return tuple((turn["guess"], turn["marks"]) for turn in game["turns"] if turn.get("given"))


def training_games(run: Path, stage: str) -> list[dict]:
    return [row for row in rows(run / "games.jsonl") if row["stage"] == stage]


@pytest.mark.parametrize("stage", ["grpo", "expert_iteration", "dpo", "distill"])
def test_groups_start_at_the_boards(stage, finished_run, word_directory, sixty, split, file, tmp_path, capsys) -> None:
    config = from_boards(tmp_path, word_directory, file, stage)
    run = begun(config, tmp_path / "run", finished_run)
    Pipeline(config, run, Console(width=300, force_terminal=False))(stage)
    outside = int(stage in ("dpo", "distill"))  # these learn without a win, GRPO for wins alone
    left_out = {"val": len(split.val), "test": 2, "outside": 1 - outside}
    said = capsys.readouterr().out
    assert f"{file}: {30 + outside}; " in said
    assert {part: int(n) for n, part in re.findall(r"(\d+) (\w+)_secret", said)} | {"outside": 1 - outside} == left_out
    assert {"1 already_won", "1 unlisted_guess"} <= set(re.findall(r"1 \w+", said))
    games = training_games(run, stage)
    assert games
    for game in games:
        words = sixty.outside[: len(given_in(game))]
        assert given_in(game) == tuple((word, score_guess(game["secret"], word)) for word in words)
    assert sum(len(given_in(game)) == 2 for game in games) >= len(games) - outside
    drawn = {secret for row in rows(run / "secrets.jsonl") for secret in row["secrets"]}
    assert {game["secret"] for game in games} <= drawn
    assert drawn <= {*split.train[:30], *([sixty.outside[3]] if outside else [])}
    assert audit(run).clean
    assert [row["secret"] for row in rows(run / f"boards-{stage}.jsonl")][-30:] == list(split.train[:30])


@pytest.mark.parametrize(
    "changes",
    [
        {"grpo__turn_candidates": "2", "grpo__credit": '"guess"'},
        {"traces__rl_only_fraction": "0.5"},
        {"grpo__outside_rate": "1.0", "grpo.reward__weights": "{ quick_regret = -6.0 }"},
    ],
)
def test_boards_go_with_other_settings(changes, finished_run, word_directory, file, tmp_path) -> None:
    config = from_boards(tmp_path, word_directory, file, **changes)
    run = begun(config, tmp_path / "run", finished_run)
    Pipeline(config, run, QUIET)("grpo")
    given = {len(given_in(game)) for game in training_games(run, "grpo")}
    assert given <= {0, 1, 2}
    assert max(given) > 0
    assert audit(run).clean


def test_single_guesses_are_learnt_from_the_prompts_of_the_rows(finished_run, word_directory, split, tmp_path) -> None:
    path = tmp_path / "starts.jsonl"
    write_jsonl(path, [{"prompt": f"{secret[::-1]}", "answer": secret} for secret in split.train[:8]])
    changes = {"grpo__guesses": "1", "grpo.starts__own_prompt": "true", "grpo.reward__preset": "'shaped'"}
    config = from_boards(tmp_path, word_directory, path, **changes)
    run = begun(config, tmp_path / "run", finished_run)
    Pipeline(config, run, QUIET)("grpo")
    assert played(run) <= {*split.train[:8]}
    assert {len(game["turns"]) for game in training_games(run, "grpo")} == {1}
    kept = [(row["secret"], row["prompt"][0]["content"]) for row in rows(run / "boards-grpo.jsonl")]
    assert kept == [(secret, secret[::-1]) for secret in split.train[:8]]
    assert audit(run).clean


@pytest.mark.parametrize("stage", ["grpo", "distill"])
def test_a_resumed_run_needs_no_file(stage, finished_run, word_directory, file, tmp_path, monkeypatch) -> None:
    config = from_boards(tmp_path, word_directory, file, stage, grpo__steps="3")
    whole, parts = (begun(config, tmp_path / name, finished_run) for name in ("whole", "parts"))
    Pipeline(config, whole, QUIET)(stage)
    append = Run.append

    def interrupting(self, name, row) -> None:
        append(self, name, row)
        if name == "metrics.jsonl" and row["step"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "append", interrupting)
        with pytest.raises(KeyboardInterrupt):
            Pipeline(config, parts, QUIET)(stage)
    file.unlink()
    Pipeline(config, parts, QUIET)(stage)
    assert rows(parts / "secrets.jsonl") == rows(whole / "secrets.jsonl")
    assert training_games(parts, stage) == training_games(whole, stage)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda file, _: file.write_text('{"name": "crane"}\n'), r"starts\.jsonl:1 "),
        (lambda file, split: write_jsonl(file, [board(split.test[0])]), "test_secret"),
        (lambda file, _: file.unlink(), r"starts\.jsonl"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(damage, named, word_directory, split, file, tmp_path) -> None:
    config, run = from_boards(tmp_path, word_directory, file), tmp_path / "run"
    assert [each for each in preflight(config, 0).findings if "starts" in each.message and each.level == "note"]
    damage(file, split)
    assert [each for each in preflight(config, 0).findings if re.search(named, each.message)]
    with pytest.raises(ConfigError, match=named):
        Pipeline(config, run, QUIET)()
    assert not run.exists()
    Pipeline(config, run, QUIET)("traces")  # which needs no boards
