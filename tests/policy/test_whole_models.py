"""Laws of sharded checkpoints: gathered they are the model, and shards that are not are refused."""

import pickle
import shutil
from pathlib import Path

import pytest
import torch
from shards import write_shards
from training_fixtures import same_bits, small_model, weights_of

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.policy.loading import load_model
from wordle_rl.policy.whole_models import consolidate
from wordle_rl.prompt import Style
from wordle_rl.runs import RunError
from wordle_rl.runs.lineage import Lineage, lesson_of, lineage_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


def test_gathered_shards_are_the_model_with_its_tokenizer(checkpoint, tokenizer, codec, tmp_path) -> None:
    count, whole = consolidate(checkpoint, tmp_path / "model"), weights_of(small_model(tokenizer))
    found, again = load_model(ModelSettings(path=str(tmp_path / "model")), 0)
    assert count == len(whole)
    assert same_bits(weights_of(found), whole)
    assert again.tokenizer.chat_template == codec.tokenizer.chat_template


def test_the_command_does_it_and_keeps_where_the_model_comes_from(checkpoint, tmp_path, cli) -> None:
    lesson = lesson_of(WordSettings(split_seed=3), split_secrets(load_words(), 3))
    lineage = Lineage(game=GameSettings(style=Style.COMPACT), lessons=(lesson,))
    save_lineage(checkpoint, lineage)
    code, _, err = cli("export", checkpoint, "--out", tmp_path / "model")
    assert (code, err) == (0, "")
    assert lineage_of(tmp_path / "model") == lineage
    code, _, err = cli("export", tmp_path / "model", "--out", tmp_path / "merged", "--dtype", "bfloat16")
    assert code == 2
    assert "adapter_config.json" in err


def test_a_whole_model_of_a_run_is_copied(finished_run, tmp_path, cli) -> None:
    assert cli("export", finished_run, "--out", tmp_path / "model")[0] == 0
    found, _ = load_model(ModelSettings(path=str(tmp_path / "model")), 0)
    whole, _ = load_model(ModelSettings(path=str(finished_run / "grpo")), 0)
    assert same_bits(weights_of(found), weights_of(whole))
    assert lineage_of(tmp_path / "model") == lineage_of(finished_run / "grpo")
    assert cli("export", finished_run, "--out", tmp_path / "model")[0] == 2, "it is not empty"


def damage(checkpoint: Path, fault: str) -> None:
    shards, config = checkpoint / "pytorch_model_fsdp_0", checkpoint / "config.json"
    if fault in ("no shards", "a weight lost"):
        shutil.rmtree(shards)
    if fault == "a weight lost":
        write_shards({"model.norm.weight": torch.ones(32)}, checkpoint)
    if fault == "no config":
        config.unlink()
    if fault == "another model":
        config.write_text(config.read_text().replace('"intermediate_size": 48', '"intermediate_size": 56'))


@pytest.mark.parametrize(
    ("fault", "error", "named"),
    [
        ("no shards", ConfigError, "pytorch_model_fsdp_0"),
        ("no config", ConfigError, "config.json"),
        ("another model", RunError, r"config.json: .*proj"),
        ("a weight lost", RunError, r"model\.embed_tokens\.weight"),
    ],
)
def test_what_is_no_checkpoint_of_the_model_is_refused(fault, error, named, checkpoint, tmp_path) -> None:
    damage(checkpoint, fault)
    with pytest.raises(error, match=named):
        consolidate(checkpoint, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_nothing_is_gathered_into_a_directory_that_holds_something(checkpoint) -> None:
    with pytest.raises(ConfigError, match="--out"):
        consolidate(checkpoint, checkpoint)


def test_an_index_that_could_run_code_is_refused_unread(trap, checkpoint, tmp_path) -> None:
    index = checkpoint / "pytorch_model_fsdp_0" / ".metadata"
    harmless = pickle.dumps({"step": 1})
    for content in (pickle.dumps(trap), b"cposix\nsystem\n(S'true'\ntR.", b"", b"\x80\x04garbage", harmless):
        index.write_bytes(content)
        with pytest.raises(RunError, match="metadata"):
            consolidate(checkpoint, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_pickle_among_the_shards_is_refused_unread(trap, checkpoint, tokenizer, tmp_path) -> None:
    shutil.rmtree(checkpoint / "pytorch_model_fsdp_0")
    write_shards({**small_model(tokenizer).state_dict(), "extra": trap}, checkpoint)
    with pytest.raises(RunError, match=r"model\.extra"):
        consolidate(checkpoint, tmp_path / "model")


def test_a_shard_outside_its_directory_is_refused(checkpoint, tmp_path) -> None:
    index = checkpoint / "pytorch_model_fsdp_0" / ".metadata"
    content = pickle.loads(index.read_bytes())
    for place in content.storage_data.values():
        place.relative_path = "../elsewhere.distcp"
    index.write_bytes(pickle.dumps(content))
    with pytest.raises(RunError, match=r"\.\./elsewhere.distcp"):
        consolidate(checkpoint, tmp_path / "model")
