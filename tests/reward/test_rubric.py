import math

import pytest
import reward_games as drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reward_games import GUESSES, SOLVER, WORDS, broke_rules, honest, play, value

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter
from wordle_rl.reward import COMPONENTS, PRESETS, Rubric, TurnRewards
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

TOLERANCE = 1e-9
COSTS = ("regret", "quick_regret", "repeat", "overlong", "rule_break")

weights = st.dictionaries(st.sampled_from(sorted(COMPONENTS)), st.floats(-5, 5), min_size=1)


@settings(max_examples=400, deadline=None)
@given(drawn.games())
def test_every_component_keeps_its_range_and_gives_each_own_turn_one_share(transcript: Transcript) -> None:
    for name, component in COMPONENTS.items():
        shares = component.compute(transcript, SOLVER)
        assert len(shares) == len(transcript.own_turns), name
        kinds = [component.win_range if transcript.won else component.loss_range]
        kinds += [component.honest_range] if honest(transcript) else []
        for low, high in kinds:
            assert low - TOLERANCE <= math.fsum(shares) <= high + TOLERANCE, name


@settings(max_examples=300, deadline=None)
@given(drawn.games(), st.sampled_from(sorted(PRESETS)))
def test_total_is_the_sum_of_weight_times_component(transcript: Transcript, name: str) -> None:
    scored = PRESETS[name].score(transcript, SOLVER)
    expected = sum(scored.weights[part] * scored.values[part] for part in scored.components)
    assert scored.total == pytest.approx(expected, abs=TOLERANCE)
    assert math.fsum(scored.turn_rewards) == pytest.approx(scored.total, abs=TOLERANCE)
    assert len(scored.turn_rewards) == len(transcript.own_turns)


rubrics = st.sampled_from([*PRESETS.values()]) | weights.map(Rubric)


@settings(max_examples=400, deadline=None)
@given(
    drawn.wins("crane"),
    drawn.honest_losses("crane"),
    drawn.rule_breaking_losses("crane"),
    drawn.games("crane"),
    rubrics,
)
def test_no_loss_beats_a_win_and_no_broken_rule_an_honest_loss(win, lost, broken, other, rubric: Rubric) -> None:
    assert (win.won, honest(lost), broke_rules(broken)) == (True, True, True)
    best, middle, worst, last = (rubric.score(game, SOLVER).total for game in (win, lost, broken, other))
    assert best > max(middle, worst)
    assert middle >= worst - TOLERANCE
    assert other.won or best > last


REPLIES = ("<guess>crane</guess>", "<guess>speed</guess>", "<guess>qqqqq</guess>", "crane", "<guess>tea</guess>", "")


@given(weights, st.lists(st.sampled_from(REPLIES), min_size=1, max_size=6), st.booleans(), st.booleans(), st.booleans())
def test_rewards_paid_turn_by_turn_add_up(chosen, replies, keep_order: bool, has_prefix: bool, truncates: bool) -> None:
    rubric, env = Rubric(chosen, keep_order), WordleEnv("crate", WORDS, Prompter(), ("think",) * has_prefix)
    rewards, paid = TurnRewards(rubric, SOLVER, "crate", env), []
    for reply in replies:
        if env.stop_reason is None:
            env.step(reply)
            paid.append(rewards.next())
    if env.stop_reason is None:
        env.truncate(StopReason.TOKEN_BUDGET if truncates else StopReason.NOT_NEEDED)
        paid.append(rewards.rest())
    total = rubric.score(env.transcript(), SOLVER).total
    assert math.isclose(math.fsum(paid), total, abs_tol=1e-9)
    assert rewards.breakdown().total == total


@pytest.mark.parametrize("preset", PRESETS)
def test_a_win_is_paid_on_the_turn_that_won(preset: str) -> None:
    env = WordleEnv("crate", WORDS, Prompter())
    rewards = TurnRewards(PRESETS[preset], SOLVER, "crate", env)
    env.step("<guess>think</guess>")
    before = rewards.next()
    env.step("<guess>crate</guess>")
    assert rewards.next() > before


@settings(max_examples=200, deadline=None)
@given(weights)
def test_only_win_and_rule_break_are_moved_and_only_the_safe_way(chosen: dict[str, float]) -> None:
    used = Rubric(chosen).effective_weights
    assert {name: used[name] for name in chosen if name not in ("win", "rule_break")} == {
        name: weight for name, weight in chosen.items() if name not in ("win", "rule_break")
    }
    assert used["win"] >= chosen.get("win", 0.0)
    assert used["rule_break"] <= min(0.0, chosen.get("rule_break", 0.0))
    assert Rubric(chosen, keep_order=False).effective_weights == chosen
    assert Rubric(used).effective_weights == pytest.approx(used)


@pytest.mark.parametrize("name", sorted(set(COMPONENTS) - {"format", "length"}))
@pytest.mark.parametrize("reply", ["", "<guess>cat</guess>", "qqqqq"])
def test_a_turn_that_breaks_rules_is_worth_the_worst_of_every_component(name: str, reply: str) -> None:
    one_turn = Rules(max_turns=1)
    lowest, highest = COMPONENTS[name].loss_range
    worst = highest if name in COSTS else lowest
    assert value(name, play("crane", reply, rules=one_turn)) == pytest.approx(worst)


