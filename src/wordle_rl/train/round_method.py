"""What the algorithms share that play for minutes and then pass over what they chose, as SFT does.

    games = play(policy, starts)               # groups that share a secret and a start
    items, numbers = self.choose(games)        # expert_iteration.py, hindsight_labels.py, dpo.py, distill.py
    batches = items, shuffled, in batches of `batch_size`, `epochs` times

`Replay` (teacher_replay.py) adds teacher games to a round, against forgetting.

Every board and word that a round trains on is recorded in labels.jsonl, in the row form of games. A guess of the
policy's own games can become a label, so those that name a strict word are left out, whoever named it first.
"""

from __future__ import annotations

import random
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wordle_rl.config.base import seed_after
from wordle_rl.config.stages import RoundSettings
from wordle_rl.config.training import RewardSettings
from wordle_rl.data.game_record import TurnRecord
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Turn
from wordle_rl.policy.base import Sampler
from wordle_rl.rollout import Trajectory, groups_of, play
from wordle_rl.runs import LABELS_FILE, Run
from wordle_rl.runs.distributed import check_alone
from wordle_rl.train.loss import CrossEntropy, Loss
from wordle_rl.train.micro_batches import cut_by_rows
from wordle_rl.train.play_loop import Item, Listener, MicroBatches, PlayedGames, Stage
from wordle_rl.train.scored_games import Scored, check_some_played, group_rows, measured
from wordle_rl.train.sft import Plan
from wordle_rl.train.starts import GroupStarts, record_secrets
from wordle_rl.train.training_loop import TrainingLoop
from wordle_rl.words.split import Split

Numbers = dict[str, float]


@dataclass(frozen=True)
class Round:
    """The games of a round, by group, and the sampler that played them. Games that failed are not among them.

    `number` counts from 1; `seed` differs from round to round.
    """

    number: int
    groups: list[list[Scored]]
    sampler: Sampler
    seed: int

    @property
    def games(self) -> list[Scored]:
        """The games of all groups."""
        return [game for group in self.groups for game in group]


