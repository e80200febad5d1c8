"""Laws of models and optimizers: whole directories, named damage, state that survives a round trip."""

import json
import re
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
import torch
from chat_families import family_config, family_tokenizer
from huggingface_hub.utils import logging as hub_logging
from small_models import small_config
from training_fixtures import flipped, halved, small_model
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, Qwen3MoeConfig

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.errors import UserError
from wordle_rl.policy.base import Request
from wordle_rl.policy.loading import load_codec, load_model, load_numbers, save_model
from wordle_rl.policy.multimodal import load_language_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs import RunError
from wordle_rl.runs.checksums import SEAL_FILE, check_sealed


@pytest.fixture
def saved(tokenizer, codec, tmp_path) -> Path:
    save_model(small_model(tokenizer), codec, tmp_path / "model")
    return tmp_path / "model"


def test_retries_of_the_hub_are_one_line(monkeypatch) -> None:
    log, heard = hub_logging.get_logger("huggingface_hub.retries"), StringIO()
    monkeypatch.setattr(hub_logging.get_logger().handlers[0], "stream", heard)

    def ask(*_: object, **__: object) -> None:
        for number in (1, 2):
            log.warning("'no name' thrown while requesting HEAD https://hub")
            log.warning(f"Retrying in 1s [Retry {number}/5].")
        log.warning("something else")
        raise OSError("no answer")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", ask)
    for _ in range(2):  # and what is hidden comes back afterwards
        with pytest.raises(ConfigError):
            load_model(ModelSettings(path="nobody/nothing"), 0)
        log.warning("Retrying in 1s [Retry 2/5].")
    told = heard.getvalue().splitlines()
    assert told == 2 * [told[0], "something else", "Retrying in 1s [Retry 2/5]."]


def test_a_model_that_cannot_be_saved_leaves_nothing(tokenizer, codec, tmp_path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(RunError, match="taken"):
        save_model(small_model(tokenizer), codec, tmp_path / "taken" / "model")
    (tmp_path / "model").write_text("a file in the way")
    with pytest.raises(RunError, match="model"):
        save_model(small_model(tokenizer), codec, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "taken"]


DAMAGE = {
    "truncated weights": ("model.safetensors", lambda content: content[:-100]),
    "no weights": ("model.safetensors", None),
    "no config": ("config.json", None),
    "bad config": ("config.json", lambda _: b'{"model_type": '),
    "unknown model type": ("config.json", lambda _: b'{"model_type": "abacus"}'),
    "bad tokenizer": ("tokenizer.json", lambda _: b"{}"),
}


@pytest.mark.parametrize("how", ["missing", *DAMAGE])
def test_a_damaged_model_from_elsewhere_is_refused_in_one_line_that_names_it(how, saved) -> None:
    path = saved
    (saved / SEAL_FILE).unlink()
    if how == "missing":
        path = saved / "nowhere"
    else:
        file, change = DAMAGE[how]
        content = (saved / file).read_bytes()
        (saved / file).unlink()
        if change is not None:
            (saved / file).write_bytes(change(content))
    with pytest.raises(ConfigError) as caught:
        load_model(ModelSettings(path=str(path)), 0)
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "chat_template.jinja", "tokenizer.json"])
@pytest.mark.parametrize("damage", [None, flipped, halved])
def test_a_file_of_a_saved_model_that_is_lost_or_changed_is_named(file, damage, saved) -> None:
    content = (saved / file).read_bytes()
    (saved / file).unlink()
    if damage is not None:
        (saved / file).write_bytes(damage(content))
    with pytest.raises(UserError, match=re.escape(str(saved / file))):
        load_model(ModelSettings(path=str(saved)), 0)
    if file != "model.safetensors" or damage is not flipped:  # a look at a model does not read its weights
        with pytest.raises(UserError, match=re.escape(str(saved / file))):
            load_codec(ModelSettings(path=str(saved)))
    (saved / file).write_bytes(content)
    load_model(ModelSettings(path=str(saved)), 0)
    (saved / SEAL_FILE).write_text('{"files": {"config.json": "x"}}')
    with pytest.raises(RunError, match=SEAL_FILE):
        check_sealed(saved)


def test_weights_that_are_a_pickle_are_refused_unread(trap, saved) -> None:
    for name in ("model.safetensors", SEAL_FILE):
        (saved / name).unlink()
    torch.save({"weight": trap}, saved / "pytorch_model.bin")
    for load in (load_codec, lambda settings: load_model(settings, 0)):
        with pytest.raises(ConfigError, match=r"pytorch_model.bin"):
            load(ModelSettings(path=str(saved)))
    with pytest.raises(OSError, match="safetensors"):
        load_language_model(str(saved), "auto")