@pytest.mark.parametrize("reply", ["", "x", "<think>" + "hm " * 2000, "<guess>two words</guess>", "<guess>cat</guess>"])
def test_a_malformed_reply_never_escapes_the_overlong_penalty(reply: str) -> None:
    one_turn = Rules(max_turns=1)
    assert value("overlong", play("crane", reply, rules=one_turn, num_tokens=1)) == 1.0
    longest = play("crane", "crate", rules=one_turn, num_tokens=10_000)
    assert value("overlong", longest) == 1.0
    rubric = Rubric({"win": 1.0, "overlong": -1.0})
    assert rubric.score(play("crane", reply, rules=one_turn), SOLVER).total < rubric.score(longest, SOLVER).total


def test_overlong_rises_from_free_to_full_and_a_cut_reply_pays_in_full() -> None:
    one_turn = Rules(max_turns=1)
    for num_tokens, cost in {20: 0.0, 256: 0.0, 640: 0.5, 1024: 1.0, 9999: 1.0}.items():
        assert value("overlong", play("crane", "crate", rules=one_turn, num_tokens=num_tokens)) == cost
    assert value("overlong", play("crane", "crate", rules=one_turn, overlong=True)) == 1.0
    rambling = "<think>" + "hm " * 639 + "</think> <guess>crate</guess>"
    assert value("overlong", play("crane", rambling, rules=one_turn, num_tokens=None)) == pytest.approx(0.5, abs=0.01)


BLIND_TO_REPEATS = {"sparse", "verifiers"}
"""Presets of the last guess alone, which others published so."""


@pytest.mark.parametrize("name", [*sorted(set(PRESETS) - BLIND_TO_REPEATS), "repeat alone"])
def test_one_word_six_times_loses_to_six_consistent_words(name: str) -> None:
    rhymes = tuple(f"{letter}ills" for letter in "bfhkmpt")
    family = WordList("family", rhymes, rhymes)
    solver = Solver(family)
    rubric = PRESETS.get(name) or Rubric({"repeat": -1.0})
    repeated = play("mills", *["bills"] * 6, words=family)
    varied = play("mills", "bills", "fills", "hills", "kills", "pills", "tills", words=family)
    assert honest(repeated)
    assert honest(varied)
    assert math.fsum(COMPONENTS["consistency"].compute(varied, solver)) == pytest.approx(1.0)
    assert rubric.score(repeated, solver).total < rubric.score(varied, solver).total - 0.1


SIX_DIFFERENT = st.lists(st.sampled_from(GUESSES), min_size=7, max_size=7, unique=True)
"""A secret, and six different words to lose with."""


@settings(max_examples=200, deadline=None)
@given(SIX_DIFFERENT)
def test_one_word_six_times_is_worth_no_more_than_any_six_different_words(chosen: list[str]) -> None:
    secret, *words = chosen
    repeated, varied = play(secret, *[words[0]] * 6), play(secret, *words)
    assert honest(repeated)
    assert honest(varied)
    for name in set(PRESETS) - {"verifiers"}:
        preset = PRESETS[name]
        margin = 1.0 if name in ("shaped", "shaped_strategy", "notebook") else -TOLERANCE
        assert preset.score(varied, SOLVER).total - preset.score(repeated, SOLVER).total > margin, name


def test_a_repeat_costs_one_under_the_shaped_presets() -> None:
    once, again = play("crane", "crate", "lymph", "kudzu"), play("crane", "crate", "lymph", "lymph")
    for name in ("shaped", "shaped_strategy"):
        weight = PRESETS[name].weights["repeat"]
        assert weight * (value("repeat", again) - value("repeat", once)) == pytest.approx(-1.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(GUESSES[1:]), min_size=5, max_size=5), st.integers(1, 4))
def test_running_out_of_tokens_never_pays(words: list[str], stop_after: int) -> None:
    rules = Rules(max_turns=5)
    played_on, cut = play("crane", *words, rules=rules), play("crane", *words[:stop_after], rules=rules, budget=True)
    assert cut.stop_reason is StopReason.TOKEN_BUDGET
    for name in set(COMPONENTS) - {"rule_break"}:
        sign = -1 if name in COSTS else 1
        assert sign * value(name, cut) <= sign * value(name, played_on) + TOLERANCE, name


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*GUESSES[1:], ""]), min_size=1, max_size=4))
def test_a_turn_that_a_spent_budget_left_unplayed_is_worth_one_without_a_guess(replies: list[str]) -> None:
    rules = Rules(max_turns=5)
    cut = play("crane", *replies, rules=rules, budget=True)
    wasted = play("crane", *replies, *[""] * (5 - len(replies)), rules=rules)
    for name in set(COMPONENTS) - {"rule_break"}:
        assert value(name, cut) == pytest.approx(value(name, wasted)), name


@pytest.mark.parametrize("name", ["format", "valid_word", "length"])
def test_a_longer_game_of_good_form_collects_no_more_than_a_short_one(name: str) -> None:
    short, long = play("crane", "crane"), play("crane", "zzzzz", "fuzzy", "kudzu", "lymph", "nymph", "crane")
    assert value(name, short) == pytest.approx(value(name, long)) == pytest.approx(1.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(GUESSES[1:]), min_size=6, max_size=6), st.integers(0, 5), st.integers(1, 3))
def test_refusals_that_cost_no_turn_still_cost_reward(words: list[str], place: int, refusals: int) -> None:
    rules = Rules(dictionary=Dictionary.APP, max_refusals=3)
    clean = play("crane", *words, rules=rules)
    refused = play("crane", *words[:place], *["qqqqq"] * refusals, *words[place:], rules=rules)
    assert len(refused.own_turns) == len(clean.own_turns) + refusals
    for name, preset in PRESETS.items():
        cost = preset.score(clean, SOLVER).total - preset.score(refused, SOLVER).total
        assert (abs(cost) if name == "sparse" else -cost) < (TOLERANCE if name == "sparse" else 0.0), name
