"""Law of agreement: the same scripted tokens through every trainer give the same masks, rewards, credit and losses.

`agreement.json` beside `support/agreement.py` was computed by TRL's trainer over transformers, which a test here holds
it to. Each other trainer is held to it where it is installed: `make test-mlx`, `make test-verl`,
`make test-integrations`. Write it again with `python tests/integrations/test_games_agreement.py`.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from agreement import (
    CLIP,
    CREDITS,
    GAMES,
    GROUP,
    LONGEST,
    LOSSES,
    TOLERANCE,
    WORDS,
    credit_of,
    embedded_codec,
    expected,
    model,
    played,
    prompter,
    reply_of,
    turn_rewards,
)

from wordle_rl.config import GRPOTraining, SamplingSettings
from wordle_rl.rl.advantages import CREDITS as ESTIMATORS
from wordle_rl.rollout import mask_without_overlong

GAME_NUMBERS = range(len(GAMES))


def near(found: Any, wanted: Any) -> None:
    assert found == pytest.approx(wanted, abs=TOLERANCE)


def segments() -> list:
    return [game.segments[0] for game in played(embedded_codec())]


def grouped(values: list) -> list[list]:
    return [values[first : first + GROUP] for first in range(0, len(values), GROUP)]


def settings_of(name: str) -> GRPOTraining:
    return GRPOTraining(
        groups_per_step=2,
        group_size=GROUP,
        sampling=SamplingSettings(max_completion_tokens=LONGEST),
        precision="fp32",
        credit=credit_of(name),
        **LOSSES[name],
    )


def full_logprobs(network: Any) -> list[list[float]]:
    """Log-probabilities along each completion by one plain forward pass of transformers, 0 off the mask."""
    found = []
    for segment in segments():
        ids = torch.tensor([[*segment.prompt_ids, *segment.token_ids]])
        with torch.no_grad():
            logprobs = network(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
        first = len(segment.prompt_ids) - 1
        rows = logprobs[first:].gather(1, torch.tensor(segment.token_ids)[:, None])[:, 0]
        found.append((rows * torch.tensor(segment.loss_mask)).tolist())
    return found


# Ours, over transformers: needed by every trainer, and run in every environment.


def test_the_table_has_the_tokens_masks_and_rewards_of_our_own_rollout() -> None:
    table, own = expected(), segments()
    assert [[list(s.prompt_ids), list(s.token_ids)] for s in own] == [list(pair) for pair in table.tokens]
    assert [list(s.loss_mask) for s in own] == table.masks
    stops = embedded_codec().stop_ids
    assert [mask_without_overlong(s, stops) for s in own] == table.masks_without_overlong
    assert table.masks != table.masks_without_overlong
    for found, wanted in zip(turn_rewards(played(embedded_codec())), table.rewards, strict=True):
        near(list(found), wanted)


@pytest.mark.parametrize(("credit", "scale"), CREDITS)
def test_the_table_has_our_own_credit(credit: str, scale: bool) -> None:
    rewards = [tuple(values) for values in expected().rewards]
    found = [list(v) for group in grouped(rewards) for v in ESTIMATORS[credit](group, scale=scale)]
    for ours, wanted in zip(found, expected().advantages[f"{credit} {scale}"], strict=True):
        near(ours, wanted)


def test_the_table_has_the_log_probabilities_of_transformers() -> None:
    for scale, wanted in ((0.12, expected().policy_logprobs), (0.1, expected().reference_logprobs)):
        for ours, theirs in zip(full_logprobs(model(scale)), wanted, strict=True):
            near(ours, theirs)


def test_the_table_leaves_the_clip_range_on_both_sides() -> None:
    table = expected()
    ratios = (table.padded(table.policy_logprobs) - table.padded(table.sampler_logprobs)).exp()
    assert ratios.min() < 1 - CLIP["epsilon"]
    assert ratios.max() > 1 + CLIP["epsilon_high"]
    assert ratios.max() < 3  # verl clips again beyond it


# TRL: its trainer, as our GRPO sets it up.


@pytest.fixture(scope="module")
def trl_trainer(tmp_path_factory):
    """Makes `WordleGRPOTrainer` for a loss."""
    pytest.importorskip("trl.trainer.grpo_trainer")
    return lambda name: make_trl_trainer(name, tmp_path_factory.mktemp("trl"))


def make_trl_trainer(name: str, directory: Path) -> Any:
    from contexts import context_for
    from training_fixtures import make_run

    from wordle_rl.rl.grpo.rollouts import GroupRollouts
    from wordle_rl.rl.grpo.train import _arguments
    from wordle_rl.rl.grpo.trainer import WordleGRPOTrainer
    from wordle_rl.rl.setup import GameSetup
    from wordle_rl.runs.trackers import GameLog
    from wordle_rl.solver import Solver
    from wordle_rl.training.guard import StepGuard

    settings, codec = settings_of(name), embedded_codec()
    run = make_run(directory / "run", WORDS)
    setup = GameSetup(context_for(WORDS, prompter(), Solver(WORDS, use_cache=False)), WORDS.answers)
    trainer = WordleGRPOTrainer(
        model(),
        _arguments(settings.model_copy(update={"beta": 0.0}), 1, directory / "checkpoints", 0, {}),
        codec=codec,
        settings=settings,
        rollouts=GroupRollouts(setup, codec, settings, GameLog(run), 0),
        run=run,
        guard=StepGuard("grpo", 1),
        callbacks=[],
    )
    trainer.epsilon_low, trainer.epsilon_high, trainer.beta = CLIP["epsilon"], CLIP["epsilon_high"], settings.beta
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def trl_batch(credit: str, table: Any) -> dict[str, torch.Tensor]:
    """The games in the tensors that TRL's loss takes: prompts padded on the left, completions on the right."""
    pad = embedded_codec().pad_id
    longest = max(len(prompt) for prompt, _ in table.tokens)
    completions = table.padded([completion for _, completion in table.tokens]).long()
    lengths = torch.tensor([len(completion) for _, completion in table.tokens])
    mask = table.padded(table.masks)
    return {
        "prompt_ids": torch.tensor([[pad] * (longest - len(p)) + p for p, _ in table.tokens]),
        "prompt_mask": torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p, _ in table.tokens]),
        "completion_ids": completions,
        "completion_mask": (torch.arange(completions.shape[1])[None] < lengths[:, None]).long(),
        "tool_mask": mask.long(),
        "advantages": table.padded([table.along(number, credit) for number in GAME_NUMBERS]),
        "old_per_token_logps": table.padded(table.sampler_logprobs),
        "ref_per_token_logps": table.padded(table.reference_logprobs),
        "num_items_in_batch": mask.sum(),
    }


