"""Laws of lineage and of the audit: a model carries whose secrets it learnt from, and leaks are found."""

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from rich.console import Console

from wordle_rl.config.files import load_config
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.directory import described_at
from wordle_rl.prompt import Style
from wordle_rl.report.card import write_cards
from wordle_rl.runs import Run, RunError, read_object, write_json, write_jsonl
from wordle_rl.runs.checksums import SEAL_FILE
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
from wordle_rl.words.split import Split, split_secrets

WORDS = load_words()
SPLIT: Split = split_secrets(WORDS)
COMPACT = GameSettings(style=Style.COMPACT)


def lesson(seed: int) -> TrainedSecrets:
    return lesson_of(WordSettings(split_seed=seed), split_secrets(WORDS, seed))


def learnt(*seeds: int) -> Lineage:
    return Lineage(game=COMPACT, lessons=tuple(map(lesson, seeds)))


def test_a_lineage_grows_by_one_training_and_names_each_once(tmp_path: Path) -> None:
    assert lineage_of(tmp_path) is None
    first = trained_further(tmp_path, COMPACT, lesson(0))
    assert first == learnt(0)
    save_lineage(tmp_path, first)
    assert lineage_of(tmp_path) == first
    assert trained_further(tmp_path, GameSettings(), lesson(0)).game == GameSettings()
    save_lineage(tmp_path, trained_further(tmp_path, COMPACT, lesson(4)))
    assert trained_further(tmp_path, COMPACT, lesson(0)) == learnt(4, 0)


def test_the_licence_of_the_weights_that_it_began_with_stays(tmp_path: Path) -> None:
    base, trained = tmp_path / "base", tmp_path / "trained"
    write_json(base / "config.json", {"license": "gemma"})
    save_lineage(trained, trained_further(base, COMPACT, lesson(0)))
    assert trained_further(trained, COMPACT, lesson(4)).licence == "gemma"


def test_what_another_split_trained_on_leaks_into_what_this_one_holds_out(tmp_path: Path) -> None:
    leaks = sorted({*SPLIT.val, *SPLIT.test} & set(split_secrets(WORDS, 1).train))
    assert len(leaks) > 300
    assert learnt(1, 0).leaks(SPLIT) == leaks
    assert not learnt(0).leaks(SPLIT)
    assert leak_warning(tmp_path, SPLIT) is None, "not trained here"
    for seed, named in ((0, "None"), (1, str(len(leaks)))):
        save_lineage(tmp_path, learnt(seed))
        assert named in str(leak_warning(tmp_path, SPLIT))


def test_more_strict_words_take_secrets_of_an_earlier_training(tmp_path: Path) -> None:
    now = split_secrets(WORDS, 0, strict_fraction=0.3)
    leaks = learnt(0).leaks(now)
    assert leaks == sorted(now.never_trained & {*SPLIT.train})
    assert len(leaks) > 400
    own = lesson_of(WordSettings(strict_fraction=0.3), now)
    assert not Lineage(game=COMPACT, lessons=(own,)).leaks(now)


