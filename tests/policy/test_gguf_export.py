"""Laws of models as GGUF files: read again they are the model that was written, under llama.cpp and Ollama too."""

import json
import re
from pathlib import Path

import jinja2
import pytest
import torch
from chat_families import SPLITS, codec_of, family_config, split_as_published

pytest.importorskip("gguf")

from gguf import GGUFReader
from transformers import AutoModelForCausalLM

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, LoraSettings, ModelSettings, WordSettings
from wordle_rl.game import Outcome, Rules, Turn, score_guess
from wordle_rl.policy.adapters import add_adapters, merged
from wordle_rl.policy.directory import find_model, game_of
from wordle_rl.policy.gguf_export import _split_name, modelfile, write_gguf
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.runs import RunError
from wordle_rl.runs.lineage import Lineage, lesson_of, lineage_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

FAMILIES = {"llama3": True, "qwen2.5": False, "qwen3": True}
"""Chat family of each architecture that is written -> are its embedding and its head one?"""
LINEAGE = Lineage(
    game=GameSettings(style=Style.TEXTARENA, max_turns=4),
    lessons=(lesson_of(WordSettings(split_seed=3), split_secrets(load_words(), 3)),),
    licence="apache-2.0",
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def model_of(family: str, seed: int = 0):
    """A random model of a family, whose norms and biases are not those of a new one, and its codec."""
    codec = codec_of(family)
    split_as_published(codec.tokenizer, family)
    config = family_config(family, len(codec.tokenizer), tie_word_embeddings=FAMILIES[family])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.randn(weight.shape) / 5 + (weight.dim() == 1))
    return model, codec


def saved(family: str, place: Path) -> Path:
    model, codec = model_of(family)
    save_model(model, codec, place)
    save_lineage(place, LINEAGE)
    return place


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_holds_the_model_its_wording_and_its_past(family, tmp_path, cli) -> None:
    place, file = saved(family, tmp_path / "model"), tmp_path / "files" / "x.gguf"
    code, out, err = cli("export", place, "--gguf", file)
    assert (code, err) == (0, "")
    assert f"ollama create wordle -f {tmp_path / 'files' / 'x.Modelfile'}" in out
    written, codec = load_model(ModelSettings(path=str(place)), 0)
    found, again = load_model(ModelSettings(path=str(file)), 0)
    weights = written.state_dict()
    assert cli("export", place, "--gguf", file)[0] == 2, "it is there already"
    assert all(torch.equal(weights[name], weight) for name, weight in found.state_dict().items())
    assert lineage_of(find_model(file)) == LINEAGE
    assert game_of(find_model(file)) == LINEAGE.game
    opening = LINEAGE.game.prompter(5).opening()
    assert again.prompt_ids(opening) == codec.prompt_ids(opening)
    assert again.turn_end_ids == codec.turn_end_ids


def test_the_file_plays_the_same_games(tmp_path, cli) -> None:
    players = saved("qwen3", tmp_path / "model"), tmp_path / "x.gguf"
    assert cli("export", players[0], "--gguf", players[1])[0] == 0
    games = []
    for player in players:
        out = tmp_path / f"{player.name}.json"
        assert cli("eval", "--player", player, "--max-games", "4", "--max-completion-tokens", "8", "--out", out)[0] == 0
        records = json.loads(out.read_text())["records"]
        games.append([(record["secret"], [turn["reply"] for turn in record["turns"]]) for record in records])
    assert len(games[0]) == 4
    assert games[0] == games[1]


def test_matrices_can_have_16_bits_and_vectors_keep_32(tmp_path) -> None:
    (model, codec), file = model_of("qwen2.5"), tmp_path / "x.gguf"
    write_gguf(model, codec, Prompter(), None, "bfloat16", file)
    kinds = {(len(tensor.shape), tensor.tensor_type.name) for tensor in GGUFReader(file).tensors}
    assert kinds == {(1, "F32"), (2, "BF16")}
    found, _ = load_model(ModelSettings(path=str(file)), 0)
    for name, weight in model.state_dict().items():
        assert torch.equal(found.state_dict()[name], weight.bfloat16().float() if weight.dim() > 1 else weight)


def test_an_adapter_is_merged_first(tmp_path, cli) -> None:
    base, file = saved("llama3", tmp_path / "base"), tmp_path / "x.gguf"
    model, codec = load_model(ModelSettings(path=str(base)), 0)
    adapted = add_adapters(model, LoraSettings(rank=2, alpha=4), str(base))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape) / 5)
    save_model(adapted, codec, tmp_path / "adapter")
    assert cli("export", tmp_path / "adapter", "--gguf", file)[0] == 0
    whole, found = merged(adapted).state_dict(), load_model(ModelSettings(path=str(file)), 0)[0].state_dict()
    assert found.keys() == whole.keys()
    assert all(torch.allclose(found[name], weight, atol=1e-6) for name, weight in whole.items())


def test_engines_that_do_not_know_the_tag_of_training_read_the_template(tmp_path) -> None:
    (model, codec), file = model_of("llama3"), tmp_path / "x.gguf"
    assert "generation %}" in codec.template.text
    write_gguf(model, codec, Prompter(), None, "float32", file)
    fields = GGUFReader(file).fields
    template = fields["tokenizer.chat_template"].contents()
    game = Prompter().opening([Turn("crane", score_guess("slate", "crane"), Outcome.SCORED)])
    plain = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    variables = {"bos_token": codec.tokenizer.bos_token, "eos_token": codec.tokenizer.eos_token}
    assert plain.render(messages=game, add_generation_prompt=True, **variables) == codec.template.render(game)
    assert fields["tokenizer.ggml.add_bos_token"].contents() is False, "the template writes it"


