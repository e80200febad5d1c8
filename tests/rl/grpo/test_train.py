"""Laws of GRPO: the loss sees what was sampled, and the sign is right."""

import pytest
from group_games import turns_of
from grpo_training import SETTINGS, TOKENS, close, logprob, torch, update
from training_fixtures import fast, rows, small_model, weights_of
from transformers import GPT2Config, GPT2LMHeadModel

import wordle_rl.rl.grpo.rollouts as rollouts_module
from wordle_rl.config import ModelSettings, StartSettings
from wordle_rl.models.loading import load_model, save_model
from wordle_rl.prompt import Shape


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainer_scores_sampled_tokens_as_the_sampler_did(shape, temperature, train, tmp_path) -> None:
    sampling = TOKENS.model_copy(update={"temperature": temperature})
    train(tmp_path, update(SETTINGS, steps=1, sampling=sampling), shape)
    [batch], [given] = train.batches, train.given
    compared = 0
    for row, (mask, sampler) in enumerate(zip(given["env_mask"], given["logprobs"], strict=True)):
        for place, m in enumerate(mask):
            if m:
                assert float(batch["policy_logprobs"][row, place]) == pytest.approx(sampler[place], abs=2e-4)
                assert sampler[place] < 0.0
                compared += 1
    assert compared == sum(map(sum, given["env_mask"])) > 40


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_model_of_absolute_positions_is_scored_where_it_sampled(dropout, train, tokenizer, tmp_path) -> None:
    """Prompts of state shape differ in length, and TRL puts padding before the shorter ones."""
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    special = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=128, n_embd=16, n_layer=2, n_head=2, **drops, **special)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    torch.nn.init.normal_(model.transformer.wpe.weight)
    train(tmp_path, update(SETTINGS, steps=1), Shape.STATE, model=model)
    [batch], [given] = train.batches, train.given
    assert len({len(ids) for ids in given["prompt_ids"]}) > 1
    for row, (mask, sampler) in enumerate(zip(given["env_mask"], given["logprobs"], strict=True)):
        learnt = [place for place, m in enumerate(mask) if m]
        scored = batch["policy_logprobs"][row, learnt].tolist()
        assert scored == pytest.approx([sampler[place] for place in learnt], abs=2e-4)


@pytest.mark.parametrize("shape", Shape)
def test_the_loss_is_masked_to_the_sampled_tokens_under_their_prompts(shape, train, tmp_path) -> None:
    train(tmp_path, update(SETTINGS, steps=1), shape)
    [batch], [given], [games] = train.batches, train.given, train.games
    mask = batch["completion_mask"] * batch["tool_mask"]
    learnt = []
    for row in range(len(mask)):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        width = len(given["completion_ids"][row])
        assert not mask[row, width:].any(), "padding is never learnt"
        columns = {
            "prompt_ids": [prompt],
            "completion_ids": [batch["completion_ids"][row, :width].tolist()],
            "env_mask": [mask[row, :width].tolist()],
        }
        learnt += turns_of(columns, 0)
    sampled = []
    for game in games:
        for segment in game.trajectory.segments:
            ids = segment.token_ids
            sampled += [((*segment.prompt_ids, *ids[:start]), ids[start:stop]) for _, start, stop in segment.spans]
    assert sorted(learnt) == sorted(sampled)


@pytest.mark.parametrize("shape", Shape)
def test_each_token_carries_the_advantage_of_its_turn_into_the_loss(shape, train, tmp_path) -> None:
    train(tmp_path, update(SETTINGS, steps=1), shape)
    [batch], [given] = train.batches, train.given
    assert batch["advantages"].shape == batch["completion_ids"].shape
    for row, expected in enumerate(given["token_advantages"]):
        found = batch["advantages"][row].tolist()
        assert found[: len(expected)] == pytest.approx(expected, abs=1e-6)
        assert not any(found[len(expected) :])
    assert batch["advantages"].abs().max() > 0.1


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "bnpo"])
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


@pytest.mark.parametrize("shape", Shape)
def test_constant_groups_leave_every_weight_as_it_was(shape, train, tmp_path) -> None:
    train.pay = lambda *_: 0.1
    before = weights_of(small_model(train.tokenizer))
    after = weights_of(train(tmp_path, SETTINGS, shape))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert {row["zero_variance_share"] for row in rows(tmp_path / "metrics.jsonl")} == {1.0}


