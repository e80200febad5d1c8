"""Laws of lineage: a model carries whose secrets it learnt from, and nobody holds those out unawares."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console

from wordle_rl.config import GameSettings, WordSettings, load_config
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.pipeline import Pipeline
from wordle_rl.prompt import Style
from wordle_rl.report.card import write_cards
from wordle_rl.runs import write_json
from wordle_rl.runs.lineage import (
    LINEAGE_FILE,
    Lineage,
    TrainedSecrets,
    audit,
    leak_warning,
    lesson_of,
    lineage_of,
    save_lineage,
    trained_further,
)
from wordle_rl.words import WordListError, load_words
from wordle_rl.words.split import split_secrets

WORDS = load_words()
COMPACT = GameSettings(style=Style.COMPACT)


def lesson(seed: int) -> TrainedSecrets:
    return lesson_of(WordSettings(split_seed=seed), split_secrets(WORDS, seed))


def test_a_lineage_grows_by_one_training_and_names_each_once(tmp_path: Path) -> None:
    assert lineage_of(tmp_path) is None
    first = trained_further(tmp_path, GameSettings(), lesson(0))
    assert first == Lineage(game=GameSettings(), lessons=(lesson(0),))
    save_lineage(tmp_path, first)
    assert lineage_of(tmp_path) == first
    assert trained_further(tmp_path, COMPACT, lesson(0)) == Lineage(game=COMPACT, lessons=(lesson(0),))
    save_lineage(tmp_path, trained_further(tmp_path, COMPACT, lesson(4)))
    assert trained_further(tmp_path, COMPACT, lesson(0)).lessons == (lesson(4), lesson(0))


def test_what_another_split_trained_on_leaks_into_what_this_one_holds_out() -> None:
    here, there = split_secrets(WORDS, 0), split_secrets(WORDS, 1)
    lineage = Lineage(game=COMPACT, lessons=(lesson(1), lesson(0)))
    assert lineage.leaks(here) == sorted({*here.val, *here.test} & set(there.train))
    assert len(lineage.leaks(here)) > 300
    assert not Lineage(game=COMPACT, lessons=(lesson(0),)).leaks(here)


def test_words_outside_one_list_may_be_held_out_in_another(word_directory: Path) -> None:
    small = load_words(str(word_directory))
    split = split_secrets(small)
    outside = {*split.val, *split.test} & set(WORDS.outside)
    leaks = Lineage(game=COMPACT, lessons=(lesson(0),)).leaks(split)
    assert set(leaks) == {*split.val, *split.test} & {*split_secrets(WORDS, 0).train, *WORDS.outside}
    assert outside <= set(leaks)


def test_a_list_that_has_changed_is_not_taken_for_the_one_learnt_from(tmp_path: Path) -> None:
    changed = lesson(1).model_copy(update={"fingerprint": "0" * 64})
    with pytest.raises(WordListError, match=changed.source):
        changed.secrets()
    save_lineage(tmp_path, Lineage(game=COMPACT, lessons=(changed,)))
    assert changed.source in str(leak_warning(tmp_path, split_secrets(WORDS)))


def test_a_model_is_doubted_for_what_it_learnt_of_the_words_held_out_and_for_nothing_else(tmp_path: Path) -> None:
    here = split_secrets(WORDS)
    assert leak_warning(tmp_path, here) is None, "not trained here"
    save_lineage(tmp_path, Lineage(game=COMPACT, lessons=(lesson(0),)))
    assert leak_warning(tmp_path, here) is None
    save_lineage(tmp_path, Lineage(game=COMPACT, lessons=(lesson(1),)))
    shared = {*here.val, *here.test} & set(split_secrets(WORDS, 1).train)
    doubt = str(leak_warning(tmp_path, here))
    assert f"trained on {len(shared)} validation or test secrets" in doubt
    assert any(word in doubt for word in shared)


@pytest.fixture
def of_split_5(finished_run: Path, word_directory: Path, tmp_path: Path) -> Path:
    """A run whose games and models say that they are of split 5."""
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    settings = WordSettings(source=str(word_directory), split_seed=5)
    config = load_config(run / "config.json").model_copy(update={"words": settings})
    write_json(run / "config.json", config.stored())
    split = split_secrets(load_words(str(word_directory)), 5)
    for name in ("sft", "grpo"):
        save_lineage(run / name, Lineage(game=config.game, lessons=(lesson_of(settings, split),)))
    return run


@pytest.mark.parametrize("place", ["elsewhere", "sft/epochs/epoch-1", "sft/checkpoints/checkpoint-2"])
def test_a_model_is_tested_on_what_its_training_held_out_wherever_it_lies(
    place: str, of_split_5: Path, word_directory: Path, tmp_path: Path, cli
) -> None:
    model = tmp_path / place if place == "elsewhere" else of_split_5 / place
    shutil.copytree(of_split_5 / "sft", model, dirs_exist_ok=True)
    if "checkpoint" in place:
        (model / LINEAGE_FILE).unlink()
    out = tmp_path / "model.json"
    assert cli("eval", "--player", model, "--out", out, "--no-regret", "--max-completion-tokens", 12)[0] == 0
    held_out = set(split_secrets(load_words(str(word_directory)), 5).test)
    assert {record.secret for record in Evaluation.load(out).records} == held_out
    assert cli("play", "--player", model, "--secret", min(held_out), "--max-completion-tokens", 12)[0] == 0


def test_a_model_whose_words_are_gone_says_so_unless_told_others(
    of_split_5: Path, word_directory: Path, tmp_path: Path, cli
) -> None:
    gone = TrainedSecrets(source=str(tmp_path / "gone"), fingerprint="0" * 64, split_seed=5)
    save_lineage(of_split_5 / "grpo", Lineage(game=GameSettings(style=Style.COMPACT), lessons=(gone,)))
    code, out, err = cli("eval", "--player", of_split_5, "--no-regret")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "give --words" in err
    assert cli("eval", "--player", of_split_5, "--no-regret", "--words", word_directory, "--max-games", 1)[0] == 0


def test_going_on_from_a_model_that_knows_held_out_words_is_told_and_never_proven_clean(
    finished_run: Path, tmp_path: Path, cli
) -> None:
    base = tmp_path / "base"
    shutil.copytree(finished_run / "sft", base)
    config = load_config(finished_run / "config.json")
    words = load_words(config.words.source)
    other = lesson_of(config.words.model_copy(update={"split_seed": 6}), split_secrets(words, 6))
    save_lineage(base, Lineage(game=config.game, lessons=(other,)))
    told = Console(record=True, width=300)
    model = config.model.model_copy(update={"path": str(base)})
    run = tmp_path / "run"
    Pipeline(config.model_copy(update={"model": model}), run, told)("sft")
    assert f"model.path {base} may have been trained on" in told.export_text()
    known = lineage_of(run / "sft")
    assert known is not None
    assert [each.split_seed for each in known.lessons] == [6, 0]
    split = split_secrets(words)
    leaks = sorted({*split.val, *split.test} & set(split_secrets(words, 6).train))
    assert leaks
    assert audit(run).leaks == tuple((f"sft/{LINEAGE_FILE}", secret) for secret in leaks)
    code, _, err = cli("report", run, "--audit")
    assert code == 2
    assert leaks[0] in err
    assert f"{len(leaks)} validation or held-out secrets were trained on" in write_cards(run)[0].read_text()
