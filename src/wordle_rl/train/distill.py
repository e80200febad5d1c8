"""Distillation: the policy plays, a teacher says what to play at every board it comes to, and the policy learns that.

    for round in rounds:
        games = play(policy)
        for board in the different boards of the games that fit an answer:
            q = teacher(board)                       # over words: one guess, or a distribution
            word = draw(q)
            learn the tokens of word, each against q(next token | tokens before)
        fit(policy, labels of this round, of some rounds before, and teacher games)

A policy trained on a teacher's games alone has seen only boards that the teacher reaches. Here all boards that the
policy's own games reach are labelled, those with refused or unreadable replies too. A label depends on board and word
list, never on the secret. A board is trained on once per round, however many games reached it: the boards that recur
most, above all the empty one, are those the policy knows best.

With `targets = "guess"`, q is the guess of the solver teacher. That is DAgger (Ross, Gordon, Bagnell 2011,
arXiv:1011.0686), in which the policy plays every turn itself (beta = 0 from the first round on, since it knows how to
play already) and each round continues from the last one's weights.

With `targets = "distribution"`, q tells how good every word is (teachers/distribution.py). That is on-policy
distillation with the forward KL divergence (Agarwal et al. 2024, GKD, arXiv:2306.13649); teacher and student speak of
words here, so the teacher needs no tokens of its own, and its distribution of a token follows from that of the words.
"""

from __future__ import annotations

import random
import shutil
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, Unpack

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import DistillTraining, TraceSettings
from wordle_rl.data.dataset import Example
from wordle_rl.runs import Run, read_jsonl, write_jsonl
from wordle_rl.teachers.distribution import BoardTeacher, SolverDistribution, SolverGuess
from wordle_rl.train.games import Board, GameSetup, Scored, boards_of
from wordle_rl.train.labels import board_label, names_strict, record_labels
from wordle_rl.train.learner import Learner
from wordle_rl.train.loop import TrainingLoop
from wordle_rl.train.rounds import Numbers, Round, RoundOptions, Rounds, Row, fit_round, row_of

NAME = "distill"


