"""Laws of GRPO: tokens are scored as they were sampled, and each step is the one worked out by hand, game by game."""

import pytest
import torch
from grpo_by_hand import FAILS, Player, Step, rows_of_candidates, rows_of_group, step_of
from grpo_training import SETTINGS, Training, assert_scored_as_sampled, by_length, update
from reward_games import SOLVER, WORDS
from torch.utils._python_dispatch import TorchDispatchMode
from training_fixtures import compact, context_for, fast, rows, small_model, weights_of
from transformers import GPT2Config, GPT2LMHeadModel

import wordle_rl.policy.next_token as drawing_module
from wordle_rl.config.stages import GRPOSettings, StartSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.env import StopReason
from wordle_rl.prompt import Shape
from wordle_rl.train.grpo import policy_loss_of
from wordle_rl.train.starts import GameSetup


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_learner_scores_sampled_tokens_as_the_sampler_did(shape, temperature, train, tmp_path) -> None:
    train(tmp_path, update(SETTINGS, temperature=temperature), shape)
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
@pytest.mark.parametrize("clip", [4.0, 0.01])
def test_a_turn_earns_the_rise_of_the_policy_s_own_belief(shape, clip, train, tokenizer, tmp_path) -> None:
    """By a plain forward pass over board and secret. Without the clip, a game earns its end minus its start."""
    settings = update(SETTINGS, steps=1, temperature=0.7, belief_weight=0.5, belief_clip=clip)
    train(tmp_path, settings, shape)
    model, prompter = small_model(tokenizer), compact(shape, max_turns=3)
    sizes = set()
    for game in train.games[0]:
        transcript, beliefs = game.trajectory.transcript, []
        reply = train.codec.reply_ids(prompter.reply(transcript.secret, ""))
        for segment in game.trajectory.segments:
            for _, start, _ in segment.spans:
                ids = [*segment.prompt_ids, *segment.token_ids[:start], *reply]
                with torch.no_grad():
                    logprobs = (model(torch.tensor([ids])).logits[0, :-1] / 0.7).log_softmax(-1)
                of_reply = logprobs[-len(reply) :]
                beliefs.append(float(sum(scores[token] for scores, token in zip(of_reply, reply, strict=True))))
        after = [*beliefs[1:], 0.0 if transcript.won else beliefs[-1]]
        expected = [max(-clip, min(clip, end - begin)) / clip for begin, end in zip(beliefs, after, strict=True)]
        assert game.reward.components["belief"] == pytest.approx(expected, abs=2e-4)
        paid = zip(transcript.own_turns, game.reward.components["belief"], game.reward.turn_rewards, strict=True)
        for turn, share, reward in paid:
            assert reward == pytest.approx(by_length(transcript, turn) + 0.5 * share)
        if clip > 1:  # no turn comes near it
            assert sum(expected) * clip == pytest.approx(after[-1] - beliefs[0])
        sizes |= {round(share, 5) for share in expected}
    assert len(sizes) > 2
    assert rows(tmp_path / "metrics.jsonl")[0]["reward/belief"] != 0


def test_the_gradient_s_noise_is_logged_every_so_many_steps(train, tmp_path) -> None:
    train(tmp_path, update(SETTINGS, steps=4, gradient_noise_every=3))
    measured = [row.get("gradient/cosine") for row in rows(tmp_path / "metrics.jsonl")]
    assert [value is not None for value in measured] == [True, False, False, True]
    assert all(-1 <= value <= 1 for value in measured if value is not None)


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
    monkeypatch.setattr(drawing_module, "pick", lambda p, generator: torch.multinomial(p, 1, generator=generator)[:, 0])
    with NoFloat64():
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(1, dtype=torch.float64)
        train(tmp_path / "run", update(SETTINGS, steps=2, max_importance_ratio=2.0, gradient_noise_every=1))


# --- one step by hand ---


OPTIONS = {
    "steps": 1,
    "groups_per_step": 2,
    "group_size": 4,
    "optimizer": fast(max_grad_norm=1e6).model_dump(exclude_unset=True),
    "max_refills": 0,
    "reward": {"weights": {"win": 1.0, "speed": 0.5, "format": 0.3, "information": 0.2}},
}
SECRETS = ("crane", "grape")
GAMES = [
    ("crane", "grape", "speed"),
    ("grape", "crane", "speed"),
    ("drape", None, "speed"),
    ("these", "no idea", "grape"),
]
"""What is said in each game of a group, turn by turn."""
ALONE = [*GAMES[:3], ("these", "crane", "speed")]
"""Of `crane` one game alone reaches the third turn."""
FAILING = [*GAMES[:3], ("these", FAILS, "")]
HOPELESS = [
    line.split() for line in ("mamma fuzzy crane", "crane mamma fuzzy", "these crane mamma", "mamma these crane")
]
"""Every answer has an e and no word outside of them has one: nothing fits after a guess with an e."""
WEIGHED = [
    ("crane", "I pass here", "speed"),
    ("a b", "grape", "a b"),
    ("drape", None, "speed"),
    ("I pass here", "a b", "grape"),
]
"""Two candidates for each turn of two games, of different length and so of different value."""
DEAD = [("crane", "speed", "these"), ("these", "speed", "drape")] * 2
"""`crane` is won in two games of four, `grape` in none."""
REGRET = {"weights": {"quick_regret": -6.0}, "keep_order": False}

