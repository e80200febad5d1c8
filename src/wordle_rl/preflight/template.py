"""Check that the chat template keeps every turn unchanged, and that replies end where they should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wordle_rl.chat.codec import ChatCodec, unwritable
from wordle_rl.chat.masks import encode_game
from wordle_rl.game import Outcome, Turn, scored_turn
from wordle_rl.preflight import Finding, note, problem, warning
from wordle_rl.prompt import Message, Prompter, Shape, Thinking
from wordle_rl.words import WordList


def sample_game(words: WordList, prompter: Prompter) -> list[Message]:
    """Return a conversation of three turns, with thinking if it is allowed; its last turn alone if prompts
    do not grow."""
    secret, *others = (words.answers[place] for place in (0, len(words.answers) // 2, -1))
    guesses = [*others, secret]
    board = [scored_turn(secret, guess) for guess in guesses]
    replies = [
        Message(role="assistant", content=prompter.reply(guess, f"First this,\nthen that: {guess}."))
        for guess in guesses
    ]
    if prompter.shape is not Shape.TRANSCRIPT:
        return [*prompter.opening(board[:2]), replies[-1]]
    messages = [*prompter.opening(), replies[0]]
    for count in (1, 2):
        messages += [prompter.feedback(board[:count]), replies[count]]
    return messages


def texts_of(words: WordList, prompter: Prompter) -> list[str]:
    """Return all that a style says before a game ends: rules, opening, and the feedback of every outcome.

    The words that it plays are answers.
    """
    answers = words.answers[:3]
    marked = [scored_turn(answers[0], guess) for guess in answers]
    refused = [Turn(answers[0], None, outcome) for outcome in Outcome if outcome.broke_rules]
    boards = [marked, [*marked, marked[-1]], *([*marked, turn] for turn in refused), *([turn] for turn in refused)]
    prompts = [prompter.opening(), *([prompter.feedback(board), *prompter.state(board)] for board in boards)]
    return [message["content"] for messages in prompts for message in messages]


def check_template(codec: ChatCodec, game: Sequence[Message], thinking: Thinking) -> Iterator[Finding]:
    """Check that rendering the whole game, as a server does, gives the trained tokens, and that thinking agrees."""
    frame = codec.frame
    ends = [end for end, message in enumerate(game) if message["role"] == "assistant"]
    if any(codec.prompt_ids(game[:end]) != codec.rendered_ids(game[:end]) for end in ends):
        yield warning(
            "the tokenizer splits a whole conversation differently than turn by turn, so a server's prompts would "
            "differ from those in training; play through wordle-rl, or choose another tokenizer"
        )
    if frame.opened and thinking is Thinking.OFF:
        yield problem(
            'the chat template opens a thought in every prompt, but game.thinking is "off"; set it to "optional", or '
            "model.template_kwargs.enable_thinking to false if the template supports that"
        )
    if frame.closes_thought and thinking is Thinking.REQUIRED:
        yield problem(
            'the chat template closes every thought before the reply, but game.thinking is "required"; set it to '
            '"off", or leave out model.template_kwargs.enable_thinking'
        )
    if frame.closes_thought and thinking is Thinking.OPTIONAL:
        yield note(
            "the chat template closes every thought before the reply, so teacher games are taught without thinking; "
            "leave out model.template_kwargs.enable_thinking to teach it"
        )
    if frame.thought and not frame.opened and thinking is Thinking.OFF:
        yield note(
            'the model thinks before it replies, but game.thinking is "off", so it must learn to reply at once; set '
            "model.template_kwargs.enable_thinking to false to close the thought in the prompt"
        )


def check_stops(codec: ChatCodec, game: Sequence[Message], vocab_size: int) -> Iterator[Finding]:
    """Check that replies end with a token that the model knows and that occurs nowhere else in them."""
    ids, _ = encode_game(codec, game)
    tokenizer, turn_end = codec.tokenizer, codec.frame.turn_end
    replies = [message["content"] for message in game if message["role"] == "assistant"]
    if any(codec.stop_ids.intersection(codec.reply_ids(reply)[:-1]) for reply in replies):
        yield problem(
            f"a turn ends with {turn_end!r}, which also occurs inside replies; choose a chat template that ends a turn "
            "with a token of its own"
        )
    largest = max([*ids, *codec.stop_ids])
    if largest >= vocab_size:
        yield problem(
            f"the tokenizer encodes {token_text(codec, largest)!r} as token {largest}, but the model has only "
            f"{vocab_size} tokens; choose the tokenizer and chat template of this model"
        )
    unknown = tokenizer.unk_token_id
    if unknown is not None and unknown not in codec.stop_ids and unknown in ids:
        missing = ", ".join(unwritable(codec, "".join(each["content"] for each in game))) or "parts of the frame"
        yield problem(
            f"the tokenizer has no tokens for parts of the prompts ({missing}); choose another game.style, or other "
            "words for game.system_prompt"
        )
    if tokenizer.eos_token_id != codec.turn_end_ids[0]:
        yield note(
            f"the tokenizer's eos_token is {tokenizer.eos_token!r}, but a turn ends with {turn_end!r}: sampling stops "
            "at both, and the saved generation_config.json lists both"
        )
    bos = tokenizer.bos_token_id
    if bos is not None and tokenizer("a")["input_ids"][:1] == [bos] and ids[:1] != [bos]:
        yield warning(
            f"texts for this model begin with {tokenizer.bos_token!r}, but the chat template leaves it out; add it to "
            "the template"
        )


def check_wording(prompter: Prompter) -> Iterator[Finding]:
    """Check that a custom system prompt shows how to reply."""
    told, (opened, closed) = prompter.system_text, prompter.guess_tags
    if prompter.system_prompt and not (opened in told and closed in told):
        yield warning(
            f"game.system_prompt does not show how to reply: it has neither {opened} and {closed} nor {{example}}; add "
            "{example}, or an untrained model cannot know the format"
        )


def token_text(codec: ChatCodec, token: int) -> str:
    """Return the text of a token, including special ones."""
    return str(codec.tokenizer.decode([token], skip_special_tokens=False))
