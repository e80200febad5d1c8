"""Lengths in tokens of the longest guess and the longest game."""

from __future__ import annotations

import random
from itertools import pairwise

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Prompter, Shape
from wordle_rl.words import WordList

_SAMPLE_GAMES = 64


def longest_reply(words: WordList, prompter: Prompter, codec: ChatCodec) -> int:
    """Return the tokens of the longest completion that holds only a guess, closing token included."""
    replies = [codec.taught(prompter.reply(word), prompter.thinking) for word in words.answers]
    codec.warm(replies, ())
    return max(len(codec.reply_ids(reply)) for reply in replies)


def longest_game(words: WordList, prompter: Prompter, codec: ChatCodec, max_completion_tokens: int) -> int:
    """Estimate the tokens of the longest game in which every reply uses up its budget.

    In state shape that is one prompt and one reply. Feedback messages are measured on random games without a correct
    guess, because a bound over all games would be far too wide.
    """
    rng = random.Random(0)
    opening = len(codec.prompt_ids(prompter.opening()))
    # A reply cut at its budget is closed for the policy.
    reply = max_completion_tokens + len(codec.turn_end_ids)
    longest = 0
    for _ in range(_SAMPLE_GAMES):
        secret = rng.choice(words.answers)
        guesses = [rng.choice(words.guesses) for _ in range(prompter.rules.max_replies - 1)]
        board = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
        if prompter.shape is Shape.STATE:
            longest = max(longest, len(codec.prompt_ids(prompter.state(board))))
            continue
        messages = prompter.opening(board)
        feedbacks = [message for before, message in pairwise(messages) if before["role"] == "assistant"]
        longest = max(longest, opening + sum(reply + len(codec.bridge_ids(m)) for m in feedbacks))
    return longest + max_completion_tokens
