"""Multi-turn GRPO (arXiv:2402.03300): games of a group share secret and start, and are compared with each other.

    for step in steps:                             # play_loop.py
        played  = games.next(step)                 # draw secrets, play groups in lockstep, score (grpo_rollouts.py)
        rows    = played.rows(codec)               # tokens, loss mask, an advantage for every token (scored_games.py)
        for _ in range(updates_per_batch):
            learner.update(rows, PolicyLoss)       # clipped ratios, KL (loss.py); micro-batches, optimizer (learner.py)
        log, checkpoint, Ctrl-C                    # training_loop.py, checkpoints.py
        validation by greedy play, now and then    # checkpoint_selection.py

Differences from GRPO as published:

- A game has several turns. The environment's tokens are masked, and each turn can have its own advantage.
- Groups in which every advantage is zero are drawn again (DAPO).
- Games are usually trained on once, by the weights that played them, so all ratios are 1 and nothing is clipped. With
  `updates_per_batch` > 1 or `batches_ahead` > 0 ratios to the sampler differ from 1 and are clipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wordle_rl.config.stages import GRPOSettings
from wordle_rl.prompt import Shape
from wordle_rl.runs.distributed import gather
from wordle_rl.train.checkpoint_selection import BestWeights, Validation
from wordle_rl.train.example import Example
from wordle_rl.train.grpo_rollouts import GroupRollouts, PlayedAhead
from wordle_rl.train.loss import Loss, PolicyLoss
from wordle_rl.train.micro_batches import TwoHalves, micro_batches
from wordle_rl.train.play_loop import Listener, MicroBatches, PlayedGames, Stage
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import TrainingLoop


class GRPO:
    """Multi-turn GRPO, as a `Method`."""

    own_optimizer = False

    def __init__(self, stage: Stage, settings: GRPOSettings) -> None:
        self._stage, self._settings = stage, settings
        self._rollouts = GroupRollouts(stage, settings)
        ahead = settings.batches_ahead > 0
        self._games = PlayedAhead(self._rollouts, stage, settings) if ahead else self._rollouts
        self.loss: Loss = policy_loss_of(settings, stage.setup)

    def next_games(self, number: int) -> PlayedGames:
        """Play the groups of a step, and turn them into rows with an advantage for every token."""
        played = self._games.next(number - 1)
        items = played.items(self._stage.codec, mask_overlong=self._settings.mask_overlong)
        return PlayedGames(items, played.metrics, played.denominators)

    def batches(self, games: PlayedGames, number: int) -> Sequence[MicroBatches]:
        """All rows are one batch: each update learns from all groups."""
        learner, every = self._stage.training.learner, self._settings.gradient_noise_every
        num_rows = sum(map(len, games.items))
        size = rows_per_pass(self._settings, learner.micro_batch_size, num_rows)

        def cut(groups: Sequence[Sequence[Example]]) -> list[list[Example]]:
            return micro_batches([row for group in groups for row in group], size, sharing=learner.shares_prefixes)

        # Every process must halve its step, or none: each half ends in an exchange between them.
        if not every or (number - 1) % every or min(gather(len(games.items))) < 2:
            return [cut(games.items)]
        games_per_half = len(games.items) * self._settings.group_size / 2
        return [TwoHalves(cut(games.items[::2]), cut(games.items[1::2]), games_per_half)]

    def note_metrics(self, metrics: Mapping[str, float]) -> None:
        """Tell the reward's schedule how well replies follow the format."""
        self._games.note_compliance(metrics["format_compliance"])

    def listeners(self, loop: TrainingLoop) -> Sequence[Listener]:
        """Checkpoint selection by validation, if asked for."""
        settings, stage = self._settings, self._stage
        if not settings.validate_every_steps:
            return ()
        validate = Validation(stage, settings, self._games.open_policy, self._rollouts.reward_of)
        return [BestWeights(stage, settings, validate, remark=loop.remark)]

    def state(self) -> Mapping[str, Any]:
        """Priorities, format compliance, wins."""
        return self._games.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._games.load_state(state)

    def close(self) -> None:
        """Wait for games that are played ahead."""
        self._games.close()


def policy_loss_of(settings: GRPOSettings, setup: GameSetup) -> PolicyLoss:
    """Build the loss that the settings describe."""
    row_per_turn = setup.prompter.shape is not Shape.TRANSCRIPT or settings.turn_candidates > 1
    most = setup.prompter.rules.max_replies
    turns = 1 if row_per_turn else min(settings.guesses or most, most)
    return PolicyLoss(
        aggregation=settings.loss_type,
        longest=turns * setup.sampling.max_completion_tokens,
        epsilon=settings.epsilon,
        epsilon_high=settings.epsilon_high,
        beta=settings.beta,
        importance_cap=settings.importance_cap,
        off_policy=settings.batches_ahead > 0 or settings.updates_per_batch > 1,
    )


def rows_per_pass(settings: GRPOSettings, micro_batch_size: int, num_rows: int) -> int:
    """Return the number of rows per micro-batch; 0: all in one.

    `micro_batch_size` counts games. A game can have several rows, and constant groups none, so the number of rows is
    chosen such that a step has about as many micro-batches as its games would make, and never more.
    """
    games = settings.groups_per_step * settings.group_size
    if not 0 < micro_batch_size < games:
        return 0
    return max(1, -(-num_rows // (games // micro_batch_size)))
