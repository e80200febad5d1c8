"""Distillation: the policy plays, a teacher labels every board it reaches, and the policy learns the labels.

    for round in rounds:
        games = play(policy)
        for board in the distinct boards of the games that still fit an answer:
            q = teacher(board)                       # over words: one guess, or a distribution
            word = draw(q)
            learn the tokens of word, each against q(next token | tokens before)
        fit(policy, labels of this round and the last, and teacher games)

A policy trained only on a teacher's games knows only the boards that the teacher reaches. Here the policy's own boards
are labelled, even those with refused or unreadable replies. A label depends on the board and the word list, never on
the secret. A board is trained on once per round, however many games reached it. Otherwise the boards that the policy
knows best, above all the empty one, would dominate.

`targets = "guess"`: q is the solver teacher's guess. This is DAgger (Ross, Gordon, Bagnell 2011, arXiv:1011.0686) with
beta = 0 from the first round on, since the policy can already play. Each round continues from the last one's weights.

`targets = "distribution"`: q scores every word (teachers/distribution.py). This is on-policy distillation with the
forward KL divergence (GKD, Agarwal et al. 2024, arXiv:2306.13649). Teacher and student share words, not tokens: the
distribution of each token follows from that of the words.

`targets = MODEL`: a larger or further trained model is the teacher. At every token of the policy's own replies, q is
what that model would write there. No solver is asked, and nothing is drawn:

    fit(policy, its own replies, each token against teacher(next token | tokens before))
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import torch

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.stages import DistillSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.policy.directory import converted_path
from wordle_rl.policy.loading import load_model
from wordle_rl.runs import read_jsonl, trained_model, write_jsonl
from wordle_rl.teachers.distribution import BoardTeacher, SolverDistribution, SolverGuess
from wordle_rl.train import round_method
from wordle_rl.train.example import Example
from wordle_rl.train.micro_batches import Batch
from wordle_rl.train.play_loop import Item, Stage
from wordle_rl.train.round_method import Numbers, Round, RoundMethod, board_label, names_strict, record_labels
from wordle_rl.train.scored_games import Board, Scored, boards_of
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.teacher_replay import Replay

_TEACHER_LOGITS, _TEACHER_TOKENS = 1 << 28, 32
"""Most logits in one pass of a teacher's model, and the likeliest tokens that are kept of each of its distributions."""