@pytest.mark.parametrize("knows", [True, False])
def test_the_past_of_bundled_and_hub_models_is_read(knows: bool, tmp_path: Path, monkeypatch) -> None:
    assert lineage_of(described_at("bundled")) is not None

    def download(repo: str, name: str, revision: str | None, local_files_only: bool) -> str:
        assert (repo, name, revision, local_files_only) == ("somebody/wordle", LINEAGE_FILE, "v2", False)
        if not knows:
            raise EntryNotFoundError("the repository has no such file")
        save_lineage(tmp_path, learnt(1))
        return str(tmp_path / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    found = lineage_of(described_at("somebody/wordle@v2"))
    assert found == (learnt(1) if knows else None)


def test_a_hub_that_gives_no_answer_about_the_past_of_a_model_is_told_once(monkeypatch, caplog) -> None:
    def download(*_args: object, **_options: object) -> str:
        raise LocalEntryNotFoundError("the hub cannot be reached")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert lineage_of(described_at("nobody/online", cached=True)) is None
    assert not caplog.messages
    for _ in range(2):
        assert lineage_of(described_at("nobody/online")) is None
    [told] = caplog.messages
    assert "nobody/online" in told


def test_words_outside_one_list_may_be_held_out_in_another(split) -> None:
    held_out, leaks = {*split.val, *split.test}, set(learnt(0).leaks(split))
    assert leaks == held_out & {*SPLIT.train, *WORDS.outside}
    assert held_out & set(WORDS.outside) <= leaks


def test_a_list_that_has_changed_is_not_taken_for_the_one_learnt_from(run: Run) -> None:
    changed = lesson(1).model_copy(update={"fingerprint": "0" * 64})
    with pytest.raises(WordListError, match=changed.source):
        changed.secrets()
    save_lineage(run.directory / "sft", Lineage(game=COMPACT, lessons=(changed,)))
    assert changed.source in str(leak_warning(run.directory / "sft", SPLIT))
    with pytest.raises(RunError, match="sft"):
        audit(run.directory)


@pytest.fixture
def of_split_5(finished_run: Path, word_directory: Path, tmp_path: Path) -> Path:
    """A run whose games and models say that they are of split 5."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    settings = WordSettings(source=str(word_directory), split_seed=5)
    config = load_config(run / "config.json").model_copy(update={"words": settings})
    write_json(run / "config.json", config.stored())
    lessons = (lesson_of(settings, split_secrets(load_words(str(word_directory)), 5)),)
    for name in ("sft", "grpo"):
        save_lineage(run / name, Lineage(game=config.game, lessons=lessons))
    return run


@pytest.mark.parametrize("place", ["elsewhere", "sft/epochs/epoch-1", "sft/checkpoints/checkpoint-2"])
def test_a_model_is_tested_on_what_its_training_held_out(place: str, of_split_5, word_directory, tmp_path, cli) -> None:
    model = tmp_path / place if place == "elsewhere" else of_split_5 / place
    shutil.copytree(of_split_5 / "sft", model, dirs_exist_ok=True)
    if "checkpoint" in place:  # as an earlier version saved it: only the run around it knows
        (model / LINEAGE_FILE).unlink()
        (model / SEAL_FILE).unlink()
    out = tmp_path / "model.json"
    assert cli("eval", "--player", model, "--out", out, "--no-regret", "--max-completion-tokens", 12)[0] == 0
    held_out = set(split_secrets(load_words(str(word_directory)), 5).test)
    assert {record.secret for record in Evaluation.load(out).records} == held_out
    assert cli("play", "--player", model, "--secret", min(held_out), "--max-completion-tokens", 12)[0] == 0


def test_a_model_whose_words_are_gone_says_so_unless_told_others(of_split_5, word_directory, tmp_path, cli) -> None:
    gone = TrainedSecrets(source=str(tmp_path / "gone"), fingerprint="0" * 64, split_seed=5)
    save_lineage(of_split_5 / "grpo", Lineage(game=COMPACT, lessons=(gone,)))
    command = ("eval", "--player", of_split_5, "--no-regret", "--max-games", 1)
    code, out, err = cli(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--words" in err
    assert cli(*command, "--words", word_directory)[0] == 0


def test_going_on_from_a_model_that_knows_held_out_words_is_never_clean(finished_run, split, tmp_path, cli) -> None:
    base = Path(shutil.copytree(finished_run / "sft", tmp_path / "base"))
    config = load_config(finished_run / "config.json")
    other = split_secrets(load_words(config.words.source), 6)
    lesson = lesson_of(config.words.model_copy(update={"split_seed": 6}), other)
    save_lineage(base, Lineage(game=config.game, lessons=(lesson,)))
    messages = Console(record=True, width=300)
    model = config.model.model_copy(update={"path": str(base)})
    run = tmp_path / "run"
    Pipeline(config.model_copy(update={"model": model}), run, messages)("sft")
    assert f"model.path {base}" in messages.export_text()
    assert [each.split_seed for each in lineage_of(run / "sft").lessons] == [6, 0]
    leaks = sorted({*split.val, *split.test} & set(other.train))
    assert leaks
    assert audit(run).leaks == tuple((f"sft/{LINEAGE_FILE}", secret) for secret in leaks)
    code, _, err = cli("report", run, "--audit")
    assert code == 2
    assert leaks[0] in err
    assert f"{len(leaks)} validation or held-out secrets" in write_cards(run)[0].read_text()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with records of clean secrets, and with the models of two finished stages."""
    made = Run.create(tmp_path / "run", RunConfig(), SPLIT)
    write_jsonl(made.directory / "traces.jsonl", [{"secret": SPLIT.train[0]}, {"secret": "aahed"}])
    made.append("secrets.jsonl", {"stage": "grpo", "step": 0, "secrets": list(SPLIT.train[:3])})
    made.append("games.jsonl", {"secret": SPLIT.train[1]})
    for model in ("sft", "grpo"):
        save_lineage(made.directory / model, learnt(0))
    return made


@pytest.mark.parametrize("held_out", [SPLIT.test[0], SPLIT.val[0]])
def test_held_out_secret_is_found_in_every_record(run: Run, held_out: str) -> None:
    assert audit(run.directory).clean
    assert audit(run.directory).num_secrets == {"traces.jsonl": 2, "secrets.jsonl": 3, "games.jsonl": 1}
    run.append("traces.jsonl", {"secret": held_out})
    run.append("secrets.jsonl", {"step": 1, "secrets": [SPLIT.train[5], held_out]})
    run.append("games.jsonl", {"secret": held_out})
    manifest = read_object(run.directory / "manifest.json")
    manifest["split"] = {"seed": 0, "train": [], "val": [], "test": []}
    write_json(run.directory / "manifest.json", manifest)
    found = audit(run.directory)
    assert not found.clean
    leaks = (("traces.jsonl", held_out), ("secrets.jsonl", held_out), ("games.jsonl", held_out))
    assert found.leaks == leaks, "whatever the manifest says of the split"


def test_games_that_choose_weights_may_have_validation_secrets_and_no_others(run: Run) -> None:
    run.append("games.jsonl", {"stage": "grpo/validation", "secret": SPLIT.val[0]})
    assert audit(run.directory).clean
    run.append("games.jsonl", {"stage": "grpo/validation", "secret": SPLIT.test[0]})
    assert audit(run.directory).leaks == (("games.jsonl", SPLIT.test[0]),)


@pytest.mark.parametrize(("model", "record"), [("sft", "traces.jsonl"), ("grpo", "secrets.jsonl")])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_model_without_the_record_of_its_secrets_is_not_proven_clean(model, record, emptied, run: Run, cli) -> None:
    (run.directory / record).unlink()
    if emptied:
        (run.directory / record).touch()
    code, out, err = cli("report", run.directory, "--audit")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in (model, record))
    run.append("games.jsonl", {"secret": SPLIT.test[0]})
    assert audit(run.directory).leaks == (("games.jsonl", SPLIT.test[0]),), "a leak is told all the same"


