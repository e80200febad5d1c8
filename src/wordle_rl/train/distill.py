"""DAgger: the policy plays, the solver teacher labels each board with its reply, the policy is fine-tuned on these.

A policy trained on a teacher's games alone has seen only boards that the teacher reaches. Here every board that the
policy's own games reach is labelled, those with refused or unreadable replies too, and trained on together with the
boards of earlier rounds and some teacher games. A label depends on board and word list, never on the secret.

A board is trained on once per round, however many games reached it: its label is always the same, and the boards that
recur most, above all the empty one, are those the policy knows best.

Source: Ross, Gordon, Bagnell 2011, arXiv:1011.0686. The policy plays every turn itself (beta = 0 from the first round
on, since it knows how to play already), and each round continues from the last one's weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Unpack

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import DistillTraining, TraceSettings
from wordle_rl.data.dataset import Example
from wordle_rl.data.trace import TraceTurn
from wordle_rl.game import Turn, violates_clues
from wordle_rl.prompt import Thinking
from wordle_rl.runs import Run, read_jsonl, write_jsonl
from wordle_rl.teachers.games import narration
from wordle_rl.teachers.solver import Advice, SolverTeacher
from wordle_rl.train.games import GameSetup, Scored, boards_of
from wordle_rl.train.labels import board_label, names_strict, record_labels
from wordle_rl.train.learner import Learner
from wordle_rl.train.loop import TrainingLoop
from wordle_rl.train.rounds import Numbers, Round, RoundOptions, Rounds, Row, fit_round, row_of

NAME = "distill"


@dataclass(frozen=True, slots=True)
class Label:
    """A prompt and the reply to learn, as token ids."""

    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]

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
    """Teach the model the teacher's replies on the boards it reaches and save it to `<run>/distill`.

    An interrupted training resumes where it stopped. Arguments as for `Rounds`; `traces` sets how the teacher plays and
    whether it writes its thinking. With a `replay_fraction` above 0 the run directory must hold traces.jsonl.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        RunError: If there are no traces to replay.
        WordListError: If the teacher's opener is not listed.
        KeyboardInterrupt: After Ctrl-C.
    """
    rounds = Rounds(NAME, learner, setup, settings, run, outside_rate=settings.outside_rate, **options)
    method = _Aggregation(rounds, settings, traces)
    directory = rounds.train(method)
    if method.stored.is_dir():
        shutil.rmtree(method.stored)
    return directory


class _Aggregation:
    """Labels the boards of a round and fine-tunes on them, those of earlier rounds and teacher games."""

    needs_reference = False

    def __init__(self, rounds: Rounds, settings: DistillTraining, traces: TraceSettings) -> None:
        self._rounds, self._settings = rounds, settings
        self._labeller = Labeller(rounds.codec, rounds.setup, traces, settings.sampling.max_completion_tokens)
        self._games = settings.groups_per_round * settings.group_size
        most = self._games * min(settings.keep_rounds + 1, settings.rounds)
        self._replay = rounds.replay(settings.replay_fraction, most)
        self.stored = rounds.run.directory / NAME / "labels"

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """Labels of this round and of the kept ones, and the teacher games added to them, as token ids and loss
        masks."""
        new, numbers = self._labeller.label(game for group in played.groups for game in group)
        record_labels(self._rounds.run, NAME, played.number, self._labeller.rows)
        first = max(1, played.number - self._settings.keep_rounds)
        kept = {label.prompt_ids: label for number in range(first, played.number) for label in self._read(number)}
        if self._settings.keep_rounds:
            write_jsonl(self._path(played.number), (asdict(label) for label in new.values()))
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
        """Fine-tune on the rows as SFT does."""
        return fit_round(loop, [[Example(**row)] for row in rows], self._settings, seed, part)

    def _path(self, number: int) -> Path:
        return self.stored / f"round-{number}.jsonl"

    def _read(self, number: int) -> Iterator[Label]:
        """The labels of an earlier round."""
        for row in read_jsonl(self._path(number)):
            yield Label(tuple(row["prompt_ids"]), tuple(row["reply_ids"]))


class Labeller:
    """Labels the boards that games came to with the teacher's guesses.

    Args:
        codec: Tokenizer and template of the policy.
        setup: Words, prompts, rules.
        traces: How the teacher plays, without its noise, and whether it writes its thinking.
        max_reply_tokens: Longer replies are left out, since the policy could not finish them.

    Attributes:
        rows: The labels of the last call as rows, see `labels.board_label`.

    Raises:
        WordListError: If the teacher's opener is not listed.
    """

    def __init__(self, codec: ChatCodec, setup: GameSetup, traces: TraceSettings, max_reply_tokens: int) -> None:
        self._codec, self._words, self._prompter = codec, setup.words, setup.prompter
        self._split = setup.context.split
        self.rows: list[dict[str, Any]] = []
        self._max_reply_tokens = max_reply_tokens
        self._narrate = traces.narrate and setup.prompter.thinking is not Thinking.OFF
        self._settings = traces.teacher.model_copy(update={"max_turns": setup.prompter.rules.max_turns})
        self._teacher = SolverTeacher(setup.solver)
        self._teacher.advise([()], self._settings)  # an opener that is not listed is refused before a game is played

    def label(self, games: Iterable[Scored]) -> tuple[dict[tuple[int, ...], Label], Numbers]:
        """One label for each different prompt whose board fits some answer, by prompt; none where a strict word stands.

        Returns:
            The labels, and numbers to log: boards the games reached, labels, and the fraction of boards that fit some
            answer at which the policy's guess was the teacher's.
        """
        boards, guesses = [], []
        for game in games:
            turns = game.trajectory.transcript.turns
            for board, _, _ in boards_of(game):
                if not names_strict(turns[: len(board.turns)], self._split):
                    boards.append(board)
                    guesses.append(turns[len(board.turns)].turn.guess)
        advices = self._teacher.advise((board.turns for board in boards), self._settings)
        replies: dict[tuple[int, ...], str] = {}
        rows = {}
        agreed = []
        for board, guess, advice in zip(boards, guesses, advices, strict=True):
            if advice is not None:
                agreed.append(guess == advice.guess)
                if board.prompt_ids not in replies:
                    replies[board.prompt_ids] = self._reply(board.turns, advice)
                    rows[board.prompt_ids] = board_label(board.turns, advice.guess, board.secret)
        self._codec.warm(replies.values(), ())
        labels = {prompt: Label(prompt, tuple(self._codec.reply_ids(text))) for prompt, text in replies.items()}
        said = {prompt: label for prompt, label in labels.items() if len(label.reply_ids) <= self._max_reply_tokens}
        self.rows = [rows[prompt] for prompt in said]
        numbers = {"boards": float(len(boards)), "labels": float(len(said))}
        if agreed:
            numbers["agreement_rate"] = sum(agreed) / len(agreed)
        if len(said) < len(labels):
            numbers["overlong_labels"] = float(len(labels) - len(said))
        return said, numbers

    def _reply(self, board: Sequence[Turn], advice: Advice) -> str:
        """The advice worded as in the teacher's games, with thinking that is true of the board."""
        thinking = ""
        if self._narrate:
            scored = [TraceTurn(turn.guess, turn.marks) for turn in board if turn.guess and turn.marks]
            probe = advice.guess not in self._words.answer_index or violates_clues(advice.guess, board)
            thinking = narration(scored, advice.guess, advice.remaining, advice.classes, probe=probe)
        return self._codec.taught(self._prompter.reply(advice.guess, thinking), self._prompter.thinking)


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
            examples.append(Example(list(ids), mask))
            way = []
    return examples
