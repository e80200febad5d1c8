"""Laws of the games of a step: fair starts, redraws of constant groups, metrics and sample games."""

import statistics
from functools import partial
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from failing_games import REASON, fail
from group_games import SETTINGS, Roll
from grpo_training import (  # noqa: F401  # fixtures
    outside_fixture,
    roll_fixture,
    train_fixture,  # fixtures
)
from reward_games import WORDS
from scripted import say
from training_fixtures import compact, rows

from wordle_rl.config import GRPOTraining, StartSettings
from wordle_rl.env import WordleEnv
from wordle_rl.game import score_guess
from wordle_rl.prompt import Shape
from wordle_rl.reward import CURRICULA
from wordle_rl.runs import RunError
from wordle_rl.runs.trackers import GameLog
from wordle_rl.train.grpo_rollouts import GroupRollouts, _pass_at, merged_metrics


def test_a_game_should_stop_once_its_secret_has_ruled_all_answers_out(roll, sixty) -> None:
    should_stop = partial(roll().rollouts._is_enough, num_replies=1)
    num_stopped = 0
    for secret in sixty.outside:
        env, fitting = WordleEnv(secret, sixty, compact(max_turns=6)), [*sixty.answers]
        while fitting and env.stop_reason is None:
            assert not should_stop(secret, env.turns)
            env.step(say(fitting[0]))
            fitting = [word for word in fitting if score_guess(word, fitting[0]) == env.turns[-1].marks]
        num_stopped += not fitting
        assert should_stop(secret, env.turns) == (not fitting)
    assert num_stopped > len(sixty.outside) / 2
    assert not should_stop(sixty.answers[0], ())


def test_a_group_shares_its_secret_and_its_start_and_differs_from_the_next(roll) -> None:
    played = roll(settings=SETTINGS.model_copy(update={"starts": StartSettings(max_prefix_guesses=2)}))
    played()
    starts = [
        (
            game.trajectory.transcript.secret,
            tuple(t.turn.guess for t in game.trajectory.transcript.turns if t.is_prefix),
        )
        for game in played.games[0]
    ]
    groups = [starts[i : i + 4] for i in range(0, 12, 4)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0][0] for group in groups}) == 3


def test_only_training_secrets_are_played(split, roll) -> None:
    played = roll(secrets=split.train)
    for step in range(4):
        played(step)
    record = rows(played.run.directory / "secrets.jsonl")
    assert [row["step"] for row in record] == [0, 1, 2, 3]
    drawn = {secret for row in record for secret in row["secrets"]}
    assert drawn <= set(split.train)
    assert drawn == {game.trajectory.transcript.secret for games in played.games for game in games}


def test_without_priorities_every_secret_is_played_once_a_pass(split, roll) -> None:
    """Six secrets, three groups a step: two steps are a pass. Passes differ in their order."""
    settings = SETTINGS.model_copy(update={"prioritized_fraction": 0.0, "max_refills": 0, "groups_per_step": 3})
    played = roll(secrets=split.train[:6], settings=settings)
    for step in range(8):
        played(step)
    drawn = [row["secrets"] for row in rows(played.run.directory / "secrets.jsonl")]
    passes = [drawn[step] + drawn[step + 1] for step in range(0, 8, 2)]
    assert all(sorted(once) == sorted(split.train[:6]) for once in passes)
    assert len({tuple(once) for once in passes}) > 1


def test_compliance_is_a_mean_of_several_steps_and_never_falls(roll) -> None:
    rollouts = roll().rollouts
    for compliance in (1.0, 0.0, 0.0, 0.0):
        rollouts.note_compliance(compliance)
    assert rollouts.best_compliance is None
    rollouts.note_compliance(0.5)
    assert rollouts.best_compliance == pytest.approx(0.3)
    resumed = roll().rollouts
    resumed.load_state(rollouts.state())
    for run in (rollouts, resumed):
        run.note_compliance(0.0)
        assert run.best_compliance == pytest.approx(0.3)
        run.note_compliance(1.0)
        run.note_compliance(1.0)
        assert run.best_compliance == pytest.approx(0.5)


