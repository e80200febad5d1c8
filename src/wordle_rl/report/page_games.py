"""The games of a run as one small JSON value for the page's browser.

A game is `{i: id, s: secret, p: part of the split, w: 1 won / 0 lost / -1 error, n: turns used, t: turns, …}`, a turn
`{g: guess, m: marks, o: outcome unless scored, q: reply unless it only names the guess, r: regret, …}`. The id is the
number of an evaluated game, and the byte at which the row of a sampled one begins. Fields that say nothing are left
out. Long replies are cut so that the page stays small enough to open anywhere.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from wordle_rl.config import MODEL_NAMES
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.report.run_record import RunRecord
from wordle_rl.runs import is_number, without_lone_surrogates

MAX_SAMPLE_GAMES = 2000
"""Most sample games of training on the page, the newest, and as many of validation."""
MAX_REPLY_BYTES = 2_500_000
"""Most bytes of replies on the page."""

Json = dict[str, Any]


def games_payload(run: RunRecord) -> Json:
    """All browsable games of a run.

    Returns:
        `{"sources": [{"id", "label", "note", "games"}, …]}`, JSON-able; the one to show first has `"first": 1`.
    """
    sources = [_evaluated(name, evaluation, run.split_of) for name, evaluation in run.evaluations.items()]
    validation = [row for row in run.games if row.get("stage") == "validation"]
    training = [row for row in run.games if row.get("stage") != "validation"]
    sources += [
        _sampled(name, rows, run.split_of)
        for name, rows in (("training", training), ("validation", validation))
        if rows
    ]
    cut_replies(sources)
    played = [name for name in MODEL_NAMES if name in run.evaluations]  # the model trained last is looked at first
    for source in sources:
        if played and source["id"] == played[-1]:
            source["first"] = 1
    return {"sources": sources}


def json_for_script(value: Any) -> str:
    """Encode JSON for a script element, so that nothing in it can end the element or start a comment.

    Examples:
        >>> json_for_script("</script>")
        '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return without_lone_surrogates(text.replace("<", "\\u003c"))


def cut_replies(sources: list[Json]) -> None:
    """Cut replies in place so that all fit into MAX_REPLY_BYTES.

    One limit holds for all, the longest that fits; the notes of the sources name it.
    """
    turns = [turn for source in sources for game in source["games"] for turn in game["t"] if "q" in turn]
    if _size(turns) <= MAX_REPLY_BYTES:
        return
    longest = max(len(turn["q"]) for turn in turns)
    limit = max(0, bisect_right(range(longest), MAX_REPLY_BYTES, key=lambda limit: _size(turns, limit)) - 1)
    for turn in turns:
        turn["q"] = _shortened(turn["q"], limit)
    for source in sources:
        source["note"] = f"{source['note']} Replies are cut after {limit:,} characters.".lstrip()


def _shortened(reply: str, limit: int | None) -> str:
    return reply if limit is None or len(reply) <= limit else reply[:limit] + "…"


def _size(turns: list[Json], limit: int | None = None) -> int:
    return sum(len(json_for_script(_shortened(turn["q"], limit)).encode()) for turn in turns)


def _sampled(name: str, rows: list[Json], split_of: Mapping[str, str]) -> Json:
    newest = rows[::-1][:MAX_SAMPLE_GAMES]
    note = "Newest first."
    if len(newest) < len(rows):
        note += f" The latest {len(newest)} of {len(rows)} recorded games."
    games = [_training_game(row, split_of) for row in newest]
    return {"id": name, "label": f"{name} samples", "note": note, "games": games}


def _evaluated(name: str, evaluation: Evaluation, split_of: Mapping[str, str]) -> Json:
    games = [{"i": number, **_evaluated_game(record, split_of)} for number, record in enumerate(evaluation.records)]
    note = evaluation.player and f"Played by {evaluation.player}."
    return {"id": name, "label": f"{name} evaluation", "note": note, "games": games}


def _evaluated_game(record: GameRecord, split_of: Mapping[str, str]) -> Json:
    game: Json = {"s": record.secret, "n": record.turns_used, "t": [_evaluated_turn(turn) for turn in record.turns]}
    game["w"] = -1 if record.failed else int(record.won)
    if record.secret in split_of:
        game["p"] = split_of[record.secret]
    if record.failed:
        game["e"] = record.error or str(record.stop_reason)
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
    if guess is None or reply not in (f"<guess>{guess}</guess>", " ".join(guess)):
        packed["q"] = reply
    return packed


def _training_game(row: Json, split_of: Mapping[str, str]) -> Json:
    turns = [_training_turn(turn) for turn in row["turns"]]
    won = int(bool(row.get("won")))
    game: Json = {"i": row["id"], "s": row["secret"], "n": row["turns_used"], "t": turns, "w": won}
    if row.get("stop_reason") == "request_failed":
        game |= {"w": -1, "e": "request_failed"}
    if row["secret"] in split_of:
        game["p"] = split_of[row["secret"]]
    for key, field in (("k", "step"), ("x", "reward")):
        if is_number(row.get(field)):
            game[key] = round(row[field], 4)
    if is_number(row.get("alpha")) and row["alpha"] < 1:
        game["b"] = round(100 * row["alpha"], 4)  # percent of the way from the start to the step's weights
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
    for key, field in (("x", "reward"), ("a", "advantage")):
        if is_number(turn.get(field)):
            packed[key] = round(turn[field], 4)
    components = turn.get("components")
    if isinstance(components, dict):
        shares = {str(name): round(share, 4) for name, share in components.items() if is_number(share) and share}
        if shares:
            packed["c"] = shares
    return packed
