"""Laws of memory estimates: hand arithmetic where it is exact, autograd's own account where it is rough."""

from dataclasses import replace

import pytest
import torch
from chat_families import family_config
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    Gemma4TextConfig,
    Qwen3Config,
)

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.policy.kv_cache import GameCache
from wordle_rl.policy.loading import load_model, load_numbers
from wordle_rl.policy.sizes import ModelNumbers, num_shared_layers
from wordle_rl.preflight.memory import (
    MemoryEstimate,
    Passes,
    cache_bytes,
    check_memory,
    device_for,
    memory_of_stages,
    training_bytes,
    unified_memory,
    weight_bytes,
)

GIB = 1024**3
SMALL = ModelNumbers(1000, 1000, 2, 2, 1, 16, 32, 48, 100, 4)


def test_qwen3_4b_is_counted_from_its_configuration_alone(tmp_path) -> None:
    Qwen3Config(
        vocab_size=151_936, hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, intermediate_size=9728, tie_word_embeddings=True, max_position_embeddings=40_960,
        dtype="bfloat16",
    ).save_pretrained(tmp_path)  # fmt: skip
    numbers = load_numbers(ModelSettings(path=str(tmp_path), dtype="auto"))
    layer = 2 * 2560 * 4096 + 2 * 2560 * 1024 + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
    assert numbers.num_parameters == numbers.num_trainable == 151_936 * 2560 + 36 * layer + 2560 == 4_022_468_096
    assert (numbers.weight_bytes, numbers.context, numbers.vocab_size) == (2, 40_960, 151_936)
    assert cache_bytes(numbers, 1, 1) == 144 * 1024
    assert [cache_bytes(numbers, 4096, games) for games in (16, 512)] == [9 * GIB, 288 * GIB]
    assert weight_bytes(numbers) == 2 * 4_022_468_096
    assert training_bytes(numbers) == 3 * 2 * 4_022_468_096  # gradients, two numbers of AdamW
    assert load_numbers(ModelSettings(path=str(tmp_path))).weight_bytes == 4


def test_numbers_of_the_embedded_model_are_those_of_the_model_made() -> None:
    settings = ModelSettings(max_length=77)
    numbers, made = load_numbers(settings), load_model(settings, 0)[0]
    assert numbers.num_parameters == sum(parameter.numel() for parameter in made.parameters())
    assert (numbers.context, numbers.weight_bytes, numbers.head_dim) == (77, 4, 32)


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "llama3"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
def test_activations_are_within_a_factor_of_what_autograd_keeps(name, attention, half) -> None:
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
    numbers = ModelNumbers(num, num, 2, 4, 1, 32, 128, 384, 0, 4)  # of no vocabulary: logits are not measured
    expected = Passes(2 if half else 4, eager=attention == "eager").step_bytes(numbers, rows=4, length=120)
    assert 0.7 < expected / measured < 1.45


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
def test_the_cache_is_counted_as_our_sampler_holds_it(kind, tmp_path) -> None:
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


def test_dpo_keeps_a_copy_of_the_whole_model_it_began_with() -> None:
    rounds = {"batch_size": 8, "group_size": 4, "groups_per_round": 3}
    config = RunConfig.model_validate({"stages": ["sft", "dpo"], "dpo": rounds})
    adapted = ModelNumbers(1000, 10, 2, 2, 1, 16, 32, 48, 100, 4)
    found = memory_of_stages(config, adapted, 80, 110)["dpo"]
    assert found.training == 4000 + 3 * 40
    assert found.cache == cache_bytes(adapted, 110, 512 * 8)


def test_labelled_boards_count_as_rows_and_those_of_a_game_stay_together() -> None:
    def activations(micro: int, labels: str = "mistakes", model: ModelNumbers = SMALL, **more: object) -> int:
        settings = {
            "stages": ["sft", "expert_iteration"], "game": {"thinking": "off"},
            "expert_iteration": {"labels": labels, "batch_size": 8},
            "model": {"precision": "fp32", "micro_batch_size": micro, **more},
        }  # fmt: skip
        return memory_of_stages(RunConfig.model_validate(settings), model, 90, 90)["expert_iteration"].step

    game = activations(6)
    assert activations(2) == game
    assert activations(0) == activations(48)
    assert activations(24) - activations(12) == 2 * (activations(12) - game) > 0
    whole = activations(8, "wins") + activations(4, "wins")
    assert activations(12) < whole, "boards of a game share its beginning"
    assert activations(12, model=replace(SMALL, has_keys_and_values=False)) == whole
    assert activations(12, model=replace(SMALL, window=89)) == whole, "games of 90 tokens do not fit"
    assert activations(12, model=replace(SMALL, window=90)) == activations(12)
    compiled = {"path": "some/model", "compile": True}
    assert activations(12, **compiled) == activations(8, "wins", **compiled) + activations(4, "wins", **compiled)


def test_turns_learnt_as_rows_are_those_of_games_that_guesses_cut_short() -> None:
    def activations(shape: str, guesses: int) -> int:
        settings = {
            "stages": ["sft", "grpo"], "game": {"thinking": "off", "shape": shape, "max_turns": 6},
            "model": {"precision": "fp32", "micro_batch_size": 4}, "grpo": {"guesses": guesses},
        }  # fmt: skip
        return memory_of_stages(RunConfig.model_validate(settings), SMALL, 90, 90)["grpo"].step

    whole, one, two, more = (activations("state", guesses) for guesses in (0, 1, 2, 100))
    assert (2 * one, 6 * one, more) == (two, whole, whole)
    assert activations("transcript", 1) == activations("transcript", 0) == one