@pytest.mark.parametrize("shape", Shape)
def test_two_steps_leave_a_model_metrics_and_games(shape, train, tmp_path) -> None:
    train.pay = None  # the shipped reward
    told = []
    trained = train(tmp_path, SETTINGS, shape, progress=lambda *a: told.append(a))
    saved, _ = load_model(ModelSettings(path=str(tmp_path / "grpo")), 0)
    assert close(weights_of(trained), weights_of(saved))
    assert not (tmp_path / "grpo" / "checkpoints").exists()
    found = rows(tmp_path / "metrics.jsonl")
    assert [(row["stage"], row["step"]) for row in found] == [("grpo", 1), ("grpo", 2)]
    for row in found:
        assert {"loss", "grad_norm", "win_rate", "format_compliance", "cumulative_wins", "reward/win"} <= set(row)
        parts = ("rollout", "reward", "logprobs", "forward", "backward", "update")
        assert all(row[f"seconds/{part}"] >= 0.0 for part in parts)
    whole, sample = [0] * SETTINGS.group_size, [1]  # the first step shows a whole group
    assert [row["step"] for row in rows(tmp_path / "games.jsonl")] == whole + sample
    assert [row["step"] for row in rows(tmp_path / "secrets.jsonl")] == [0, 1]
    assert [(done, total) for done, total, _ in told] == [(1, 2), (2, 2)]


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo"])
def test_a_step_does_not_depend_on_turns_that_are_not_played(loss_type, beta, train, tmp_path, monkeypatch) -> None:
    """The same games in rows for three turns and for eight of them; the length of gradients is that of the loss."""
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "start")
    found = []
    for num_rows in (3, 8):
        monkeypatch.setattr(rollouts_module, "rows_per_game", lambda *_, num_rows=num_rows: num_rows)
        model, _ = load_model(ModelSettings(path=str(tmp_path / "start")), 0)
        directory = tmp_path / f"{num_rows}"
        train(directory, update(SETTINGS, loss_type=loss_type, beta=beta), Shape.STATE, model)
        found.append(rows(directory / "metrics.jsonl"))
    assert [len(given["env_mask"]) for given in train.given] == [24, 24, 64, 64]
    for name in ("loss", "grad_norm"):
        few, many = ([row[name] for row in steps] for steps in found)
        assert many == pytest.approx(few, rel=1e-3, abs=1e-6)
    assert min(row["grad_norm"] for row in found[0]) > 1e-3


def test_a_mean_over_rows_is_one_over_the_turns_played(train, tmp_path, monkeypatch) -> None:
    """Every token is worth 1, so a turn is too, and so is the mean of the turns played."""
    keep = rollouts_module.lay_out

    def worth_one(*args, **kwargs):
        found = keep(*args, **kwargs)
        return found | {"token_advantages": [list(map(float, mask)) for mask in found["env_mask"]]}

    monkeypatch.setattr(rollouts_module, "lay_out", worth_one)
    train(
        tmp_path, update(SETTINGS, steps=1, loss_type="grpo", starts=StartSettings(max_prefix_guesses=2)), Shape.STATE
    )
    assert not all(any(mask) for mask in train.given[0]["env_mask"])
    [row] = rows(tmp_path / "metrics.jsonl")
    assert row["loss"] == pytest.approx(-1.0, abs=1e-5)


@pytest.mark.parametrize("shape", Shape)
def test_dr_grpo_divides_by_the_tokens_that_a_row_may_hold(shape, train, tmp_path, monkeypatch) -> None:
    """Every token is worth 1, so the loss is the tokens sampled over those that the rows played might hold."""
    keep = rollouts_module.lay_out

    def worth_one(*args, **kwargs):
        found = keep(*args, **kwargs)
        return found | {"token_advantages": [list(map(float, mask)) for mask in found["env_mask"]]}

    monkeypatch.setattr(rollouts_module, "lay_out", worth_one)
    train(tmp_path, update(SETTINGS, steps=1, loss_type="dr_grpo", micro_batch_size=2), shape)
    masks = [mask for mask in train.given[0]["env_mask"] if any(mask)]
    budget = SETTINGS.sampling.max_completion_tokens * (1 if shape is Shape.STATE else 3)
    [row] = rows(tmp_path / "metrics.jsonl")
    assert row["loss"] == pytest.approx(-sum(map(sum, masks)) / (len(masks) * budget), rel=1e-4)