def trl_logprobs(trainer: Any, table: Any) -> torch.Tensor:
    batch = trl_batch("turn", table)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        return trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, attention, batch["completion_ids"].shape[1]
        )[0]


@pytest.mark.parametrize("name", LOSSES)
def test_trl_gives_the_losses_of_the_table(trl_trainer, name: str) -> None:
    trainer = trl_trainer(name)
    loss = trainer._compute_loss(trainer.model, trl_batch(credit_of(name), expected()))
    near(loss.item(), expected().losses[name])
    assert abs(expected().losses[name]) > 10 * TOLERANCE


def test_trl_gives_the_log_probabilities_of_the_table(trl_trainer) -> None:
    table = expected()
    found = trl_logprobs(trl_trainer("dapo"), table)
    mask = table.padded(table.masks).bool()
    near(found[mask].tolist(), table.padded(table.policy_logprobs)[mask].tolist())


# MLX.


@pytest.fixture(scope="module")
def on_mlx():
    """The policy and the reference of the table, on MLX."""
    pytest.importorskip("mlx")
    from wordle_rl.integrations.mlx.model import of_transformers

    return of_transformers(model()), of_transformers(model(0.1)).trainable()


def mlx_rows(credit: str) -> dict[str, list]:
    table = expected()
    return {
        "prompt_ids": [prompt for prompt, _ in table.tokens],
        "completion_ids": [completion for _, completion in table.tokens],
        "env_mask": table.masks,
        "logprobs": table.sampler_logprobs,
        "token_advantages": [table.along(number, credit) for number in GAME_NUMBERS],
        "game_reward": [sum(values) for values in table.rewards],
    }


