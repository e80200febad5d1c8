"""Expert iteration: fine-tuning on the best of the policy's own games, round by round.

    for round in rounds:
        games = play(policy)                                     # groups that share a secret
        kept = in each group, the won games with the fewest guesses
        fit(policy, kept + some teacher games, CrossEntropy())   # token for token as sampled

A reply that broke a rule stays in its game with loss mask 0. The teacher games are there so that the policy does not
forget what its own games no longer show. With labels other than `wins` every board is trained on instead, see
hindsight_labels.py.

Source: STaR, arXiv:2203.14465; RAFT, arXiv:2304.06767. Unlike STaR, each round continues from the last one's weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wordle_rl.config.stages import ExpertIterationSettings
from wordle_rl.train.example import Example
from wordle_rl.train.hindsight_labels import RevealedSecrets
from wordle_rl.train.play_loop import Item, Stage
from wordle_rl.train.round_method import Numbers, Round, RoundMethod, label, names_strict, record_labels
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.teacher_replay import Replay


def expert_iteration(stage: Stage, settings: ExpertIterationSettings) -> RoundMethod:
    """Return the method that `labels` names. A `replay_fraction` above 0 needs traces.jsonl in the run directory."""
    return BestGames(stage, settings) if settings.labels == "wins" else RevealedSecrets(stage, settings)


class BestGames(RoundMethod):
    """Learn the best won games of each group, token for token as sampled."""

    def __init__(self, stage: Stage, settings: ExpertIterationSettings) -> None:
        super().__init__(stage, settings)
        self._per_group = settings.keep_per_group
        most = settings.groups_per_round * min(settings.keep_per_group, settings.group_size)
        self._replay = Replay(stage, settings, most)

    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return the kept games and the teacher games added to them."""
        kept, split = [], self.stage.setup.context.split
        for group in played.groups:
            games = [game for game in group if not names_strict(game.trajectory.transcript.turns, split)]
            kept += best_games(games, self._per_group)
        record_labels(self.stage.run, self.stage.name, played.number, map(_label_of, kept))
        items = [[example] for game in kept for example in examples_of(game)]
        items, numbers = self._replay.add(items, len(kept), played.number)
        return items, {"kept_games": float(len(kept)), **numbers}


def _label_of(game: Scored) -> dict[str, Any]:
    # Every sound own turn is trained on.
    transcript = game.trajectory.transcript
    turns = (
        (played.turn, not (played.is_prefix or played.overlong or played.turn.outcome.broke_rules))
        for played in transcript.turns
    )
    return label(transcript.secret, turns)


def best_games(group: Sequence[Scored], count: int) -> list[Scored]:
    """The best won games of a group: fewest turns; of games with the same guesses only one."""
    won = [game for game in group if game.trajectory.transcript.won]
    won.sort(key=lambda game: game.trajectory.transcript.turns_used)
    different: dict[tuple[str | None, ...], Scored] = {}
    for game in won:
        different.setdefault(tuple(played.turn.guess for played in game.trajectory.transcript.turns), game)
    return list(different.values())[:count]


def examples_of(game: Scored) -> Iterator[Example]:
    """A game's token sequences as sampled, with a loss on the tokens of those replies that kept to the rules.

    A reply that was cut at its token limit is masked as well. Sequences without a loss are left out.
    """
    turns = game.trajectory.transcript.own_turns
    for segment in game.trajectory.segments:
        learnt = list(segment.loss_mask)
        for turn, start, stop in segment.spans:
            if turns[turn].turn.outcome.broke_rules or turns[turn].overlong:
                learnt[start:stop] = [0] * (stop - start)
        if any(learnt):
            yield Example([*segment.prompt_ids, *segment.token_ids], [0] * len(segment.prompt_ids) + learnt)
