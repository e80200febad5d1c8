"""Write a model as a GGUF file for llama.cpp and Ollama, and read it back.

The file holds weights, tokens, chat template, and how the model was trained to play. Beside it lies a Modelfile, by
which Ollama plays it. Vectors are stored in float32, as llama.cpp wants them, matrices in the type asked for. What was
written is then read as any GGUF file is (`policy.gguf`); unless it holds the same weights and reads a game as the same
tokens, nothing is left behind.

llama.cpp splits text by rules that it knows by name, so a tokenizer with other rules cannot be written. That of the
embedded model is one: a letter and its mark are one token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, get_tensor_name_map, quantize
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.game import scored_turn
from wordle_rl.policy.gguf import LINEAGE_KEY, read_gguf
from wordle_rl.policy.loading import load_codec
from wordle_rl.prompt import Message, Prompter
from wordle_rl.runs import RunError
from wordle_rl.runs.lineage import Lineage

FAMILIES = ("llama", "qwen2", "qwen3")
"""Architectures that are written. transformers and llama.cpp name them alike."""
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {_LETTERS + _OTHERS: "qwen2", _LETTERS + "{1,3}" + _OTHERS: "llama-bpe"}
"""Pattern by which a tokenizer splits text -> llama.cpp's name of it."""
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
"""llama.cpp's kinds of tokens: of the vocabulary, special, added as ordinary text, and rows without a token."""
_ELSEWHERE = "llama.cpp's convert_hf_to_gguf.py may know it"
_KINDS = {"float32": (GGMLQuantizationType.F32, 0), "bfloat16": (GGMLQuantizationType.BF16, 32)}
"""Type of the matrices -> llama.cpp's code for it, and for a file of such matrices."""


def write_gguf(
    model: PreTrainedModel,
    codec: ChatCodec,
    prompter: Prompter,
    lineage: Lineage | None,
    dtype: Literal["float32", "bfloat16"],
    file: Path,
) -> None:
    """Write a whole model to `file`, with what it has met and how it was trained to play.

    Raises:
        ConfigError: If its architecture or its tokenizer has no place in such a file.
        RunError: If what was written is not the model.
    """
    family, (kind, file_type) = str(model.config.model_type), _KINDS[dtype]
    header = {**_numbers(model, family), **_tokens(codec, model.config.vocab_size), "file_type": file_type}
    if lineage is not None and lineage.licence is not None:
        header["license"] = lineage.licence
    partial = file.with_name(f".{file.stem}.partial.gguf")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        writer = GGUFWriter(partial, family)
        for name, value in header.items():
            getattr(writer, f"add_{name}")(value)
        if lineage is not None:
            writer.add_string(LINEAGE_KEY, lineage.model_dump_json())
        for name, values in _tensors(model, family):
            stored = kind if values.ndim > 1 else GGMLQuantizationType.F32
            writer.add_tensor(name, quantize(values.numpy(), stored), raw_dtype=stored)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        _check(partial, model, codec, prompter, getattr(torch, dtype))
        partial.replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _numbers(model: PreTrainedModel, family: str) -> dict[str, Any]:
    # What the header says of the architecture, by the names of its writer.
    config = model.config
    if family not in FAMILIES:
        raise ConfigError(f"models of the kind {family!r} are not written, only {', '.join(FAMILIES)}; {_ELSEWHERE}")
    rotation = config.rope_parameters
    if rotation["rope_type"] != "default":
        raise ConfigError(f"rotations of the kind {rotation['rope_type']!r} are not written; {_ELSEWHERE}")
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    # Qwen2's heads share the width of the model evenly, and its files do not say so.
    lengths = {} if family == "qwen2" else {"key_length": head_dim, "value_length": head_dim}
    return {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "head_count": config.num_attention_heads,
        "head_count_kv": config.num_key_value_heads,
        **lengths,
        "rope_dimension_count": head_dim,
        "rope_freq_base": rotation["rope_theta"],
        "layer_norm_rms_eps": config.rms_norm_eps,
        "vocab_size": config.vocab_size,
    }