TRANSCRIPT, STATE = Shape.TRANSCRIPT, Shape.STATE
AHEAD = {"steps": 2, "batches_ahead": 1, "engine": "http://localhost:1", "beta": 0.5}
WEIGHING = {"turn_candidates": 2, "credit": "guess"}

CASES: dict[str, tuple[dict, Shape, list]] = {
    "turn, dapo": ({}, TRANSCRIPT, GAMES),
    "turn, grpo": ({"loss_type": "grpo"}, TRANSCRIPT, GAMES),
    "turn, dr_grpo": ({"loss_type": "dr_grpo"}, TRANSCRIPT, GAMES),
    "turn, a turn of one game": ({}, TRANSCRIPT, ALONE),
    "game, scaled": ({"credit": "game", "scale_advantages": True}, TRANSCRIPT, GAMES),
    "guess, grpo": ({"credit": "guess", "loss_type": "grpo"}, TRANSCRIPT, GAMES),
    "state, turn, grpo": ({"loss_type": "grpo"}, STATE, GAMES),
    "state, game, dr_grpo": ({"credit": "game", "loss_type": "dr_grpo"}, STATE, GAMES),
    "temperature": ({"temperature": 0.7}, TRANSCRIPT, GAMES),
    "overlong, grpo": ({"mask_overlong": True, "loss_type": "grpo"}, STATE, GAMES),
    "overlong, dapo": ({"mask_overlong": True}, TRANSCRIPT, GAMES),
    "truncated importance": ({"max_importance_ratio": 1.1}, TRANSCRIPT, GAMES),
    "two steps": ({"steps": 2}, TRANSCRIPT, GAMES),
    "played ahead, clipped": (AHEAD, TRANSCRIPT, GAMES),
    "penalty": ({"beta": 0.5, "steps": 2}, TRANSCRIPT, GAMES),
    "penalty, grpo": ({"beta": 0.5, "steps": 2, "loss_type": "grpo"}, STATE, GAMES),
    "candidates": (WEIGHING, TRANSCRIPT, WEIGHED),
    "candidates, state, dr_grpo": (WEIGHING | {"loss_type": "dr_grpo"}, STATE, WEIGHED),
    "failed games": ({"loss_type": "grpo"}, TRANSCRIPT, FAILING),
    # TRL #6367: tokens of groups with one reward for all diluted the mean over tokens.
    "a dead group": ({"credit": "game", "reward": {"weights": {"win": 1.0}}}, TRANSCRIPT, DEAD),
    "dead turns": ({"credit": "guess", "outside_rate": 1.0, "reward": REGRET}, TRANSCRIPT, HOPELESS),
}


def descent(model, _settings):
    """Plain descent at rate 1: what a step takes off the weights is its gradient."""
    return torch.optim.SGD(model.parameters(), lr=1.0)


@pytest.fixture
def descend(train: Training, tmp_path):
    """Trains by plain descent at rate 1, so that what a step takes off the weights is its gradient.

    Returns the weights before and after each step, the metrics, and the same steps by hand.
    """

    def run(settings: GRPOSettings, shape: Shape, script, micro: int) -> tuple[list[dict], list[dict], list[Step]]:
        if settings.outside_rate:  # such games end where nothing fits; here they are played to their end
            train.should_stop = lambda *_: False
        train.pay = by_length if settings.turn_candidates > 1 else None
        context, tokens = (
            context_for(WORDS, compact(shape, max_turns=3), SOLVER),
            SamplingSettings(max_completion_tokens=16),
        )
        setup = GameSetup(context, SECRETS, sampling=tokens)
        model, player = small_model(train.tokenizer), Player(train.codec, script)
        weights = [weights_of(model)]
        keep = lambda *_: weights.append(weights_of(model))  # noqa: E731
        options = {"setup": setup, "engine": player, "progress": keep, "micro_batch_size": micro, "optimizer": descent}
        train(tmp_path / "run", settings, model=model, **options)
        by_hand = []
        for played, before in zip(train.played, weights, strict=False):
            model.load_state_dict(before, strict=False)
            games = [[game.trajectory for game in group.games] for group in played.groups]
            longest = 16 * (1 if shape is STATE or settings.turn_candidates > 1 else 3)
            by_hand.append(step_of(rows_by_hand(games, settings, train.codec), model, weights[0], settings, longest))
        return weights, rows(tmp_path / "run" / "metrics.jsonl"), by_hand

    return run


def rows_by_hand(groups, settings: GRPOSettings, codec):
    if settings.turn_candidates > 1:
        value = lambda segment: len(codec.text_of(segment.token_ids)) % 5 / 4  # noqa: E731  # as `by_length` pays
        return [row for group in groups for game in group for row in rows_of_candidates(game, value)]
    rubric = settings.reward.schedule().rubric()
    rewards = lambda transcript: rubric.score(transcript, SOLVER).turn_rewards  # noqa: E731
    rows = [rows_of_group(group, rewards, settings, codec.stop_ids) for group in groups]
    return [row for group in rows if any(credit for row in group for *_, credit in row.replies) for row in group]


