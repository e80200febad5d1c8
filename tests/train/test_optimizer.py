"""Laws of optimizers: which weights each part moves, what survives a restore, how rates run."""

import pytest

torch = pytest.importorskip("torch")

from peft import LoraConfig, get_peft_model
from torch import nn
from training_fixtures import fast, small_model
from transformers import GPT2Config, GPT2LMHeadModel

from wordle_rl.config import OptimizerSettings
from wordle_rl.train.optimizer import GroupedMuon, MuonWithAdamW, make_optimizer, rate_factor, set_rate


def test_muon_takes_the_matrices_inside_the_layers_and_adamw_the_rest(tokenizer) -> None:
    model = small_model(tokenizer)
    optimizer = make_optimizer(model, fast("muon"))
    assert isinstance(optimizer, MuonWithAdamW)
    by_id = {id(parameter): name for name, parameter in model.named_parameters()}
    muon, adamw = ({by_id[id(p)] for p in group["params"]} for group in optimizer.param_groups)
    assert muon
    assert all("proj" in name for name in muon)
    assert not any("proj" in name for name in adamw)
    assert muon | adamw == set(by_id.values())
    assert [group["lr"] for group in optimizer.param_groups] == [0.02, 3e-3]


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
    cosine = OptimizerSettings(warmup=0.0, schedule="cosine")
    assert [rate_factor(cosine, step, 4) for step in range(4)] == pytest.approx(
        [1.0, 0.853553, 0.5, 0.146447], abs=1e-6
    )
    steps = OptimizerSettings(warmup=4, schedule="constant")
    assert [rate_factor(steps, step, 100) for step in (0, 1, 3, 4, 99)] == pytest.approx([0.25, 0.5, 1.0, 1.0, 1.0])
    risen = OptimizerSettings(warmup=2, schedule="cosine")
    assert [rate_factor(risen, step, 6) for step in range(6)] == pytest.approx(
        [0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447], abs=1e-6
    )


# --- Muon ---


def network() -> nn.ModuleList:
    torch.manual_seed(0)
    shapes = [(8, 12), (12, 8), (8, 12), (8, 8)]
    return nn.ModuleList(nn.Linear(columns, rows, bias=False) for rows, columns in shapes)


def take_steps(model: nn.ModuleList, optimizer: torch.optim.Optimizer, count: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        for matrix in model.parameters():
            matrix.grad = torch.randn(matrix.shape, generator=generator)
        optimizer.step()


def test_a_step_is_that_of_torch_up_to_its_bfloat16() -> None:
    mine, theirs = network(), network()
    options = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1}
    take_steps(mine, GroupedMuon(list(mine.parameters()), dtype=torch.float32, **options), 5)
    take_steps(theirs, torch.optim.Muon(list(theirs.parameters()), **options), 5)
    start = network()
    for a, b, before in zip(mine.parameters(), theirs.parameters(), start.parameters(), strict=True):
        assert (a - b).norm() < 0.03 * (b - before).norm()
