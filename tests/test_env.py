"""Laws of `WordleEnv`: it keeps its secret, ends as the rules say, is played once, and repeats itself."""

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Dictionary, Outcome, Rules, hard_mode_fault, score_guess
from wordle_rl.prompt import (
    Guess,
    ParseFailure,
    Prompter,
    Shape,
    Style,
    Thinking,
)
from wordle_rl.train.starts import random_given
from wordle_rl.words import WordList

FAULTY = ("", "crane", "<guess>", "<guess>cat</guess>", "<guess>qqqqq</guess>", "<guess>a b</guess>")


def tag(word: str) -> str:
    return f"<guess>{word}</guess>"


def new(words: WordList, secret: str = "crane", given: Iterable[str] = (), **rules: object) -> WordleEnv:
    return WordleEnv(secret, words, Prompter(rules=Rules(**rules)), tuple(given))


def sayings(env: WordleEnv) -> list[str]:
    """Everything a player could read off a running game, one text each."""
    return [repr(env), str(env), repr(env.observation), repr(env.conversation), repr(env.turns)]


def drawn(
    words: WordList, secrets: Sequence[str], prompter: Prompter, seed: int, max_given: int
) -> tuple[str, WordleEnv]:
    """A secret and its game with random guesses on the board."""
    rng = random.Random(seed)
    secret = rng.choice(secrets)
    given_words = random_given(words, secret, rng, max_given, hard_mode=prompter.rules.hard_mode)
    return secret, WordleEnv(secret, words, prompter, given_words)


# --- secrecy --------------------------------------------------------------------------------------------------------

settings_of_a_game = st.builds(
    Prompter,
    style=st.sampled_from(Style),
    shape=st.sampled_from(Shape),
    thinking=st.just(Thinking.OPTIONAL),
    word_length=st.just(5),
    rules=st.builds(Rules, st.integers(1, 8), st.sampled_from(Dictionary), st.booleans(), st.integers(0, 3)),
)


@given(st.data(), settings_of_a_game, st.integers(0, 10_000))
def test_a_running_game_never_says_its_secret(
    small_words: WordList, data: st.DataObject, prompter: Prompter, seed: int
) -> None:
    told = repr(prompter.opening()).lower()
    secrets = [word for word in small_words.answers if word not in told]  # the rules use words such as "think"
    secret, env = drawn(small_words, secrets, prompter, seed, max_given=min(2, prompter.rules.max_turns - 1))
    others = [prompter.reply(word) for word in small_words.guesses if word != secret]
    while env.stop_reason is None:
        for text in sayings(env):
            assert secret not in text.lower()
        with pytest.raises(RuntimeError) as caught:
            env.transcript()
        assert secret not in str(caught.value)
        env.step(data.draw(st.one_of(st.sampled_from(others), st.sampled_from(FAULTY))))
    assert env.transcript().secret == secret


@given(st.data(), settings_of_a_game)
def test_two_secrets_that_are_marked_alike_cannot_be_told_apart(
    small_words: WordList, data: st.DataObject, prompter: Prompter
) -> None:
    first, second = data.draw(st.permutations(small_words.answers))[:2]
    alike = [word for word in small_words.guesses if score_guess(first, word) == score_guess(second, word)]
    envs = [WordleEnv(secret, small_words, prompter) for secret in (first, second)]
    replies = st.sampled_from([*FAULTY, *(prompter.reply(word) for word in alike)])
    while True:
        assert sayings(envs[0]) == sayings(envs[1])
        if envs[0].stop_reason is not None:
            break
        reply = data.draw(replies)
        assert envs[0].step(reply) == envs[1].step(reply)


def test_errors_about_the_secret_do_not_name_it(small_words: WordList) -> None:
    for secret, length, given_words in [("qqqqq", 5, ()), ("crane", 6, ()), ("crane", 5, ("speed", "crane"))]:
        with pytest.raises(ValueError, match="secret") as caught:
            WordleEnv(secret, small_words, Prompter(word_length=length), given_words)
        assert secret not in str(caught.value)


# --- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", range(1, 7))
def test_a_win_on_any_turn_terminates_the_game_as_solved(small_words: WordList, turn: int) -> None:
    env = new(small_words)
    for _ in range(turn - 1):
        seen = env.step(tag("speed"))
        assert (seen.terminated, seen.truncated, seen.stop_reason) == (False, False, None)
    end = env.step(tag("crane"))
    assert (end.terminated, end.truncated, end.stop_reason) == (True, False, StopReason.SOLVED)
    assert end.messages == ()
    assert (env.transcript().won, env.transcript().turns_used) == (True, turn)


