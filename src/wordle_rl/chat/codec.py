"""Convert messages to token ids such that training sees exactly the tokens that were sampled and played.

A conversation is never rendered twice. Its ids grow by concatenation:

    prompt_ids(opening) + completion + bridge_ids(feedback) + completion + bridge_ids(feedback) + ...

Where thinking of earlier turns is left out (`Shape.SPOKEN`), every turn has a prompt of its own, made in the same way.

Chat templates that rewrite earlier turns (Qwen3's stock one drops earlier thinking) therefore cannot make
training, rollouts and evaluation see different prompts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wordle_rl.chat.templates import ChatTemplate, read_frame
from wordle_rl.game import scored_turn
from wordle_rl.prompt import Message, Prompter, Shape, Thinking
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_CACHED_TEXTS = 500_000
_MAX_CACHED_PROMPTS = 10_000
_SAMPLE_GAMES = 64


class ChatCodec:
    """Encode conversations for one tokenizer and chat template.

    `turn_end_ids` closes an assistant turn, a single token in every known template; the policy samples it itself.
    `stop_ids` holds all ids at which sampling stops, `stops` among them. `frame` is the text around each turn.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        template_kwargs: Mapping[str, Any] | None = None,
        stops: Iterable[int] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self.template = ChatTemplate.of(tokenizer, template_kwargs)
        self.frame = read_frame(self.template)
        self.turn_end_ids = tuple(self.encode(self.frame.turn_end))
        eos = tokenizer.eos_token_id
        self.stop_ids = frozenset({self.turn_end_ids[0], *([eos] if isinstance(eos, int) else eos or []), *stops})
        pad = tokenizer.pad_token_id
        self.pad_id = int(pad) if pad is not None else self.turn_end_ids[0]
        self._unknown: dict[int, tuple[int, ...]] = {}
        self._cache: dict[str, tuple[int, ...]] = {}
        self._prompts: dict[tuple[tuple[str, str], ...], tuple[int, ...]] = {}

    def prompt_ids(self, messages: Sequence[Message], thinking: Thinking = Thinking.OFF) -> list[int]:
        """Return the ids of a whole prompt, up to where the completion begins.

        Turns on the board are concatenated as in `masks.encode_game`. A prefix board therefore reads exactly like the
        same board reached in play, whatever the template does to earlier replies. Unless `thinking` is off, prefix
        guesses are written as the model would, see `taught`.
        """
        if not messages or messages[-1]["role"] == "assistant":
            raise ValueError("a prompt must end with a message to the policy, not with a reply")
        ids: list[int] = []
        for piece, _ in self.pieces([self._as_written(message, thinking) for message in messages]):
            ids += piece
        return ids

    def _as_written(self, message: Message, thinking: Thinking) -> Message:
        if message["role"] != "assistant":
            return message
        return Message(role="assistant", content=self.taught(message["content"], thinking))

    def rendered_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a whole prompt as a server makes them: one rendering, encoded in one piece."""
        return self.encode(self.template.render(messages))

    def bridge_ids(self, feedback: Message) -> list[int]:
        """Return the ids between two completions: the feedback message in its frame."""
        return list(self._cached(self._framed(feedback["content"])))

    def reply_ids(self, text: str) -> list[int]:
        """Return the ids of an assistant turn as a policy samples it, closing token included.

        If the prompt ends in an opened thought, the reply continues it.
        """
        return [*self._cached(self.frame.spoken(text)), *self.turn_end_ids]

    def taught(self, reply: str, thinking: Thinking) -> str:
        """Return a teacher's reply as the model would write it under its template, see `Frame.taught`.

        With thinking off it stays unchanged: the grammar of replies then forbids even an empty thought.
        """
        return reply if thinking is Thinking.OFF else self.frame.taught(reply)

    def closed(self, completion: Sequence[int]) -> list[int]:
        """Return the ids that must follow a completion cut off before its closing token; none if it closed itself."""
        return [] if completion and completion[-1] in self.stop_ids else list(self.turn_end_ids)

    def text_of(self, completion: Sequence[int]) -> str:
        """Return the text of a completion without closing tokens. A thought opened by the prompt is included."""
        kept = list(completion)
        while kept and kept[-1] in self.stop_ids:
            kept.pop()
        return self.frame.opened + str(self.tokenizer.decode(kept, skip_special_tokens=False))

    def unknown_ids(self, vocab_size: int) -> tuple[int, ...]:
        """Return the ids below `vocab_size` that the tokenizer has no token for, in order; none in most models.

        Vocabularies are padded to a round number (Qwen's by some 270 ids). Such ids decode to nothing, so a reply that
        holds one reads as if it did not, and encoded again it is another reply. Samplers and trainers mask them alike.
        """
        if vocab_size not in self._unknown:
            vocab = self.tokenizer.get_vocab()
            # Where ids share a text (Mistral's own tokenizers), that lists one of them, and the number of all tells.
            shared = range(len(self.tokenizer)) if len(vocab) < len(self.tokenizer) else ()
            known = self.stop_ids.union(vocab.values(), shared)
            self._unknown[vocab_size] = tuple(token for token in range(vocab_size) if token not in known)
        return self._unknown[vocab_size]

    def pieces(self, messages: Sequence[Message]) -> Iterator[tuple[Sequence[int], bool]]:
        """Encode a conversation piece by piece, the opening first: token ids, and True for a reply."""
        first = opening_length(messages)
        yield self._opening_ids(messages[:first]), False
        for offset, message in enumerate(messages[first:]):
            is_reply = offset % 2 == 0
            if (message["role"] == "assistant") != is_reply:
                raise ValueError("after the opening, replies and feedback messages must alternate")
            yield self.reply_ids(message["content"]) if is_reply else self.bridge_ids(message), is_reply

    def warm(self, replies: Iterable[str], feedbacks: Iterable[str]) -> None:
        """Encode many replies and feedback messages in one batch, so that `pieces` only looks them up."""
        texts = {*map(self.frame.spoken, replies), *map(self._framed, feedbacks)}
        missing = [text for text in texts if text not in self._cache]
        if missing:
            encoded = self.tokenizer(missing, add_special_tokens=False)["input_ids"]
            self._cache.update(zip(missing, map(tuple, encoded), strict=True))

    def encode(self, text: str) -> list[int]:
        """Encode text without adding special tokens."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _framed(self, text: str) -> str:
        return self.frame.bridge_head + text.strip() + self.frame.bridge_tail

    def _opening_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        # Cached apart from single messages: most games share their opening, and few openings exist.
        key = tuple((message["role"], message["content"]) for message in messages)
        if key not in self._prompts:
            if len(self._prompts) >= _MAX_CACHED_PROMPTS:
                self._prompts.clear()
            self._prompts[key] = tuple(self.rendered_ids(messages))
        return self._prompts[key]

    def _cached(self, text: str) -> tuple[int, ...]:
        if text not in self._cache:
            if len(self._cache) >= _MAX_CACHED_TEXTS:
                self._cache.clear()
            self._cache[text] = tuple(self.encode(text))
        return self._cache[text]


def opening_length(messages: Sequence[Message]) -> int:
    """Return the number of messages before the first reply."""
    return next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))


