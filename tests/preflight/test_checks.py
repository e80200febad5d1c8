"""Laws of the one list of checks: what `preflight` calls a problem `run` refuses, in the same words."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from training_fixtures import write_config

REFUSED = {
    "a tracker that is not installed": (["--report-to", "wandb"], "pip install wandb"),
    "an engine that is not installed": (["--grpo.engine", "vllm"], "vllm"),
    "a model that is not there": (["--model.path", "./nowhere"], "no model directory"),
    "a budget without room for a guess": (["--max-completion-tokens", "2"], "max_completion_tokens 2"),
    "games longer than the model": (["--model.max-length", "40"], "the model takes 40"),
    "an opener that is not listed": (["--traces.teacher.opener", "zzzzz"], "opener 'zzzzz'"),
    "boards that are not there": (["--rl.starts.file", "nothing.jsonl"], "nothing.jsonl"),
    "strict words in the prompt": (
        ["--words.strict-fraction", "0.1", "--game.system-prompt", "STRICT"],
        "a strict word",
    ),
}


@pytest.fixture
def config(tmp_path: Path, word_directory: Path) -> Path:
    return write_config(tmp_path / "mini.toml", word_directory)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the packages that some settings need."""
    for tracker in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, tracker, None)
    find, missing = importlib.util.find_spec, {"vllm"}

    def found(name: str, package: str | None = None):
        return None if name.partition(".")[0] in missing else find(name, package)

    for module in ("wordle_rl.policy.loading", "wordle_rl.policy.base"):
        monkeypatch.setattr(f"{module}.find_spec", found)


@pytest.mark.parametrize("case", REFUSED)
def test_preflight_and_run_agree_on_every_refusal(case: str, cli, config: Path, bare: None, tmp_path: Path) -> None:
    options, told = REFUSED[case]
    if "STRICT" in options:
        from wordle_rl.config import load_config
        from wordle_rl.config.context import GameContext

        strict = GameContext.of(load_config(config, {("words", "strict_fraction"): 0.1})).split.strict
        options = [strict[0] if option == "STRICT" else option for option in options]
    code, out, _ = cli("preflight", config, *options, "--groups", 0, "--json")
    problems = [found["message"] for found in json.loads(out)["findings"] if found["level"] == "problem"]
    assert code == 2
    assert any(told in problem for problem in problems), problems
    code, _, err = cli("run", config, *options, "--out", tmp_path / "run")
    assert (code, err.strip()) == (2, f"error: {'; '.join(problems)}")
    assert not (tmp_path / "run").exists(), "it is refused before anything is written"
