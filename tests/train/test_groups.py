"""Laws of the games of a step: starts, redraws of constant groups, figures, sample games, and the rows they become."""

import statistics

import pytest
from grpo_by_hand import Player
from grpo_training import ROLLED as SETTINGS
from grpo_training import Roll, turns_of, update
from reward_games import SOLVER, WORDS, play
from scripted import REASON, fail, say, scripted
from training_fixtures import compact, rows

from wordle_rl.boards import InitialState
from wordle_rl.chat.masks import Segment
from wordle_rl.config.stages import GRPOSettings, StartSettings
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import score_guess
from wordle_rl.policy.base import Completion
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Shape
from wordle_rl.reward import CURRICULA, PRESETS, RewardBreakdown, Rubric
from wordle_rl.rollout import ActiveGame, Trajectory, open_game
from wordle_rl.rollout import play as play_games
from wordle_rl.runs import RunError
from wordle_rl.train.micro_batches import micro_batches
from wordle_rl.train.scored_games import (
    Scored,
    boards_of,
    measured,
    merged_metrics,
    num_live_turns,
    rows_of,
    stop_rule,
)
from wordle_rl.train.turn_candidates import play_branching, reward_judge


def test_a_game_should_stop_once_its_secret_has_ruled_all_answers_out(roll, sixty) -> None:
    stops = stop_rule(roll().setup, max_guesses=2)
    num_stopped = 0
    for secret in sixty.outside:
        env, fitting = WordleEnv(secret, sixty, compact(max_turns=6)), [*sixty.answers]
        while fitting and env.stop_reason is None:
            assert not stops(secret, env.turns, 1)
            env.step(say(fitting[0]))
            fitting = [word for word in fitting if score_guess(word, fitting[0]) == env.turns[-1].marks]
        num_stopped += not fitting
        assert stops(secret, env.turns, 1) == (not fitting)
    assert num_stopped > len(sixty.outside) / 2
    assert [stops(sixty.answers[0], (), replies) for replies in (0, 1, 2)] == [False, False, True]


def test_a_group_shares_its_secret_and_its_start_and_only_training_secrets_are_played(split, roll) -> None:
    settings = update(SETTINGS, starts=StartSettings(max_prefix_guesses=2))
    played = roll(settings=settings, secrets=split.train)
    for step in range(4):
        played(step)
        games = [game.trajectory.transcript for game in played.games[-1]]
        starts = [(game.secret, *(t.turn.guess for t in game.turns if t.is_prefix)) for game in games]
        groups = [set(starts[first : first + 4]) for first in range(0, 12, 4)]
        assert [len(group) for group in groups] == [1, 1, 1]
        assert len({game.secret for game in games}) == 3
    record = rows(played.run.directory / "secrets.jsonl")
    assert [row["step"] for row in record] == [0, 1, 2, 3]
    drawn = {secret for row in record for secret in row["secrets"]}
    assert drawn == {game.trajectory.transcript.secret for games in played.games for game in games} <= {*split.train}


def test_without_priorities_every_secret_is_played_once_a_pass(split, roll) -> None:
    """Six secrets, three groups a step: two steps are a pass. Passes differ in their order."""
    played = roll(secrets=split.train[:6], settings=update(SETTINGS, prioritized_fraction=0.0))
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


def paying(reward: dict[str, object], **changes: object) -> GRPOSettings:
    return GRPOSettings.model_validate(SETTINGS.model_dump(exclude_unset=True) | {"reward": reward} | changes)


FORM_THEN_WINS = [{"at": 0, "weights": {"format": 1.0}}, {"at": 0.5, "weights": {"format": 0.5, "win": 2.0}}]