class Label(NamedTuple):
    """A prompt and the reply to learn, as token ids.

    `targets` are the distributions to learn at each token of the reply, see `next_token_targets`; without any the
    tokens themselves are learnt.
    """

    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    targets: Sequence[Sequence[tuple[int, float]]] = ()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Prompt and reply."""
        return self.prompt_ids + self.reply_ids


def train_distill(
    learner: Learner,
    setup: GameSetup,
    settings: DistillTraining,
    run: Run,
    *,
    traces: TraceSettings,
    **options: Unpack[RoundOptions],
) -> Path:
    """Teach the model what the teacher says on the boards it reaches and save it to `<run>/distill`.

    An interrupted training resumes where it stopped. Arguments as for `Rounds`; `traces` sets how the teacher plays and
    whether it writes its thinking; of a distribution its opener alone. With a `replay_fraction` above 0 the run
    directory must hold traces.jsonl.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        RunError: If there are no traces to replay.
        WordListError: If the teacher's opener is not listed.
        KeyboardInterrupt: After Ctrl-C.
    """
    rounds = Rounds(NAME, learner, setup, settings, run, outside_rate=settings.outside_rate, **options)
    method = _Distillation(rounds, settings, traces)
    directory = rounds.train(method)
    if method.stored.is_dir():
        shutil.rmtree(method.stored)
    return directory


class _Distillation:
    """Labels the boards of a round and fine-tunes on them, those of earlier rounds and teacher games."""

    needs_reference = False

    def __init__(self, rounds: Rounds, settings: DistillTraining, traces: TraceSettings) -> None:
        self._rounds, self._settings = rounds, settings
        self._labeller = Labeller(rounds.codec, rounds.setup, settings, traces)
        self._games = settings.groups_per_round * settings.group_size
        most = self._games * min(settings.keep_rounds + 1, settings.rounds)
        self._replay = rounds.replay(settings.replay_fraction, most)
        self.stored = rounds.run.directory / NAME / "labels"

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """Labels of this round and of the kept ones, and the teacher games added to them, as rows."""
        games = (game for group in played.groups for game in group)
        new, record, numbers = self._labeller.label(games, played.seed)
        record_labels(self._rounds.run, NAME, played.number, record)
        first = max(1, played.number - self._settings.keep_rounds)
        kept = {label.prompt_ids: label for number in range(first, played.number) for label in self._read(number)}
        if self._settings.keep_rounds:
            write_jsonl(self._path(played.number), (label._asdict() for label in new.values()))
        self._path(first - 1).unlink(missing_ok=True)
        examples = examples_of([*(kept | new).values()])
        own = len(examples)
        examples += self._replay(self._games * (played.number - first + 1), played.number)
        numbers |= {
            "new_boards": float(len(new.keys() - kept.keys())),
            "own_examples": float(own),
            "all_examples": float(len(examples)),
        }
        return [row_of(example) for example in examples], numbers

    def fit(self, loop: TrainingLoop, rows: list[Row], seed: int, part: tuple[int, int]) -> bool:
        """Fine-tune on the rows as SFT does; where they have distributions, the loss is the cross-entropy to these."""
        return fit_round(loop, [[Example(**row)] for row in rows], self._settings, seed, part)

    def _path(self, number: int) -> Path:
        return self.stored / f"round-{number}.jsonl"

    def _read(self, number: int) -> Iterator[Label]:
        """The labels of an earlier round."""
        for row in read_jsonl(self._path(number)):
            yield Label(tuple(row["prompt_ids"]), tuple(row["reply_ids"]), row["targets"])


class Labeller:
    """Labels the boards that games came to with what the teacher says there.

    Args:
        codec: Tokenizer and template of the policy.
        setup: Words, prompts, rules.
        settings: What is learnt at a board, and the longest reply; longer ones are left out, since the policy could not
            finish them.
        traces: How the teacher plays, without its noise, and whether it writes its thinking.

    Raises:
        WordListError: If the teacher's opener is not listed.
    """

    def __init__(self, codec: ChatCodec, setup: GameSetup, settings: DistillTraining, traces: TraceSettings) -> None:
        self._codec, self._prompter, self._split = codec, setup.prompter, setup.context.split
        self._longest, self._is_soft = settings.sampling.max_completion_tokens, settings.targets == "distribution"
        self._teacher: BoardTeacher = (
            SolverDistribution(setup.solver, settings.temperature, setup.prompter.rules, traces.teacher.opener)
            if self._is_soft
            else SolverGuess(setup.solver, traces, setup.prompter)
        )

    def label(self, games: Iterable[Scored], seed: int) -> tuple[dict[tuple[int, ...], Label], list[Row], Numbers]:
        """One label for each different prompt whose board fits some answer, by prompt; none where a strict word stands.

        Args:
            games: Of a round.
            seed: Words are drawn by it and the prompt.

        Returns:
            The labels, the same as rows for the record, and numbers to log: boards the games reached, labels, and the
            fraction of boards that fit some answer at which no word is likelier than the policy's guess.
        """
        boards: dict[tuple[int, ...], Board] = {}
        guesses: dict[tuple[int, ...], list[str | None]] = defaultdict(list)
        for game in games:
            turns = game.trajectory.transcript.turns
            for board, _, _ in boards_of(game):
                if not names_strict(turns[: len(board.turns)], self._split):
                    boards.setdefault(board.prompt_ids, board)
                    guesses[board.prompt_ids].append(turns[len(board.turns)].turn.guess)
        labels, record, agreed, entropies, num_overlong = {}, [], [], [], 0
        for prompt, board in boards.items():
            said = self._teacher(board.turns)
            if said is None:
                continue
            agreed += [said.is_likeliest(guess) for guess in guesses[prompt]]
            replies = [self._reply_ids(word, said.thinking) for word in said.words]
            # By nothing but seed, round and prompt, so that a round which is chosen again after a stop draws the same.
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

    def _reply_ids(self, word: str, thinking: str) -> list[int]:
        """A word as the policy would say it."""
        return self._codec.reply_ids(self._codec.taught(self._prompter.reply(word, thinking), self._prompter.thinking))


def next_token_targets(
    replies: Sequence[Sequence[int]], chances: Sequence[float], drawn: int
) -> list[list[tuple[int, float]]]:
    """The teacher's distribution of each token of a reply, given the tokens before it.

    The replies form a trie. At a node, the chance of a token is that of the replies below it over that of all replies
    below the node; tokens that all replies share, such as tags, are certain:

        crane 0.5, crate 0.3, slate 0.2      at ""     c 0.8, s 0.2
        drawn: crate                         at "cra"  n 0.5 / 0.8, t 0.3 / 0.8

    Over replies drawn by their chances, the cross-entropies to these add up, on average, to the one between teacher
    and policy over whole replies: H(q, p) = E_{w ~ q} sum_t H(q(. | w_<t), p(. | w_<t)). So have the tokens of drawn
    replies alone, but there chance also decides the token; here that is averaged out (Rao-Blackwell).

    Args:
        replies: As token ids, different from each other; none begins another, since all end with the closing token.
        chances: Of each, summing to 1.
        drawn: The one that is learnt.

    Returns:
        For each token of the reply (token, probability) pairs, by token.

    Examples:
        >>> next_token_targets([[7, 1, 9], [7, 2, 9]], [0.25, 0.75], 1)
        [[(7, 1.0)], [(1, 0.25), (2, 0.75)], [(9, 1.0)]]
    """
    targets = []
    below = list(zip(replies, chances, strict=True))  # the replies that begin with the tokens so far
    for place, token in enumerate(replies[drawn]):
        chance_of: dict[int, float] = defaultdict(float)
        for reply, chance in below:
            chance_of[reply[place]] += chance
        total = sum(chance_of.values())
        targets.append([(token_id, chance / total) for token_id, chance in sorted(chance_of.items())])
        below = [(reply, chance) for reply, chance in below if reply[place] == token]
    return targets


def examples_of(labels: Sequence[Label]) -> list[Example]:
    """Labels as sequences to train on; each label is in exactly one.

    A label that is a prefix of the next label's sequence is trained inside that sequence: where the policy replied as
    the teacher would, its game continued from there. A game played just as the teacher plays is one sequence.
    """
    ordered = sorted(labels, key=lambda label: label.token_ids)  # labels that continue a label follow it
    examples, way = [], []
    for label, following in zip_longest(ordered, ordered[1:]):
        way.append(label)
        ids = label.token_ids
        if following is None or following.token_ids[: len(ids)] != ids:
            mask = [0] * len(ids)
            for passed in way:
                mask[len(passed.prompt_ids) : len(passed.token_ids)] = [1] * len(passed.reply_ids)
            targets = tuple(target for passed in way for target in passed.targets)
            examples.append(Example(list(ids), mask, soft_targets=targets))
            way = []
    return examples
