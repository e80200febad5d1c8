"""The games of a run as one small JSON value for the page's browser.

A game is `{s: secret, p: part of the split, w: 1 won / 0 lost / -1 error, n: turns used, t: turns, …}`, a turn
`{g: guess, m: marks, o: outcome unless scored, q: reply unless it only names the guess, r: regret, …}`. Fields that
say nothing are left out. Long replies are cut so that the page stays small enough to open anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from wordle_rl.evaluate import Evaluation, GameRecord, TurnRecord
from wordle_rl.report.read import RunRecord

MAX_TRAINING_GAMES = 2000
"""Sample games of training kept on the page, the newest."""
MAX_REPLY_BYTES = 2_000_000
"""Room for replies on the whole page, as UTF-8."""
_REPLY_LIMITS = (8000, 2000, 800, 300, 120, 40, 0)

Json = dict[str, Any]


def games_payload(run: RunRecord) -> Json:
    """All browsable games of a run.

    Returns:
        `{"sources": [{"id", "label", "note", "games"}, …]}`, JSON-able.
    """
    sources = [_evaluated(name, evaluation, run.split_of) for name, evaluation in run.evaluations.items()]
    if run.games:
        newest = run.games[::-1][:MAX_TRAINING_GAMES]
        note = "Newest first."
        if len(newest) < len(run.games):
            note += f" The latest {len(newest)} of {len(run.games)} recorded games."
        games = [_training_game(row, run.split_of) for row in newest]
        sources.append({"id": "training", "label": "training samples", "note": note, "games": games})
    limit = cut_replies(sources)
    if limit is not None:
        for source in sources:
            source["note"] += f" Replies are cut after {limit} characters." if limit else " Replies are left out."
    return {"sources": sources}


def cut_replies(sources: list[Json]) -> int | None:
    """Shorten replies in place until they fit into MAX_REPLY_BYTES.

    Returns:
        The characters each reply was cut to, or None if all are whole.
    """
    turns = [turn for source in sources for game in source["games"] for turn in game["t"] if "q" in turn]
    if sum(_size(turn["q"]) for turn in turns) <= MAX_REPLY_BYTES:
        return None
    limit = next(limit for limit in _REPLY_LIMITS if sum(_size(turn["q"][:limit]) for turn in turns) <= MAX_REPLY_BYTES)
    for turn in turns:
        if limit == 0:
            del turn["q"]
        elif len(turn["q"]) > limit:
            turn["q"] = turn["q"][:limit] + "…"
    return limit


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _evaluated(name: str, evaluation: Evaluation, split_of: Mapping[str, str]) -> Json:
    games = [_evaluated_game(record, split_of) for record in evaluation.records]
    note = evaluation.player and f"Played by {evaluation.player}."
    return {"id": name, "label": f"{name} evaluation", "note": note, "games": games}


def _evaluated_game(record: GameRecord, split_of: Mapping[str, str]) -> Json:
    game: Json = {"s": record.secret, "n": record.turns_used, "t": [_evaluated_turn(turn) for turn in record.turns]}
    game["w"] = -1 if record.failed else int(record.won)
    if record.secret in split_of:
        game["p"] = split_of[record.secret]
    if record.failed:
        game["e"] = record.error or record.stop_reason.value
    return game


def _evaluated_turn(turn: TurnRecord) -> Json:
    packed = _turn(turn.reply, turn.guess, turn.marks, turn.outcome.value)
    if turn.regret is not None and turn.regret >= 0.005:
        packed["r"] = round(turn.regret, 2)
    if turn.repeated:
        packed["d"] = 1
    if turn.violates_clues:
        packed["v"] = 1
    return packed


def _turn(reply: str, guess: str | None, marks: str | None, outcome: str) -> Json:
    packed: Json = {}
    if guess is not None:
        packed["g"] = guess
    if marks is not None:
        packed["m"] = marks
    if outcome != "scored":
        packed["o"] = outcome
    if guess is None or reply != f"<guess>{guess}</guess>":
        packed["q"] = reply
    return packed


def _training_game(row: Json, split_of: Mapping[str, str]) -> Json:
    turns = [_training_turn(turn) for turn in row["turns"]]
    game: Json = {"s": row["secret"], "n": len(turns), "t": turns, "w": int(bool(row.get("won")))}
    if row.get("stop_reason") == "request_failed":
        game |= {"w": -1, "e": "request_failed"}
    if row["secret"] in split_of:
        game["p"] = split_of[row["secret"]]
    for key, field in (("k", "step"), ("x", "reward")):
        if _is_finite(row.get(field)):
            game[key] = round(row[field], 4)
    return game


def _training_turn(turn: Json) -> Json:
    reply, guess, marks = turn.get("reply"), turn.get("guess"), turn.get("marks")
    packed = _turn(
        reply if isinstance(reply, str) else "",
        guess if isinstance(guess, str) else None,
        marks if isinstance(marks, str) else None,
        str(turn.get("outcome", "scored")),
    )
    if turn.get("given"):
        packed["h"] = 1
    if _is_finite(turn.get("reward")):
        packed["x"] = round(turn["reward"], 4)
    components = turn.get("components")
    if isinstance(components, dict):
        shares = {str(name): round(share, 4) for name, share in components.items() if _is_finite(share) and share}
        if shares:
            packed["c"] = shares
    return packed


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
