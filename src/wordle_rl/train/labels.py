"""Labels of the rounds on record: every board and word that a round trains on, in labels.jsonl.

A round chooses what to train on from the policy's own games, so a guess in them becomes a label. Those that name a
strict word are left out, whoever named it first. What is left is written down in the row form of games, so that it can
be looked up afterwards what training showed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from wordle_rl.data.game_record import TurnRecord
from wordle_rl.env import PlayedTurn, Transcript
from wordle_rl.game import Turn
from wordle_rl.runs import LABELS_FILE, Run
from wordle_rl.words.split import Split


def names_strict(turns: Iterable[PlayedTurn], split: Split) -> bool:
    """True if a turn names a strict word, as its guess or anywhere in its reply."""
    return any(split.strict_words_in(played.turn.guess, played.reply) for played in turns)


def game_label(transcript: Transcript) -> dict[str, Any]:
    """A game of which every sound own turn is trained on, as a row."""
    turns = [
        _turn_row(played.turn, taught=not (played.is_prefix or played.overlong or played.turn.outcome.broke_rules))
        for played in transcript.turns
    ]
    return {"secret": transcript.secret, "turns": turns}


def board_label(board: Sequence[Turn], guess: str, secret: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """A guess that is trained on at a board which is not, as a row.

    `others` are the other words of the distribution that is learnt there.
    """
    named = {"guess": guess, "marks": None, **({"others": [*others]} if others else {})}
    return {"secret": secret, "turns": [*(_turn_row(turn, taught=False) for turn in board), named]}


def secret_label(transcript: Transcript, boards: Collection[int], kept: Collection[int] = ()) -> dict[str, Any]:
    """A game whose boards are trained on with its secret as the label, as a row.

    Args:
        transcript: The game.
        boards: Boards with the secret as their label, by their number of turns.
        kept: Boards at which the game's own guess is trained on.
    """
    longest = max((*boards, *(board + 1 for board in kept)), default=0)
    turns = [_turn_row(played.turn, taught=number in kept) for number, played in enumerate(transcript.turns[:longest])]
    return {"secret": transcript.secret, "boards_taught": sorted(boards), "turns": turns}


def record_labels(run: Run, stage: str, number: int, labels: Iterable[dict[str, Any]]) -> None:
    """Append a round's labels to labels.jsonl; a round that is chosen again after a stop is written again."""
    (run.directory / LABELS_FILE).touch()  # a round without labels is no missing record
    for label in labels:
        run.append(LABELS_FILE, {"stage": stage, "step": number - 1, **label})


def _turn_row(turn: Turn, *, taught: bool) -> dict[str, Any]:
    return TurnRecord(turn.guess, turn.marks, taught, outcome=turn.outcome).to_row()
