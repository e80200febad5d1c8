"""Laws of the rewards per turn: they add up to the game's reward, and pay nothing that is not known yet."""

import math

from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter
from wordle_rl.reward import COMPONENTS, PRESETS, Rubric
from wordle_rl.serve.environment import GameRubric, TurnRewards
from wordle_rl.words import WordList

RULES = (
    Rules(),
    Rules(hard_mode=True),
    Rules(dictionary=Dictionary.LENIENT),
    Rules(dictionary=Dictionary.APP),
    Rules(3),
)
REPLIES = ("<guess>{}</guess>", "<think>so</think><guess>{}</guess>", "{}", "<guess>{}x</guess>", "<guess>{}")


def played(env: WordleEnv, rewards: TurnRewards, replies: list[str]) -> list[float]:
    paid = []
    for reply in replies:
        if env.stop_reason is not None:
            break
        env.step(reply)
        paid.append(rewards.next())
    while env.stop_reason is None:
        env.step("nothing")
        paid.append(rewards.next())
    return paid


@st.composite
def games(draw, words: WordList):
    secret = draw(st.sampled_from(words.answers))
    rules = draw(st.sampled_from(RULES))
    guess = st.sampled_from([*words.guesses, secret, "qqqqq", "abc"])
    said = draw(st.lists(st.builds(str.format, st.sampled_from(REPLIES), guess), max_size=8))
    begun = draw(st.lists(st.sampled_from(words.answers).filter(lambda word: word != secret), max_size=2))
    return secret, Prompter(rules=rules), said, () if rules.hard_mode else tuple(begun)


rubrics = st.one_of(
    st.sampled_from(list(PRESETS.values())),
    st.builds(
        Rubric,
        st.dictionaries(st.sampled_from(sorted(COMPONENTS)), st.floats(-3, 3), min_size=1, max_size=5),
        st.booleans(),
    ),
)


@given(data=st.data(), rubric=rubrics)
def test_what_a_turn_pays_depends_on_no_later_turn(small_words, small_solver, data, rubric) -> None:
    secret, prompter, said, begun = data.draw(games(small_words))
    env = WordleEnv(secret, small_words, prompter, begun)
    paid = played(env, TurnRewards(rubric, small_solver, secret, env), said)
    again = WordleEnv(secret, small_words, prompter, begun)
    rewards = TurnRewards(rubric, small_solver, secret, again)
    for turn, reward in zip(env.transcript().own_turns[:-1], paid[:-1], strict=True):
        again.step(turn.reply)
        assert rewards.next() == reward
        ended_here = Transcript(secret, prompter.rules, again.played, StopReason.OUT_OF_TURNS)
        assert math.isclose(rubric.score(ended_here, small_solver).total, rewards._worth, abs_tol=1e-9)


@given(data=st.data(), rubric=rubrics)
def test_leaves_of_the_tree_are_named_for_components_and_lie_from_0_to_1(
    small_words, small_solver, data, rubric
) -> None:
    secret, prompter, said, begun = data.draw(games(small_words))
    env = WordleEnv(secret, small_words, prompter, begun)
    rewards = TurnRewards(rubric, small_solver, secret, env)
    tree = GameRubric(rubric, rewards)
    played(env, rewards, said)

    class Seen:
        reward = 0.25

    assert tree(None, Seen) == tree.last_score == 0.25
    leaves = dict(tree.named_rubrics())
    assert leaves.keys() == rubric.effective_weights.keys()
    assert all(0.0 <= leaf.last_score <= 1.0 for leaf in leaves.values())
    if "win" in leaves:
        assert leaves["win"].last_score == float(env.stop_reason is StopReason.SOLVED)
