"""Laws of optimizers: which weights each part moves, what survives a restore, how rates run."""

from functools import partial

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from training_fixtures import fast, small_model
from transformers import GPT2Config, GPT2LMHeadModel

from wordle_rl.config.training import OptimizerSettings
from wordle_rl.train.optimizer import GroupedMuon, make_optimizer, rate_factor, set_rate


def test_muon_takes_the_matrices_inside_the_layers_and_adamw_the_rest(tokenizer) -> None:
    model = small_model(tokenizer)
    optimizer = make_optimizer(model, fast("muon"))
    by_id = {id(parameter): name for name, parameter in model.named_parameters()}
    muon, adamw = ({by_id[id(p)] for p in group["params"]} for group in optimizer.param_groups)
    assert muon
    assert all("proj" in name for name in muon)
    assert not any("proj" in name for name in adamw)
    assert muon | adamw == set(by_id.values())


def test_muon_knows_embeddings_by_what_they_are_and_takes_adapters_alone() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=1))
    muon, _ = (group["params"] for group in make_optimizer(model, fast("muon")).param_groups)
    of_words = {id(model.transformer.wte.weight), id(model.transformer.wpe.weight)}
    assert muon
    assert of_words.isdisjoint(map(id, muon))
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
    optimizer = make_optimizer(adapted, fast("muon"))
    [adapters] = optimizer.param_groups
    assert len(adapters["params"]) == 2
    optimizer.load_state_dict(optimizer.state_dict())


def test_the_schedule_moves_both_parts_of_muon_and_survives_a_restore(tokenizer) -> None:
    settings = OptimizerSettings(muon_learning_rate=0.02, learning_rate=1e-3, warmup=0.0, schedule="linear")
    model = small_model(tokenizer)
    optimizer = make_optimizer(model, settings)
    assert set_rate(optimizer, settings, 5, 10) == pytest.approx(0.01), "the first group is Muon's"
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 5e-4])
    restored = make_optimizer(model, settings)
    restored.load_state_dict(optimizer.state_dict())
    set_rate(restored, settings, 6, 10)
    assert [group["lr"] for group in restored.param_groups] == pytest.approx([0.008, 4e-4]), "of the peak"


def test_the_rate_by_hand() -> None:
    falls = [1.0, 0.853553, 0.5, 0.146447]
    for warmup, schedule, total, steps, expected in (
        (0.0, "cosine", 4, range(4), falls),
        (2, "cosine", 6, range(6), [0.5, 1.0, *falls]),
        (4, "constant", 100, (0, 1, 3, 4, 99), [0.25, 0.5, 1.0, 1.0, 1.0]),
        (1, "linear", 5, range(5), [1.0, 1.0, 0.75, 0.5, 0.25]),  # one step, not all of them
        (0.5, "constant", 8, range(5), [0.25, 0.5, 0.75, 1.0, 1.0]),
    ):
        settings = OptimizerSettings(warmup=warmup, schedule=schedule)
        assert [rate_factor(settings, step, total) for step in steps] == pytest.approx(expected, abs=1e-6)


# --- Muon ---


def test_a_step_is_that_of_torch_up_to_its_bfloat16() -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) / 4 for shape in [(8, 12), (12, 8), (8, 12), (8, 8)]]
    gradients = [[torch.randn(matrix.shape, generator=generator) for matrix in start] for _ in range(5)]
    moved = []
    for make in (partial(GroupedMuon, dtype=torch.float32), torch.optim.Muon):
        matrices = [nn.Parameter(matrix.clone()) for matrix in start]
        optimizer = make(matrices, lr=0.02, momentum=0.95, weight_decay=0.1)
        for step in gradients:
            for matrix, gradient in zip(matrices, step, strict=True):
                matrix.grad = gradient.clone()
            optimizer.step()
        moved.append(matrices)
    for mine, theirs, before in zip(*moved, start, strict=True):
        assert (mine - theirs).norm() < 0.03 * (theirs - before).norm()
