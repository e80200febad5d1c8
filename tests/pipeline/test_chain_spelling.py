"""Laws of spelling lessons in a run: mixed into SFT, none by default, no strict word in them, and the strata know."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import write_config

from wordle_rl.config import load_config, stored_config
from wordle_rl.config.context import GameContext
from wordle_rl.evaluate.strata import TRAINED_ON, strata_of_run
from wordle_rl.pipeline import Pipeline
from wordle_rl.train import sft


@pytest.mark.parametrize("passes", [0.0, 1.0])
def test_every_word_but_the_strict_ones_is_spelled_in_sft(
    passes: float, word_directory: Path, tmp_path: Path, monkeypatch
) -> None:
    path = write_config(tmp_path / "mini.toml", word_directory)
    config = load_config(path, {("traces", "spelling"): passes, ("words", "strict_fraction"): 0.05})
    given: list[str] = []

    def learn(learner, examples, *_: object, **__: object) -> None:
        given.extend(learner.codec.tokenizer.decode(example.token_ids) for example in examples)

    monkeypatch.setattr(sft, "train_sft", learn)
    Pipeline(config, tmp_path / "run", Console(quiet=True))(until="sft")
    lessons = [text for text in given if text.startswith("Spelling")]
    context = GameContext.of(config)
    spelled = {word for word in context.words.guesses if any(f"Spell {word}." in text for text in lessons)}
    assert context.split.strict
    assert spelled == (set(context.words.guesses) - set(context.split.strict) if passes else set())
    assert len(lessons) == 2 * len(spelled)
    assert len(given) > len(lessons)


def test_no_word_that_was_spelled_counts_as_never_said(finished_run: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(finished_run, tmp_path / "run"))
    for name in TRAINED_ON:
        (directory / name).unlink(missing_ok=True)
    config = stored_config(finished_run / "config.json")
    assert len(strata_of_run(directory).never_said) == len(GameContext.of(config).split.test)
    spelled = config.model_copy(update={"traces": config.traces.model_copy(update={"spelling": 1.0})})
    (directory / "config.json").write_text(json.dumps(spelled.stored()))
    strata = strata_of_run(directory)
    assert (strata.never_said, strata.board_shown) == (frozenset(), frozenset())
