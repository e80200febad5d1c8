"""Do the words, the prompts and the token budgets fit the model? Asked before anything is trained."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Message, Prompter, Shape
from wordle_rl.words import WordList

_SAMPLE_GAMES = 64


def longest_reply(words: WordList, prompter: Prompter, codec: ChatCodec) -> int:
    """The most tokens it takes to guess an answer and say nothing else, the closing token included."""
    replies = [prompter.reply(word) for word in words.answers]
    codec.warm(replies, ())
    return max(len(codec.reply_ids(reply)) for reply in replies)


def longest_game(words: WordList, prompter: Prompter, codec: ChatCodec, max_completion_tokens: int) -> int:
    """Tokens of the longest conversation a game may come to when every reply uses up its budget.

    In state shape a conversation is one prompt and one reply. How long the answers to guesses are is measured on
    random games in which no guess is right, since a bound over all games would be far too wide.
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


def fit_problems(
    words: WordList, prompter: Prompter, codec: ChatCodec, context: int | None, budgets: Mapping[str, int]
) -> list[str]:
    """What is wrong with the budgets: too small for a guess, or games too long for the model; one line each.

    Args:
        words: The word list.
        prompter: Wording, shape and rules.
        codec: The model's tokenizer and template.
        context: The most tokens the model takes; None if it does not say.
        budgets: Name of a setting -> tokens it allows for one reply.
    """
    problems = []
    reply = longest_reply(words, prompter, codec)
    for name, budget in budgets.items():
        if budget < reply:
            problems.append(f"{name} {budget} is too small: to guess a word takes up to {reply} tokens")
        if context is not None and (told := outgrown(words, prompter, codec, name, budget, "model", context)):
            shorter = ", shorten game.system_prompt" if prompter.system_prompt else ""
            fix = 'set game.shape to "state" or game.style to "compact", or raise the context (model.max_length)'
            problems.append(f"{told}; lower {name}{shorter}, {fix}")
    return problems


def outgrown(
    words: WordList, prompter: Prompter, codec: ChatCodec, name: str, budget: int, taker: str, length: int
) -> str:
    """Error text if a game may exceed `length` tokens, else empty.

    Args:
        words: The word list.
        prompter: Wording, shape and rules.
        codec: The model's tokenizer and template.
        name: The setting that bounds a reply.
        budget: Tokens it allows.
        taker: What takes the game: the model, an engine, a server.
        length: The most tokens that takes.
    """
    needed = longest_game(words, prompter, codec, budget)
    if needed <= length:
        return ""
    return f"a game may take {needed} tokens with {name} {budget}, the {taker} takes {length}"