class RoundMethod(ABC):
    """A `Method` whose rounds are long; `choose` is what differs."""

    loss: Loss = CrossEntropy()
    own_optimizer = True

    def __init__(self, stage: Stage, settings: RoundSettings, *, invented_rate: float = 0.0) -> None:
        check_alone(stage.name)
        self.stage, self._settings = stage, settings
        self._starts = GroupStarts(
            stage.setup, settings.starts, stage.seed, outside_rate=settings.outside_rate, invented_rate=invented_rate
        )
        self._rubric = RewardSettings().schedule().rubric()  # nothing is trained by it; it tells how play improves
        self._cumulative_wins = 0

    @abstractmethod
    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return what to learn from these games, and metrics; no items: the round teaches nothing."""

    def next_games(self, number: int) -> PlayedGames:
        """See `Method`."""
        stage, started = self.stage, time.perf_counter()
        seed = random.Random(f"{stage.seed}:{number}").getrandbits(31)
        sampling = stage.setup.sampling_at(self._settings.temperature)
        with stage.open_policy(sampling, seed) as (sampler, max_prompt_tokens):
            trajectories = self._play(sampler, max_prompt_tokens, number)
            groups = [
                [Scored(t, self._rubric.score(t.transcript, stage.setup.solver), ()) for t in group if t.error is None]
                for group in groups_of(trajectories, self._settings.group_size)
            ]
            played = Round(number, groups, sampler, seed)
            errors = [t.error for t in trajectories if t.error is not None]
            failed = check_some_played(played.games, errors, f"round {number}")
            self._log_samples(groups, number)
            # DPO samples further replies of the same policy, so choose before its sampler closes.
            items, chosen = self.choose(played)
        found = measured(played.games, stage.setup.words)
        metrics = {
            **found.means,
            "reward": statistics.fmean(game.reward.total for game in played.games),
            "cumulative_wins": float(self._cumulative_wins + found.num_wins),
            **chosen,
            **failed,
            "seconds/play": time.perf_counter() - started,
        }
        return PlayedGames(items, metrics)

    def batches(self, games: PlayedGames, number: int) -> Sequence[MicroBatches]:
        """See `Method`."""
        items, settings = games.items, self._settings
        if not items:
            return []
        lengths = [max(len(example.token_ids) for example in item) for item in items]
        micro = self.stage.training.learner.micro_batch_size
        plan = Plan(lengths, settings.batch_size, 1, settings.epochs, seed_after(self.stage.seed, number))
        # An item can have several rows, such as a game whose boards are labelled.
        return [cut_by_rows([items[place] for place in batch], micro) for _, (batch,) in plan.steps(0)]

    def note_metrics(self, metrics: Mapping[str, float]) -> None:
        """See `Method`."""
        self._cumulative_wins = int(metrics["cumulative_wins"])

    def state(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"cumulative_wins": self._cumulative_wins}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """See `Method`."""
        self._cumulative_wins = state["cumulative_wins"]

    def listeners(self, _loop: TrainingLoop) -> Sequence[Listener]:
        """See `Method`: none."""
        return ()

    def close(self) -> None:  # noqa: B027 - optional for subclasses, as nothing is under way between rounds
        """See `Method`."""

    def _play(self, sampler: Sampler, max_prompt_tokens: int | None, number: int) -> list[Trajectory]:
        stage, settings = self.stage, self._settings
        rng = random.Random(f"{stage.seed}:{number}:given")
        drawn = self._starts.draw(settings.groups_per_round, number, rng=rng)
        record_secrets(stage.run, stage.name, number - 1, 0, [start.secret for start in drawn])
        starts = [start for start in drawn for _ in range(settings.group_size)]
        done = (number - 1) * len(starts)

        def count(*_: object) -> None:
            nonlocal done
            done += 1
            stage.tell(done, f"round {number}: playing")

        words, prompter = stage.setup.words, stage.setup.prompter
        with stage.stop.unheld():  # a turn of many games takes long, and the round is played again anyway
            return play(starts, words, prompter, sampler, max_prompt_tokens=max_prompt_tokens, on_finished=count)

    def _log_samples(self, groups: Sequence[list[Scored]], number: int) -> None:
        # Some games of a round, evenly spaced.
        rows = [(place, game) for place, group in enumerate(groups) for game in range(len(group))]
        every = max(1, len(rows) // max(1, self._settings.sample_games))
        for place, game in rows[::every][: self._settings.sample_games]:
            row = group_rows(place, groups[place])[game]
            self.stage.run.append("games.jsonl", {"stage": self.stage.name, "step": number - 1, **row})


def names_strict(turns: Iterable[PlayedTurn], split: Split) -> bool:
    """True if a turn names a strict word, as its guess or anywhere in its reply."""
    return any(split.strict_words_in(played.turn.guess, played.reply) for played in turns)


def label(secret: str, turns: Iterable[tuple[Turn, bool]], **more: Any) -> dict[str, Any]:
    """Make a row of labels.jsonl from turns, and whether each is trained on."""
    rows = [TurnRecord(turn.guess, turn.marks, taught, outcome=turn.outcome).to_row() for turn, taught in turns]
    return {"secret": secret, **more, "turns": rows}


def board_label(board: Sequence[Turn], guess: str, secret: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """Label one guess: the turns of the board are context, without loss; only `guess` is trained on.

    `others` are the other words of the distribution that `guess` was drawn from.
    """
    row = label(secret, ((turn, False) for turn in board))
    row["turns"].append({"guess": guess, "marks": None, **({"others": [*others]} if others else {})})
    return row


def record_labels(run: Run, stage: str, number: int, labels: Iterable[dict[str, Any]]) -> None:
    """Append a round's labels to labels.jsonl; a round that is chosen again after a stop is written again."""
    (run.directory / LABELS_FILE).touch()  # a round without labels is no missing record
    for row in labels:
        run.append(LABELS_FILE, {"stage": stage, "step": number - 1, **row})