@pytest.mark.parametrize("shape", Shape)
def test_micro_batches_add_up_to_the_whole(shape, train, tmp_path) -> None:
    models = [
        train(tmp_path / str(size), update(SETTINGS, steps=1, micro_batch_size=size), shape) for size in (0, 4, 2)
    ]
    assert not close(weights_of(small_model(train.tokenizer)), weights_of(models[0]), 1e-4)
    assert all(close(weights_of(models[0]), weights_of(model), 2e-5) for model in models[1:])


@pytest.mark.parametrize(("loss_type", "sorted_by_length"), [("dapo", True), ("bnpo", False)])
def test_micro_batches_are_of_like_games_unless_their_loss_minds(loss_type, sorted_by_length, train, tmp_path) -> None:
    train(tmp_path, update(SETTINGS, steps=1, micro_batch_size=2, loss_type=loss_type), Shape.STATE)
    lengths = [int(n) for part in train.parts for n in (part["prompt_mask"].sum(1) + part["completion_mask"].sum(1))]
    assert (lengths == sorted(lengths, reverse=True)) is sorted_by_length
    for part in train.parts:
        assert part["prompt_mask"].any(dim=0).all()
        assert part["completion_mask"].any(dim=0).all()


def test_a_step_logs_the_seconds_of_all_its_micro_batches_and_the_mean_entropy_of_its_tokens(train, tmp_path) -> None:
    train(tmp_path, update(SETTINGS, micro_batch_size=2), Shape.TRANSCRIPT)
    found = rows(tmp_path / "metrics.jsonl")
    assert len(train.forwards) == 8
    for row, parts in zip(found, (train.forwards[:4], train.forwards[4:]), strict=True):
        assert row["seconds/forward"] == pytest.approx(sum(seconds for seconds, _, _ in parts), rel=0.1)
        tokens = sum(n for _, n, _ in parts)
        assert row["entropy"] == pytest.approx(sum(n * entropy for _, n, entropy in parts) / tokens)
        assert row["seconds/forward"] + row["seconds/backward"] + row["seconds/rollout"] < row["step_time"]


@pytest.mark.parametrize("shape", Shape)
def test_overlong_replies_are_masked_where_asked(shape, train, tmp_path) -> None:
    train(tmp_path / "all", update(SETTINGS, steps=1), shape)
    train(tmp_path / "masked", update(SETTINGS, steps=1, mask_overlong=True), shape)
    stops = train.codec.stop_ids
    everything, masked = ((batch["completion_mask"] * batch["tool_mask"]) for batch in train.batches)
    assert torch.equal(train.batches[0]["completion_ids"], train.batches[1]["completion_ids"])
    cut = closed = 0
    for row, ids in enumerate(train.batches[0]["completion_ids"].tolist()):
        given = train.given[0]
        turns = turns_of({**given, "env_mask": [r[: len(ids)] for r in everything.tolist()],
                          "completion_ids": train.batches[0]["completion_ids"].tolist()}, row)  # fmt: skip
        kept = turns_of({**given, "env_mask": masked.tolist(),
                         "completion_ids": train.batches[1]["completion_ids"].tolist()}, row)  # fmt: skip
        cut += sum(reply[-1] not in stops for _, reply in turns)
        closed += len(kept)
        assert kept == [turn for turn in turns if turn[1][-1] in stops]
    assert cut
    assert int(train.batches[1]["num_items_in_batch"]) == int(masked.sum()) < int(everything.sum())


def test_a_sampler_of_another_precision_is_corrected_for(train, tmp_path, monkeypatch) -> None:
    """The sampler says it found every token e^0.1 times as likely as it is; the loss weighs it by e^-0.1."""
    keep = rollouts_module.lay_out

    def distort(*args, **kwargs):
        found = keep(*args, **kwargs)
        found["logprobs"] = [[value + 0.1 for value in row] for row in found["logprobs"]]
        return found

    train(tmp_path / "exact", update(SETTINGS, steps=1, max_importance_ratio=2.0))
    monkeypatch.setattr(rollouts_module, "lay_out", distort)
    train(tmp_path / "off", update(SETTINGS, steps=1, max_importance_ratio=2.0))
    train(tmp_path / "cut", update(SETTINGS, steps=1, max_importance_ratio=0.5))
    exact, off, cut = train.batches
    learnt = (exact["completion_mask"] * exact["tool_mask"]).bool()
    plain = torch.zeros_like(exact["advantages"])
    for row, values in enumerate(train.given[0]["token_advantages"]):
        plain[row, : len(values)] = torch.tensor(values)
    assert torch.allclose(exact["advantages"], plain, atol=1e-3)
    assert torch.allclose(off["advantages"][learnt], plain[learnt] * 0.904837, atol=1e-3)
    assert torch.allclose(cut["advantages"][learnt], plain[learnt] * 0.5, atol=1e-6)
    [row] = rows(tmp_path / "off" / "metrics.jsonl")
    assert row["importance_ratio/mean"] == pytest.approx(0.904837, abs=1e-3)
    assert row["sampler_kl"] == pytest.approx(0.904837 - 1 + 0.1, abs=1e-4)