def unwritable(codec: ChatCodec, text: str) -> tuple[str, ...]:
    """Return the quoted parts of a text that the tokenizer has no tokens for; empty if it covers everything."""
    unknown = codec.tokenizer.unk_token_id
    if unknown is None or unknown in codec.stop_ids or unknown not in codec.encode(text):
        return ()
    alone = [character for character in dict.fromkeys(text) if unknown in codec.encode(character)]
    return tuple(map(repr, alone)) or ("some of the words",)


def longest_reply(words: WordList, prompter: Prompter, codec: ChatCodec) -> int:
    """Return the tokens of the longest completion that holds only a guess, closing token included."""
    replies = [codec.taught(prompter.reply(word), prompter.thinking) for word in words.guesses]
    codec.warm(replies, ())
    return max(len(codec.reply_ids(reply)) for reply in replies)


def longest_game(words: WordList, prompter: Prompter, codec: ChatCodec, max_completion_tokens: int) -> int:
    """Estimate the tokens of the longest game in which every reply uses up its budget.

    In state shape that is one prompt and one reply, and in spoken shape, whose prompts hold short replies without their
    thinking. Feedback messages are measured on random games without a correct guess, because a bound over all games
    would be far too wide.
    """
    rng = random.Random(0)
    opening = len(codec.prompt_ids(prompter.opening()))
    # A reply cut at its budget is closed for the policy.
    reply = max_completion_tokens + len(codec.turn_end_ids)
    longest = 0
    for _ in range(_SAMPLE_GAMES):
        secret = rng.choice(words.answers)
        guesses = [rng.choice(words.guesses) for _ in range(prompter.rules.max_replies - 1)]
        board = [scored_turn(secret, guess) for guess in guesses]
        messages = prompter.opening(board)
        if prompter.shape is not Shape.TRANSCRIPT:
            longest = max(longest, len(codec.prompt_ids(messages)))
            continue
        feedbacks = [message for before, message in pairwise(messages) if before["role"] == "assistant"]
        longest = max(longest, opening + sum(reply + len(codec.bridge_ids(m)) for m in feedbacks))
    return longest + max_completion_tokens