def as_jinja(template: str) -> str:
    """Ollama's template in the language of Python's: loops, branches, one variable, literals and the message."""
    known = {
        "$first := true": "{% set ns = namespace(first=true) %}", "range .Messages": "{% for message in messages %}",
        'if eq .Role "system"': "{% if message.role == 'system' %}", 'if eq .Role "assistant"':
        "{% if message.role == 'assistant' %}", 'else if eq .Role "assistant"':
        "{% elif message.role == 'assistant' %}", "else if $first": "{% elif ns.first %}",
        "$first = false": "{% set ns.first = false %}", ".Content": "{{ message.content }}", "else": "{% else %}",
    }  # fmt: skip
    open_blocks: list[str] = []

    def translated(found: re.Match[str]) -> str:
        said = found[1]
        if said.startswith('"'):
            return f"{{{{ {said} }}}}"
        if said == "end":
            return f"{{% end{open_blocks.pop()} %}}"
        if said.startswith(("if", "range")):
            open_blocks.append("if" if said.startswith("if") else "for")
        return known[said]

    return re.sub(r"\{\{ (\"(?:[^\"\\]|\\.)*\"|.*?) \}\}", translated, template)


@pytest.mark.parametrize("family", [*FAMILIES, "deepseek-r1", "gemma2", "gemma3", "mistral", "glm4", "gpt-oss"])
@pytest.mark.parametrize("style", [Style.SPELLED, Style.ENGLISH])
def test_what_ollama_writes_is_what_the_template_writes(family, style) -> None:
    codec, prompter = codec_of(family), Prompter(style=style)
    text = modelfile(codec, prompter, 32, 512, "x.gguf")
    template = re.search(r'^TEMPLATE """(.*?)"""$', text, re.DOTALL | re.MULTILINE)
    assert template is not None
    game = prompter.opening([Turn(guess, score_guess("slate", guess), Outcome.SCORED) for guess in ("crane", "stale")])
    replies = [m | {"content": codec.frame.spoken(m["content"])} if m["role"] == "assistant" else m for m in game]
    assert jinja2.Environment().from_string(as_jinja(template[1])).render(messages=replies) == codec.template.render(
        game
    )
    assert f'PARAMETER stop "{codec.frame.turn_end}"' in text
    assert "PARAMETER num_predict 32" in text
    if prompter.system_text:
        assert f'SYSTEM """{prompter.system_text}"""' in text


@pytest.mark.parametrize(("shape", "max_turns", "shown"), [("transcript", 6, 2), ("transcript", 1, 2), ("state", 6, 1)])
def test_a_modelfile_shows_what_to_type(shape, max_turns, shown) -> None:
    prompter = Prompter(style=Style.ENGLISH, shape=Shape(shape), rules=Rules(max_turns=max_turns))
    lines = modelfile(codec_of("qwen3"), prompter, 32, 512, "x.gguf").splitlines()
    typed = [json.loads(line[2:]) for line in lines if line.startswith('# "')]
    assert len(typed) == shown
    assert (typed[0] == prompter.opening()[-1]["content"].strip()) == (shape == "transcript")


GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
PLAIN = GPT2 | {"use_regex": False}


def split(*parts: dict) -> dict:
    return {"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*parts]}}


def by_pattern(pattern: str) -> dict:
    return split({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, PLAIN)


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ({"model": {"type": "BPE"}, "pre_tokenizer": GPT2}, "gpt-2"),
        (split({"type": "Digits", "individual_digits": True}, GPT2), "smollm"),
        (by_pattern(SPLITS["qwen3"]), "qwen2"),
        (by_pattern(SPLITS["llama3"]), "llama-bpe"),
        (by_pattern(r"\S+"), None),
        (split({"type": "Digits", "individual_digits": False}, GPT2), None),
        ({"model": {"type": "BPE"}, "pre_tokenizer": GPT2 | {"add_prefix_space": True}}, None),
        ({"model": {"type": "WordLevel"}, "pre_tokenizer": GPT2}, None),
        ({"model": {"type": "BPE"}, "pre_tokenizer": None}, None),
    ],
)
def test_only_ways_to_split_text_that_llama_cpp_has_have_a_name(stored, name) -> None:
    assert _split_name(stored) == name


def test_what_has_no_place_in_a_file_is_refused_and_leaves_none(tmp_path, finished_run, cli, monkeypatch) -> None:
    file = tmp_path / "x.gguf"
    code, _, err = cli("export", finished_run, "--gguf", file)
    assert (code, "splits text" in err) == (2, True), "the embedded model's tokens are its own"
    model, codec = model_of("qwen3")
    for change, named in (
        ({"model_type": "gemma3_text"}, "gemma3_text"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1.0}}, "llama3"),
    ):
        with monkeypatch.context() as patch:
            for name, value in change.items():
                patch.setattr(model.config, name, value)
            with pytest.raises(ConfigError, match=named):
                write_gguf(model, codec, Prompter(), None, "float32", file)
    with monkeypatch.context() as patch:
        patch.setattr("wordle_rl.policy.gguf_export.quantize", lambda values, _: values * 1.001)
        with pytest.raises(RunError, match="differs"):
            write_gguf(model, codec, Prompter(), None, "float32", file)
    assert [*tmp_path.glob("*gguf*")] == []
    code, _, err = cli("export", finished_run, "--gguf", file, "--out", tmp_path / "too")
    assert (code, "exactly one" in err) == (2, True)