def test_a_switch_waits_for_compliance(roll) -> None:
    reward = {"preset": "shaped_curriculum", "keep_order": False}
    played = roll(settings=GRPOTraining.model_validate(SETTINGS.model_dump(exclude_unset=True) | {"reward": reward}))
    played(0)
    played.rollouts.best_compliance = 0.95
    played(1)
    curriculum = CURRICULA["shaped_curriculum"]
    assert [dict(games[0].reward.weights) for games in played.games] == [curriculum.start, curriculum.end]


def refilling(**changes) -> GRPOTraining:
    return SETTINGS.model_copy(update={"max_refills": 1} | changes)


def test_constant_groups_are_refilled_with_other_secrets(roll) -> None:
    seen: list[str] = []

    def pay(transcript, turn) -> float:
        seen.append(transcript.secret)
        return len(turn.reply) % 7 if len({*seen}) > 3 else 1.0  # the first three secrets teach nothing

    played = roll(settings=refilling(), pay=pay)
    found = played()
    metrics = played.metrics
    assert metrics["zero_variance_share"] == 1.0
    assert metrics["refilled_groups"] + metrics["skipped_groups"] == 3
    assert metrics["refilled_groups"] > 0
    assert len(found) == 12
    drawn = [row["secrets"] for row in rows(played.run.directory / "secrets.jsonl")]
    assert [len(secrets) for secrets in drawn] == [3, 3]
    assert drawn[0] != drawn[1]
    assert {game.trajectory.transcript.secret for game in played.games[0]} == {*drawn[1]}


def test_refills_stop_after_so_many_rounds(roll) -> None:
    played = roll(settings=refilling(max_refills=3), pay=lambda *_: 1.0)
    played()
    assert len(rows(played.run.directory / "secrets.jsonl")) == 4
    assert played.metrics["skipped_groups"] == 3


def test_outside_secrets_are_no_answers_and_count_in_no_win_rate(outside) -> None:
    outside()
    (row,) = rows(outside.run.directory / "secrets.jsonl")
    assert not {*row["secrets"]} & {*WORDS.answers}
    assert "win_rate" not in outside.metrics
    assert not [name for name in outside.metrics if name.startswith("pass_at/")]
    assert outside.rollouts.starts.picker.state() == {}


def test_a_sample_game_names_its_group_and_the_advantage_of_every_turn(roll) -> None:
    played = roll()
    played(3)
    games, found = played.games[0], rows(played.run.directory / "games.jsonl")
    assert [(row["stage"], row["step"]) for row in found] == [("grpo", 3)] * 2
    for row in found:
        game = games[row["group"] * SETTINGS.group_size + row["game"]]
        assert row["group_size"] == SETTINGS.group_size
        assert row["secret"] == game.trajectory.transcript.secret
        assert row["reward"] == pytest.approx(game.reward.total, abs=1e-3)
        assert [turn["advantage"] for turn in row["turns"]] == [round(value, 4) for value in game.advantages]
        assert [turn.get("reply", "") for turn in row["turns"]] == [
            turn.reply for turn in game.trajectory.transcript.turns
        ]


def test_every_tenth_step_a_whole_group_that_teaches_is_among_the_sample_games(roll, sixty) -> None:
    secrets = sixty.answers[:2]
    played = roll(
        secrets=secrets, pay=lambda transcript, turn: float(transcript.secret == secrets[0]) * len(turn.reply)
    )
    for step in (10, 11):
        played(step)
    found = rows(played.run.directory / "games.jsonl")
    whole = [row for row in found if row["step"] == 10]
    groups = [[row for row in whole if row["group"] == number] for number in range(3)]
    (complete,) = [group for group in groups if len(group) == SETTINGS.group_size]
    assert [row["game"] for row in complete] == list(range(SETTINGS.group_size))
    assert len({row["secret"] for row in complete}) == 1
    assert any(turn["advantage"] for row in complete for turn in row["turns"])
    assert sum(row["step"] == 11 for row in found) == SETTINGS.sample_games


