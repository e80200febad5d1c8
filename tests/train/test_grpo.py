"""Laws of GRPO as a whole: tokens are scored as they were sampled, the sign is right, a run holds what it should."""

import pytest
from grpo_training import (
    SETTINGS,
    TOKENS,
    assert_scored_as_sampled,
    torch,
    train_fixture,  # noqa: F401  # a fixture
    update,
)
from torch.utils._python_dispatch import TorchDispatchMode
from training_fixtures import rows
from transformers import GPT2Config, GPT2LMHeadModel

import wordle_rl.policy.transformers as sampler_module
from wordle_rl.config import StartSettings
from wordle_rl.env import StopReason
from wordle_rl.prompt import Shape


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_learner_scores_sampled_tokens_as_the_sampler_did(shape, temperature, train, tmp_path) -> None:
    sampling = TOKENS.model_copy(update={"temperature": temperature})
    train(tmp_path, update(SETTINGS, sampling=sampling), shape)
    for row in rows(tmp_path / "metrics.jsonl"):
        assert_scored_as_sampled(row)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_model_of_absolute_positions_is_scored_where_it_sampled_and_without_dropout(
    dropout, train, tokenizer, tmp_path
) -> None:
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    special = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=128, n_embd=16, n_layer=2, n_head=2, **drops, **special)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    torch.nn.init.normal_(model.transformer.wpe.weight)
    train(tmp_path, update(SETTINGS, steps=1), Shape.STATE, model=model)
    assert len({len(row.token_ids) for batch in train.micro_batches[0] for row in batch}) > 1, "rows with padding"
    [row] = rows(tmp_path / "metrics.jsonl")
    assert_scored_as_sampled(row)


@pytest.mark.parametrize("shape", Shape)
def test_single_next_guesses_of_boards_are_learnt(shape, train, tmp_path) -> None:
    starts = StartSettings(max_prefix_guesses=2)
    train(tmp_path, update(SETTINGS, guesses=1, groups_per_step=8, starts=starts), shape)
    games = [game for step in train.games for game in step]
    assert {len(game.trajectory.transcript.own_turns) for game in games} == {1}
    assert {len(game.trajectory.transcript.turns) for game in games} == {1, 2, 3}
    ended = {game.trajectory.transcript.stop_reason for game in games if not game.trajectory.transcript.won}
    assert StopReason.NOT_NEEDED in ended
    assert ended <= {StopReason.NOT_NEEDED, StopReason.OUT_OF_TURNS}
    for row in (row for step in train.micro_batches for batch in step for row in batch):
        trained = [place for place, mask in enumerate(row.loss_mask) if mask]
        assert trained == list(range(trained[0], trained[-1] + 1)), "one reply, and nothing after it"
        assert trained[-1] == len(row.token_ids) - 1


class NoFloat64(TorchDispatchMode):
    """Refuses every tensor of float64 that is made, as Metal does."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(each, torch.Tensor) and each.dtype == torch.float64:
                raise TypeError(f"{func} makes float64, which Metal has not")
        return made


def test_training_and_play_make_no_float64(train, tmp_path, monkeypatch) -> None:
    """Play draws by `multinomial` off the processor; that branch is forced here."""
    monkeypatch.setattr(sampler_module, "pick", lambda p, generator: torch.multinomial(p, 1, generator=generator)[:, 0])
    with NoFloat64():
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(1, dtype=torch.float64)
        train(tmp_path / "run", update(SETTINGS, steps=2, max_importance_ratio=2.0))