@pytest.mark.parametrize("micro_batch_size", [0, 1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_mlx_gives_the_losses_of_the_table(on_mlx, name: str, micro_batch_size: int) -> None:
    from wordle_rl.integrations.mlx.grpo import gradient_of_step

    policy, reference = on_mlx
    settings = settings_of(name).model_copy(update={**CLIP, "micro_batch_size": micro_batch_size})
    pad = embedded_codec().pad_id
    found = gradient_of_step(policy, mlx_rows(credit_of(name)), settings, pad, reference if settings.beta else None)
    near(found.loss, expected().losses[name])


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_on_mlx_are_those_of_trl(on_mlx, trl_trainer, name: str) -> None:
    from wordle_rl.integrations.mlx.grpo import gradient_of_step
    from wordle_rl.integrations.mlx.model import to_torch

    policy, reference = on_mlx
    settings = settings_of(name).model_copy(update=CLIP)
    pad = embedded_codec().pad_id
    ours = gradient_of_step(policy, mlx_rows(credit_of(name)), settings, pad, reference if settings.beta else None)
    trainer = trl_trainer(name)
    trainer._compute_loss(trainer.model, trl_batch(credit_of(name), expected())).backward()
    for weight_name, weight in trainer.model.named_parameters():
        found = to_torch(ours.gradients[weight_name])
        assert torch.allclose(found, weight.grad, rtol=1e-3, atol=TOLERANCE), weight_name
    assert max(weight.grad.abs().max() for weight in trainer.model.parameters()) > 100 * TOLERANCE


def test_mlx_gives_the_log_probabilities_of_the_table(on_mlx) -> None:
    from wordle_rl.integrations.mlx.scores import choose, score

    table = expected()
    chosen = choose(
        [[*p, *c] for p, c in table.tokens],
        [[*[0] * len(p), *mask] for (p, _), mask in zip(table.tokens, table.masks, strict=True)],
        embedded_codec().pad_id,
    )
    wanted = [
        value
        for row, mask in zip(table.policy_logprobs, table.masks, strict=True)
        for value, m in zip(row, mask, strict=True)
        if m
    ]
    near(score(on_mlx[0], chosen).logprobs.tolist(), wanted)


def test_games_on_mlx_have_the_tokens_and_masks_of_the_table(on_mlx) -> None:
    """Its sampler drives the same rollout; here replies are forced, and their log-probabilities are the model's."""
    from forced_mlx import forced

    from wordle_rl.rollout import InitialState, play

    table = expected()
    replies = {number: [embedded_codec().reply_ids(text) if (text := reply_of(number, turn)) is not None
                        else embedded_codec().encode("<guess>") for turn in range(len(GAMES[number][1]))]
               for number in GAME_NUMBERS}  # fmt: skip
    games = play([InitialState(secret) for secret, _ in GAMES], WORDS, prompter(), forced(on_mlx[0], replies))
    for number, game in enumerate(games):
        [segment] = game.segments
        assert [list(segment.prompt_ids), list(segment.token_ids)] == list(table.tokens[number])
        assert list(segment.loss_mask) == table.masks[number]
        near(list(segment.sampler_logprobs), table.policy_logprobs[number])


# verl.


@pytest.mark.parametrize(("credit", "scale"), CREDITS)
def test_verl_gives_the_credit_of_the_table(credit: str, scale: bool) -> None:
    pytest.importorskip("verl")
    from wordle_rl.integrations.verl.advantages import credited

    table = expected()
    mask = table.padded(table.masks)
    rewards = torch.zeros_like(mask)
    for number, values in enumerate(table.rewards):
        ends = [p for p, m in enumerate(table.masks[number]) if m and not (*table.masks[number], 0)[p + 1]]
        rewards[number, ends] = torch.tensor(values)
    found = credited(credit, rewards, mask, [number // GROUP for number in GAME_NUMBERS], scale=scale)
    for number in GAME_NUMBERS:
        starts = [p for p, m in enumerate(table.masks[number]) if m and not (0, *table.masks[number])[p]]
        near(found[number, starts].tolist(), table.advantages[f"{credit} {scale}"][number])
    assert not found[mask == 0].any()


def test_verl_gives_the_log_probabilities_of_the_table() -> None:
    pytest.importorskip("verl")
    from verl.utils.torch_functional import logprobs_from_logits

    table, network = expected(), model()
    for (prompt, completion), mask, wanted in zip(table.tokens, table.masks, table.policy_logprobs, strict=True):
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *completion]])).logits[:, len(prompt) - 1 : -1]
        found = logprobs_from_logits(logits, torch.tensor([completion]), inplace_backward=False)[0]
        near((found * torch.tensor(mask)).tolist(), wanted)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "grpo by sequence"])
