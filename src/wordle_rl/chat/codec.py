"""Convert messages to token ids such that training sees exactly the tokens that were sampled and played.

A conversation is never rendered twice. Its ids grow by concatenation:

    prompt_ids(opening) + completion + bridge_ids(feedback) + completion + bridge_ids(feedback) + ...

Chat templates that rewrite earlier turns (Qwen3's stock one drops earlier thinking) therefore cannot make
training, rollouts and evaluation see different prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wordle_rl.chat.templates import chat_template_of, read_frame, render
from wordle_rl.prompt import Message, Thinking

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_CACHED_TEXTS = 500_000
_MAX_CACHED_PROMPTS = 10_000


class ChatCodec:
    """Encode conversations for one tokenizer and chat template.

    `turn_end_ids` closes an assistant turn, a single token in every known template; the policy samples it itself.
    `stop_ids` holds all ids at which sampling stops. `frame` is the text around each turn.

    Args:
        tokenizer: Any fast tokenizer with a chat template.
        template_kwargs: Extra template variables such as `{"enable_thinking": False}`.
        stops: Further token ids at which sampling stops.

    Raises:
        ChatTemplateError: If there is no template, or it does not show where a turn ends.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        template_kwargs: Mapping[str, Any] | None = None,
        stops: Iterable[int] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self._template = chat_template_of(tokenizer)
        self._template_kwargs = dict(template_kwargs or {})
        self.frame = read_frame(tokenizer, self._template, self._template_kwargs)
        self.turn_end_ids = tuple(self.encode(self.frame.turn_end))
        eos = tokenizer.eos_token_id
        self.stop_ids = frozenset({self.turn_end_ids[0], *([eos] if isinstance(eos, int) else eos or []), *stops})
        pad = tokenizer.pad_token_id
        self.pad_id = int(pad) if pad is not None else self.turn_end_ids[0]
        self._cache: dict[str, tuple[int, ...]] = {}
        self._prompts: dict[tuple[tuple[str, str], ...], tuple[int, ...]] = {}

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a whole prompt, up to where the completion begins.

        Turns on the board are concatenated as in `encode_game`. A prefix board therefore reads exactly like the same
        board reached in play, whatever the template does to earlier replies.

        Raises:
            ValueError: If the last message is a reply, or there is none.
        """
        if not messages or messages[-1]["role"] == "assistant":
            raise ValueError("a prompt must end with a message to the policy, not with a reply")
        return self.encode_game(messages)[0]

    def rendered_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a whole prompt as a server makes them: one rendering, encoded in one piece."""
        return self.encode(self._render(messages))

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

    def encode_game(self, messages: Sequence[Message]) -> tuple[list[int], list[int]]:
        """Encode a finished conversation.

        Returns:
            Token ids, and a loss mask of the same length: 1 on replies with their closing token, 0 elsewhere.

        Raises:
            ValueError: If the messages do not alternate prompt, reply, prompt, reply.
        """
        first = opening_length(messages)
        ids = list(self._opening_ids(messages[:first]))
        loss_mask = [0] * len(ids)
        for offset, message in enumerate(messages[first:]):
            is_reply = offset % 2 == 0
            if (message["role"] == "assistant") != is_reply:
                raise ValueError("after the opening, replies and feedback messages must alternate")
            new = self.reply_ids(message["content"]) if is_reply else self.bridge_ids(message)
            ids += new
            loss_mask += [int(is_reply)] * len(new)
        return ids, loss_mask

    def warm(self, replies: Iterable[str], feedbacks: Iterable[str]) -> None:
        """Encode many replies and feedback messages in one batch, so that `encode_game` only concatenates them."""
        texts = {*map(self.frame.spoken, replies), *map(self._framed, feedbacks)}
        if len(self._cache) >= _MAX_CACHED_TEXTS:
            self._cache.clear()
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
        ids = self._prompts.get(key)
        if ids is None:
            if len(self._prompts) >= _MAX_CACHED_PROMPTS:
                self._prompts.clear()
            ids = self._prompts[key] = tuple(self.encode(self._render(messages)))
        return ids

    def _cached(self, text: str) -> tuple[int, ...]:
        ids = self._cache.get(text)
        if ids is None:
            if len(self._cache) >= _MAX_CACHED_TEXTS:
                self._cache.clear()
            ids = self._cache[text] = tuple(self.encode(text))
        return ids

    def _render(self, messages: Sequence[Message]) -> str:
        return render(self.tokenizer, self._template, messages, self._template_kwargs)


def opening_length(messages: Sequence[Message]) -> int:
    """Return the number of messages before the first reply."""
    return next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))


def mask_picture(codec: ChatCodec, ids: Sequence[int], loss_mask: Sequence[int]) -> str:
    """Draw a game's loss mask: trained tokens in `⟦ ⟧`, the others bare. For people and for tests."""
    parts: list[str] = []
    trained = False
    for token, m in zip(ids, loss_mask, strict=True):
        if bool(m) != trained:
            parts.append("⟦" if m else "⟧")
            trained = bool(m)
        parts.append(str(codec.tokenizer.decode([token], skip_special_tokens=False)))
    return "".join(parts) + ("⟧" if trained else "")


def unwritable(codec: ChatCodec, text: str) -> tuple[str, ...]:
    """Return the quoted parts of a text that the tokenizer has no tokens for; empty if it covers everything."""
    unknown = codec.tokenizer.unk_token_id
    if unknown is None or unknown in codec.stop_ids or unknown not in codec.encode(text):
        return ()
    alone = [character for character in dict.fromkeys(text) if unknown in codec.encode(character)]
    return tuple(map(repr, alone)) or ("some of the words",)
