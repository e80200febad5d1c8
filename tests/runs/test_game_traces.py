"""Laws of traces: a trace is the conversation that the policy had, word for word."""

from dataclasses import replace

import pytest

from wordle_rl.config import GameSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs.game_traces import facts_of, messages_of

REPLIES = ("<think>a</think><guess>crane</guess>", "no guess", "<guess>zzzzz</guess>", "<guess>speed</guess>")


def played(words, prompter: Prompter, given: tuple[str, ...] = ()) -> tuple[dict, list[dict]]:
    """A finished game as a row, and every message as it was sent."""
    env = WordleEnv("fuzzy", words, prompter, given)
    sent = [dict(message) for message in env.conversation]
    for reply in REPLIES:
        observation = env.step(reply)
        sent.append({"role": "assistant", "content": reply})
        if observation.messages:
            sent.append(dict(observation.messages[-1]))
    return GameRecord.of(env.transcript()).to_row(), sent


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("dictionary", [Dictionary.STRICT, Dictionary.APP])
def test_a_trace_is_what_was_sent(small_words, style: Style, shape: Shape, dictionary: Dictionary) -> None:
    settings = GameSettings(style=style, shape=shape, thinking=Thinking.OPTIONAL, dictionary=dictionary, max_turns=4)
    prompter = settings.prompter(5)
    if dictionary is Dictionary.APP:  # two replies that are refused end a game, too
        prompter = replace(prompter, rules=replace(prompter.rules, max_refusals=2, max_turns=2))
    row, sent = played(small_words, prompter)
    assert messages_of(row, prompter) == sent


def test_prefix_guesses_stand_in_the_conversation(small_words) -> None:
    prompter = GameSettings(style=Style.COMPACT, thinking=Thinking.OPTIONAL, max_turns=5).prompter(5)
    row, sent = played(small_words, prompter, ("trace",))
    assert messages_of(row, prompter) == sent


def test_facts_say_how_the_game_went(small_words) -> None:
    prompter = GameSettings(max_turns=4).prompter(5)
    row, _ = played(small_words, prompter)
    facts = facts_of(row | {"stage": "grpo", "step": 3, "group": 1})
    assert (facts["secret"], facts["won"], facts["step"], facts["group"], facts["status"]) == (
        "fuzzy",
        False,
        3,
        1,
        "ok",
    )
    assert [turn["outcome"] for turn in facts["turns"]][-1] == "scored"
    assert "reply" not in facts["turns"][0]
    assert facts_of(row | {"stop_reason": "request_failed"})["status"] == "error"