@pytest.mark.parametrize(
    ("glide", "weights"),
    [
        (False, [{"format": 1.0}, {"format": 1.0}, {"format": 0.5, "win": 2.0}, {"format": 0.5, "win": 2.0}]),
        (True, [{"format": 1.0, "win": 0.0}, {"format": 0.75, "win": 1.0}, *[{"format": 0.5, "win": 2.0}] * 2]),
    ],
    ids=["phases", "glide"],
)
def test_weights_change_with_the_steps_and_are_the_same_after_a_resume(glide, weights, roll) -> None:
    """Steps 0, 1, 2 and 4 of five are at 0, 1/4, 1/2 and 1 of the stage."""
    settings = paying({"phases": FORM_THEN_WINS, "glide": glide, "keep_order": False}, steps=5)
    unbroken = roll(settings=settings)
    for step in (0, 1, 2, 4):
        resumed = roll(settings=settings)
        resumed.rollouts.load_state(unbroken.rollouts.state())
        for played in (unbroken, resumed):
            played(step)
    after = unbroken.rollouts.reward_of(unbroken.games[0][0].trajectory.transcript, 5)  # a validation at the end
    used = [dict(games[0].reward.weights) for games in unbroken.games]
    assert used == weights
    assert dict(resumed.games[0][0].reward.weights) == dict(after.weights) == weights[-1]


def test_a_switch_waits_for_compliance(roll) -> None:
    played = roll(settings=paying({"preset": "shaped_curriculum", "keep_order": False}))
    played(0)
    played.rollouts.best_compliance = 0.95
    played(1)
    phases = CURRICULA["shaped_curriculum"].phases
    assert [dict(games[0].reward.weights) for games in played.games] == [weights for _, weights in phases]


def test_constant_groups_are_refilled_with_other_secrets_so_many_times(roll) -> None:
    seen: list[str] = []

    def pay(transcript, turn) -> float:
        seen.append(transcript.secret)
        return len(turn.reply) % 7 if len({*seen}) > 3 else 1.0  # the first three secrets teach nothing

    played = roll(settings=update(SETTINGS, max_refills=1), pay=pay)
    assert len(played()) == 12
    metrics = played.metrics
    assert metrics["constant_group_rate"] == 1.0
    assert metrics["refilled_groups"] == 3 - metrics["skipped_groups"] > 0
    first, again = (row["secrets"] for row in rows(played.run.directory / "secrets.jsonl"))
    assert len(first) == 3
    assert first != again
    assert {game.trajectory.transcript.secret for game in played.games[0]} == {*again}
    constant = roll(settings=update(SETTINGS, max_refills=3), pay=lambda *_: 1.0)
    constant()
    assert len(rows(constant.run.directory / "secrets.jsonl")) == 4
    assert constant.metrics["skipped_groups"] == 3


def test_constant_groups_count_in_no_process_while_another_one_learns(roll, codec, monkeypatch) -> None:
    """In the divisor of the loss they would shrink the gradient of the others."""
    constant = roll(settings=update(SETTINGS, max_refills=0), pay=lambda *_: 1.0)
    constant()
    played = constant.played
    assert len(played.items(codec)) == 3, "alone, they stay: a step has rows"
    monkeypatch.setattr("wordle_rl.train.grpo_rollouts.gather", lambda mine: [mine, True])
    assert played.items(codec) == []
    assert micro_batches([], 0) == []


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
        said = [turn.reply for turn in game.trajectory.transcript.turns]
        assert [turn.get("reply", "") for turn in row["turns"]] == said


def test_every_tenth_step_a_whole_group_that_teaches_is_among_the_sample_games(roll, sixty) -> None:
    teaching, other = sixty.answers[:2]
    pay = lambda transcript, turn: (transcript.secret == teaching) * len(turn.reply)  # noqa: E731
    played = roll(secrets=(teaching, other), pay=pay)
    for step in (10, 11):
        played(step)
    found = rows(played.run.directory / "games.jsonl")
    groups = [[row for row in found if (row["step"], row["group"]) == (10, number)] for number in range(3)]
    [whole] = [group for group in groups if len(group) == SETTINGS.group_size]
    assert [row["game"] for row in whole] == list(range(SETTINGS.group_size))
    assert {row["secret"] for row in whole} == {teaching}
    assert sum(row["step"] == 11 for row in found) == SETTINGS.sample_games


def test_pass_at_k_is_the_mean_over_groups(tokenizer, codec, tmp_path) -> None:
    """Of four games for `crane` two are won, so one of six pairs holds no win; of those for `grape` three."""
    says = [("crane", "grape", ""), ("grape", "crane", ""), ("drape", "grape", ""), ("these", "speed", "drape")]
    settings = update(SETTINGS, groups_per_step=2)
    roll = Roll(tokenizer, codec, WORDS, tmp_path, settings, secrets=("crane", "grape"))
    roll.open_policy = Player(codec, says).policy
    roll()
    assert roll.metrics["pass_at/2"] == pytest.approx((5 / 6 + 1) / 2)
    assert roll.metrics["pass_at/4"] == 1.0