@pytest.mark.parametrize("micro_batch_size", [0, 2])
def test_every_step_logs_how_far_training_is_from_sampling(micro_batch_size, train, tmp_path, monkeypatch) -> None:
    """One token of the first row is told to be e^0.5 times as likely as it is; the others are as they are."""
    keep = rollouts_module.lay_out

    def distort(*args, **kwargs):
        found = keep(*args, **kwargs)
        found["logprobs"][0][found["env_mask"][0].index(1)] += 0.5
        return found

    train(tmp_path / "same", update(SETTINGS, steps=1, micro_batch_size=micro_batch_size), Shape.TRANSCRIPT)
    [row] = rows(tmp_path / "same" / "metrics.jsonl")
    assert row["importance_ratio/mean"] == pytest.approx(1, abs=1e-3)
    assert 0 <= row["sampler_kl"] < 1e-5
    monkeypatch.setattr(rollouts_module, "lay_out", distort)
    train(tmp_path / "off", update(SETTINGS, steps=1, micro_batch_size=micro_batch_size), Shape.TRANSCRIPT)
    [row] = rows(tmp_path / "off" / "metrics.jsonl")
    count = sum(map(sum, train.given[-1]["env_mask"]))
    assert row["sampler_kl"] == pytest.approx((0.606531 - 1 + 0.5) / count, rel=1e-2)
    assert row["importance_ratio/mean"] == pytest.approx(1 + (0.606531 - 1) / count, abs=1e-4)
    assert row["importance_ratio/max"] == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize("shape", Shape)
def test_gradient_checkpointing_changes_no_update(shape, train, tmp_path) -> None:
    models = [train(tmp_path / str(on), update(SETTINGS, steps=1, gradient_checkpointing=on), shape) for on in (0, 1)]
    assert close(weights_of(models[0]), weights_of(models[1]), 1e-5)


def test_muon_moves_the_policy_too(train, tmp_path) -> None:
    before = weights_of(small_model(train.tokenizer))
    after = weights_of(train(tmp_path, update(SETTINGS, optimizer=fast("muon"), steps=1)))
    assert not close(before, after, 1e-4)


def test_a_kl_penalty_is_measured_against_the_model_it_began_with(train, tmp_path) -> None:
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "start")
    model, _ = load_model(ModelSettings(path=str(tmp_path / "start")), 0)
    train(tmp_path / "run", update(SETTINGS, beta=0.1), model=model)
    first, second = (row["kl"] for row in rows(tmp_path / "run" / "metrics.jsonl"))
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second > 1e-6


@pytest.mark.parametrize("micro_batch_size", [0, 2])
def test_every_step_logs_how_far_the_policy_is_from_its_start(micro_batch_size, train, tmp_path) -> None:
    """The KL divergence that a penalty would act on, where there is none; with one TRL logs it as `kl`."""
    settings = update(SETTINGS, steps=3, micro_batch_size=micro_batch_size)
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "start")
    for name, beta in (("plain", 0.0), ("kept", 1e-9)):
        model, _ = load_model(ModelSettings(path=str(tmp_path / "start")), 0)
        train(tmp_path / name, update(settings, beta=beta), Shape.TRANSCRIPT, model)
    plain, kept = (rows(tmp_path / name / "metrics.jsonl") for name in ("plain", "kept"))
    assert plain[0]["kl_to_start"] == pytest.approx(0, abs=1e-6)
    assert plain[2]["kl_to_start"] > 1e-3
    assert not any("kl_to_start" in row for row in kept)
    if not micro_batch_size:
        assert [row["kl_to_start"] for row in plain] == pytest.approx([row["kl"] for row in kept], rel=1e-3, abs=1e-6)
