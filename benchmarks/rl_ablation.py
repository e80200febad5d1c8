"""Ways to learn by play, side by side: wins over games, tokens and processor seconds, from the same weak start.

    wordle-rl run quickstart --traces.num-games 12000 --sft.epochs 2 --until sft --out runs/weak
    python benchmarks/rl_ablation.py runs/weak --out runs/ablation.jsonl --seconds 240

Every way plays, gives each trained token a weight, and takes a step of `PolicyLoss`. On policy its ratio is 1, so the
gradient is that of weight x log-probability: an advantage is such a weight, and so is 1 for a label. Nobody asks a
solver. No way has more time than another, counted in processor seconds without those of evaluation; the learning rate
falls linearly over that time. All but `mistakes` play, and learn, at `--temperature`.

    grpo      groups of 16 games of a secret; a turn's return above the mean of the group's at that turn
    boards    the same games; a return above the mean at the same board, over all games of the step (GiGPO,
              arXiv:2505.10978, with exact states)
    tree      every board is asked once for all secrets that it leaves, in four trees; credit as in boards
    maxrl     wins above the group's mean, divided by it (arXiv:2602.02710)
    echo      grpo, and cross-entropy with weight 0.1 on the marks (arXiv:2605.24517)
    epochs    grpo, each batch learnt from in four clipped steps of half of it
    starts    grpo from boards of 0 to 4 consistent guesses
    labels    grpo, and with weight 1 the secret as a label where a guess was wrong
    mistakes  expert iteration of the quickstart: such labels, sound guesses kept, nearly greedy play
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch
import tyro
from measure import hardware

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.stages import StartSettings
from wordle_rl.config.training import RLOptimizerSettings, SamplingSettings
from wordle_rl.data.dataset import Example
from wordle_rl.policy.base import Completion, Request, Sampler
from wordle_rl.policy.loading import load_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.reward import Rubric
from wordle_rl.rollout import Trajectory, play
from wordle_rl.train.advantages import TurnValues, returns_to_go, turn_advantages
from wordle_rl.train.hindsight_labels import boards_to_teach, items_of
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy, PolicyLoss
from wordle_rl.train.micro_batches import micro_batches
from wordle_rl.train.scored_games import Scored, rows_of
from wordle_rl.train.starts import GameSetup, GroupStarts

Way = Literal["grpo", "boards", "tree", "maxrl", "echo", "epochs", "starts", "labels", "mistakes"]
GROUP, TREES = 16, 4
REWARD = Rubric({"win": 1.0, "speed": 0.5}, keep_order=False)
WINS = Rubric({"win": 1.0}, keep_order=False)
EXAM, EXAMS = 400, 8
"""Training secrets of an evaluation on the way, and the number of these."""


@dataclass(frozen=True)
class OneReplyPerBoard:
    """A sampler that asks for one reply where several games of a tree have the same board."""

    sampler: Sampler
    tree_size: int

    @property
    def codec(self) -> ChatCodec | None:
        """See `Sampler`."""
        return self.sampler.codec

    def begin(self) -> None:
        """See `Sampler`."""
        self.sampler.begin()

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """See `Sampler`; games are numbered tree by tree."""
        boards: dict[tuple[int, tuple[int, ...]], Request] = {}
        keys = [(request.game_id // self.tree_size, tuple(request.prompt_ids)) for request in requests]
        for key, request in zip(keys, requests, strict=True):
            boards.setdefault(key, request)
        replies = dict(zip(boards, self.sampler.sample([*boards.values()]), strict=True))
        return [replies[key] for key in keys]


def scored(games: Iterable[Trajectory], rubric: Rubric, context: GameContext) -> list[Scored]:
    """Give each game its reward."""
    return [Scored(game, rubric.score(game.transcript, context.solver), ()) for game in games]


def group_credit(games: Sequence[Scored]) -> list[TurnValues]:
    """Advantages of each game's turns against its group."""
    return [
        values
        for first in range(0, len(games), GROUP)
        for values in turn_advantages([game.reward.turn_rewards for game in games[first : first + GROUP]])
    ]


def maxrl_credit(games: Sequence[Scored]) -> list[TurnValues]:
    """Wins above the group's mean, divided by it; 0 where nobody won."""
    credit: list[TurnValues] = []
    for first in range(0, len(games), GROUP):
        group = games[first : first + GROUP]
        mean = fmean(game.reward.total for game in group)
        credit += [
            ((game.reward.total - mean) / mean if mean else 0.0,) * len(game.reward.turn_rewards) for game in group
        ]
    return credit


