"""Plain text beside games: the model that came writes it, once, and every row of it is learnt from."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from round_training import learner_of
from training_fixtures import flipped, rows, small_model, write_config

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.evaluate.strata import shown_in
from wordle_rl.pipeline import Pipeline
from wordle_rl.runs import RunError, append_jsonl, read_jsonl
from wordle_rl.train import plain_text
from wordle_rl.train.plain_text import has_plain_text, plain_texts, texts_for, write_plain_text
from wordle_rl.words.split import split_secrets

COUNT = 40


@pytest.fixture
def able(monkeypatch) -> None:
    """The embedded model counts as one that has read; it opens texts with words of its alphabet."""
    monkeypatch.setattr(plain_text, "SMALLEST_VOCABULARY", 0)
    monkeypatch.setattr(plain_text, "NUM_TEXTS", COUNT)
    monkeypatch.setattr(plain_text, "_OPENINGS", ("crane", "salet"))
    monkeypatch.setattr(plain_text, "_FEWEST_TOKENS", 1)


def write(learner, directory, split, seed=0) -> list[dict]:
    write_plain_text(learner, directory, split, seed, lambda _: None)
    return [*read_jsonl(directory / "plain_text.jsonl")]


def test_a_text_is_its_opening_and_what_the_model_wrote_up_to_its_end(able, tokenizer, codec, split, tmp_path) -> None:
    learner = learner_of(small_model(tokenizer), codec)
    found = write(learner, tmp_path, split)
    for row in found:
        assert codec.tokenizer.decode(row["token_ids"]) == row["text"]
        assert row["text"].startswith(("crane", "salet"))
        assert not codec.stop_ids.intersection(row["token_ids"])
        assert 5 < len(row["token_ids"]) <= 5 + plain_text.TEXT_TOKENS
    assert len({row["text"] for row in found}) > COUNT / 2


def test_texts_are_written_once_and_by_the_seed(able, tokenizer, codec, split, tmp_path) -> None:
    learner = learner_of(small_model(tokenizer), codec)
    first, again, other = (tmp_path / name for name in "abc")
    for directory in (first, again, other):
        directory.mkdir()
    found = write(learner, first, split)
    assert write(learner, again, split) == found != write(learner, other, split, seed=1)
    assert has_plain_text(first)
    assert not has_plain_text(tmp_path)


def test_changed_texts_train_nothing(able, tokenizer, codec, split, tmp_path) -> None:
    write(learner_of(small_model(tokenizer), codec), tmp_path, split)
    path = tmp_path / "plain_text.jsonl"
    whole = path.read_bytes()
    for damaged in (flipped(whole), whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"plain_text\.jsonl"):
            has_plain_text(tmp_path)
    path.unlink()
    with pytest.raises(RunError, match=r"plain_text\.jsonl"):
        has_plain_text(tmp_path)


def test_a_later_stage_that_asks_first_has_the_start_of_the_run_write(able, word_directory, tmp_path) -> None:
    def texts(name: str, stage: str) -> list[dict]:
        config = write_config(
            tmp_path / f"{name}.toml", word_directory, stages='["sft", "expert_iteration"]', traces__num_games="96",
            expert_iteration__rounds="1", expert_iteration__groups_per_round="4", expert_iteration__group_size="2",
            expert_iteration__replay_fraction="0.0", **{f"{stage}__plain_text_fraction": "0.5"},
        )  # fmt: skip
        Pipeline(load_config(config), tmp_path / name, Console(quiet=True))(until="expert_iteration")
        return [*read_jsonl(tmp_path / name / "plain_text.jsonl")]

    assert texts("first", "sft") == texts("later", "expert_iteration")


def test_no_text_holds_a_strict_word(able, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plain_text, "_OPENINGS", ("crane ", "a", "b"))
    strict = replace(split_secrets(sixty), strict=("crane",))
    found = write(learner_of(small_model(tokenizer), codec), tmp_path, strict)
    assert 0 < len(found) < COUNT
    assert not any(row["text"].startswith("crane") for row in found)


def test_a_model_that_has_read_nothing_is_refused(tokenizer, codec, split, tmp_path) -> None:
    with pytest.raises(ConfigError, match="never read plain text"):
        write(learner_of(small_model(tokenizer), codec), tmp_path, split)


def test_all_tokens_but_the_first_are_learnt_and_after_the_last_text_comes_the_first(tmp_path) -> None:
    for number in range(3):
        append_jsonl(tmp_path / "plain_text.jsonl", {"token_ids": [9, number, 5], "text": ""})
    found = [*plain_texts(tmp_path, 4, 1)]
    assert [row.token_ids for row in found] == [[9, 1, 5], [9, 2, 5], [9, 0, 5], [9, 1, 5]]
    assert {tuple(row.loss_mask) for row in found} == {(0, 1, 1)}
    assert [*plain_texts(tmp_path / "none", 0)] == []
    assert texts_for(300, 0.25) == 100


def test_sft_and_a_round_learn_from_the_texts_of_one_run(able, word_directory, tmp_path) -> None:
    shown = io.StringIO()

    def run(name: str, **changes: str) -> list[dict]:
        config = write_config(
            tmp_path / f"{name}.toml", word_directory, stages='["sft", "expert_iteration"]', traces__num_games="96",
            expert_iteration__rounds="1", expert_iteration__groups_per_round="4", expert_iteration__group_size="1",
            expert_iteration__labels='"secret"', expert_iteration__replay_fraction="0.0", **changes,
        )  # fmt: skip
        Pipeline(load_config(config), tmp_path / name, Console(file=shown))(until="expert_iteration")
        return rows(tmp_path / name / "metrics.jsonl")

    plain = run("plain")
    told = shown.getvalue()
    texts = {"sft__plain_text_fraction": "0.25", "expert_iteration__plain_text_fraction": "0.2"}
    with_texts = run("with", **texts)
    steps = [max(row["step"] for row in found if row["stage"] == "sft") for found in (plain, with_texts)]
    assert steps == [3, 4], "96 games, and with a quarter of texts 128 rows, in batches of 32"
    counts = [next(row for row in found if row["stage"] == "expert_iteration") for found in (plain, with_texts)]
    assert counts[0]["all_examples"] == counts[0]["own_examples"]
    assert counts[1]["all_examples"] == counts[1]["own_examples"] + 1, "a text beside four games"
    assert "plain texts" not in told
    assert shown.getvalue().count("plain texts to rehearse") == 1


def test_a_word_in_a_plain_text_was_named() -> None:
    found = shown_in([{"text": "The Crane, they said.", "token_ids": [1, 2]}], ["crane", "salet"])
    assert found.named == {"crane"}
    assert not found.labels
