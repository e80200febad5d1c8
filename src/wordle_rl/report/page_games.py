"""The games of a run as one JSON value for the page's browser.

A game has the fields of `GameRecord`, and its `id`: the number of an evaluated game, or the byte at which the row of a
sampled one begins. Fields that say nothing are left out, and long replies are cut, so that the page opens anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from wordle_rl.config import MODEL_NAMES
from wordle_rl.report.run_record import RunRecord
from wordle_rl.runs import is_number, without_lone_surrogates

MAX_SAMPLE_GAMES = 2000
"""Most sample games of training on the page, the newest, and as many of validation."""
MAX_REPLY_CHARACTERS = 2_000_000
"""Most characters of replies on the page."""
_GAME_FIELDS = ("id", "secret", "turns_used", "error", "step", "reward")
_TURN_FIELDS = ("guess", "marks", "outcome", "given", "regret", "repeated", "violates_clues", "reward", "advantage")

Json = dict[str, Any]


def games_payload(run: RunRecord) -> Json:
    """All browsable games of a run: `{"sources": [{"id", "label", "note", "games"}, …]}`.

    The source to show first, the model trained last, has `"first": true`.
    """
    played = [name for name in MODEL_NAMES if name in run.evaluations]
    sources: list[Json] = []
    for name, evaluation in run.evaluations.items():
        numbered = ({"id": number, **record.to_row()} for number, record in enumerate(evaluation.records))
        source = {"id": name, "label": f"{name} evaluation", "games": _games(numbered, run.split_of)}
        note = evaluation.player and f"Played by {evaluation.player}."
        sources.append(source | {"note": note, "first": played[-1:] == [name]})
    for name, is_validation in (("training", False), ("validation", True)):
        rows = [row for row in run.games if (row.get("stage") == "validation") is is_validation]
        games = _games(rows[: -MAX_SAMPLE_GAMES - 1 : -1], run.split_of)
        note = "Newest first."
        if len(games) < len(rows):
            note += f" The latest {len(games)} of {len(rows)} recorded games."
        if rows:
            sources.append({"id": name, "label": f"{name} samples", "games": games, "note": note, "first": False})
    replies = [turn for source in sources for game in source["games"] for turn in game["turns"] if "reply" in turn]
    limit = MAX_REPLY_CHARACTERS // max(1, len(replies))
    for turn in replies:
        if len(turn["reply"]) > limit:
            turn["reply"] = turn["reply"][:limit] + "…"
    return {"sources": sources}


def json_for_script(value: Any) -> str:
    """Encode JSON for a script element, so that nothing in it can end the element or start a comment.

    Examples:
        >>> json_for_script("</script>")
        '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return without_lone_surrogates(text.replace("<", "\\u003c"))


def _games(rows: Iterable[Mapping[str, Any]], split_of: Mapping[str, str]) -> list[Json]:
    games = []
    for row in rows:
        failed = bool(row.get("error")) or row.get("stop_reason") == "request_failed"
        game = _chosen(row, _GAME_FIELDS) | {"result": "error" if failed else "won" if row.get("won") else "lost"}
        if row["secret"] in split_of:
            game["part"] = split_of[row["secret"]]
        if is_number(row.get("alpha")) and row["alpha"] < 1:
            game["percent_of_way"] = round(100 * row["alpha"], 4)  # from the start to the step's weights
        games.append(game | {"turns": [_turn(turn) for turn in row["turns"]]})
    return games


def _turn(turn: Mapping[str, Any]) -> Json:
    packed = {name: value for name, value in _chosen(turn, _TURN_FIELDS).items() if value is not False}
    components = turn.get("components")
    if isinstance(components, dict):
        packed["components"] = {name: value for name, value in components.items() if value}
    guess, reply = turn.get("guess"), str(turn.get("reply") or "")
    if not isinstance(guess, str) or reply not in (f"<guess>{guess}</guess>", " ".join(guess)):
        packed["reply"] = reply
    return packed


def _chosen(row: Mapping[str, Any], names: Iterable[str]) -> Json:
    found = {}
    for name in names:
        value = row.get(name)
        if isinstance(value, float):
            value = round(value, 4) if is_number(value) else None
        if value is not None:
            found[name] = value
    return found
