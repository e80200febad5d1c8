"""Laws of `WordleEnv`: it keeps its secret, ends as the rules say, is played once, and repeats itself."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import say

from wordle_rl.boards import random_board
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Dictionary, Outcome, Rules, score_guess
from wordle_rl.prompt import Guess, ParseFailure, Prompter, Shape, Style, Thinking
from wordle_rl.words import WordList

FAULTY = ("", "prose", "<guess>", "<guess>cat</guess>", "<guess>qqqqq</guess>", "<guess>a b</guess>")


def new(words: WordList, secret: str = "crane", given: Iterable[str] = (), **rules: object) -> WordleEnv:
    return WordleEnv(secret, words, Prompter(rules=Rules(**rules)), tuple(given))


def sayings(env: WordleEnv) -> list[str]:
    """Everything a player could read off a running game, one text each."""
    return [repr(env), str(env), repr(env.observation), repr(env.conversation), repr(env.turns)]


settings_of_a_game = st.builds(
    Prompter,
    style=st.sampled_from(Style),
    shape=st.sampled_from(Shape),
    thinking=st.just(Thinking.OPTIONAL),
    word_length=st.just(5),
    rules=st.builds(Rules, st.integers(1, 8), st.sampled_from(Dictionary), st.booleans(), st.integers(0, 3)),
)


@given(st.data(), settings_of_a_game, st.integers(0, 10_000))
def test_a_running_game_never_says_its_secret(small_words, data: st.DataObject, prompter: Prompter, seed) -> None:
    told = repr(prompter.opening()).lower()
    secrets = [word for word in small_words.answers if word not in told]  # the rules use words such as "think"
    rng = random.Random(seed)
    secret, most = rng.choice(secrets), min(2, prompter.rules.max_turns - 1)
    begun = random_board(small_words, secret, rng, most, hard_mode=prompter.rules.hard_mode)
    env = WordleEnv(secret, small_words, prompter, begun)
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
def test_two_secrets_that_are_marked_alike_cannot_be_told_apart(small_words, data, prompter: Prompter) -> None:
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


@pytest.mark.parametrize("turn", range(1, 7))
def test_a_win_on_any_turn_terminates_the_game_as_solved(small_words: WordList, turn: int) -> None:
    env = new(small_words)
    for _ in range(turn - 1):
        seen = env.step(say("speed"))
        assert (seen.terminated, seen.truncated, seen.stop_reason) == (False, False, None)
    end = env.step(say("crane"))
    assert (end.terminated, end.truncated, end.stop_reason) == (True, False, StopReason.SOLVED)
    assert end.messages == ()
    assert (env.transcript().won, env.transcript().turns_used) == (True, turn)


def test_a_game_without_a_win_terminates_when_its_turns_are_used_up(small_words: WordList) -> None:
    env = new(small_words, max_turns=3)
    for reply in ("crane", say("qqqqq"), say("speed")):
        end = env.step(reply)
    assert (end.terminated, end.truncated, end.turns_left) == (True, False, 0)
    assert (end.stop_reason, env.transcript().won) == (StopReason.OUT_OF_TURNS, False)
    outcomes = [turn.turn.outcome for turn in env.transcript().turns]
    assert outcomes == [Outcome.MALFORMED, Outcome.UNLISTED, Outcome.SCORED]


@pytest.mark.parametrize("reason", [StopReason.TOKEN_BUDGET, StopReason.REQUEST_FAILED])
@pytest.mark.parametrize("turns", [0, 2])
def test_a_budget_truncates_and_terminates_nothing(small_words: WordList, reason: StopReason, turns: int) -> None:
    env = new(small_words)
    for word in ("speed", "abbey")[:turns]:
        env.step(say(word))
    end = env.truncate(reason)
    assert (end.terminated, end.truncated, end.messages) == (False, True, ())
    transcript = env.transcript()
    assert (transcript.stop_reason, transcript.won, len(transcript.turns)) == (reason, False, turns)


@pytest.mark.parametrize("ending", ["solved", "lost", "truncated"])
def test_a_finished_game_stays_as_it_ended(small_words: WordList, ending: str) -> None:
    env = new(small_words, max_turns=1)
    if ending == "truncated":
        env.truncate(StopReason.TOKEN_BUDGET)
    else:
        env.step(say("crane" if ending == "solved" else "speed"))
    before = env.transcript()
    for call, what in ((env.step, ""), (env.preview, ""), (env.truncate, StopReason.REQUEST_FAILED)):
        with pytest.raises(RuntimeError):
            call(what)
    assert env.transcript() == before


def test_the_transcript_holds_replies_as_said_and_as_read(small_words: WordList) -> None:
    env = new(small_words, given=["speed"])
    env.step("no idea", num_tokens=3, overlong=True)
    env.step(f"<think>so</think>{say('crane')}", num_tokens=9)
    given_turn, first, last = env.transcript().turns
    assert given_turn.is_prefix
    assert given_turn.parsed == Guess("speed")
    assert (first.reply, first.num_tokens, first.overlong) == ("no idea", 3, True)
    assert isinstance(first.parsed, ParseFailure)
    assert (last.parsed, last.turn.marks) == (Guess("crane", "so"), "GGGGG")
    assert env.transcript().own_turns == (first, last)
    assert env.transcript().turns_used == 3


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


@pytest.mark.parametrize(
    ("words", "rules", "named"),
    [
        (["qqqqq"], {}, "qqqqq"),
        (["cat"], {}, "cat"),
        (["crate", "speed"], {"hard_mode": True}, "speed"),
        (["qqqqq"], {"dictionary": Dictionary.APP}, "qqqqq"),
        (["speed", "abbey"], {"max_turns": 2}, "2 prefix guesses"),
    ],
)
def test_impossible_starts_are_refused(small_words: WordList, words: list[str], rules: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        new(small_words, given=words, **rules)


@pytest.mark.parametrize("dictionary", [Dictionary.STRICT, Dictionary.APP])
def test_an_invented_secret_is_the_one_unlisted_word_that_can_be_guessed(small_words, dictionary) -> None:
    prompter = Prompter(rules=Rules(dictionary=dictionary))
    with pytest.raises(ValueError, match="the secret is not in word list"):
        WordleEnv("brind", small_words, prompter)
    env = WordleEnv("brind", small_words, prompter, invented=True)
    for guess in ("brint", "crane", "brind"):
        env.step(prompter.reply(guess))
    outcomes = [(turn.marks, turn.outcome) for turn in env.turns]
    assert outcomes == [(None, Outcome.UNLISTED), ("XGXGX", Outcome.SCORED), ("GGGGG", Outcome.SCORED)]
    assert env.transcript().won
