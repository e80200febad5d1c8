"""Laws of model directories: a name of the hub is fetched once, other names are never asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import open_hub
from training_fixtures import small_model

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.policy.directory import find_model, is_hub_name, settings_of
from wordle_rl.policy.loading import save_model
from wordle_rl.prompt import Style, Thinking
from wordle_rl.runs.lineage import LINEAGE_FILE, Lineage, lesson_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

FIND = """
import sys
from pathlib import Path
from wordle_rl.policy.directory import find_model, game_of
for name in sys.argv[1:]:
    found = find_model(Path(name))
    print(found.name, game_of(found).style.value, *sorted(path.name for path in found.iterdir()))
"""


@pytest.fixture(scope="module")
def model(tokenizer, codec, tmp_path_factory) -> Path:
    """A small model with its lineage."""
    directory = tmp_path_factory.mktemp("hub") / "model"
    save_model(small_model(tokenizer), codec, directory)
    game = GameSettings(style=Style.COMPACT, thinking=Thinking.OFF)
    save_lineage(directory, Lineage(game=game, lessons=(lesson_of(WordSettings(), split_secrets(load_words())),)))
    return directory


def command(hub_url: str, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Another process, for huggingface_hub reads its environment once."""
    environment = {**os.environ, "HF_ENDPOINT": hub_url, "HF_HOME": str(cache)}
    environment.pop("HF_HUB_OFFLINE", None)
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=environment)


def test_what_is_a_name_of_the_hub(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    named = ["somebody/model", "somebody/model@main"]
    others = ["runs/quickstart", "mine/model", "./model", "nobody", "a/b/c", "/a"]
    assert [name for name in [*named, *others] if is_hub_name(name)] == named


def test_a_missing_directory_is_not_asked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/nothing", "nothing", str(tmp_path / "nothing")):
        with pytest.raises(ConfigError, match=name):
            find_model(Path(name))


def test_a_model_of_the_hub_does_not_choose_what_is_imported(model, hub) -> None:
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    files[LINEAGE_FILE] = files[LINEAGE_FILE].replace(b'"compact"', b'"theirs:Style"')
    hub.repos["me/own-style"] = files
    with pytest.raises(ConfigError, match="theirs:Style"):
        find_model(Path("me/own-style"))


@pytest.mark.slow
def test_a_model_of_the_hub_is_found_with_its_game_and_without_other_formats(model, tmp_path) -> None:
    with open_hub() as hub:
        hub.repos["me/wordle"] = {path.name: path.read_bytes() for path in model.iterdir()}
        hub.repos["me/wordle"]["pytorch_model.bin"] = b"x"
        done = command(hub.url, tmp_path, "-c", FIND, "me/wordle", "me/wordle@main")
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert first == second
        assert "model.safetensors" in first
        assert " compact " in first
        assert ".bin" not in first
        missing = command(hub.url, tmp_path, "-m", "wordle_rl", "play", "--player", "me/nothing")
        assert missing.returncode == 2
        assert "me/nothing" in missing.stderr
    again = command("http://127.0.0.1:9", tmp_path, "-c", FIND, "me/wordle")
    assert again.stdout.splitlines() == [first], "what was fetched is there without a network"
    unreachable = command("http://127.0.0.1:9", tmp_path / "other", "-m", "wordle_rl", "eval", "--player", "me/wordle")
    assert unreachable.returncode == 2
    assert "me/wordle" in unreachable.stderr
    assert unreachable.stderr.count("\n") == 1


def test_a_model_from_elsewhere_is_held_in_the_type_it_is_stored_in(model, tmp_path) -> None:
    assert settings_of(model).dtype == "float32", "it was trained here"
    assert settings_of(tmp_path).dtype == "auto"