def test_pass_at_k_is_logged_over_the_groups_of_secrets_that_can_be_won(roll) -> None:
    played = roll(pay=lambda *_: 1.0)
    played(0)
    assert {name: value for name, value in played.metrics.items() if name.startswith("pass_at/")} == {
        f"pass_at/{k}": 0.0 for k in (2, SETTINGS.group_size)
    }

    def group(secret: str, *won: bool) -> SimpleNamespace:
        transcripts = [SimpleNamespace(secret=secret, won=each) for each in won]
        return SimpleNamespace(games=[SimpleNamespace(trajectory=SimpleNamespace(transcript=t)) for t in transcripts])

    answer, other = WORDS.answers[:2]
    groups = [group(answer, True, False, False, False), group(other, False, False, False, False), group("zzzzz", True)]
    assert _pass_at(groups, WORDS) == pytest.approx({"pass_at/2": 0.25, "pass_at/4": 0.5})
    assert _pass_at([group(answer, True)], WORDS) == _pass_at([], WORDS) == {}


def test_metrics_of_processes_come_together_by_what_they_are() -> None:
    one = {"win_rate": 1.0, "refilled_groups": 2.0, "reward": 1.0}
    other = {"win_rate": 0.0, "refilled_groups": 3.0, "reward": 1.2}
    alone = {"mean_guesses": 4.0}
    assert merged_metrics(
        [(one, {"win_rate": 8}), (other | alone, {"win_rate": 16, "mean_guesses": 3})]
    ) == pytest.approx(
        {
            "win_rate": 1 / 3,
            "refilled_groups": 5.0,
            "reward": 1.1,
            "mean_guesses": 4.0,
        }
    )


def test_the_states_of_processes_count_alike(roll, monkeypatch) -> None:
    """After probes every process knows every secret; a group of one of them must not be lost."""
    made = roll()
    first, second = made.setup.secrets[:2]
    theirs = ({first: 1.0, second: 2.0}, 3)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("wordle_rl.train.grpo_rollouts.gather", lambda mine: [theirs, mine])
    rollouts = GroupRollouts(made.setup, SETTINGS, GameLog(made.run), 0)
    rollouts.starts.picker.update(first, 3.0)
    rollouts.cumulative_wins = 4
    for compliance in (0.25, 0.5):
        rollouts.note_compliance(compliance)
    state = rollouts.state()
    assert state == {
        "priorities": {first: 2.0, second: 2.0},
        "best_compliance": None,
        "compliance": [0.25, 0.5],
        "cumulative_wins": 7,
    }
    rollouts.load_state(state)
    assert rollouts.cumulative_wins == 0, "the first process alone takes over the games won"
    assert rollouts.starts.picker.state() == state["priorities"]


def test_probes_play_every_secret_greedily_and_prefer_what_they_lose(roll, sixty) -> None:
    lost = {secret for secret in sixty.answers if secret < "g"}
    pay = lambda transcript, _: -1.0 * (transcript.secret in lost)  # noqa: E731
    settings = SETTINGS.model_copy(update={"probe_every_steps": 2, "prioritized_fraction": 1.0, "max_refills": 0})
    played = roll(settings=settings, pay=pay)
    for step in (0, 1, 2):
        played(step)
        assert ("scouted_win_rate" in played.metrics) == (step % 2 == 0)
        if step == 0:
            state = played.rollouts.starts.picker.state()
    drawn = rows(played.run.directory / "secrets.jsonl")
    assert [(row["stage"], row["step"]) for row in drawn] == [
        ("scout", 0),
        *[("grpo", n) for n in (0, 1)],
        ("scout", 2),
        ("grpo", 2),
    ]
    assert all(row["secrets"] == list(sixty.answers) for row in drawn if row["stage"] == "scout")
    in_groups = {*drawn[1]["secrets"]}
    assert in_groups <= lost
    turns = played.prompter.rules.max_turns
    for secret in sixty.answers:
        priority = turns * (secret in lost)  # a group of games that all earn the same then halves it
        assert state[secret] == priority / (2 if secret in in_groups else 1)