def _tokens(codec: ChatCodec, num_rows: int) -> dict[str, Any]:
    # The tokenizer. The template writes every special token, so no reader is to put one before a text.
    tokenizer = codec.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    stored: dict[str, Any] = json.loads(backend.to_str()) if backend is not None else {}
    split = _split_name(stored)
    if split is None:
        raise ConfigError(
            f"llama.cpp has no name for the way this tokenizer splits text; {_ELSEWHERE}, and transformers and vLLM "
            "serve the model as it is"
        )
    added = {token["id"]: token for token in stored["added_tokens"]}
    texts: dict[int, str] = {number: text for text, number in stored["model"]["vocab"].items()}
    texts |= {number: token["content"] for number, token in added.items()}
    kinds = dict.fromkeys(texts, _NORMAL) | {
        number: _CONTROL if token["special"] else _USER_DEFINED for number, token in added.items()
    }
    named = {
        "bos": tokenizer.bos_token_id, "eos": codec.turn_end_ids[0], "eot": codec.turn_end_ids[0],
        "unk": tokenizer.unk_token_id, "pad": codec.pad_id,
    }  # fmt: skip
    return {
        "tokenizer_model": "gpt2",
        "tokenizer_pre": split,
        "token_list": [texts.get(number, f"[PAD{number}]") for number in range(num_rows)],
        "token_types": [kinds.get(number, _UNUSED) for number in range(num_rows)],
        "token_merges": [" ".join(pair) for pair in stored["model"]["merges"]],
        "add_bos_token": False,
        "chat_template": _known_tags(codec.template.text),
        **{f"{name}_token_id": number for name, number in named.items() if number is not None},
    }


def _split_name(stored: dict[str, Any]) -> str | None:
    # llama.cpp's name of how a tokenizer splits text into the pieces that its merges work on; None if it has none.
    split = stored.get("pre_tokenizer") or {}
    *first, last = split.get("pretokenizers", [split])
    if stored.get("model", {}).get("type") != "BPE" or last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    if not first:
        return "gpt-2" if last["use_regex"] else None
    if len(first) == 1 and first[0]["type"] == "Digits" and first[0]["individual_digits"] and last["use_regex"]:
        return "smollm"
    if len(first) == 1 and first[0]["type"] == "Split" and not last["use_regex"]:
        return _SPLITS.get(first[0]["pattern"].get("Regex", ""))
    return None


def _known_tags(template: str) -> str:
    # transformers marks replies by a tag of its own. Other engines read it as a block that is always written.
    return template.replace("{%- generation %}", "{%- if true %}").replace("{%- endgeneration %}", "{%- endif %}")


def _tensors(model: PreTrainedModel, family: str) -> Iterator[tuple[str, torch.Tensor]]:
    # The file's names of the weights, and their values in float32 on the processor.
    config = model.config
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads} if family == "llama" else {}
    architecture = next(code for code, name in MODEL_ARCH_NAMES.items() if name == family)
    names = get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if theirs is None:
            raise ConfigError(f"a GGUF file of {family} has no place for {name}; {_ELSEWHERE}")
        values = weight.detach().to("cpu", torch.float32)
        if (projection := name.split(".")[-2]) in heads:
            # transformers turns the first half of a head against the second, llama.cpp each number against its
            # neighbour.
            halves = values.reshape(heads[projection], 2, -1, *values.shape[1:])
            values = halves.transpose(1, 2).reshape(values.shape)
        yield theirs, values.contiguous()