def test_an_index_of_shards_and_a_config_name_safetensors_alone(trap, saved) -> None:
    (saved / SEAL_FILE).unlink()
    torch.save({"weight": trap}, saved / "adapter_model.bin")
    (saved / "model.safetensors").rename(saved / "other.safetensors")
    for shard in ("adapter_model.bin", "../model/other.safetensors"):
        index = saved / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": {"weight": shard}}))
        for load in (load_codec, lambda settings: load_model(settings, 0)):
            with pytest.raises(ConfigError, match=shard):
                load(ModelSettings(path=str(saved)))
    index.unlink()
    stored = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**stored, "transformers_weights": "adapter_model.bin"}))
    with pytest.raises(ConfigError, match=r"adapter_model.bin"):
        load_model(ModelSettings(path=str(saved)), 0)


def test_a_model_of_the_hub_names_safetensors_alone(trap, saved, hub) -> None:
    (saved / SEAL_FILE).unlink()
    torch.save({"weight": trap}, saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    (saved / "model.safetensors.index.json").write_text('{"weight_map": {"weight": "pytorch_model.bin"}}')
    hub.repos["me/trap"] = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(ConfigError, match=r"pytorch_model.bin"):
        load_language_model("me/trap", "auto")


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation", "inside"])
def test_a_model_s_own_config_names_no_code_of_the_hub(key, saved) -> None:
    (saved / SEAL_FILE).unlink()
    stored = json.loads((saved / "config.json").read_text())
    named = {"text_config": {"_attn_implementation": "someone/kernel"}} if key == "inside" else {key: "someone/kernel"}
    (saved / "config.json").write_text(json.dumps(stored | named))
    for load in (load_codec, load_numbers, lambda settings: load_model(settings, 0)):
        with pytest.raises(ConfigError, match=r"model\.attn_implementation"):
            load(ModelSettings(path=str(saved), attn_implementation="eager"))


def test_attention_is_ours_to_choose_and_not_the_file_s(saved) -> None:
    (saved / SEAL_FILE).unlink()
    stored = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**stored, "_attn_implementation": "flash_attention_2"}))
    assert load_model(ModelSettings(path=str(saved)), 0)[0].config._attn_implementation in ("eager", "sdpa")
    assert load_numbers(ModelSettings(path=str(saved))).num_layers == stored["num_hidden_layers"]


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_model_is_not_run(file, saved, tmp_path) -> None:
    (saved / SEAL_FILE).unlink()
    settings = json.loads((saved / file).read_text())
    own = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own", "own.Own"]}
    settings["auto_map"] = own
    settings |= {"model_type": "own-model"} if file == "config.json" else {"tokenizer_class": "Own"}
    (saved / file).write_text(json.dumps(settings))
    (saved / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Own: ...\n")
    with suppress(ConfigError):  # a tokenizer of its own is replaced by the generic one
        load_model(ModelSettings(path=str(saved)), 0)
    assert not (tmp_path / "ran").exists()


def test_a_model_stops_where_its_makers_let_it_and_so_does_what_is_saved(tmp_path) -> None:
    tokenizer = family_tokenizer("llama3")
    end, turn, letter = tokenizer.convert_tokens_to_ids(["<|end_of_text|>", "<|eot_id|>", "a"])
    model = AutoModelForCausalLM.from_config(family_config("llama3", len(tokenizer)))
    model.generation_config.eos_token_id = [end, turn, letter]
    model.save_pretrained(tmp_path / "published")
    tokenizer.save_pretrained(tmp_path / "published")
    model, codec = load_model(ModelSettings(path=str(tmp_path / "published")), 0)
    assert codec.stop_ids == {end, turn}, "a letter ends no turn"
    save_model(model, codec, tmp_path / "trained")
    assert load_codec(ModelSettings(path=str(tmp_path / "trained"))).stop_ids == {end, turn}
    assert GenerationConfig.from_pretrained(tmp_path / "trained").eos_token_id == sorted({end, turn})


@torch.no_grad()
def test_a_mixture_of_experts_saved_with_its_router_s_loss_on_is_played(tokenizer, codec, tmp_path) -> None:
    config = Qwen3MoeConfig(  # with that loss on, a pass with a cache fails
        **small_config(codec), head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        output_router_logits=True,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "trained")
    tokenizer.save_pretrained(tmp_path / "trained")
    model, codec = load_model(ModelSettings(path=str(tmp_path / "trained")), 0)
    sampler = TransformersSampler(model, codec, SamplingSettings(max_completion_tokens=4))
    [completion] = sampler.sample([Request(0, (), (), codec.encode("5x6"))])
    assert completion.token_ids
    save_model(model, codec, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["output_router_logits"] is False


def test_large_models_have_the_attention_that_spares_memory(saved, monkeypatch) -> None:
    def attention(**settings: object) -> str:
        return str(load_model(ModelSettings(**settings), 0)[0].config._attn_implementation)

    assert attention(path=str(saved)) == "eager", "as the embedded model has it"
    monkeypatch.setattr("wordle_rl.policy.loading.SMALL", 1_000)
    assert attention(path=str(saved)) == "sdpa"
    assert attention(path=str(saved), attn_implementation="eager") == "eager"
