"""Laws of the adversaries: they never guess the secret, so a game that one wins is a hole, and there is none."""

import random

import pytest
from reward_games import ANSWERS, SIX_TURNS, SOLVER, WORDS

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Guess, Prompter, Style, Thinking
from wordle_rl.reward.adversaries import CHOICES, REPLIES, Field, Move, Policy, View, play, worded

FIELD = Field(SOLVER, ANSWERS, Prompter())


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("thinking", Thinking)
def test_no_wording_is_a_guess_of_the_secret(reply: str, thinking: Thinking) -> None:
    prompter = Prompter(thinking=thinking)
    for secret in (*ANSWERS, "fuzzy", "vivid"):
        parsed = prompter.parse(worded(reply, "slate", secret))
        assert not isinstance(parsed, Guess) or parsed.word != secret, reply
        assert secret in worded(reply, "slate", secret) or "{secret}" not in REPLIES[reply]


@pytest.mark.parametrize("choice", CHOICES)
def test_no_way_to_choose_names_the_secret(choice: str) -> None:
    for secret in ANSWERS:
        env = WordleEnv(secret, WORDS, FIELD.prompter)
        while env.stop_reason is None:
            word = CHOICES[choice](View(FIELD, secret, env, random.Random(0)))
            assert word in WORDS
            assert word != secret
            env.step(FIELD.prompter.reply(word))


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("dictionary", Dictionary)
def test_no_adversary_wins_under_any_dictionary(reply: str, dictionary: Dictionary) -> None:
    field = Field(SOLVER, ANSWERS, Prompter(rules=Rules(dictionary=dictionary)))
    for choice in CHOICES:
        transcript = play(Policy((Move(reply, choice),)), "crane", field)
        assert transcript.stop_reason is StopReason.OUT_OF_TURNS
        assert transcript.turns_used == SIX_TURNS.max_turns
        assert len(transcript.turns) <= field.prompter.rules.max_replies


@pytest.mark.parametrize("reply", REPLIES)
def test_a_finished_game_takes_no_reply(reply: str) -> None:
    for last in ("crane", "crate"):
        env = WordleEnv("crane", WORDS, Prompter(rules=Rules(max_turns=1)))
        env.step(f"<guess>{last}</guess>")
        before = env.transcript()
        for word in ("crane", "crate"):
            with pytest.raises(RuntimeError, match="the game is over"):
                env.step(worded(reply, word, "crane"))
        assert env.transcript() == before


def test_a_policy_plays_the_same_game_again_and_its_last_move_to_the_end() -> None:
    policy = Policy((Move("plain", "any word"), Move("thinking", "fits the marks"), Move("nothing", "one word")))
    first = play(policy, "crane", FIELD)
    assert first == play(policy, "crane", FIELD)
    assert [played.reply == "" for played in first.turns] == [False, False, True, True, True, True]


def test_a_policy_that_stops_is_cut_off_and_one_may_name_its_words() -> None:
    cut = play(Policy((Move("plain", "crate"), Move("plain", "trace")), stops=True), "crane", FIELD)
    assert (cut.stop_reason, [played.turn.guess for played in cut.turns]) == (
        StopReason.TOKEN_BUDGET,
        ["crate", "trace"],
    )


def test_a_policy_reads_as_runs_of_moves() -> None:
    repeated = Policy((Move("plain", "one word"),) * 2 + (Move("nothing", "crate"),), stops=True)
    assert str(repeated) == "2 x one word (plain), then 1 x crate (nothing), then out of tokens"


def test_a_grammar_that_takes_brackets_is_what_a_hole_looks_like() -> None:
    field = Field(SOLVER, ANSWERS, Prompter(style=Style.TEXTARENA))
    assert play(Policy((Move("brackets", "one word"),)), "crane", field).won