def test_metrics_of_processes_come_together_by_what_they_are() -> None:
    one = {"win_rate": 1.0, "refilled_groups": 2.0, "reward": 1.0}
    other = {"win_rate": 0.0, "refilled_groups": 3.0, "reward": 1.2, "mean_guesses": 4.0}
    merged = merged_metrics([(one, {"win_rate": 8}), (other, {"win_rate": 16, "mean_guesses": 3})])
    assert merged == pytest.approx({"win_rate": 1 / 3, "refilled_groups": 5.0, "reward": 1.1, "mean_guesses": 4.0})


def test_the_states_of_processes_count_alike(roll, monkeypatch) -> None:
    """After probes every process knows every secret; a group of one of them must not be lost."""
    monkeypatch.setenv("RANK", "1")
    made = roll()
    rollouts, (first, second) = made.rollouts, made.setup.secrets[:2]
    theirs = {**rollouts.own_state(), "priorities": {first: 1.0, second: 2.0}, "cumulative_wins": 3}
    monkeypatch.setattr("wordle_rl.train.grpo_rollouts.gather", lambda mine: [theirs, mine])
    rollouts.starts.picker.update(first, 3.0)
    rollouts.cumulative_wins = 4
    state = rollouts.state()
    assert state["priorities"] == {first: 2.0, second: 2.0}
    assert state["cumulative_wins"] == 7
    rollouts.load_state(state)
    assert rollouts.cumulative_wins == 0, "the first process alone takes over the games won"
    assert rollouts.starts.picker.state() == state["priorities"]


def test_probes_play_every_secret_greedily_and_prefer_what_they_lose(roll, sixty) -> None:
    lost = {secret for secret in sixty.answers if secret < "g"}
    pay = lambda transcript, _: -1.0 * (transcript.secret in lost)  # noqa: E731
    played = roll(settings=update(SETTINGS, probe_every_steps=2, prioritized_fraction=1.0), pay=pay)
    for step in (0, 1, 2):
        played(step)
        assert ("probe_win_rate" in played.metrics) == (step % 2 == 0)
        if step == 0:
            state = played.rollouts.starts.picker.state()
    drawn = rows(played.run.directory / "secrets.jsonl")
    expected = [("grpo/probe", 0), ("grpo", 0), ("grpo", 1), ("grpo/probe", 2), ("grpo", 2)]
    assert [(row["stage"], row["step"]) for row in drawn] == expected
    assert all(row["secrets"] == list(sixty.answers) for row in drawn if row["stage"] == "grpo/probe")
    in_groups = {*drawn[1]["secrets"]}
    assert in_groups <= lost
    turns = played.prompter.rules.max_turns
    for secret in sixty.answers:
        priority = turns * (secret in lost)  # a group of games that all earn the same then halves it
        assert state[secret] == priority / (2 if secret in in_groups else 1)


