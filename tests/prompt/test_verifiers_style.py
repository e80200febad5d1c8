"""The style `verifiers`: the conversations of another project's environment, read and written."""

import pytest

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.prompt import FailureReason, Guess, ParseFailure, Prompter, Shape, Thinking
from wordle_rl.words import load_words

OPENING = """\
You are Playing Wordle.
A secret 5-letter word has been chosen. You have 6 attempts to guess it.
For each guess, wrap your word in square brackets (e.g., '[apple]').
Feedback for each letter will be given as follows:
  - G (green): correct letter in the correct position
  - Y (yellow): letter exists in the word but in the wrong position
  - X (wrong): letter is not in the word
Enter your guess to begin."""
REFUSED = (
    "You attempted an invalid move. Reason: {} Please resubmit a valid move and remember to follow the game rules to "
)


def test_a_game_reads_as_the_environment_words_it() -> None:
    env = WordleEnv("crate", load_words(), Prompter(style="verifiers", system_prompt="Play."))
    assert [message["content"] for message in env.conversation] == ["Play.", OPENING]
    said = []
    for reply in (
        "<think>Vowels first.</think>\n\n<guess>[crane]</guess>",
        "<guess>[CRANE]</guess>",
        "<guess>crate</guess>",
        "<guess>[crate]</guess>",
    ):
        said += [message["content"] for message in env.step(reply).messages]
    assert said[0] == "C R A N E\nG G G X G\nYou have 5 guesses left."
    assert said[1].startswith(REFUSED.format("You have already guessed 'crane' before. Please try a different word."))
    assert "Reason: You tried submitting a word in the wrong format." in said[2]
    assert said[2].endswith("\nYou have 3 guesses left.")
    assert env.stop_reason is StopReason.SOLVED


@pytest.mark.parametrize("thinking", Thinking)
def test_what_a_teacher_writes_is_what_their_parser_and_ours_read(thinking) -> None:
    prompter = Prompter(style="verifiers", thinking=thinking)
    reply = prompter.reply("crane", "" if thinking is Thinking.OFF else "a or o?")
    assert reply.endswith("<guess>[crane]</guess>")
    assert prompter.parse(reply) == Guess("crane", "" if thinking is Thinking.OFF else "a or o?")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("<guess>crane</guess>", FailureReason.NO_GUESS),
        ("[crane]", FailureReason.NO_GUESS),
        ("<guess>[crane]</guess> or <guess>[slate]</guess>", FailureReason.SEVERAL_GUESSES),
        ("I say <guess>[crane]</guess>", FailureReason.TEXT_OUTSIDE_TAGS),
        ("<guess>[crane]</guess>.", FailureReason.TEXT_AFTER_GUESS),
        ("<think>hm <guess>[crane]</guess>", FailureReason.THINKING_UNCLOSED),
        ("<guess>[cr4ne]</guess>", FailureReason.NOT_A_WORD),
    ],
)
def test_other_forms_are_no_guess(reply, reason) -> None:
    parsed = Prompter(style="verifiers").parse(reply)
    assert isinstance(parsed, ParseFailure)
    assert parsed.reason is reason


def test_a_state_prompt_restates_every_answer() -> None:
    env = WordleEnv("crate", load_words(), Prompter(style="verifiers", shape=Shape.STATE))
    for word in ("slate", "crane"):
        env.step(f"<guess>[{word}]</guess>")
    shown = env.conversation[-1]["content"]
    assert shown.startswith(OPENING)
    assert shown.index("S L A T E\nX X G G G") < shown.index("C R A N E\nG G G X G\nYou have 4 guesses left.")
