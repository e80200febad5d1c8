"""Print a finished game turn by turn: prompt, completion, parsed guess, feedback, reward, end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wordle_rl.env import Transcript, WordleEnv
from wordle_rl.prompt import Guess, Message, ParseFailure, Prompter
from wordle_rl.reward import RewardBreakdown
from wordle_rl.words import WordList


def verbose_lines(
    transcript: Transcript, words: WordList, prompter: Prompter, reward: RewardBreakdown, preset: str
) -> Iterator[str]:
    """Yield the game as plain lines.

    Args:
        transcript: The game; prefix guesses stand in its first prompt.
        words: Its word list.
        prompter: Wording and rules that it was played with.
        reward: Its reward, for `preset`.
        preset: Name of the reward.
    """
    given = [played.turn.guess or "" for played in transcript.turns if played.is_prefix]
    env = WordleEnv(transcript.secret, words, prompter, given)
    yield from ("prompt:", *_messages(env.observation.messages))
    for number, played in enumerate(transcript.own_turns):
        yield f"turn {number + 1}: completion: {played.reply}"
        yield f"  parsed guess: {_parsed(played.parsed)}"
        if env.stop_reason is None:
            observation = env.step(played.reply)
            yield f"  marks: {played.turn.marks or f'none ({played.turn.outcome.value})'}"
            if observation.messages:
                yield from ("  feedback message:", *_messages(observation.messages))
        yield f"  reward: {reward.turn_rewards[number]:.4f}"
        last = number + 1 == len(transcript.own_turns)
        yield f"  done: {f'yes, {transcript.stop_reason.value}' if last else 'no'}"
    yield f"reward of the game ({preset}): {reward.total:.4f}"


def _messages(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        first, *rest = message["content"].split("\n")
        yield f"    [{message['role']}] {first}"
        yield from (f"    {line}" for line in rest)


def _parsed(parsed: Guess | ParseFailure) -> str:
    return parsed.word if isinstance(parsed, Guess) else f"none ({parsed.reason.value})"