@pytest.mark.parametrize("micro_batch_size", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_one_worked_out_by_hand(name: str, micro_batch_size: int, descend) -> None:
    changes, shape, script = CASES[name]
    settings = GRPOSettings.model_validate(OPTIONS | changes)
    weights, metrics, by_hand = descend(settings, shape, script, micro_batch_size)
    assert len(metrics) == len(by_hand) == settings.steps
    for before, after, row, step in zip(weights, weights[1:], metrics, by_hand, strict=False):
        norm = torch.cat([gradient.flatten() for gradient in step.gradient.values()]).norm()
        for weight, gradient in step.gradient.items():
            assert torch.allclose(before[weight] - after[weight], gradient, rtol=1e-3, atol=2e-6), weight
        assert row["loss"] == pytest.approx(step.loss, rel=1e-4, abs=1e-6)
        assert row["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
        assert norm > 1e-2
        if settings.beta:
            assert row["kl"] == pytest.approx(step.kl, rel=1e-2, abs=1e-6)
        assert row["entropy"] == pytest.approx(step.entropy, rel=1e-4)
        away = step.ratios - 1 - step.ratios.log()
        assert row["sampler_kl"] == pytest.approx(float(away.mean()), rel=1e-3)
        assert row["importance_ratio/mean"] == pytest.approx(float(step.ratios.mean()), rel=1e-4)
        assert row["importance_ratio/max"] == pytest.approx(float(step.ratios.max()), rel=1e-4)
        assert step.ratios.min() < 0.9
        assert step.ratios.max() > 1.2
    if settings.steps > 1:
        assert by_hand[-1].kl > 1e-3


def test_several_updates_on_a_batch_are_clipped_against_the_probabilities_of_sampling(
    train: Training, tmp_path
) -> None:
    """Two updates: the second begins with the weights of the first, and with the same games."""
    train.pay = None
    settings = GRPOSettings.model_validate(OPTIONS | {"updates_per_batch": 2})
    context = context_for(WORDS, compact(TRANSCRIPT, max_turns=3), SOLVER)
    setup = GameSetup(context, SECRETS, sampling=SamplingSettings(max_completion_tokens=16))
    model = small_model(train.tokenizer)
    start = weights_of(model)
    train(tmp_path / "run", settings, model=model, setup=setup, engine=Player(train.codec, GAMES), optimizer=descent)
    end, [row] = weights_of(model), rows(tmp_path / "run" / "metrics.jsonl")
    games = [[game.trajectory for game in group.games] for group in train.played[0].groups]
    # By hand, games that are trained on again are like games that older weights have played.
    again = settings.model_copy(update={"batches_ahead": 1})
    weights, losses = start, []
    for _ in range(2):
        model.load_state_dict(weights, strict=False)
        step = step_of(rows_by_hand(games, settings, train.codec), model, start, again, longest=48)
        weights = {name: weights[name] - step.gradient.get(name, 0.0) for name in weights}
        losses.append(step.loss)
    for name, weight in weights.items():
        assert torch.allclose(end[name], weight, rtol=1e-3, atol=4e-6), name
    assert row["loss"] == pytest.approx(sum(losses) / 2, rel=1e-3)
    assert abs(losses[0] - losses[1]) > 1e-3


def test_games_ahead_are_paid_by_the_compliance_of_the_newest_step_that_all_processes_know(
    train: Training, tmp_path, monkeypatch
) -> None:
    """Two batches ahead, that is the step three before theirs: the two between may be under way."""
    monkeypatch.setattr("wordle_rl.train.grpo_rollouts.COMPLIANCE_STEPS", 1)
    settings = update(SETTINGS, steps=5, batches_ahead=2, engine="http://localhost:1")
    context = context_for(WORDS, compact(TRANSCRIPT, max_turns=3), SOLVER)
    setup = GameSetup(context, SECRETS, sampling=SamplingSettings(max_completion_tokens=16))
    train(tmp_path, settings, setup=setup, engine=Player(train.codec, GAMES))
    found = [row["format_compliance"] for row in rows(tmp_path / "metrics.jsonl")]
    assert 0 < found[0] < 1
    [rollouts] = train.all_rollouts
    assert rollouts.schedule.asked == [None, None, None, found[0], max(found[:2])]


def test_the_constant_of_dr_grpo_is_the_longest_row_that_can_be_learnt(train) -> None:
    limit = train.setup().sampling.max_completion_tokens
    for settings, shape, turns in (
        (SETTINGS, Shape.TRANSCRIPT, 3),
        (update(SETTINGS, guesses=1), Shape.TRANSCRIPT, 1),
        (update(SETTINGS, guesses=9), Shape.TRANSCRIPT, 3),
        (SETTINGS, Shape.STATE, 1),
        (update(SETTINGS, turn_candidates=2, credit="guess"), Shape.TRANSCRIPT, 1),  # a candidate is a row
    ):
        assert policy_loss_of(settings, train.setup(shape)).longest == turns * limit