def board_credit(games: Sequence[Scored]) -> list[TurnValues]:
    """Return of each turn above the mean at the same board, over all games.

    A board that only one guess was named at says nothing about other guesses; its baseline is the mean of the turn.
    """
    returns = [returns_to_go(game.reward.turn_rewards) for game in games]
    at_board: dict[tuple[int, ...], list[float]] = defaultdict(list)
    guesses: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
    at_turn: dict[int, list[float]] = defaultdict(list)
    visits = []
    for game, values in zip(games, returns, strict=True):
        (segment,) = game.trajectory.segments
        for turn, start, stop in segment.spans:
            board = segment.prompt_ids + segment.token_ids[:start]
            visits.append((board, turn))
            at_board[board].append(values[turn])
            guesses[board].add(segment.token_ids[start:stop])
            at_turn[turn].append(values[turn])
    means = {board: fmean(values) for board, values in at_board.items()}
    turn_means = {turn: fmean(values) for turn, values in at_turn.items()}
    baselines = iter([means[board] if len(guesses[board]) > 1 else turn_means[turn] for board, turn in visits])
    return [tuple(value - next(baselines) for value in values) for values in returns]


def with_marks(row: Example, weight: float) -> Example:
    """Train on the environment's tokens, too."""
    first = row.loss_mask.index(1)
    pairs = list(zip(row.loss_mask, row.advantages, strict=True))
    advantages = [a if trained or place < first else weight for place, (trained, a) in enumerate(pairs)]
    return replace(row, loss_mask=[int(place >= first) for place in range(len(pairs))], advantages=advantages)


class Trial:
    """One way from one start."""

    def __init__(self, run: Path, way: Way, seed: int, temperature: float, groups: int) -> None:
        self.config = stored_config(run / "config.json")
        self.context = GameContext.of(self.config)
        setup = GameSetup(self.context.for_training, self.context.split.train)
        model, codec = load_model(self.config.model.model_copy(update={"path": str(run / "sft")}), seed=seed)
        # Labels are learnt at temperature 1; a policy gradient is that of the policy which plays.
        self.learner = TorchLearner(model, codec, seed=seed, temperature=1.0 if way == "mistakes" else temperature)
        self.codec, self.way, self.seed, self.groups = codec, way, seed, groups
        boards = StartSettings(max_prefix_guesses=4, player="consistent")
        prefixes = boards if way == "starts" else StartSettings()
        self.starts = GroupStarts(setup, prefixes, seed)
        self.temperature = 0.1 if way == "mistakes" else temperature
        self.games = self.tokens = 0

    def play(self, starts: Sequence[InitialState], temperature: float, number: int, tree: int = 0) -> list[Trajectory]:
        """Play with the current weights."""
        sampling = SamplingSettings(temperature=temperature, max_completion_tokens=12, max_batch_size=1024)
        sampler: Sampler = TransformersSampler(self.learner.model, self.codec, sampling, self.seed * 100_000 + number)
        if tree:
            sampler = OneReplyPerBoard(sampler, tree)
        context = self.context.for_training
        return play(starts, context.words, context.prompter, sampler)

    def correct_mistakes(self, number: int, place: int) -> None:
        """Play a round, and learn from it 32 games at a time."""
        games = self.play(self.starts.draw(2048, number), self.temperature, number)
        self.count(games)
        items = [item for game in scored(games, REWARD, self.context.for_training) for item in self.labels_of(game)]
        for first in range(0, len(items), 32):
            self.update([row for item in items[first : first + 32] for row in item], place)

    def labels_of(self, game: Scored, *, keeps_guesses: bool = True) -> list[list[Example]]:
        """The secret where the guess was wrong, and the sound guesses; the rows of a game share its prefixes."""
        boards, kept = boards_to_teach(game, self.context.split, keeps_guesses=True)
        reply = self.codec.reply_ids(self.context.prompter.reply(game.trajectory.transcript.secret, ""))
        items = items_of(game, boards, kept if keeps_guesses else frozenset(), reply)
        return [[with_weight(row) for row in item] for item in items]

    def step(self, number: int, place: int) -> None:
        """Play, and take optimizer steps at a place of the schedule."""
        context = self.context.for_training
        if self.way == "mistakes":
            self.correct_mistakes(number, place)
            return
        tree = GROUP * self.groups if self.way == "tree" else 0
        drawn = self.starts.draw(tree or self.groups, number)
        starts = [*drawn] * TREES if tree else [start for start in drawn for _ in range(GROUP)]
        games = self.play(starts, self.temperature, number, tree)
        self.count(games)
        judged = scored(games, WINS if self.way == "maxrl" else REWARD, context)
        credit = {"boards": board_credit, "tree": board_credit, "maxrl": maxrl_credit}.get(self.way, group_credit)
        credited = [replace(game, advantages=values) for game, values in zip(judged, credit(judged), strict=True)]
        rows = [row for game in credited for row in rows_of(game, self.codec) if any(row.advantages)]
        if self.way == "echo":
            rows = [with_marks(row, 0.1) for row in rows]
        if self.way == "labels":
            for game in credited:
                rows += [row for item in self.labels_of(game, keeps_guesses=False) for row in item]
        if self.way == "epochs":
            halves = [rows[::2], rows[1::2]]
            for half in halves * 2:
                self.update(half, place, off_policy=True)
        else:
            self.update(rows, place)

    def update(self, rows: list[Example], place: int, *, off_policy: bool = False) -> None:
        """Take one optimizer step."""
        if rows:
            batches = micro_batches(rows, 64, sharing=self.learner.shares_prefixes)
            self.learner.update(batches, PolicyLoss(off_policy=off_policy), place)

    def count(self, games: Sequence[Trajectory]) -> None:
        """Count games and tokens."""
        self.games += len(games)
        self.tokens += sum(len(s.prompt_ids) + len(s.token_ids) for game in games for s in game.segments)

    def nats_above_floor(self, secrets: Sequence[str]) -> float:
        """Return by how much the environment's messages surprise the model more than they must, in nats a message.

        Whoever knows the list and nothing else of a secret gives marks the fraction of the words left that have them: a
        game's messages then take log(words before the first / words after the last) nats. Guesses are sampled at T = 1.
        """
        games = self.play([InitialState(secret) for secret in secrets], 1.0, 99_998)
        rows, floor, messages, solver = [], 0.0, 0, self.context.for_training.solver
        training = {solver.words.answer_index[word] for word in self.context.split.train}
        for game in games:
            (segment,) = game.segments
            inside = [0] * segment.spans[0][1] + [1 - trained for trained in segment.loss_mask[segment.spans[0][1] :]]
            rows.append(Example(segment.prompt_ids + segment.token_ids, [0] * len(segment.prompt_ids) + inside))
            answered = game.transcript.turns[: len(segment.spans) - 1]  # the last guess has no message
            marked = [(turn.turn.guess or "", turn.turn.marks) for turn in answered if turn.turn.marks is not None]
            left = training.intersection(solver.candidates(marked).tolist())
            floor += math.log(len(training) / len(left))
            messages += len(answered)
        rows = [row for row in rows if any(row.loss_mask)]
        batches = micro_batches(rows, 64, sharing=self.learner.shares_prefixes)
        nats = self.learner.evaluate(batches, CrossEntropy())["loss"] * sum(sum(row.loss_mask[1:]) for row in rows)
        return (nats - floor) / messages

    def exam(self, secrets: Sequence[str], temperature: float = 0.0) -> float:
        """Fraction of secrets won."""
        games = self.play([InitialState(secret) for secret in secrets], temperature, 99_999)
        return fmean(game.transcript.won for game in games)


