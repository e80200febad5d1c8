"""Law of keys: a run in an environment full of them leaves none in its files, on the terminal, or in an error."""

import io
import logging
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import write_config

from wordle_rl.config import load_config
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.providers import PROVIDERS
from wordle_rl.report import write_report
from wordle_rl.report.card import write_cards
from wordle_rl.runs import RunError

NAMES = sorted({
    *(provider.key_name for provider in PROVIDERS.values()), "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY",
    "WORDLE_RL_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN",
})  # fmt: skip


@pytest.mark.slow
def test_no_key_of_the_environment_is_found_anywhere(
    word_directory, tmp_path: Path, monkeypatch, capsys, caplog
) -> None:
    keys = {name: f"canary-of-{name.lower()}-0123456789abcdef" for name in NAMES}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OPENAI_API_KEY=canary-of-a-file-0123456789abcdef\n")
    caplog.set_level(logging.DEBUG)
    said = io.StringIO()
    config = load_config(write_config(tmp_path / "mini.toml", word_directory))
    run = tmp_path / "run"
    Pipeline(config, run, Console(file=said))()
    write_report(run)
    assert write_cards(run)
    (run / "results.json").write_text("{")
    with pytest.raises(RunError) as damaged:
        write_report(run)
    written = [path for path in run.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert [path.name for path in written if b"canary-of" in path.read_bytes()] == []
    captured = capsys.readouterr()
    for text in (said.getvalue(), captured.out, captured.err, caplog.text, str(damaged.value), repr(damaged.value)):
        assert "canary-of" not in text