def test_verl_gives_the_losses_of_the_table(name: str) -> None:
    """Its own loss, with the way to sum up and the penalty that our translation names."""
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    from wordle_rl.integrations.verl.translate import _AGGREGATION

    table, settings = expected(), settings_of(name)
    mask = table.padded(table.masks)
    how = _AGGREGATION[settings.loss_type]
    divisor = LONGEST if settings.loss_type == "dr_grpo" else None
    config = SimpleNamespace(
        clip_ratio=CLIP["epsilon"],
        clip_ratio_low=CLIP["epsilon"],
        clip_ratio_high=CLIP["epsilon_high"],
        global_batch_info={"loss_scale_factor": divisor},
        get=lambda key, default=None: {"clip_ratio_c": 3.0}.get(key, default),
    )
    policy = table.padded(table.policy_logprobs)
    loss, *_ = core.compute_policy_loss_vanilla(
        old_log_prob=table.padded(table.sampler_logprobs),
        log_prob=policy,
        advantages=table.padded([table.along(number, credit_of(name)) for number in GAME_NUMBERS]),
        response_mask=mask,
        loss_agg_mode=how,
        config=config,
    )
    if settings.beta:
        divergence = core.kl_penalty(policy, table.padded(table.reference_logprobs), "low_var_kl")
        loss = loss + settings.beta * core.agg_loss(divergence, mask, how)
    near(float(loss), expected().losses[name])


# renderers, which encode with a published chat template: the same games in its tokens.


@pytest.mark.trainers
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("number", GAME_NUMBERS)
def test_renderers_give_the_tokens_and_masks_of_our_own_rollout(number: int) -> None:
    renderers = pytest.importorskip("renderers")
    from chat_families import family_tokenizer

    from wordle_rl.chat.codec import ChatCodec
    from wordle_rl.env import WordleEnv

    tokenizer = family_tokenizer("qwen3")
    codec = ChatCodec(tokenizer)
    renderer = renderers.create_renderer(tokenizer, renderers.Qwen3RendererConfig(thinking_retention="all"))
    [segment] = played(codec)[number].segments
    env = WordleEnv(GAMES[number][0], WORDS, prompter())
    opening = [dict(message) for message in env.conversation]
    ids = renderer.render_ids(opening, add_generation_prompt=True)
    mask = [0] * len(ids)
    for turn in range(len(GAMES[number][1])):
        text = reply_of(number, turn)
        sampled = codec.encode("<guess>") if text is None else codec.reply_ids(text)
        feedback = env.step("<guess>" if text is None else text).messages
        ids, mask = [*ids, *sampled], [*mask, *[1] * len(sampled)]
        if env.stop_reason is None:
            previous = ids[: len(ids) - len(sampled)]
            bridged = renderer.bridge_to_next_turn(previous, sampled, [dict(message) for message in feedback])
            mask += [0] * (len(bridged.token_ids) - len(ids))
            ids = list(bridged.token_ids)
    assert ids == [*segment.prompt_ids, *segment.token_ids]
    assert mask == [*[0] * len(segment.prompt_ids), *segment.loss_mask]


def write_table() -> None:
    """Compute the table by TRL's trainer and transformers, and store it."""
    import random
    import tempfile

    from agreement import Expected, write

    own = segments()
    stream = random.Random(0)
    policy, reference = full_logprobs(model()), full_logprobs(model(0.1))
    rewards = [list(values) for values in turn_rewards(played(embedded_codec()))]
    found = {
        "tokens": [[list(s.prompt_ids), list(s.token_ids)] for s in own],
        "masks": [list(s.loss_mask) for s in own],
        "masks_without_overlong": [mask_without_overlong(s, embedded_codec().stop_ids) for s in own],
        "rewards": rewards,
        "policy_logprobs": [[round(value, 6) for value in row] for row in policy],
        "reference_logprobs": [[round(value, 6) for value in row] for row in reference],
        "sampler_logprobs": [
            [round(value + stream.uniform(-0.4, 0.4), 6) if value else 0.0 for value in row] for row in policy
        ],
        "advantages": {
            f"{credit} {scale}": [
                list(values)
                for group in grouped([tuple(values) for values in rewards])
                for values in ESTIMATORS[credit](group, scale=scale)
            ]
            for credit, scale in CREDITS
        },
    }
    table = Expected(**found, losses={})
    losses = {}
    for name in LOSSES:
        with tempfile.TemporaryDirectory() as place:
            trainer = make_trl_trainer(name, Path(place))
            losses[name] = trainer._compute_loss(trainer.model, trl_batch(credit_of(name), table)).item()
    write(**found, losses=losses)


if __name__ == "__main__":
    sys.exit(write_table())