def test_a_game_without_a_win_terminates_when_its_turns_are_used_up(small_words: WordList) -> None:
    env = new(small_words, max_turns=3)
    for reply in ("crane", tag("qqqqq"), tag("speed")):
        end = env.step(reply)
    assert (end.terminated, end.truncated, end.turns_left) == (True, False, 0)
    transcript = env.transcript()
    assert transcript.stop_reason is StopReason.OUT_OF_TURNS
    assert not transcript.won
    assert [turn.turn.outcome for turn in transcript.turns] == [Outcome.MALFORMED, Outcome.UNLISTED, Outcome.SCORED]


@pytest.mark.parametrize("reason", [StopReason.TOKEN_BUDGET, StopReason.REQUEST_FAILED])
@pytest.mark.parametrize("turns", [0, 2])
def test_a_budget_truncates_and_terminates_nothing(small_words: WordList, reason: StopReason, turns: int) -> None:
    env = new(small_words)
    for word in ("speed", "abbey")[:turns]:
        env.step(tag(word))
    end = env.truncate(reason)
    assert (end.terminated, end.truncated, end.messages) == (False, True, ())
    assert env.transcript().stop_reason is reason
    assert not env.transcript().won
    assert len(env.transcript().turns) == turns


@pytest.mark.parametrize("ending", ["solved", "lost", "truncated"])
def test_a_finished_game_stays_as_it_ended(small_words: WordList, ending: str) -> None:
    env = new(small_words, max_turns=1)
    if ending == "truncated":
        env.truncate(StopReason.TOKEN_BUDGET)
    else:
        env.step(tag("crane" if ending == "solved" else "speed"))
    before = env.transcript()
    with pytest.raises(RuntimeError, match="over"):
        env.step(tag("crane"))
    with pytest.raises(RuntimeError, match="over"):
        env.preview(tag("crane"))
    with pytest.raises(RuntimeError, match="over"):
        env.truncate(StopReason.REQUEST_FAILED)
    assert env.transcript() == before


# --- the record -----------------------------------------------------------------------------------------------------


def test_the_transcript_holds_replies_as_said_and_as_read(small_words: WordList) -> None:
    env = new(small_words, given=["speed"])
    env.step("no idea", num_tokens=3, overlong=True)
    env.step(f"<think>so</think>{tag('crane')}", num_tokens=9)
    given_turn, first, last = env.transcript().turns
    assert given_turn.is_prefix
    assert given_turn.parsed == Guess("speed")
    assert (first.reply, first.num_tokens, first.overlong) == ("no idea", 3, True)
    assert isinstance(first.parsed, ParseFailure)
    assert (last.parsed, last.turn.marks) == (Guess("crane", "so"), "GGGGG")
    assert env.transcript().own_turns == (first, last)
    assert env.transcript().turns_used == 3


# --- start states ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("count", range(5))
def test_given_turns_lead_to_the_same_board_as_played_ones(small_words: WordList, shape: Shape, count: int) -> None:
    words = ("speed", "abbey", "civic", "these")[:count]
    prompter = Prompter(shape=shape)
    started, played = WordleEnv("crane", small_words, prompter, words), WordleEnv("crane", small_words, prompter)
    for word in words:
        played.step(prompter.reply(word))
    assert started.conversation == played.conversation
    assert started.turns == played.turns
    assert started.observation.turns_left == 6 - count
    assert all(turn.is_prefix for turn in started._played)


@pytest.mark.parametrize(
    ("given_words", "rules", "problem"),
    [
        (("qqqqq",), {}, "'qqqqq' is unlisted"),
        (("cat",), {}, "'cat' is wrong_length"),
        (("crate", "speed"), {"hard_mode": True}, "'speed' is hard_mode"),
        (("qqqqq",), {"dictionary": Dictionary.APP}, "'qqqqq' is unlisted"),
        (("speed", "abbey"), {"max_turns": 2}, "2 prefix guesses"),
    ],
)
def test_impossible_starts_are_refused(
    small_words: WordList, given_words: tuple[str, ...], rules: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        new(small_words, given=given_words, **rules)


@pytest.mark.parametrize("hard_mode", [False, True])
def test_random_starts_are_playable_and_of_every_length(small_words: WordList, hard_mode: bool) -> None:
    prompter = Prompter(rules=Rules(hard_mode=hard_mode))
    lengths = set()
    for seed in range(300):
        _, env = drawn(small_words, small_words.answers, prompter, seed, max_given=4)
        lengths.add(len(env.turns))
        guesses = [turn.guess for turn in env.turns]
        assert len(set(guesses)) == len(guesses)
        assert all(turn.marks != "G" * 5 for turn in env.turns)
        if hard_mode:
            assert all(hard_mode_fault(turn.guess or "", env.turns[:i]) is None for i, turn in enumerate(env.turns))
    assert lengths >= ({0, 1, 2, 3} if hard_mode else {0, 1, 2, 3, 4})
