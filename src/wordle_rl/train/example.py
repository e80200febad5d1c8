"""`Example`: what every algorithm trains on; and teacher games as such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from wordle_rl.chat.codec import ChatCodec, unwritable
from wordle_rl.chat.masks import encode_game, only_taught
from wordle_rl.data.dataset import dialogues
from wordle_rl.data.game_record import GameRecord
from wordle_rl.prompt import Message, Prompter, Shape

_CHUNK = 4096  # games that are encoded together: replies repeat, and each distinct one is encoded once


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence to train on, for every algorithm. All fields have one entry per token, except `soft_targets`.

    Attributes:
        loss_mask: 1 on the tokens to train on, else 0.
        advantages: Per token; empty outside of policy gradients.
        sampler_logprobs: Log-probability with which each token was sampled; empty outside of policy gradients.
        soft_targets: For distillation: per token in the loss, except the sequence's first token, the target
            distribution as (token, probability) pairs. Empty: the tokens themselves are the targets.
    """

    token_ids: Sequence[int]
    loss_mask: Sequence[int]
    advantages: Sequence[float] = ()
    sampler_logprobs: Sequence[float] = ()
    soft_targets: Sequence[Sequence[tuple[int, float]]] = ()


@dataclass
class Encoded:
    """Examples, and the number of rejected ones by reason."""

    examples: list[Example] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def encode_traces(
    traces: Iterable[GameRecord],
    prompter: Prompter,
    codec: ChatCodec,
    max_length: int,
    on_progress: Callable[[int], None] | None = None,
) -> Encoded:
    """Encode traces exactly as a rollout would produce them.

    In transcript shape a game is one sequence, and only taught replies have loss mask 1. In the others every taught
    turn is a sequence. Thinking takes the form of the model's template; chat rows stay unchanged. Sequences over
    `max_length` tokens are rejected, never cut, since a cut game would teach the model to stop. `on_progress` is called
    with the number of traces done.
    """
    encoded = Encoded()
    stream = iter(traces)
    done = 0
    while chunk := list(islice(stream, _CHUNK)):
        games = [(trace, dialogue) for trace in chunk for dialogue in _taught_dialogues(trace, prompter, codec)]
        pairs = [pair for _, dialogue in games for pair in pairwise(dialogue)]
        # Encode each distinct reply and answer once, in one batch.
        codec.warm(
            {said["content"] for _, said in pairs if said["role"] == "assistant"},
            {said["content"] for before, said in pairs if before["role"] == "assistant"},
        )
        for trace, dialogue in games:
            ids, mask = encode_game(codec, dialogue, only_last=prompter.shape is Shape.SPOKEN)
            # In other shapes a taught turn is a dialogue of its own, but for conversations that came as one.
            if prompter.shape is Shape.TRANSCRIPT or (trace.messages and prompter.shape is Shape.STATE):
                mask = only_taught(mask, [turn.taught for turn in trace.turns])
            if trace.messages and unwritable(codec, "".join(message["content"] for message in dialogue)):
                encoded.rejected["unwritable"] += 1  # the bundled model has tokens only for its own words
            elif len(ids) > max_length:
                encoded.rejected["too_long"] += 1
            elif not any(mask):  # a game of strays and slips alone
                encoded.rejected["nothing_taught"] += 1
            else:
                encoded.examples.append(Example(ids, mask))
        done += len(chunk)
        if on_progress is not None:
            on_progress(done)
    return encoded


def _taught_dialogues(trace: GameRecord, prompter: Prompter, codec: ChatCodec) -> list[list[Message]]:
    made = dialogues(trace, prompter)
    # A template may move thinking into a form of its own. Replies must read as the model will write them.
    if not trace.messages:
        for dialogue in made:
            replies = [message for message in dialogue if message["role"] == "assistant"]
            # Without the thinking of earlier turns, only the last reply is as the model writes it.
            for message in replies[-1:] if prompter.shape is Shape.SPOKEN else replies:
                message["content"] = codec.taught(message["content"], prompter.thinking)
    return made