def test_probes_leave_the_samplers_random_stream_alone(roll, sixty) -> None:
    plain, probing = (
        roll(settings=SETTINGS.model_copy(update={"probe_every_steps": n, "prioritized_fraction": 0.0})) for n in (0, 1)
    )
    probing.model.load_state_dict(plain.model.state_dict())
    for step in (0, 1):
        assert plain(step) == probing(step)


# --- games that a remote player fails in: no samples, no reward, no part of a baseline ---


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("candidates", [1, 2])
def test_a_step_trains_on_what_was_sampled_and_on_nothing_of_a_failed_game(
    shape, candidates, tokenizer, codec, tmp_path, monkeypatch
) -> None:
    """Three groups of four places; requests of the first group's second game fail, in its second turn."""
    changes = {"turn_candidates": candidates, "credit": "guess"} if candidates > 1 else {}
    roll = Roll(tokenizer, codec, WORDS, tmp_path, SETTINGS.model_copy(update=changes), compact(shape, max_turns=3))
    failed = fail(monkeypatch, lambda request: request.game_id // candidates == 1 and len(request.turns) == 1)
    found = roll()
    games = roll.games[0]
    assert len(found) == sum(len(game.trajectory.segments) for game in games)
    assert len(failed) == candidates
    assert len(games) == 12 // candidates - 1
    assert all(game.trajectory.error is None for game in games)
    tokens = sum(sum(segment.loss_mask) for game in games for segment in game.trajectory.segments)
    assert sum(sum(row.loss_mask) for row in found) == tokens
    mean = statistics.fmean(game.reward.total for game in games)
    assert roll.metrics["reward"] == pytest.approx(mean)
    assert roll.metrics["failed_games"] == 1


def test_a_step_without_a_game_is_an_error_and_no_step(tokenizer, codec, tmp_path, monkeypatch) -> None:
    fail(monkeypatch, lambda _: True)
    roll = Roll(tokenizer, codec, WORDS, tmp_path)
    with pytest.raises(RunError, match=REASON):
        roll()


def test_candidates_that_fail_are_left_out_of_their_turns_mean(tokenizer, codec, tmp_path, monkeypatch) -> None:
    settings = SETTINGS.model_copy(update={"turn_candidates": 4, "credit": "guess"})
    roll = Roll(tokenizer, codec, WORDS, tmp_path, settings, compact(max_turns=3))
    fail(monkeypatch, lambda request: request.game_id % 4 == 2)
    roll()
    for game in roll.games[0]:
        turns = len(game.trajectory.transcript.turns)
        assert len(game.trajectory.segments) == len(game.advantages) == 3 * turns
        assert all(sum(game.advantages[3 * turn : 3 * turn + 3]) == pytest.approx(0.0) for turn in range(turns))
        assert [segment.spans[0][0] for segment in game.trajectory.segments] == list(range(3 * turns))


def test_a_failed_probe_sets_no_priority(roll, monkeypatch) -> None:
    changes = {"probe_every_steps": 1, "prioritized_fraction": 1.0}
    made = roll(settings=SETTINGS.model_copy(update=changes))
    unlucky = made.setup.secrets[3]
    fail(monkeypatch, lambda request: request.game_id == 3)
    made.rollouts._probe(0, made.open_policy)
    assert set(made.rollouts.starts.picker.state()) == {*made.setup.secrets} - {unlucky}
