"""Laws of GRPO as a whole: tokens are scored as they were sampled, the sign is right, a run holds what it should."""

import pytest
from grpo_training import (
    SETTINGS,
    TOKENS,
    assert_scored_as_sampled,
    logprob,
    same,
    torch,
    train_fixture,  # noqa: F401  # a fixture
    update,
)
from training_fixtures import rows, small_model, weights_of
from transformers import GPT2Config, GPT2LMHeadModel

from wordle_rl.config import ModelSettings
from wordle_rl.policy.loading import load_model
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


@pytest.mark.parametrize(
    ("shape", "loss_type"), [*((Shape.TRANSCRIPT, name) for name in ("grpo", "dr_grpo", "dapo")), (Shape.STATE, "dapo")]
)
def test_one_step_raises_the_better_game_and_lowers_the_worse(shape, loss_type, train, tmp_path) -> None:
    seen: dict[int, float] = {}

    def pay_the_first(transcript, _turn) -> float:
        return seen.setdefault(id(transcript), float(not seen))

    train.pay = pay_the_first
    settings = update(SETTINGS, steps=1, groups_per_step=1, group_size=2, credit="game", loss_type=loss_type)
    before = small_model(train.tokenizer)
    after = train(tmp_path, settings, shape)
    [[better, worse]] = train.games
    assert better.reward.total > worse.reward.total
    assert logprob(after, better.trajectory.segments) > logprob(before, better.trajectory.segments) + 0.01
    assert logprob(after, worse.trajectory.segments) < logprob(before, worse.trajectory.segments) - 0.01


def test_constant_groups_leave_every_weight_as_it_was(train, tmp_path) -> None:
    train.pay = lambda *_: 0.1
    before = weights_of(small_model(train.tokenizer))
    after = weights_of(train(tmp_path))
    assert same(before, after)
    assert {row["zero_variance_share"] for row in rows(tmp_path / "metrics.jsonl")} == {1.0}


@pytest.mark.parametrize("shape", Shape)
def test_two_steps_leave_a_model_metrics_and_games(shape, train, tmp_path) -> None:
    train.pay = None  # the shipped reward
    told = []
    trained = train(tmp_path, SETTINGS, shape, progress=lambda *a: told.append(a))
    saved, _ = load_model(ModelSettings(path=str(tmp_path / "grpo")), 0)
    assert same(weights_of(trained), weights_of(saved))
    assert not (tmp_path / "grpo" / "checkpoints").exists()
    found = rows(tmp_path / "metrics.jsonl")
    assert [(row["stage"], row["step"]) for row in found] == [("grpo", 1), ("grpo", 2)]
    for row in found:
        assert {"loss", "grad_norm", "win_rate", "format_compliance", "cumulative_wins", "reward/win"} <= set(row)
        seconds = [row[f"seconds/{part}"] for part in ("rollout", "reward", "forward", "backward", "update")]
        assert min(seconds) > 0.0
        assert sum(seconds) < row["step_time"]
    whole, sample = [0] * SETTINGS.group_size, [1]  # the first step shows a whole group
    assert [row["step"] for row in rows(tmp_path / "games.jsonl")] == whole + sample
    assert [row["step"] for row in rows(tmp_path / "secrets.jsonl")] == [0, 1]
    assert [(done, total) for done, total, _ in told] == [(1, 2), (2, 2)]
