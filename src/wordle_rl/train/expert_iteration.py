"""Expert iteration: fine-tuning on the best of the policy's own games, round by round.

Of each group the won games with the fewest guesses are kept and trained on token for token as sampled; a reply that
broke a rule stays in its game with loss mask 0. Some teacher games are added, so that the policy does not forget what
its own games no longer show. With labels `secret` or `mistakes` every board is trained on instead, see hindsight.py.

Source: STaR, arXiv:2203.14465; RAFT, arXiv:2304.06767. Unlike STaR, each round continues from the last one's weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

from wordle_rl.config import ExpertIterationTraining
from wordle_rl.data.dataset import Example
from wordle_rl.runs import Run
from wordle_rl.train.hindsight import RevealedSecrets
from wordle_rl.train.learner import Learner
from wordle_rl.train.loop import TrainingLoop
from wordle_rl.train.round_loop import (
    Numbers,
    Round,
    RoundOptions,
    Rounds,
    Row,
    fit_round,
    game_label,
    names_strict,
    record_labels,
    row_of,
)
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup

NAME = "expert_iteration"


def train_expert_iteration(
    learner: Learner,
    setup: GameSetup,
    settings: ExpertIterationTraining,
    run: Run,
    **options: Unpack[RoundOptions],
) -> Path:
    """Improve the model by its own best games and save it to `<run>/expert_iteration`.

    An interrupted training resumes where it stopped. Arguments as for `Rounds`; with a `replay_fraction` above 0 the
    run directory must hold traces.jsonl.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        RunError: If there are no traces to replay.
        KeyboardInterrupt: After Ctrl-C.
    """
    rounds = Rounds(NAME, learner, setup, settings, run, **options)
    if settings.labels != "wins":
        return rounds.train(RevealedSecrets(NAME, rounds, settings))
    return rounds.train(_BestGames(rounds, settings))


class _BestGames:
    """Keeps the best games of a round, adds teacher games, and fine-tunes on them."""

    needs_reference = False

    def __init__(self, rounds: Rounds, settings: ExpertIterationTraining) -> None:
        self._rounds, self._settings = rounds, settings
        most = settings.groups_per_round * min(settings.keep_per_group, settings.group_size)
        self._replay = rounds.replay(settings.replay_fraction, most)

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """The kept games and the teacher games added to them, as rows of token ids and loss mask."""
        kept, split = [], self._rounds.setup.context.split
        for group in played.groups:
            games = [game for game in group if not names_strict(game.trajectory.transcript.turns, split)]
            kept += best_games(games, self._settings.keep_per_group)
        record_labels(self._rounds.run, NAME, played.number, (game_label(game.trajectory.transcript) for game in kept))
        examples = [example for game in kept for example in examples_of(game)]
        own = len(examples)
        examples += self._replay(len(kept), played.number)
        numbers = {"kept_games": float(len(kept)), "own_examples": float(own), "all_examples": float(len(examples))}
        return [row_of(example) for example in examples], numbers

    def fit(self, loop: TrainingLoop, rows: list[Row], seed: int, part: tuple[int, int]) -> bool:
        """Fine-tune on the rows as SFT does."""
        return fit_round(loop, [[Example(**row)] for row in rows], self._settings, seed, part)


def best_games(group: Sequence[Scored], count: int) -> list[Scored]:
    """The best won games of a group: fewest turns; of games with the same guesses only one.

    A group without a win has none.
    """
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
