"""Laws of runs on data of one's own: secrets from a file, a limit on them, a validation file."""

from io import StringIO
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import compact, rows, write_config

from wordle_rl.config import ConfigError, load_config
from wordle_rl.evaluate.strata import strata_of_run
from wordle_rl.pipeline import Pipeline
from wordle_rl.preflight.report import preflight
from wordle_rl.runs import write_jsonl
from wordle_rl.runs.lineage import audit
from wordle_rl.words.split import split_secrets

QUIET = Console(quiet=True)


def settings(tmp_path: Path, words: Path, **changes: str):
    small = {"traces__num_games": "40", "eval__max_games": "1", "grpo__steps": "2"}
    return load_config(write_config(tmp_path / "mini.toml", words, **small | changes))


def played(run: Path) -> set[str]:
    return {secret for row in rows(run / "secrets.jsonl") for secret in row["secrets"]}


@pytest.mark.parametrize("file", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_more_secrets_are_played_than_asked_for(file: bool, word_directory, sixty, tmp_path: Path) -> None:
    split, run = split_secrets(sixty), tmp_path / "run"
    (tmp_path / "own.txt").write_text("\n".join(split.train[10:20]))
    own = {"rl.starts__file": f"'{tmp_path / 'own.txt'}'"} if file else {}
    Pipeline(settings(tmp_path, word_directory, rl__max_secrets="3", **own), run, QUIET)("grpo")
    assert played(run) == {*(split.train[10:13] if file else split.train[:3])}


def test_checkpoints_are_selected_by_the_validation_file_and_nothing_is_trained_on_it(
    word_directory, sixty, tmp_path: Path
) -> None:
    split, run, path = split_secrets(sixty), tmp_path / "run", tmp_path / "val.jsonl"
    wanted = (*split.train[:3], split.val[0])
    write_jsonl(path, [{"prompt": "p", "answer": word} for word in (*wanted, split.test[0], wanted[0], "zzzzz")])
    options = {"grpo__validation_file": f"'{path}'", "grpo__validate_every_steps": "1"}
    config = settings(tmp_path, word_directory, **options)
    assert preflight(config, 0).numbers is not None
    Pipeline(config, run, QUIET)("sft")
    path.unlink()  # what is resumed goes by what was kept
    Pipeline(config, run, QUIET)("grpo")
    assert [row["secret"] for row in rows(run / "validation_secrets.jsonl")] == list(wanted)
    shown = {row["secret"] for row in rows(run / "games.jsonl") if row["stage"] == "validation"}
    assert shown == {*wanted}
    taught = {row["secret"] for row in rows(run / "traces.jsonl")}
    assert not (taught | played(run)) & {*wanted}
    assert audit(run).clean
    with pytest.raises(ConfigError, match=r"no file .*val\.jsonl"):
        preflight(config, 0)


def test_a_validation_file_without_a_secret_to_select_by_is_refused(word_directory, sixty, tmp_path: Path) -> None:
    split, path = split_secrets(sixty), tmp_path / "val.txt"
    options = {"grpo__validation_file": f"'{path}'", "grpo__validate_every_steps": "1"}
    config = settings(tmp_path, word_directory, **options)
    for words, told in (
        (split.test[:2], "grpo.validation_file .*line 1 .*2 test_secret"),
        (split.train, "names every training secret"),
    ):
        path.write_text("\n".join(words))
        for look in (lambda: preflight(config, 0), lambda: Pipeline(config, tmp_path / "run", QUIET)()):
            with pytest.raises(ConfigError, match=told):
                look()
    path.write_text(split.val[0])
    with pytest.raises(ConfigError, match=r"set grpo\.validate_every_steps"):
        Pipeline(settings(tmp_path, word_directory, grpo__validation_file=f"'{path}'"), tmp_path / "run", QUIET)()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("form", ["messages", pytest.param("instruction", marks=pytest.mark.slow)])
def test_conversations_of_ones_own_are_learnt_from_and_audited(form, word_directory, sixty, tmp_path: Path) -> None:
    split, run, path = split_secrets(sixty), tmp_path / "run", tmp_path / "chat.jsonl"
    opening = [dict(message) for message in compact().opening()]
    secrets = (*split.train[:12], split.val[0], split.test[0])
    replies = [f"<guess>{secret}</guess>" for secret in secrets]
    given = {
        "messages": [{"messages": [*opening, {"role": "assistant", "content": said}]} for said in replies],
        "instruction": [{"instruction": opening[-1]["content"], "output": said} for said in replies],
    }
    write_jsonl(path, given[form])
    options = {"traces__file": f"'{path}'", "grpo__steps": "0"}
    told = Console(width=300, force_terminal=False, file=StringIO())
    Pipeline(settings(tmp_path, word_directory, **options), run, told)()
    assert "12 teacher games of " in told.file.getvalue()
    assert "1 for the validation loss; left out: 1 test_secret" in told.file.getvalue()
    assert ("begin with another prompt" in told.file.getvalue()) == (form == "instruction" and len(opening) > 1)
    assert {row["secret"] for row in rows(run / "traces.jsonl")} == {*split.train[:12]}
    metrics = rows(run / "metrics.jsonl")
    assert any("validation_loss" in row for row in metrics)
    assert audit(run).clean
    assert not strata_of_run(run).complete, "which boards were shown is not known"
    assert (run / "report.html").is_file()
