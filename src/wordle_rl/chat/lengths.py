"""Lengths in tokens: of the longest guess and of the longest game."""

from __future__ import annotations

import random
from itertools import pairwise

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Message, Prompter, Shape
from wordle_rl.words import WordList

_SAMPLE_GAMES = 64


def longest_reply(words: WordList, prompter: Prompter, codec: ChatCodec) -> int:
    """Tokens of the longest completion that only guesses an answer, the closing token included."""
    replies = [codec.taught(prompter.reply(word), prompter.thinking) for word in words.answers]
    codec.warm(replies, ())
    return max(len(codec.reply_ids(reply)) for reply in replies)


def longest_game(words: WordList, prompter: Prompter, codec: ChatCodec, max_completion_tokens: int) -> int:
    """Tokens of the longest conversation a game may come to when every reply uses up its budget.

    In state shape a conversation is one prompt and one reply. The length of feedback messages is measured on
    random games without a right guess; a bound over all games would be far too wide.
    """
    rng = random.Random(0)
    longest = 0
    for _ in range(_SAMPLE_GAMES):
        secret = rng.choice(words.answers)
        guesses = [rng.choice(words.guesses) for _ in range(prompter.rules.max_replies - 1)]
        board = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
        longest = max(longest, _prompt_tokens(board, prompter, codec, max_completion_tokens))
    return longest + max_completion_tokens


def _prompt_tokens(board: list[Turn], prompter: Prompter, codec: ChatCodec, max_completion_tokens: int) -> int:
    """Tokens of the last prompt of a game with this board."""
    if prompter.shape is Shape.STATE:
        return len(codec.prompt_ids(prompter.state(board)))
    messages: list[Message] = prompter.opening(board)
    answers = [message for before, message in pairwise(messages) if before["role"] == "assistant"]
    # A reply cut at its budget is closed for the policy.
    reply = max_completion_tokens + len(codec.turn_end_ids)
    return len(codec.prompt_ids(prompter.opening())) + sum(reply + len(codec.bridge_ids(m)) for m in answers)