def _check(file: Path, model: PreTrainedModel, codec: ChatCodec, prompter: Prompter, dtype: torch.dtype) -> None:
    found, tokenizer = read_gguf(file)
    weights = found.state_dict()
    for name, weight in model.state_dict().items():
        stored = weight.detach().to("cpu", dtype if weight.ndim > 1 else torch.float32).float()
        if name not in weights or not torch.equal(weights[name], stored):
            raise RunError(f"{file} is not the model that was to be written: {name} differs")
    with TemporaryDirectory() as place:  # the tokenizer that a saved model has can be of another class
        found.config.save_pretrained(place)
        tokenizer.save_pretrained(place)
        read = load_codec(ModelSettings(path=place))
    text = codec.template.render(_sample_game(prompter))
    if read.encode(text) != codec.encode(text):
        raise RunError(f"{file} splits the text of a game into other tokens than the model learnt; {_ELSEWHERE}")


def _sample_game(prompter: Prompter) -> list[Message]:
    # A game in which every letter is named, up to its last question.
    length, letters = prompter.word_length, 2 * "abcdefghijklmnopqrstuvwxyz"
    secret = letters[1 : length + 1]
    guesses = [letters[first : first + length] for first in range(0, 26, length)][
        : max(1, prompter.rules.max_turns - 1)
    ]
    return prompter.opening([scored_turn(secret, each) for each in guesses])


def modelfile(codec: ChatCodec, prompter: Prompter, max_completion_tokens: int, num_context: int, gguf: str) -> str:
    """Return what `ollama create` needs beside the file `gguf`: template, stops, limits, system message.

    Ollama writes templates in a language of its own, so the text around each message is read off the model's template.

    Raises:
        ConfigError: If such texts do not make up what the template writes.
    """
    template, frame = codec.template, codec.frame
    # Some templates trim messages, and nobody types the spaces.
    game = [Message(role=each["role"], content=each["content"].strip()) for each in _sample_game(prompter)]
    first = [message["role"] for message in game].index("user")
    system, asked = (game[0]["content"] if first else ""), game[first]["content"]
    opening = template.render(game[: first + 1])
    head, _, rest = opening.partition(system) if system else ("", "", opening)
    middle, _, tail = rest.partition(asked)
    joined = opening
    for message in game[first + 1 :]:
        said = message["content"]
        if message["role"] == "assistant":
            joined += frame.spoken(said) + frame.turn_end
        else:
            joined += frame.bridge_head + said + frame.bridge_tail
    if joined != template.render(game) or tail != frame.bridge_tail or '"""' in joined:
        raise ConfigError("Ollama has no words for this chat template; llama.cpp reads it from the file itself")
    said = "{{ .Content }}"
    text = f'{{{{ if eq .Role "system" }}}}{_go(head)}{said}{{{{ else if' if system else "{{ if"
    text += f' eq .Role "assistant" }}}}{said}{_go(frame.turn_end)}'
    text += f"{{{{ else if $first }}}}{{{{ $first = false }}}}{_go(middle)}{said}{_go(tail)}"
    text += f"{{{{ else }}}}{_go(frame.bridge_head)}{said}{_go(tail)}{{{{ end }}}}"
    stops = [str(codec.tokenizer.decode([stop], skip_special_tokens=False)) for stop in sorted(codec.stop_ids)]
    lines = [
        f"# ollama create wordle -f {gguf.removesuffix('.gguf')}.Modelfile",
        "# What to type: what begins a game, and what answers a guess. If alone, the message restates the board:",
        "# then each turn is a new conversation.",
        *(f"# {json.dumps(each['content'], ensure_ascii=False)}" for each in game[first : first + 3 : 2]),
        f"FROM ./{gguf}",
        f'TEMPLATE """{{{{ $first := true }}}}{{{{ range .Messages }}}}{text}{{{{ end }}}}"""',
        *([f'SYSTEM """{system}"""'] if system else []),
        *(f"PARAMETER stop {json.dumps(stop, ensure_ascii=False)}" for stop in stops),
        "PARAMETER temperature 0",
        f"PARAMETER num_predict {max_completion_tokens}",
        f"PARAMETER num_ctx {num_context}",
    ]
    return "\n".join(lines) + "\n"


def _go(text: str) -> str:
    # A literal of Go's templates: braces and line breaks in it mean nothing.
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if text else ""
