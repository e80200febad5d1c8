"""Laws of the kit for trainers: ours passes on torch, MLX and verl, and each planted fault fails the check for it."""

from dataclasses import asdict
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from faulty_trainers import FOUND, along, right
from recorded_games import record

from wordle_rl.conformance.trainer_checks import CHECKS, CLIP, GROUP_SIZE, LONGEST, Case, examine_trainer, expected
from wordle_rl.train.loss import PolicyLoss, Totals


@pytest.fixture(scope="module")
def case() -> Case:
    return Case.recorded()


def with_status(adapter: Any, case: Case, status: str) -> set[str]:
    return {found.check_id for found in examine_trainer(adapter, case) if found.status == status}


def test_the_recorded_games_are_those_that_our_rollout_plays(case: Case) -> None:
    for stored, made in zip(case.games, record(), strict=True):
        kept, fresh = asdict(stored), asdict(made)
        assert kept["row"].pop("sampler_logprobs") == pytest.approx(fresh["row"].pop("sampler_logprobs"), abs=1e-4)
        assert kept["row"].pop("advantages") == pytest.approx(fresh["row"].pop("advantages"))
        assert [list(kept["row"].pop(name)) for name in ("token_ids", "loss_mask")] == [
            list(fresh["row"].pop(name)) for name in ("token_ids", "loss_mask")
        ]
        assert [dict(message) for message in kept["messages"]] == [dict(message) for message in fresh["messages"]]
        assert stored.reward == pytest.approx(made.reward)


def test_the_recorded_games_hold_what_trainers_got_wrong(case: Case) -> None:
    again = [case.codec.encode_game(game.messages) for game in case.games]
    rows = [game.row for game in case.games]
    assert any(list(ids) != list(row.token_ids) for (ids, _), row in zip(again, rows, strict=True)), "letter by letter"
    assert any(sum(mask) > sum(row.loss_mask) for (_, mask), row in zip(again, rows, strict=True)), "on the board"
    assert len({len(row.token_ids) for row in rows}) > 3
    ratios = [
        abs(value - drawn)
        for values, row in zip(expected(case)["logprobs"], rows, strict=True)
        for value, drawn, m in zip(values, row.sampler_logprobs, row.loss_mask, strict=True)
        if m
    ]
    assert max(ratios) > 0.3, "outside of the clip range"


def test_ours_on_torch_passes_every_check(case: Case) -> None:
    assert with_status(right, case, "pass") == {f"trainer.{key}" for key in CHECKS}


@pytest.mark.parametrize("fault", FOUND, ids=lambda fault: fault.__name__)
def test_a_fault_fails_the_check_for_it_alone(fault, case: Case) -> None:
    assert with_status(fault, case, "fail") == {FOUND[fault]}


def test_what_an_adapter_leaves_out_is_skipped(case: Case) -> None:
    assert with_status(lambda case: {"ids": right(case)["ids"]}, case, "skip") == {
        f"trainer.{key}" for key in CHECKS if key != "ids"
    }


def test_advantages_may_be_scaled_by_group(case: Case) -> None:
    """Trainers divide by the standard deviation of a group, or do not."""

    def scaled(case: Case) -> dict[str, Any]:
        values = right(case)["advantages"]
        return {
            "advantages": [[value * (2 + place // GROUP_SIZE) for value in row] for place, row in enumerate(values)]
        }

    assert with_status(scaled, case, "pass") == {"trainer.advantages"}


def test_ours_on_mlx_passes_every_check(case: Case) -> None:
    mx = pytest.importorskip("mlx.core")
    from wordle_rl.mlx.losses import MLXBatch, policy_loss, score
    from wordle_rl.mlx.model import of_transformers

    def on_mlx(case: Case) -> dict[str, Any]:
        rows = [game.row for game in case.games]
        counts = [sum(row.loss_mask) for row in rows]
        losses, logprobs = {}, None
        for name in ("dapo", "grpo", "dr_grpo"):
            weights = PolicyLoss(name, LONGEST).token_weights(counts, Totals(sum(counts), len(counts)))
            batch = MLXBatch.of(rows, weights, case.codec.pad_id)
            logprobs = score(of_transformers(case.model), batch).logprobs
            loss, _ = policy_loss(logprobs, batch.sampler_logprobs, batch.advantages, batch.weights, **CLIP)
            losses[name] = loss.item()
        values = iter(mx.array(logprobs).tolist())
        return right(case) | {"loss": losses, "logprobs": [along(list(row.loss_mask), values) for row in rows]}

    assert with_status(on_mlx, case, "pass") == {f"trainer.{key}" for key in CHECKS}


def test_ours_on_verl_passes_every_check(case: Case) -> None:
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    from types import SimpleNamespace

    from verl.utils.torch_functional import logprobs_from_logits

    from wordle_rl.trainers.verl.advantages import credited
    from wordle_rl.trainers.verl.translate import _AGGREGATION

    def on_verl(case: Case) -> dict[str, Any]:
        rows = [game.row for game in case.games]
        longest = max(len(row.token_ids) for row in rows)

        def padded(columns) -> Any:
            return torch.tensor([[*map(float, column), *[0.0] * (longest - len(column))] for column in columns])

        ids, mask = padded(row.token_ids for row in rows).long(), padded(row.loss_mask for row in rows)
        with torch.no_grad():
            logits = case.model(input_ids=ids).logits[:, :-1]
        scores = logprobs_from_logits(logits, ids[:, 1:], inplace_backward=False)
        logprobs = torch.cat([torch.zeros(len(rows), 1), scores], dim=1) * mask  # (B, T)
        rewards = torch.zeros_like(mask)
        for place, row in enumerate(rows):
            rewards[place, max(i for i, m in enumerate(row.loss_mask) if m)] = case.games[place].reward
        advantages = credited("game", rewards, mask, [game.group for game in case.games], scale=False)
        losses = {}
        for name in ("dapo", "grpo", "dr_grpo"):
            config = SimpleNamespace(
                clip_ratio=CLIP["epsilon"],
                clip_ratio_low=CLIP["epsilon"],
                clip_ratio_high=CLIP["epsilon_high"],
                global_batch_info={"loss_scale_factor": LONGEST if name == "dr_grpo" else None},
                get=lambda key, default=None: {"clip_ratio_c": 3.0}.get(key, default),
            )
            loss, *_ = core.compute_policy_loss_vanilla(
                old_log_prob=padded(row.sampler_logprobs for row in rows),
                log_prob=logprobs,
                advantages=padded(row.advantages for row in rows),
                response_mask=mask,
                loss_agg_mode=_AGGREGATION[name],
                config=config,
            )
            losses[name] = float(loss)
        lengths = [len(row.token_ids) for row in rows]
        cut = lambda values: [value[:length].tolist() for value, length in zip(values, lengths, strict=True)]  # noqa: E731
        return right(case) | {"logprobs": cut(logprobs), "advantages": cut(advantages), "loss": losses}

    assert with_status(on_verl, case, "pass") == {f"trainer.{key}" for key in CHECKS}
