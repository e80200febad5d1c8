"""Laws of players: a name becomes a sampler with the prompts it understands, or one line says why not."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from training_fixtures import small_model

from wordle_rl.config import ConfigError, GameSettings, ModelSettings, RunConfig, SamplingSettings, WordSettings
from wordle_rl.evaluate.players import make_player, reply_bound
from wordle_rl.policy.directory import settings_of
from wordle_rl.policy.loading import save_model
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.rollout import InitialState, play
from wordle_rl.runs import write_json
from wordle_rl.runs.lineage import Lineage, lesson_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

SAMPLING = SamplingSettings(temperature=0.0, max_completion_tokens=8)
COMPACT = GameSettings(style=Style.COMPACT, shape=Shape.STATE, thinking=Thinking.OFF)


@pytest.fixture
def run_directory(tokenizer, codec, tmp_path: Path) -> Path:
    save_model(small_model(tokenizer), codec, tmp_path / "run" / "sft")
    lesson = lesson_of(WordSettings(), split_secrets(load_words()))
    save_lineage(tmp_path / "run" / "sft", Lineage(game=COMPACT, lessons=(lesson,)))
    return tmp_path / "run"


def test_a_model_plays_with_the_prompts_it_was_trained_with(run_directory, sixty, solver) -> None:
    player = make_player(str(run_directory), sixty, None, SAMPLING, solver=solver)
    assert player.label == str(run_directory / "sft")
    assert (player.prompter.style, player.prompter.shape) == (Style.COMPACT, Shape.STATE)
    [game] = play([InitialState(sixty.answers[0])], sixty, player.prompter, player.sampler)
    assert game.transcript.own_turns
    asked = GameSettings(style=Style.SYMBOLS)
    assert make_player(str(run_directory), sixty, asked, SAMPLING, solver=solver).prompter.style is Style.SYMBOLS


def test_a_model_is_held_as_its_run_held_it(run_directory) -> None:
    model = str(run_directory / "sft")
    assert settings_of(run_directory / "sft") == ModelSettings(path=model)
    config = RunConfig.model_validate({"model": {"dtype": "bfloat16"}})
    write_json(run_directory / "config.json", config.stored())
    write_json(run_directory / "manifest.json", {})
    assert settings_of(run_directory / "sft") == ModelSettings(path=model, dtype="bfloat16")


def test_a_model_is_held_in_the_type_asked_for(run_directory, sixty, solver) -> None:
    model = str(run_directory)
    types = [
        make_player(model, sixty, None, SAMPLING, solver=solver, dtype=d).sampler.model.dtype
        for d in (None, "bfloat16")
    ]
    assert types == [torch.float32, torch.bfloat16]
    with pytest.raises(ConfigError, match="--dtype"):
        make_player("solver", sixty, None, SAMPLING, solver=solver, dtype="bfloat16")


def test_a_missing_package_is_named_with_its_extra(sixty, solver, run_directory, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wordle_rl.policy.openai", None)
    with pytest.raises(ConfigError, match=r"wordle-rl\[openai\]"):
        make_player("openai:m", sixty, None, SAMPLING, solver=solver)
    monkeypatch.setitem(sys.modules, "wordle_rl.policy.loading", None)
    with pytest.raises(ConfigError, match=r"wordle-rl\[train\]"):
        make_player(str(run_directory), sixty, None, SAMPLING, solver=solver)


def test_replies_are_bounded_as_in_the_run_unless_asked_otherwise(run_directory) -> None:
    assert [reply_bound(name, None) for name in ("solver", "openai:m", str(run_directory))] == [512] * 3
    config = RunConfig(max_completion_tokens=7)
    write_json(run_directory / "config.json", config.stored())
    write_json(run_directory / "manifest.json", {})
    assert reply_bound(str(run_directory), None) == reply_bound(str(run_directory / "sft"), None) == 7
    assert reply_bound(str(run_directory), 9) == 9
    with pytest.raises(ConfigError, match="no model or run directory"):
        reply_bound("nowhere", None)