class Label(NamedTuple):
    """A prompt and the reply to learn, as token ids.

    `targets` holds the distribution to learn at each token of the reply (see `next_token_targets`). If it is empty,
    the tokens themselves are learnt.
    """

    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    targets: Sequence[Sequence[tuple[int, float]]] = ()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Prompt and reply."""
        return self.prompt_ids + self.reply_ids


def distill(stage: Stage, settings: DistillSettings) -> RoundMethod:
    """Return the method that `targets` names. A `replay_fraction` above 0 needs traces.jsonl in the run directory."""
    if settings.teacher_model is not None:
        return FromModel(stage, settings, settings.teacher_model)
    return FromSolver(stage, settings)


class FromSolver(RoundMethod):
    """Learn the solver's words at the boards of this round and of the one before."""

    def __init__(self, stage: Stage, settings: DistillSettings) -> None:
        super().__init__(stage, settings)
        self._labeller = Labeller(stage.codec, stage.setup, settings, stage.traces)
        self._games_per_round = settings.groups_per_round * settings.group_size
        most = self._games_per_round * min(2, settings.rounds)
        self._replay = Replay(stage, settings, most)

    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return the labels of this round and of the one before, with the teacher games to replay."""
        new, record, numbers = self._labeller.label(played.games, played.seed)
        record_labels(self.stage.run, self.stage.name, played.number, record)
        # A board labelled again takes its newest label: soft targets are drawn anew in each round.
        last = {label.prompt_ids: label for label in self._read(played.number - 1)}
        write_jsonl(self._path(played.number), (label._asdict() for label in new.values()))
        self._path(played.number - 2).unlink(missing_ok=True)
        items = [[example] for example in examples_of([*(last | new).values()])]
        items, counted = self._replay.add(items, self._games_per_round * min(2, played.number), played.number)
        return items, {**numbers, "new_boards": float(len(new.keys() - last.keys())), **counted}

    def _path(self, number: int) -> Path:
        return self.stage.training.checkpoints / f"labels-{number}.jsonl"

    def _read(self, number: int) -> Iterator[Label]:
        for row in read_jsonl(self._path(number)) if number else ():
            yield Label(tuple(row["prompt_ids"]), tuple(row["reply_ids"]), row["targets"])


class FromModel(RoundMethod):
    """Learn what another model would write at each token of the policy's own replies."""

    def __init__(self, stage: Stage, settings: DistillSettings, teacher: Path) -> None:
        super().__init__(stage, settings)
        self._teacher = ModelTeacher(teacher, stage.codec)
        most = settings.groups_per_round * settings.group_size
        self._replay = Replay(stage, settings, most)

    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return the policy's own games with the teacher's next tokens, and the teacher games to replay."""
        split = self.stage.setup.context.split
        rows: list[Example] = []
        labels = []
        for game in played.games:
            turns = game.trajectory.transcript.turns
            first = len(turns) - len(game.trajectory.transcript.own_turns)
            # From a reply with a strict word on, nothing is learnt.
            clean = sum(1 for _ in takewhile(lambda turn: not names_strict([turn], split), turns))
            rows += [row for row in rows_up_to(game, clean - first) if any(row.loss_mask)]
            taught = ((turn.turn, first <= place) for place, turn in enumerate(turns[:clean]))
            labels.append(round_method.label(game.trajectory.transcript.secret, taught))
        record_labels(self.stage.run, self.stage.name, played.number, labels)
        taught_rows, agreement = self._teacher(rows)
        numbers = {"labels": float(sum(sum(row.loss_mask) for row in rows)), "agreement_rate": agreement}
        items, counted = self._replay.add([[row] for row in taught_rows], len(played.games), played.number)
        return items, {**numbers, **counted}


def rows_up_to(game: Scored, num_turns: int) -> Iterator[Example]:
    """Yield the token sequences of a game with its replies before own turn `num_turns` as tokens to learn."""
    for segment in game.trajectory.segments:
        mask = [0] * len(segment.token_ids)
        for turn, start, stop in segment.spans:
            if turn < num_turns:
                mask[start:stop] = [1] * (stop - start)
        yield Example([*segment.prompt_ids, *segment.token_ids], [0] * len(segment.prompt_ids) + mask)


def directory_of(teacher: Path) -> Path:
    """Return the directory of a teacher's weights: of a model, of a run's last model, or of `bundled`."""
    found = trained_model(Path(converted_path(str(teacher))).expanduser())
    if found is None:
        raise ConfigError(f"distill.targets {teacher} holds no trained model; name a run or a model directory")
    return found


class ModelTeacher:
    """Another model's distribution of the next token, at the tokens to learn of any rows."""

    def __init__(self, path: Path, codec: ChatCodec) -> None:
        self._model, own = load_model(ModelSettings(path=str(directory_of(path))), seed=0)
        if own.tokenizer.get_vocab() != codec.tokenizer.get_vocab():
            raise ConfigError(
                f"distill.targets {path} has other tokens than the policy; name a model with its tokenizer"
            )
        self._model.eval()
        # Also ids that the policy has no row for: models of one tokenizer pad their vocabularies differently.
        self._unknown = codec.unknown_ids(self._model.config.get_text_config().vocab_size)

    @torch.no_grad()
    def __call__(self, rows: Sequence[Example]) -> tuple[list[Example], float]:
        """Return the rows with soft targets, and how often the teacher's likeliest token is the policy's."""
        taught: dict[int, Example] = {}
        agreed = total = 0
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].token_ids))  # similar lengths save padding
        longest = max((len(row.token_ids) for row in rows), default=1)
        size = max(1, min(64, _TEACHER_LOGITS // (longest * self._model.config.get_text_config().vocab_size)))
        for first in range(0, len(order), size):
            places = order[first : first + size]
            batch = Batch.of([rows[place] for place in places], [1.0] * len(places), 0, self._model.device)
            logits = self._model(input_ids=batch.input_ids).logits[:, :-1][batch.trained].float()  # (N, V)
            logits[:, list(self._unknown)] = -torch.inf
            # The likeliest tokens stand for the whole vocabulary, and are made to sum to 1.
            known = logits.shape[1] - len(self._unknown)
            chances, ids = logits.softmax(-1).topk(min(_TEACHER_TOKENS, known))
            chances = chances / chances.sum(-1, keepdim=True)
            agreed, total = agreed + int((ids[:, 0] == batch.targets).sum()), total + len(batch.targets)
            pairs = [[*zip(*each, strict=True)] for each in zip(ids.tolist(), chances.tolist(), strict=True)]
            for number, place in enumerate(places):
                own = [pairs[token] for token in (batch.rows == number).nonzero()[:, 0].tolist()]
                taught[place] = replace(rows[place], soft_targets=own)
        return [taught[place] for place in range(len(rows))], agreed / max(1, total)


class Labeller:
    """Label the boards of games with a teacher's words.

    Labels longer than `setup.sampling` allows are dropped: the policy could not finish them. `traces` sets how the
    teacher plays (its noise is ignored) and whether it writes its thinking.
    """

    def __init__(self, codec: ChatCodec, setup: GameSetup, settings: DistillSettings, traces: TraceSettings) -> None:
        self._codec, self._prompter, self._split = codec, setup.prompter, setup.context.split
        self._longest, self._is_soft = setup.sampling.max_completion_tokens, settings.targets == "distribution"
        self._teacher: BoardTeacher = (
            SolverDistribution(setup.solver, settings.teacher_temperature, setup.prompter.rules, traces.teacher.opener)
            if self._is_soft
            else SolverGuess(setup.solver, traces, setup.prompter)
        )

    def label(
        self, games: Iterable[Scored], seed: int
    ) -> tuple[dict[tuple[int, ...], Label], list[dict[str, Any]], Numbers]:
        """Label each distinct prompt once, unless its board names a strict word.

        A board that fits no answer has no label.

        Together with the prompt, `seed` decides which word is drawn.

        Returns:
            Labels by prompt, the same labels as rows for labels.jsonl, and metrics: boards reached, labels made, and
            `agreement_rate`, how often the teacher ranks no word above the policy's guess.
        """
        boards: dict[tuple[int, ...], Board] = {}
        guesses: dict[tuple[int, ...], list[str | None]] = defaultdict(list)
        for game in games:
            turns = game.trajectory.transcript.turns
            for board, _, _ in boards_of(game.trajectory):
                if not names_strict(turns[: len(board.turns)], self._split):
                    boards.setdefault(board.prompt_ids, board)
                    guesses[board.prompt_ids].append(turns[len(board.turns)].turn.guess)
        labels, record, agreed, entropies, num_overlong = {}, [], [], [], 0
        for prompt, board in boards.items():
            said = self._teacher(board.turns)
            if said is None:
                continue
            agreed += [said.is_likeliest(guess) for guess in guesses[prompt]]
            texts = (self._prompter.reply(word, said.thinking) for word in said.words)
            replies = [self._codec.reply_ids(self._codec.taught(text, self._prompter.thinking)) for text in texts]
            # Seeded by round and prompt only, so that a round that is chosen again after a stop draws the same words.
            drawn = said.draw(random.Random(f"{seed}:{prompt}"))
            if len(replies[drawn]) > self._longest:
                num_overlong += 1
                continue
            targets = next_token_targets(replies, said.chances, drawn) if self._is_soft else ()
            labels[prompt] = Label(prompt, tuple(replies[drawn]), targets)
            entropies.append(said.entropy)
            others = [*said.words[:drawn], *said.words[drawn + 1 :]]
            record.append(board_label(board.turns, said.words[drawn], board.secret, others))
        numbers = {"boards": float(sum(map(len, guesses.values()))), "labels": float(len(labels))}
        if agreed:
            numbers["agreement_rate"] = statistics.fmean(agreed)
        if entropies and self._is_soft:
            numbers["teacher_entropy"] = statistics.fmean(entropies)
        if num_overlong:
            numbers["overlong_labels"] = float(num_overlong)
        return labels, record, numbers


def next_token_targets(
    replies: Sequence[Sequence[int]], chances: Sequence[float], drawn: int
) -> list[list[tuple[int, float]]]:
    """Turn a distribution over replies into one over the next token, at each token of the drawn reply.

    The replies form a trie. The probability of a token at a node is the mass of the replies below that token divided
    by the mass of all replies below the node. Tokens that all replies share, such as tags, get probability 1:

        crane 0.5, crate 0.3, slate 0.2      at ""     c 0.8, s 0.2
        drawn: crate                         at "cra"  n 0.5 / 0.8, t 0.3 / 0.8

    For replies drawn from q, these per-token cross-entropies sum in expectation to the one over whole replies:
    H(q, p) = E_{w ~ q} sum_t H(q(. | w_<t), p(. | w_<t)). Plain cross-entropy on the drawn tokens has the same
    expectation but more variance, which is averaged out here (Rao-Blackwell).

    No reply is a prefix of another, since all end with the closing token. `chances` sum to 1; `drawn` is the index of
    the reply to learn. Pairs are sorted by token.

    Examples:
        >>> next_token_targets([[7, 1, 9], [7, 2, 9]], [0.25, 0.75], 1)
        [[(7, 1.0)], [(1, 0.25), (2, 0.75)], [(9, 1.0)]]
    """
    targets = []
    below = list(zip(replies, chances, strict=True))  # replies that start with the tokens so far
    for place, token in enumerate(replies[drawn]):
        chance_of: dict[int, float] = defaultdict(float)
        for reply, chance in below:
            chance_of[reply[place]] += chance
        total = sum(chance_of.values())
        targets.append([(token_id, chance / total) for token_id, chance in sorted(chance_of.items())])
        below = [(reply, chance) for reply, chance in below if reply[place] == token]
    return targets


def examples_of(labels: Sequence[Label]) -> list[Example]:
    """Pack labels into sequences to train on; each label is in exactly one.

    Where the policy replied as the teacher would, its game went on from there. The label is then a prefix of a later
    one, and both are trained in one sequence. A game played exactly like the teacher becomes a single sequence.
    """
    ordered = sorted(labels, key=lambda label: label.token_ids)  # a label is followed by those that continue it
    examples, chain = [], []
    for label, following in zip_longest(ordered, ordered[1:]):
        chain.append(label)
        ids = label.token_ids
        if following is None or following.token_ids[: len(ids)] != ids:
            mask = [0] * len(ids)
            for link in chain:
                mask[len(link.prompt_ids) : len(link.token_ids)] = [1] * len(link.reply_ids)
            targets = tuple(target for link in chain for target in link.targets)
            examples.append(Example(list(ids), mask, soft_targets=targets))
            chain = []
    return examples
