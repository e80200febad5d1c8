"""Loss masks: which tokens of a game are trained. 1 on tokens that the policy samples, 0 on everything it reads.

- A game as text (SFT): replies with their closing token (`encode_game`), those of a teacher's taught turns alone
  (`only_taught`).
- A game as it was played: `Segment.loss_mask`, filled by `rollout.py`, in which a closing token that the policy did not
  sample is 0. Replies cut at the token limit can be left out (`mask_without_overlong`).
- The rows of an algorithm take away more: GRPO the turns at which no answer fits any more (`train/scored_games.py`) and
  constant groups (`train/grpo_rollouts.py`), expert iteration broken guesses (`train/expert_iteration.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.prompt import Message


def encode_game(
    codec: ChatCodec, messages: Sequence[Message], *, only_last: bool = False
) -> tuple[list[int], list[int]]:
    """Encode a conversation: token ids, and a loss mask with 1 on replies with their closing token, 0 elsewhere.

    With `only_last`, earlier replies are 0, too.
    """
    ids: list[int] = []
    loss_mask: list[int] = []
    for piece, is_reply in codec.pieces(messages):
        if only_last:
            loss_mask = [0] * len(ids)
        ids += piece
        loss_mask += [int(is_reply)] * len(piece)
    return ids, loss_mask


def only_taught(mask: list[int], taught: Sequence[bool]) -> list[int]:
    """Return a game's mask with 0 on the replies of turns that are not taught."""
    # Each run of ones in the mask is one reply, in order.
    kept: list[int] = []
    turns = iter(taught)
    for is_reply, run in groupby(mask):
        kept += [int(is_reply and next(turns))] * len([*run])
    return kept


@dataclass(frozen=True, slots=True)
class Segment:
    """One token sequence as the policy saw it: a whole game (transcript shape) or a single turn (other shapes).

    `loss_mask` and `sampler_logprobs` have the length of `token_ids`. The mask is 1 exactly on sampled tokens; the
    log-probability is 0.0 elsewhere. `spans` holds (own turn, start, stop) of every reply in `token_ids`; the last
    reply ends the sequence.
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    sampler_logprobs: tuple[float, ...]
    spans: tuple[tuple[int, int, int], ...]


def mask_without_overlong(segment: Segment, stop_ids: frozenset[int]) -> list[int]:
    """Return the segment's loss mask with 0 on replies that were cut before a token of `stop_ids`."""
    mask = list(segment.loss_mask)
    for _, start, stop in segment.spans:
        if segment.token_ids[stop - 1] not in stop_ids:
            mask[start:stop] = [0] * (stop - start)
    return mask


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