def test_logits_of_a_large_vocabulary_are_counted_by_the_piece_in_every_stage() -> None:
    stages = ["sft", "grpo", "expert_iteration", "dpo", "distill"]
    config = RunConfig.model_validate({"stages": stages, "game": {"thinking": "off"}, "model": {"precision": "fp32"}})
    models = [replace(SMALL, vocab_size=size) for size in (2**17, 2**18)]
    one, two = (memory_of_stages(config, model, 200, 200) for model in models)
    assert [one[stage].step for stage in stages] == [two[stage].step for stage in stages], "half the tokens at once"


@pytest.mark.parametrize(
    ("engine", "caches", "copies"), [("transformers", True, 0), ("vllm", False, 2000), ("http://box:8000", False, 0)]
)
def test_games_that_vllm_plays_keep_no_cache_in_the_trainer(engine, caches, copies) -> None:
    found = memory_of_stages(RunConfig.model_validate({"grpo": {"engine": engine}}), SMALL, 90, 90)["grpo"]
    assert (found.cache > 0, found.engine_weights) == (caches, copies)


# --- a Mac ----------------------------------------------------------------------------------------------------------

GEMMA_4B = ModelNumbers(
    num_parameters=3_912_887_808, num_trainable=32_788_480, num_layers=34, num_heads=8, num_kv_heads=4, head_dim=256,
    hidden_size=2560, intermediate_size=10_240, vocab_size=262_208, weight_bytes=2, context=131_072, trainable_bytes=4,
)  # fmt: skip
"""With adapters."""
SMOLLM2 = ModelNumbers(134_515_008, 134_515_008, 30, 9, 3, 64, 576, 1536, 49_152, 4, context=8192)


def on_a_mac(model: ModelNumbers, group_size: int = 2, micro_batch_size: int = 1, gradient_noise_every: int = 0):
    settings = {
        ("backend",): "mlx", ("max_completion_tokens",): 256, ("grpo", "groups_per_step"): 1,
        ("grpo", "group_size"): group_size, ("model", "micro_batch_size"): micro_batch_size, ("sft", "batch_size"): 1,
        ("model", "gradient_checkpointing"): True, ("grpo", "gradient_noise_every"): gradient_noise_every,
    }  # fmt: skip
    config = load_config(None, settings)
    return config, memory_of_stages(config, model, 1000, 2000)


def problems(gib: float, found: tuple[RunConfig, dict[str, MemoryEstimate]]) -> list[str]:
    return [each.message for each in check_memory(*found, unified_memory(gib)) if each.level == "problem"]


def test_the_gpu_has_two_thirds_of_a_small_mac_and_three_quarters_of_a_large_one() -> None:
    assert [unified_memory(gib).num_bytes for gib in (16, 48)] == [16 * GIB * 2 // 3, 36 * GIB]
    with pytest.raises(ConfigError, match="--memory-gib"):
        device_for(RunConfig(), 0)


def test_gemma_4b_trained_whole_is_refused_on_both_and_adapters_fit_the_larger_one() -> None:
    trained_whole = replace(GEMMA_4B, num_trainable=GEMMA_4B.num_parameters, trainable_bytes=0)
    for gib, width in ((16, 2), (48, 4)):
        found = on_a_mac(replace(trained_whole, weight_bytes=width))
        assert any(message.startswith("sft ") for message in problems(gib, found))
    assert problems(48, on_a_mac(GEMMA_4B)) == []
    assert problems(16, on_a_mac(GEMMA_4B, group_size=16, micro_batch_size=8)) != []


def test_a_larger_group_fills_the_cache() -> None:
    two, eight = (on_a_mac(GEMMA_4B, group_size=size)[1]["grpo"].cache for size in (2, 8))
    per_game = 2 * 2 * 34 * 4 * 256 * 2 * 2000  # twice a key and a value per token, layer and head, in 16 bits
    assert eight - two == 6 * per_game


def test_measuring_the_gradient_s_noise_keeps_a_copy_of_it() -> None:
    without, measured = (on_a_mac(GEMMA_4B, gradient_noise_every=every)[1]["grpo"].training for every in (0, 5))
    assert measured == pytest.approx(without * 4 / 3)  # gradients and two numbers of AdamW, and one gradient more


def test_the_forecast_of_smollm2_is_within_a_fifth_of_what_it_took(monkeypatch) -> None:
    """Resident memory of 216 steps of SFT and of the first round of play, on a processor: docs/smollm2-trials.md."""
    monkeypatch.setattr("wordle_rl.policy.device.device_kind", lambda: "cpu")
    config = load_config("smollm2", {("model", "precision"): "bf16"})
    found = memory_of_stages(config, SMOLLM2, teacher_length=71, game_length=88)
    for stage, gib in (("sft", 7.0), ("expert_iteration", 6.5)):
        assert found[stage].total / GIB == pytest.approx(gib, rel=0.2)


def test_a_gpu_that_one_thinks_of_computes_in_bf16_and_does_not_fragment_like_this_heap(monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.policy.device.device_kind", lambda: "cpu")
    config = load_config("smollm2")
    found = memory_of_stages(config, SMOLLM2, teacher_length=71, game_length=88, elsewhere=True)["expert_iteration"]
    own = config.expert_iteration
    per_game = 2 * 30 * 3 * 64 * 2 * 88  # a key and a value per layer, head and token, in 16 bits
    assert found.cache == own.groups_per_round * own.group_size * per_game
    assert found.total == found.counted + max(found.step, found.cache)


def test_games_and_what_is_learnt_from_them_are_not_in_memory_at_once() -> None:
    found = MemoryEstimate(weights=1, training=3, step=4, cache=9)
    assert (found.counted, found.total) == (4, 13)
    assert replace(found, cache=2).total == 8