@pytest.mark.parametrize(
    ("record", "stage"),
    [("traces.jsonl", "sft"), ("metrics.jsonl", "sft"), ("metrics.jsonl", "grpo"), ("secrets.jsonl", "grpo")],
)
@pytest.mark.parametrize("lost", ["first", "last"])
def test_a_record_that_has_lost_a_line_is_not_proven_clean(record, stage, lost, finished_run, tmp_path, cli) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    assert cli("report", run, "--audit")[0] == 0
    lines = (run / record).read_text().splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if json.loads(line).get("stage", stage) == stage]
    del lines[places[0 if lost == "first" else -1]]
    (run / record).write_text("".join(lines))
    code, out, err = cli("report", run, "--audit")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert record in err


def test_a_step_without_its_secrets_is_not_proven_clean(run: Run) -> None:
    """Also in a run that is not finished, or of an earlier version that counted no rows."""
    for step in (1, 2):
        run.append("metrics.jsonl", {"stage": "grpo", "step": step})
    with pytest.raises(RunError, match=r"secrets\.jsonl"):
        audit(run.directory)
    run.append("secrets.jsonl", {"stage": "grpo", "step": 1, "secrets": list(SPLIT.train[:3])})
    assert audit(run.directory).clean


def test_a_run_that_trained_and_recorded_nothing_is_not_called_clean(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", RunConfig(), SPLIT)
    with pytest.raises(RunError):
        audit(tmp_path / "run")