def test_probes_leave_the_samplers_random_stream_alone(roll) -> None:
    plain, probing = (roll(settings=update(SETTINGS, probe_every_steps=n, prioritized_fraction=0.0)) for n in (0, 1))
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
    roll = Roll(tokenizer, codec, WORDS, tmp_path, update(SETTINGS, **changes), compact(shape, max_turns=3))
    failed = fail(monkeypatch, lambda request: request.game_id // candidates == 1 and len(request.turns) == 1)
    found = roll()
    games = roll.games[0]
    assert len(found) == sum(len(game.trajectory.segments) for game in games)
    assert len(failed) == candidates
    assert len(games) == 12 // candidates - 1
    assert all(game.trajectory.error is None for game in games)
    tokens = sum(sum(segment.loss_mask) for game in games for segment in game.trajectory.segments)
    assert sum(sum(row.loss_mask) for row in found) == tokens
    assert roll.metrics["reward"] == pytest.approx(statistics.fmean(game.reward.total for game in games))
    assert roll.metrics["failed_games"] == 1


def test_a_step_without_a_game_is_an_error_and_no_step(tokenizer, codec, tmp_path, monkeypatch) -> None:
    fail(monkeypatch, lambda _: True)
    roll = Roll(tokenizer, codec, WORDS, tmp_path)
    with pytest.raises(RunError, match=REASON):
        roll()


def test_candidates_that_fail_are_left_out_of_their_turns_mean(tokenizer, codec, tmp_path, monkeypatch) -> None:
    roll = Roll(tokenizer, codec, WORDS, tmp_path, update(SETTINGS, turn_candidates=4, credit="guess"))
    fail(monkeypatch, lambda request: request.game_id % 4 == 2)
    roll()
    for game in roll.games[0]:
        turns = len(game.trajectory.transcript.turns)
        assert len(game.trajectory.segments) == len(game.advantages) == 3 * turns
        assert all(sum(game.advantages[3 * turn : 3 * turn + 3]) == pytest.approx(0.0) for turn in range(turns))
        assert [segment.spans[0][0] for segment in game.trajectory.segments] == list(range(3 * turns))


def test_a_failed_probe_sets_no_priority(roll, monkeypatch) -> None:
    made = roll(settings=update(SETTINGS, probe_every_steps=1, prioritized_fraction=1.0))
    unlucky = made.setup.secrets[3]
    fail(monkeypatch, lambda request: request.game_id == 3)
    made.rollouts._probe(0, made.open_policy)
    assert set(made.rollouts.starts.picker.state()) == {*made.setup.secrets} - {unlucky}


# --- games as training sees them ---


def test_games_of_words_outside_the_answers_are_neither_won_nor_lost() -> None:
    """Those of invented words are counted by themselves."""
    said = [("crane", "crane"), ("crane", "these", "crane"), ("crane", *["these"] * 6), ("zzzzz", "zzzzz")]
    said += [("qqqqq", "these", "qqqqq"), ("qqqqq", *["these"] * 6)]
    games = [play(*line) for line in said]
    found = measured([Scored(Trajectory(game), PRESETS["sparse"].score(game, SOLVER), ()) for game in games], WORDS)
    assert (found.num_wins, found.means["win_rate"], found.means["mean_guesses"]) == (2, 2 / 3, 1.5)
    by_turn = [name for name in found.means if name.startswith("win_rate_by_turn/")]
    assert [found.means[name] for name in by_turn] == sorted(found.means[name] for name in by_turn)
    assert found.means[by_turn[-1]] == found.means["win_rate"]
    counts = dict.fromkeys(("win_rate", *by_turn), 3)
    assert found.denominators == {**counts, "mean_guesses": 2, "format_compliance": 18, "invented_win_rate": 2}
    assert found.means["invented_win_rate"] == 0.5


@pytest.mark.parametrize("shape", Shape)
def test_a_board_holds_the_prefix_guesses_and_those_of_the_game(shape, codec) -> None:
    sampler = scripted(lambda _, turns: say(["these", "crane"][len(turns) - 1]))(None, codec)
    [game] = play_games([InitialState("crane", ("drape",))], WORDS, compact(shape), sampler)
    found = [([turn.guess for turn in board.turns], codec.text_of(reply)) for board, reply, _ in boards_of(game)]
    assert found == [(["drape"], say("these")), (["drape", "these"], say("crane"))]


@pytest.mark.parametrize(("given", "count"), [((), 3), (("mamma",), 3), (("these",), 1)])
def test_the_first_guess_is_trained_on_though_prefix_guesses_have_ruled_all_answers_out(given, count, outside) -> None:
    """Every answer has an e and no other word has one: nothing fits after a guess with an e."""
    game = play("civic", "lymph", "fuzzy", "crane", "speed", given=given)
    assert num_live_turns(game, outside.setup) == count


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("max_prefix_guesses", [0, 2])
def test_every_sampled_token_is_trained_once_under_its_own_prompt(shape, max_prefix_guesses, roll, monkeypatch) -> None:
    spoken = []
    sample = TransformersSampler.sample

    def listen(self, requests):
        completions = sample(self, requests)
        spoken.extend((tuple(r.prompt_ids), c.token_ids) for r, c in zip(requests, completions, strict=True))
        return completions

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    settings = SETTINGS.model_copy(update={"starts": StartSettings(max_prefix_guesses=max_prefix_guesses)})
    found = roll(settings=settings, prompter=compact(shape, max_turns=3))()
    assert sorted(turn for row in found for turn in turns_of(row)) == sorted(spoken)


def test_a_game_as_a_row_drawn_by_hand(codec) -> None:
    """Two replies of two tokens, the second of which was cut: `s` ends a reply, `e` is the environment's."""
    s = next(iter(codec.stop_ids))
    #         prompt     x  s  e  x  x
    tokens = ((91, 92), (5, s, 7, 5, 6))
    segment = Segment(*tokens, (1, 1, 0, 1, 1), (-1.0, -2.0, 0.0, -3.0, -4.0), ((0, 0, 2), (1, 3, 5)))
    reward = RewardBreakdown({}, {}, (0.0, 0.0), 0.0)
    game = lambda live=None: Scored(Trajectory(play("crane"), (segment,)), reward, (0.5, -2.0), live)  # noqa: E731
    [row] = rows_of(game(), codec)
    assert row.token_ids == [91, 92, 5, s, 7, 5, 6]
    assert row.loss_mask == [0, 0, 1, 1, 0, 1, 1]
    assert row.advantages == [0, 0, 0.5, 0.5, 0.0, -2.0, -2.0]
    assert row.sampler_logprobs == [0, 0, -1.0, -2.0, 0.0, -3.0, -4.0]
    [without_cut], [without_dead] = rows_of(game(), codec, mask_overlong=True), rows_of(game(1), codec)
    assert without_cut.loss_mask == without_dead.loss_mask == [0, 0, 1, 1, 0, 0, 0]
    assert without_cut.token_ids == without_dead.token_ids == row.token_ids


# --- several guesses weighed a turn ---


def by_greens(game, reply) -> float:
    return float((game.env.preview(reply.text).marks or "").count("G"))


@pytest.mark.parametrize("shape", Shape)
def test_the_best_candidate_goes_on_and_all_are_kept(shape, codec, sixty) -> None:
    secret, *others = sixty.answers
    greens = {word: score_guess(secret, word).count("G") for word in others}
    near, far = next(word for word in others if greens[word]), next(word for word in others if not greens[word])
    said = [[far, near], [near, far], [far, secret]]
    sampler = scripted(lambda candidate, turns: say(said[len(turns)][candidate]))(None, codec)
    [(game, values)] = play_branching([InitialState(secret)], sixty, compact(shape, max_turns=3), sampler, 2, by_greens)
    assert [played.turn.guess for played in game.transcript.turns] == [near, near, secret]
    assert game.transcript.won
    assert [a < b for a, b in values] == [True, False, True]
    assert [codec.text_of(segment.token_ids) for segment in game.segments] == [
        say(word) for turn in said for word in turn
    ]


def test_candidates_are_sampled_while_something_can_be_learnt(codec, sixty) -> None:
    secret, *others = sixty.answers
    sampler = scripted(lambda candidate, _turns: say(others[candidate]))(None, codec)
    starts = [InitialState(secret), InitialState(others[5])]
    stopped, whole = play_branching(
        starts, sixty, compact(max_turns=3), sampler, 2, by_greens,
        should_stop=lambda its, board, _own: its == secret and len(board) == 2,
    )  # fmt: skip
    assert [len(game.transcript.turns) for game, _ in (stopped, whole)] == [2, 3]
    assert stopped[0].transcript.stop_reason is StopReason.NOT_NEEDED
    assert len(stopped[1]) == 2


@pytest.fixture
def running() -> ActiveGame:
    """A game of `crane` with two guesses on its board."""
    game = open_game(0, InitialState("crane"), WORDS, compact(), None)
    for word in ("mamma", "these"):
        game.env.step(say(word))
    return game


@pytest.mark.parametrize("preset", [*PRESETS])
@pytest.mark.parametrize("reply", [say("crane"), say("grape"), say("zzzzz"), "no word"])
def test_a_judge_by_reward_pays_what_the_turn_earns_where_the_game_ends(running, preset: str, reply: str) -> None:
    rubric = Rubric(PRESETS[preset].weights)
    judged = reward_judge(rubric, SOLVER)(running, Completion(reply))
    board = running.env.turns
    running.env.step(reply)
    if running.env.stop_reason is None:
        running.env.stop_reason = StopReason.OUT_OF_TURNS
    assert len(running.env.turns) == len(board) + 1
    assert judged == pytest.approx(rubric.score(running.env.transcript(), SOLVER).turn_rewards[-1])
