"""Laws of sharded checkpoints: gathered they are the model, and shards that are not are refused."""

import pickle
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from shards import write_shards
from training_fixtures import small_model, weights_of

from wordle_rl.config import ConfigError, GameSettings, ModelSettings, WordSettings
from wordle_rl.policy.export import consolidate
from wordle_rl.policy.loading import load_model
from wordle_rl.prompt import Style
from wordle_rl.runs import RunError
from wordle_rl.runs.lineage import Lineage, lesson_of, lineage_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


def holds(directory: Path, expected) -> bool:
    found, _ = load_model(ModelSettings(path=str(directory)), 0)
    return all(torch.equal(weight, weights_of(expected)[name]) for name, weight in weights_of(found).items())


def test_gathered_shards_are_the_model_with_its_tokenizer(checkpoint, tokenizer, codec, tmp_path) -> None:
    count = consolidate(checkpoint, tmp_path / "model")
    assert count == len(list(small_model(tokenizer).parameters()))
    assert holds(tmp_path / "model", small_model(tokenizer))
    _, again = load_model(ModelSettings(path=str(tmp_path / "model")), 0)
    assert again.tokenizer.chat_template == codec.tokenizer.chat_template


def test_the_command_does_it_and_keeps_where_the_model_comes_from(checkpoint, tmp_path, cli) -> None:
    lesson = lesson_of(WordSettings(split_seed=3), split_secrets(load_words(), 3))
    lineage = Lineage(game=GameSettings(style=Style.COMPACT), lessons=(lesson,))
    save_lineage(checkpoint, lineage)
    code, out, err = cli("export", checkpoint, "--out", tmp_path / "model")
    assert (code, err) == (0, "")
    assert "weights" in out
    assert lineage_of(tmp_path / "model") == lineage
    code, _, err = cli("export", tmp_path / "model", "--out", tmp_path / "merged")
    assert code == 2
    assert "there is nothing to merge" in err


@pytest.mark.parametrize("fault", ["no shards", "no config", "another model", "a weight lost", "a taken place"])
def test_what_is_no_checkpoint_of_the_model_is_refused(fault, checkpoint, tokenizer, codec, tmp_path) -> None:
    out, error, message = tmp_path / "model", ConfigError, ""
    if fault == "no shards":
        shutil.rmtree(checkpoint / "pytorch_model_fsdp_0")
        message = "holds no sharded checkpoint"
    if fault == "no config":
        (checkpoint / "config.json").unlink()
        message = "has no config.json"
    if fault == "another model":
        text = (checkpoint / "config.json").read_text()
        (checkpoint / "config.json").write_text(text.replace('"intermediate_size": 48', '"intermediate_size": 56'))
        error, message = RunError, r"does not fit its config.json: .*proj"
    if fault == "a weight lost":
        shutil.rmtree(checkpoint / "pytorch_model_fsdp_0")
        write_shards({"model.norm.weight": torch.ones(32)}, checkpoint)
        error, message = RunError, r"differ in model\.embed_tokens\.weight"
    if fault == "a taken place":
        out = checkpoint
        message = "is not empty"
    with pytest.raises(error, match=message):
        consolidate(checkpoint, out)
    assert out == checkpoint or not out.exists()


class _Runs:
    """A pickle that leaves a file behind when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_an_index_that_could_run_code_is_refused_unread(checkpoint, tmp_path) -> None:
    index = checkpoint / "pytorch_model_fsdp_0" / ".metadata"
    for content in (pickle.dumps(_Runs(tmp_path / "ran")), b"cposix\nsystem\n(S'true'\ntR.", b"", b"\x80\x04garbage"):
        index.write_bytes(content)
        with pytest.raises(RunError, match="is no index of tensors"):
            consolidate(checkpoint, tmp_path / "model")
    index.write_bytes(pickle.dumps({"step": 1}))
    with pytest.raises(RunError, match="is no index of tensors"):
        consolidate(checkpoint, tmp_path / "model")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "model").exists()


def test_a_pickle_among_the_shards_is_refused_unread(checkpoint, tokenizer, tmp_path) -> None:
    state = dict(small_model(tokenizer).state_dict()) | {"extra": _Runs(tmp_path / "ran")}
    shutil.rmtree(checkpoint / "pytorch_model_fsdp_0")
    write_shards(state, checkpoint)
    with pytest.raises(RunError, match=r"'model\.extra', a pickle and no tensor"):
        consolidate(checkpoint, tmp_path / "model")
    assert not (tmp_path / "ran").exists()


def test_a_shard_outside_its_directory_is_refused(checkpoint, tmp_path) -> None:
    index = checkpoint / "pytorch_model_fsdp_0" / ".metadata"
    content = pickle.loads(index.read_bytes())
    for place in content.storage_data.values():
        place.relative_path = "../elsewhere.distcp"
    index.write_bytes(pickle.dumps(content))
    with pytest.raises(RunError, match=r"'\.\./elsewhere.distcp' outside its directory"):
        consolidate(checkpoint, tmp_path / "model")
