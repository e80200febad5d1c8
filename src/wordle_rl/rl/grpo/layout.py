"""Lay out: scored games as the rows that TRL's loss takes.

In transcript shape a row is a whole game. In state shape, and with candidates, a row is one reply under its prompt; a
game then has as many rows as it may have replies, and those it did not need are blank. Either way every sampled token
is trained on exactly once, under the prompt it was sampled from, but those of turns that can teach nothing:
masked, they do not count in the denominator of the loss either.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOSettings
from wordle_rl.prompt import Prompter, Shape
from wordle_rl.rl.advantages import token_advantages
from wordle_rl.rl.setup import Scored
from wordle_rl.rollout import Segment, mask_without_overlong

Rows = dict[str, list[Any]]
"""Named columns of equal length."""


def rows_per_game(prompter: Prompter, settings: GRPOSettings) -> int:
    """The number of rows that TRL must leave for each of the `group_size` places of a group."""
    row_per_turn = prompter.shape is Shape.STATE or settings.turn_candidates > 1
    return prompter.rules.max_replies if row_per_turn else 1


def lay_out(
    games: Sequence[Scored], codec: ChatCodec, num_rows: int, *, mask_overlong: bool, num_games: int = 0
) -> Rows:
    """Lay games out as columns, `num_rows` rows for each game.

    Args:
        games: Scored games, at least one.
        codec: Its ids for padding and for the end of a turn.
        num_rows: Rows per game; what its segments do not fill is blank, with a loss mask of 0.
        mask_overlong: Mask replies that were cut at the token limit.
        num_games: Games that TRL expects rows of, which must be there. Where there are fewer, because some failed, the
            rows of the others are blank, and their reward, which is only logged, is the mean; 0: those there are.

    Returns:
        `prompt_ids`, `completion_ids`, `logprobs` (the sampler's) and `env_mask` (the loss mask) under TRL's names,
        then `token_advantages` and `game_reward`. All but the first and the last run along the completion.
    """
    blank = Segment((codec.pad_id,), (codec.turn_end_ids[0],), (0,), (0.0,), ())
    names = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "token_advantages", "game_reward")
    rows: Rows = {name: [] for name in names}
    for game in games:
        segments = game.trajectory.segments
        for segment in [*segments, *[blank] * (num_rows - len(segments))]:
            loss_mask = mask_without_overlong(segment, codec.stop_ids) if mask_overlong else list(segment.loss_mask)
            for turn, start, stop in segment.spans:
                if game.num_live_turns is not None and turn >= game.num_live_turns:
                    loss_mask[start:stop] = [0] * (stop - start)
            rows["prompt_ids"].append(list(segment.prompt_ids))
            rows["completion_ids"].append(list(segment.token_ids))
            rows["logprobs"].append(list(segment.sampler_logprobs))
            rows["env_mask"].append(loss_mask)
            rows["token_advantages"].append(token_advantages(segment, game.advantages))
            rows["game_reward"].append(game.reward.total)
    missing = num_rows * max(0, num_games - len(games))
    mean = statistics.fmean(game.reward.total for game in games)
    filler = (list(blank.prompt_ids), list(blank.token_ids), [0.0], [0], [0.0], mean)
    for name, value in zip(names, filler, strict=True):
        rows[name] += [value] * missing
    return rows
