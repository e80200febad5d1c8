"""Laws of memory estimates: hand arithmetic where it is exact, autograd's own account where it is rough."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from chat_families import family_config
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    Gemma4TextConfig,
    Qwen3Config,
)

import wordle_rl.runs.provenance as provenance_module
from wordle_rl.config import GRPOSettings, ModelSettings, RunConfig
from wordle_rl.policy.kv_cache import GameCache, num_shared_layers
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.numbers import ModelNumbers
from wordle_rl.preflight.memory import Work, cache_bytes, estimate, stage_works
from wordle_rl.runs.provenance import main_memory_bytes

GIB = 1024**3
SMALL = ModelNumbers(1000, 1000, 2, 2, 1, 16, 32, 48, 100, 4)


def test_qwen3_4b_is_counted_from_its_configuration_alone(tmp_path: Path) -> None:
    Qwen3Config(
        vocab_size=151_936, hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, intermediate_size=9728, tie_word_embeddings=True, max_position_embeddings=40_960,
        dtype="bfloat16",
    ).save_pretrained(tmp_path)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    numbers = load_numbers(ModelSettings(path=str(tmp_path), dtype="auto"))
    layer = 2 * 2560 * 4096 + 2 * 2560 * 1024 + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
    assert numbers.num_parameters == numbers.num_trainable == 151_936 * 2560 + 36 * layer + 2560 == 4_022_468_096
    assert (numbers.weight_bytes, numbers.context, numbers.vocab_size) == (2, 40_960, 151_936)
    assert cache_bytes(numbers, 1, 1) == 144 * 1024
    needed = estimate(numbers, Work(rows=1, length=4096, compute_bytes=2, cached_games=512, group_size=16))
    assert (needed.cache_of_a_group, needed.cache) == (9 * GIB, 288 * GIB)
    assert needed.counted == 4 * 2 * 4_022_468_096  # weights, gradients, two numbers of AdamW
    assert load_numbers(ModelSettings(path=str(tmp_path))).weight_bytes == 4


def test_numbers_of_the_embedded_model_are_those_of_the_model_made() -> None:
    from wordle_rl.policy.loading import load_model

    settings = ModelSettings(max_length=77)
    numbers = load_numbers(settings)
    made = load_model(settings, 0)[0]
    assert numbers.num_parameters == sum(parameter.numel() for parameter in made.parameters())
    assert (numbers.context, numbers.weight_bytes, numbers.head_dim) == (77, 4, 32)


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "llama3"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
def test_activations_are_within_a_factor_of_what_autograd_keeps(name: str, attention: str, half: bool) -> None:
    size = {"hidden_size": 128, "num_attention_heads": 4, "head_dim": 32, "intermediate_size": 384}
    model = AutoModelForCausalLM.from_config(family_config(name, 300, **size), attn_implementation=attention)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ids = torch.randint(0, 300, (4, 120))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t), torch.autocast("cpu", torch.bfloat16, half):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    assert hidden.requires_grad
    num = sum(parameter.numel() for parameter in model.parameters())
    numbers = ModelNumbers(num, num, 2, 4, 1, 32, 128, 384, 300, 4)
    work = Work(rows=4, length=120, compute_bytes=2 if half else 4, eager_attention=attention == "eager")
    assert 0.7 < estimate(numbers, work).activations / measured < 1.45


SIX = {
    "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "intermediate_size": 48, "vocab_size": 96, "pad_token_id": 0,
}  # fmt: skip
SHARING = {
    "num_kv_shared_layers": 3, "sliding_window": 8, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 96,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
}  # fmt: skip
CACHED = {
    "all layers": Qwen3Config(**SIX),
    "sliding windows": Gemma3TextConfig(**SIX, sliding_window=8),
    "shared layers": Gemma3nTextConfig(**SIX, **SHARING, laurel_rank=4, activation_sparsity_pattern=[0.0] * 6),
    "shared layers of different heads": Gemma4TextConfig(**SIX, **SHARING, global_head_dim=24),
}


@pytest.mark.parametrize("kind", CACHED)
def test_the_cache_is_counted_as_our_sampler_holds_it(kind: str, tmp_path: Path) -> None:
    config = CACHED[kind]
    config.save_pretrained(tmp_path)
    counted = cache_bytes(load_numbers(ModelSettings(path=str(tmp_path))), 40, 3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    ids = torch.randint(1, 96, (3, 40))
    games = GameCache(6 - num_shared_layers(config), 3, ids.device)
    mask, positions = games.append_mask(torch.ones_like(ids))
    model(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=games.cache, use_cache=True)
    held = sum(states.nbytes for layer in games.cache.layers for states in (layer.keys, layer.values))
    assert counted == held if kind != "shared layers of different heads" else held < counted < 1.5 * held
    theirs = DynamicCache(config=config)
    model(input_ids=ids, past_key_values=theirs, use_cache=True)
    kept = [layer.keys.nbytes + layer.values.nbytes for layer in theirs.layers if layer.keys is not None]
    assert len(kept) == len(games.cache.layers)
    assert sum(kept) == held if kind == "all layers" else sum(kept) < held, "theirs drops what a window has passed"


def works(config: RunConfig, **changes: object):
    facts = {"teacher_length": 80, "game_length": 110, "num_secrets": 60, "bf16": {"sft": True, "grpo": False}}
    return stage_works(config, **{**facts, "eager_attention": True, "tiled_sft": True, **changes})


def test_dpo_keeps_the_model_it_began_with_beside_the_one_it_trains() -> None:
    shared = {"algorithm": "dpo", "rl": {"batch_size": 8, "group_size": 4, "groups_per_round": 3}}
    section = {"judge": "outcome"}
    bf16 = {"sft": False, "dpo": False}
    work = works(RunConfig.model_validate({**shared, "dpo": section}), bf16=bf16)["dpo"]
    assert (work.rows, work.cached_games) == (16, 12), "a pair is two rows"
    assert estimate(SMALL, work).reference == 4000
    adapted = estimate(ModelNumbers(1000, 10, 2, 2, 1, 16, 32, 48, 100, 4), work)
    assert (adapted.reference, adapted.gradients) == (4000, 40), "it is a copy of all, adapters or not"
    sampled = section | {"judge": "regret"}
    work = works(RunConfig.model_validate({**shared, "dpo": sampled}), bf16=bf16)["dpo"]
    assert work.cached_games == 512 * 8


@pytest.mark.parametrize(("limit", "expected"), [("1048576\n", 1048576), ("max\n", None), (None, None)])
def test_a_container_s_share_counts_as_main_memory(limit, expected, tmp_path: Path, monkeypatch) -> None:
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(provenance_module, "_CGROUP_LIMIT", tmp_path / "memory.max")
    found = main_memory_bytes()
    assert found is not None
    assert found == expected if expected else found > GIB // 2


def test_games_that_vllm_plays_keep_no_cache_in_the_trainer_and_a_second_copy_of_the_weights() -> None:
    config = RunConfig(grpo=GRPOSettings(engine="vllm"))
    lengths = {"teacher_length": 90, "game_length": 90, "num_secrets": 5, "bf16": {"sft": False, "grpo": False}}
    work = stage_works(config, **lengths, eager_attention=True, tiled_sft=False)["grpo"]
    numbers = ModelNumbers(1000, 1000, 2, 2, 1, 8, 16, 32, 100, 4)
    found = estimate(numbers, work)
    assert (found.cache, found.cache_of_a_group, found.engine_weights) == (0, 0, 2000)
    ours = stage_works(RunConfig(), **lengths, eager_attention=True, tiled_sft=False)["grpo"]
    assert estimate(numbers, ours).cache > 0
    assert estimate(numbers, ours).engine_weights == 0
