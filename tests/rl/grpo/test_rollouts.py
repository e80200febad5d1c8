"""Laws of the games of a step: fair starts, one row per prompt, credit on the right tokens."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, Roll, turns_of
from reward_games import WORDS, play
from scripted import say
from training_fixtures import compact, rows

from wordle_rl.config import GameSettings, GRPOSettings
from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary, score_guess
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.rollout import Trajectory
from wordle_rl.samplers.transformers import TransformersSampler


@pytest.fixture
def roll(tokenizer, codec, sixty, tmp_path):
    def make(**changes):
        return Roll(tokenizer, codec, sixty, tmp_path / f"run{len(list(tmp_path.iterdir()))}", **changes)

    return make


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("max_given", [0, 2])
def test_every_sampled_token_is_trained_once_under_its_own_prompt(shape, max_given, roll, monkeypatch) -> None:
    spoken = []
    sample = TransformersSampler.sample

    def listen(self, requests):
        completions = sample(self, requests)
        spoken.extend((tuple(r.prompt_ids), c.token_ids) for r, c in zip(requests, completions, strict=True))
        return completions

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    settings = SETTINGS.model_copy(update={"max_given": max_given})
    found = roll(settings=settings, prompter=compact(shape, max_turns=3))()
    trained = [turn for row in range(len(found["prompt_ids"])) for turn in turns_of(found, row)]
    assert sorted(trained) == sorted(spoken)


@pytest.mark.parametrize("shape", Shape)
def test_every_list_has_a_row_per_prompt_and_lists_of_a_row_are_of_one_length(shape, roll) -> None:
    played = roll(prompter=compact(shape, max_turns=3))
    found = played()
    assert played.rollouts.rows_per_game == (3 if shape is Shape.STATE else 1)
    assert {len(column) for column in found.values()} == {12 * played.rollouts.rows_per_game}
    for row in range(len(found["prompt_ids"])):
        names = ("completion_ids", "logprobs", "env_mask", "token_advantages")
        assert len({len(found[name][row]) for name in names}) == 1
        assert found["completion_ids"][row], "TRL cannot pad an empty row"


def test_blank_rows_of_short_games_teach_nothing(roll) -> None:
    found = roll(prompter=compact(Shape.STATE, max_turns=3), settings=SETTINGS.model_copy(update={"max_given": 2}))()
    blank = [row for row in range(len(found["env_mask"])) if not any(found["env_mask"][row])]
    assert blank, "some games had turns given, so some rows must be blank"
    assert all(found["token_advantages"][row] == [0.0] for row in blank)


def test_free_refusals_take_rows_of_their_own(roll) -> None:
    """An untrained model is refused as often as the rules allow, and each of its replies has a row."""
    game = GameSettings(
        style=Style.COMPACT, thinking=Thinking.OFF, shape=Shape.STATE, max_turns=2,
        dictionary=Dictionary.APP, max_refusals=3,
    )  # fmt: skip
    played = roll(prompter=game.prompter(5))
    found = played()
    assert played.rollouts.rows_per_game == 5
    assert len(found["prompt_ids"]) == 12 * 5
    assert max(len(game.trajectory.segments) for game in played.games[0]) == 5


@pytest.mark.parametrize("credit", ["turn", "game"])
@pytest.mark.parametrize("shape", Shape)
def test_advantages_stand_on_the_tokens_of_their_turn(credit, shape, roll) -> None:
    settings = SETTINGS.model_copy(update={"credit": credit})
    played = roll(prompter=compact(shape, max_turns=3), settings=settings, pay=lambda _, turn: len(turn.reply) % 7)
    found = played()
    row = 0
    for game in played.games[0]:
        own = iter(game.advantages)
        for _ in game.trajectory.segments:
            expected = [0.0] * len(found["env_mask"][row])
            on = False
            for place, m in enumerate(found["env_mask"][row]):
                if m and not on:
                    advantage = next(own)
                on = bool(m)
                expected[place] = advantage if m else 0.0
            assert found["token_advantages"][row] == expected
            row += 1
        assert next(own, None) is None, "every own turn is credited"
        row += played.rollouts.rows_per_game - len(game.trajectory.segments)
    assert any(any(values) for values in found["token_advantages"])


def test_a_group_shares_its_secret_and_its_start_and_differs_from_the_next(roll) -> None:
    played = roll(settings=SETTINGS.model_copy(update={"max_given": 2}))
    played()
    starts = [
        (game.trajectory.transcript.secret, tuple(t.turn.guess for t in game.trajectory.transcript.turns if t.given))
        for game in played.games[0]
    ]
    groups = [starts[i : i + 4] for i in range(0, 12, 4)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0][0] for group in groups}) == 3


def test_start_states_keep_to_hard_mode(sixty, roll) -> None:
    game = GameSettings(style=Style.COMPACT, thinking=Thinking.OFF, hard_mode=True)
    settings = SETTINGS.model_copy(update={"max_given": 4, "groups_per_step": 8, "group_size": 2})
    played = roll(prompter=game.prompter(5), settings=settings)
    for step in range(3):
        played(step)
    given = [sum(t.given for t in game.trajectory.transcript.turns) for games in played.games for game in games]
    assert max(given) >= 2


def test_only_training_secrets_are_played(split, roll) -> None:
    played = roll(secrets=split.train)
    for step in range(4):
        played(step)
    record = rows(played.rollouts.run.directory / "secrets.jsonl")
    assert [row["step"] for row in record] == [0, 1, 2, 3]
    drawn = {secret for row in record for secret in row["secrets"]}
    assert drawn <= set(split.train)
    assert drawn == {game.trajectory.transcript.secret for games in played.games for game in games}


def test_the_same_seed_and_step_start_the_same_games(roll) -> None:
    first, second = roll(), roll()
    assert first(5)["prompt_ids"] == second(5)["prompt_ids"]
    assert first.games[0][0].trajectory == second.games[0][0].trajectory


def test_the_schedule_hears_of_steps_and_of_the_best_compliance_so_far(roll) -> None:
    played = roll(pay=lambda *_: 1.0)
    played(0)
    played.rollouts.best_compliance = 0.7
    played(1)
    played(2)
    assert played.rollouts.schedule.asked == [(0, None), (1, 0.7), (2, 0.7)]


def test_replies_are_measured_one_by_one(roll) -> None:
    played = roll(prompter=compact(Shape.STATE, max_turns=3))
    given = played()
    replies = [mask for mask in given["env_mask"] if any(mask)]
    assert played.rollouts.metrics["reply_tokens"] == pytest.approx(sum(map(sum, replies)) / len(replies))
    turns = [turn for game in played.games[0] for turn in game.trajectory.transcript.own_turns]
    assert played.rollouts.metrics["overlong_share"] == sum(turn.overlong for turn in turns) / len(turns) > 0
    assert played.rollouts.denominators["reply_tokens"] == len(replies) == len(turns)


def test_a_linear_schedule_moves_the_weights_with_the_steps(roll) -> None:
    reward = {"weights": {"win": 1.0}, "then_weights": {"win": 3.0}, "over_steps": 10, "keep_order": False}
    settings = GRPOSettings.model_validate(SETTINGS.model_dump() | {"reward": reward})
    played = roll(settings=settings)
    for step in (0, 5, 10, 20):
        played(step)
    assert [games[0].reward.weights["win"] for games in played.games] == [1.0, 2.0, 3.0, 3.0]


def test_a_switch_waits_for_compliance(roll) -> None:
    reward = {"weights": {"format": 1.0}, "then_weights": {"win": 1.0}, "threshold": 0.5, "keep_order": False}
    played = roll(settings=GRPOSettings.model_validate(SETTINGS.model_dump() | {"reward": reward}))
    played(0)
    played.rollouts.best_compliance = 0.6
    played(1)
    assert [set(games[0].reward.weights) for games in played.games] == [{"format"}, {"win"}]


def test_constant_groups_are_counted_and_remembered(roll) -> None:
    played = roll(pay=lambda transcript, _: transcript.secret < "m")  # the same for all games of a group
    played()
    assert played.rollouts.metrics["zero_variance_share"] == 1.0
    assert set(played.rollouts.starts.picker.state().values()) == {0.0}
    mixed = roll(pay=lambda _, turn: len(turn.reply) % 7)
    mixed()
    assert mixed.rollouts.metrics["zero_variance_share"] < 1.0
    assert max(mixed.rollouts.starts.picker.state().values()) > 0.0


def refilling(**changes) -> GRPOSettings:
    return SETTINGS.model_copy(update={"max_refills": 1} | changes)


def test_a_game_ends_once_its_secret_has_ruled_all_answers_out(roll, sixty) -> None:
    settled = roll().rollouts._is_settled
    num_settled = 0
    for secret in sixty.outside:
        env, fitting = WordleEnv(secret, sixty, compact(max_turns=6)), [*sixty.answers]
        while fitting and env.stop_reason is None:
            assert not settled(secret, env.turns)
            env.step(say(fitting[0]))
            fitting = [word for word in fitting if score_guess(word, fitting[0]) == env.turns[-1].marks]
        num_settled += not fitting
        assert settled(secret, env.turns) == (not fitting)
    assert num_settled > len(sixty.outside) / 2
    assert not settled(sixty.answers[0], ())


def test_constant_groups_are_played_anew_with_other_secrets(roll) -> None:
    seen: list[str] = []

    def pay(transcript, turn) -> float:
        seen.append(transcript.secret)
        return len(turn.reply) % 7 if len({*seen}) > 3 else 1.0  # the first three secrets teach nothing

    played = roll(settings=refilling(), pay=pay)
    found = played()
    metrics = played.rollouts.metrics
    assert metrics["zero_variance_share"] == 1.0
    assert metrics["refilled_groups"] + metrics["skipped_groups"] == 3
    assert metrics["refilled_groups"] > 0
    assert len(found["prompt_ids"]) == 12
    drawn = [row["secrets"] for row in rows(played.rollouts.run.directory / "secrets.jsonl")]
    assert [len(secrets) for secrets in drawn] == [3, 3]
    assert drawn[0] != drawn[1]
    assert {game.trajectory.transcript.secret for game in played.games[0]} == {*drawn[1]}


def test_groups_that_teach_are_not_played_anew(roll) -> None:
    played = roll(settings=refilling(), pay=lambda _, turn: len(turn.reply) % 7)
    played()
    assert played.rollouts.metrics["refilled_groups"] == 3 * played.rollouts.metrics["zero_variance_share"]


def test_refills_stop_after_so_many_rounds(roll) -> None:
    played = roll(settings=refilling(max_refills=3), pay=lambda *_: 1.0)
    played()
    assert len(rows(played.rollouts.run.directory / "secrets.jsonl")) == 4
    assert played.rollouts.metrics["skipped_groups"] == 3


OUTSIDE = {"outside_rate": 1.0, "credit": "guess", "reward": {"weights": {"quick_regret": -6.0}, "keep_order": False}}


@pytest.fixture
def outside(tokenizer, codec, tmp_path) -> Roll:
    """A roll over the words of the reward tests whose every secret is no answer."""
    settings = GRPOSettings.model_validate(SETTINGS.model_dump() | OUTSIDE)
    return Roll(tokenizer, codec, WORDS, tmp_path, settings=settings)


def test_outside_secrets_are_no_answers_and_count_in_no_win_rate(outside) -> None:
    outside()
    (row,) = rows(outside.rollouts.run.directory / "secrets.jsonl")
    assert not {*row["secrets"]} & {*WORDS.answers}
    assert "win_rate" not in outside.rollouts.metrics
    assert outside.rollouts.starts.picker.state() == {}


def test_turns_after_the_last_possible_answer_teach_nothing(outside) -> None:
    # No answer does without e, so `crane` leaves none; without m and a there are some, until a z is proved.
    games = [("mamma", "fuzzy", "crane"), ("crane", "mamma", "fuzzy"), ("these", "crane"), ("mamma", "these", "crane")]
    group = [Trajectory(play("zzzzz", *words, budget=True)) for words in games]
    (scored,) = outside.rollouts._score(group, step=0)
    assert [outside.rollouts._num_live_turns(trajectory.transcript) for trajectory in group] == [2, 1, 1, 2]
    for game, live in zip(scored.games, [2, 1, 1, 2], strict=True):
        assert all(value == 0.0 for value in game.advantages[live:])
        assert all(value != 0.0 for value in game.advantages[:live])
    first = [game.advantages[0] for game in scored.games]
    assert sum(first) == pytest.approx(0.0)
    assert first[0] == first[3] != first[1]


def test_outside_secrets_want_a_reward_that_asks_for_no_win() -> None:
    with pytest.raises(ValueError, match="quick_regret"):
        GRPOSettings(outside_rate=0.5)


@pytest.mark.parametrize("shape", Shape)
def test_candidates_of_a_turn_are_credited_above_their_mean(shape, tokenizer, codec, tmp_path) -> None:
    settings = SETTINGS.model_copy(update={"turn_candidates": 2, "credit": "guess"})
    played = Roll(tokenizer, codec, WORDS, tmp_path, settings=settings, prompter=compact(shape, max_turns=3))
    found = played()
    assert len(found["prompt_ids"]) == 3 * 4 * 3  # groups, places, turns
    games = played.games[0]
    assert len(games) == 3 * 2
    for game in games:
        values = list(game.advantages)
        assert len(values) == 2 * len(game.trajectory.transcript.turns) == len(game.trajectory.segments)
        assert all(a + b == pytest.approx(0.0) for a, b in zip(values[::2], values[1::2], strict=True))
    advantages = [max(map(abs, row)) for row in found["token_advantages"]]
    assert sum(value > 0 for value in advantages) == sum(value != 0 for game in games for value in game.advantages)


def test_sample_games_say_what_was_played(roll) -> None:
    played = roll(pay=lambda _, turn: 0.25)
    played(3)
    found = rows(played.rollouts.run.directory / "games.jsonl")
    assert len(found) == 2
    secrets = [game.trajectory.transcript.secret for game in played.games[0]]
    for row in found:
        assert (row["stage"], row["step"]) == ("grpo", 3)
        assert row["secret"] in secrets
        assert row["reward"] == pytest.approx(0.25 * len(row["turns"]))
        assert all(turn["reward"] == 0.25 for turn in row["turns"])


def test_metrics_are_shares_and_sums(roll) -> None:
    played = roll()
    played(0)
    metrics = played.rollouts.metrics
    assert 0.0 <= metrics["format_compliance"] <= 1.0
    assert metrics["win_rate"] == 0.0
    assert metrics["cumulative_wins"] == 0.0
    assert metrics["seconds/rollout"] > 0.0
    assert "reward/win" in metrics