def with_weight(row: Example) -> Example:
    """Make a label of weight 1 into a row of a policy loss."""
    return replace(row, advantages=[float(x) for x in row.loss_mask], sampler_logprobs=[0.0] * len(row.loss_mask))


def main(
    run: tyro.conf.Positional[Path],
    out: Path,
    ways: tuple[Way, ...] = ("mistakes", "labels", "grpo", "boards", "tree", "maxrl", "echo", "epochs", "starts"),
    seconds: float = 240.0,
    seed: int = 0,
    temperature: float = 1.0,
    groups: int = 32,
    learning_rate: float = 2e-3,
    muon_learning_rate: float = 0.004,
) -> None:
    """Run ways from one start, one after the other, and append a row of figures for each to `out`."""
    torch.set_num_threads(1)
    for way in ways:
        trial, used = Trial(run, way, seed, temperature, groups), 0.0
        muon = 0.007 if way in ("mistakes", "labels") else muon_learning_rate  # the quickstart's
        rates = RLOptimizerSettings(
            learning_rate=learning_rate,
            muon_learning_rate=muon,
            schedule="linear",
        )
        total, number = 1000, 0
        trial.learner.start(rates, total)
        train = trial.context.split.train
        exam = trial.starts.picker.pick(EXAM, 0)
        curve = [{"games": 0, "tokens": 0, "seconds": 0.0, "greedy": trial.exam(exam)}]
        surprise = {"marks_above_floor_at_start": trial.nats_above_floor(exam)}
        while used < seconds:
            began = time.process_time()
            trial.step(number, 1 + int(total * used / seconds))
            used, number = used + time.process_time() - began, number + 1
            if used >= seconds * len(curve) / EXAMS:
                point = {"games": trial.games, "tokens": trial.tokens, "seconds": round(used, 1)}
                curve.append({**point, "greedy": trial.exam(exam)})
                print(way, curve[-1], flush=True)
        whole = {"train": trial.exam(train), "train_sampled": trial.exam(train, 1.0)}
        whole["all"] = trial.exam(trial.context.split.named("all"))
        whole["marks_above_floor"] = trial.nats_above_floor(exam)
        about = {
            "way": way,
            "temperature": trial.temperature,
            "seed": seed,
            "steps": number,
            "seconds": seconds,
            "hardware": hardware(),
        }
        print(way, whole, flush=True)
        with out.open("a") as file:
            file.write(json.dumps({**about, "curve": curve, **surprise, **whole}) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
