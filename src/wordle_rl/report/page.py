"""The report of a run: one HTML file that loads nothing from elsewhere.

It shows how the model plays now, wins over training and the table of results; the rest is folded. This file collects
the figures and packs the games, `static/page.html` lays them out, `curves.py` and `svg.py` draw. Text from a model is
escaped by the template, or sent to the browser as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from wordle_rl.config.stages import kind_of, stage_title
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.compare import compare
from wordle_rl.evaluate.figures import PART_NAMES, Figures, sampled_part
from wordle_rl.evaluate.records import EvaluationError
from wordle_rl.evaluate.results_table import (
    MISSING,
    PART_TITLES,
    WINS,
    Table,
    interval_text,
    number_text,
    percent_text,
    results_table,
)
from wordle_rl.evaluate.stats import p_text
from wordle_rl.report.controls import control_table
from wordle_rl.report.curves import Chart, Drawn, curves_of_play, draw, stage_curves, title_of
from wordle_rl.report.findings import findings_of, told_in_lines
from wordle_rl.report.run_record import RunRecord, in_order, kept_weights, read_run
from wordle_rl.report.svg import Series, bar_chart, series_of
from wordle_rl.runs import is_number, without_lone_surrogates, write_text_atomically
from wordle_rl.runs.progress import elapsed

MAX_SAMPLE_GAMES = 2000
"""Most sample games of training on the page, the newest, and as many of validation."""
MAX_REPLY_CHARACTERS = 2_000_000
"""Most characters of replies on the page."""
_GAME_FIELDS = ("id", "secret", "turns_used", "error", "step", "reward")
_TURN_FIELDS = ("guess", "marks", "outcome", "given", "regret", "repeated", "violates_clues", "reward", "advantage")

WATCH_PAGE = "watch.html"
"""The page of `wordle-rl watch RUN --export RUN/watch.html`; a report beside it links to its games."""

_STORIES = {
    "sft": "Imitates the teacher's games: every token that the teacher wrote becomes likelier (cross-entropy).",
    "grpo": "Plays each secret several times and compares the games of that group: tokens of games that earned more "
    "than the group's mean become likelier, those of games that earned less become less likely.",
    "expert_iteration": "Plays, keeps its own best won games and imitates them, as in supervised fine-tuning.",
    "secret": "Plays, and once the secret is known learns it as the guess that would have won on each board of the "
    "game (hindsight labels, cross-entropy). No reward is used.",
    "mistakes": "Plays, keeps each guess that no mark rules out, and once the secret is known learns it where a guess "
    "was wrong (hindsight labels, cross-entropy). No reward is used.",
    "refused": "Plays, keeps each guess that got marks, and once the secret is known learns it where a guess was no "
    "word or had been named before (hindsight labels, cross-entropy). No reward is used.",
    "dpo": "Samples several guesses on one board and makes the better of a pair likelier relative to the worse.",
    "distill": "Plays, asks the solver about every board reached, and learns its answer (cross-entropy).",
}


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into a run directory. Parts of a run that are missing are named on the page."""
    path = run_dir / "report.html"
    watch_page = f"{WATCH_PAGE}#" if (run_dir / WATCH_PAGE).is_file() else ""
    write_text_atomically(path, render(read_run(run_dir), watch_page))
    return path


def render(run: RunRecord, watch_page: str = "") -> str:
    """Return the page as text.

    `watch_page` is the beginning of addresses that replay a game, up to and with the `#` or `&`; empty: there are none.
    """
    script = _asset("page.js")
    last = run.last or next(iter(run.results), None)
    start = run.before(last) if last is not None else None
    players = [name for name in (start, last) if name is not None]
    played = [name for name in players if name in run.evaluations]
    ends = [name for name in dict.fromkeys((run.first, last)) if name is not None and name in run.evaluations]
    results, notes = _results(run, played)
    return from_template(
        _asset("page.html"),
        run=run,
        style=_asset("page.css"),
        script=script,
        # Only this script can run, whatever gets into the page.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        facts=_facts(run),
        before=_title(start) if start is not None else "",
        tiles=_tiles(run, last, start),
        boards=_boards(run, ends),
        wins=_wins_chart(run),
        stories=_stories(run),
        curves_say=list(told_in_lines(run, findings_of(run))),
        results=results if run.results else None,
        notes=notes,
        everything=results_table(run.results, parts=run.shown_parts),
        controls=control_table(run),
        guesses=_guesses(run),
        stages=[stage_curves(run.metrics, stage) for stage in in_order(run.metrics, run.stages)[::-1]],
        records={"Other results": run.facts, "Manifest": _short(run.manifest), "Settings": run.config},
        games=json_for_script(games_payload(run)),
        watch=watch_page,
    )


def from_template(text: str, **values: Any) -> str:
    """Render an HTML template; values are escaped unless it marks them as safe."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    charts = count(1)
    filters: dict[str, Callable[[Any], Any]] = {
        "number": lambda value: number_text(value) if is_number(value) else MISSING,
        "part": lambda part: PART_NAMES.get(part, part),
        # matplotlib gives every figure the same ids, and a page has many figures.
        "own_ids": lambda svg: re.sub(r'( id="|href="#|url\(#)', rf"\g<1>chart{next(charts)}-", svg),
        "json": lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
    }
    environment.filters.update(filters)
    return environment.from_string(text).render(**values)


def _asset(name: str) -> str:
    return (files("wordle_rl.report") / "static" / name).read_text(encoding="utf-8")


def _facts(run: RunRecord) -> list[str]:
    hardware = run.manifest.get("hardware") or {}
    named = {
        "model": run.config.get("model", {}).get("path"),
        "word list": run.manifest.get("words"),
        "on": hardware.get("accelerator") or hardware.get("processor"),
        "seed": run.manifest.get("seed"),
        "wordle-rl": run.manifest.get("wordle_rl"),
        "commit": run.manifest.get("git_commit"),
    }
    return [f"{name} {value}" for name, value in named.items() if value is not None]


def _title(player: str) -> str:
    return "the base model" if player == "base" else stage_title(player)


def _tiles(run: RunRecord, last: str | None, start: str | None) -> list[dict[str, Any]]:
    labels = {
        "all": ("of all secrets found", ""),
        "held_out": ("of held-out secrets found", "never a secret in training; often shown as a guess"),
        "strict": ("of strict secrets found", "named nowhere in training"),
    }
    found, before = run.results.get(last or "", {}), run.results.get(start or "", {})
    shown = [part for part in labels if part in found and found[part].num_games]
    tiles = [
        {
            "label": labels[part][0],
            "note": labels[part][1],
            "value": _rate(found[part]),
            "interval": f"{interval_text(found[part].win_rate_low, found[part].win_rate_high)} %",
            "before": _rate(before.get(part)),
            "sampled": _rate(found.get(sampled_part(part))),
        }
        for part in shown
    ]
    for part in shown[:1]:
        earlier = number_text(before[part].mean_guesses_with_losses) if part in before else ""
        tile = {"label": "guesses a game", "note": "a loss counted as one more than the last turn", "interval": ""}
        value = number_text(found[part].mean_guesses_with_losses)
        tiles.append(tile | {"value": value, "before": earlier, "sampled": ""})
    return tiles


def _rate(figures: Figures | None) -> str:
    return f"{percent_text(figures.win_rate)} %" if figures is not None and figures.win_rate is not None else ""


def _boards(run: RunRecord, players: Sequence[str]) -> dict[str, Any] | None:
    # Show games of four secrets before and after training, by a rule that favours neither: of all secrets that both
    # played, sorted by who won them, evenly spaced ones. So they are won and lost in the ratio of the results.
    if not players:
        return None
    games: dict[str, dict[str, GameRecord]] = {
        name: {record.secret: record for record in reversed(run.evaluations[name].records) if not record.failed}
        for name in players
    }
    shared = set.intersection(*map(set, games.values()))
    who_won = {
        secret: " and ".join(_title(name) for name in players if games[name][secret].won) or "nobody"
        for secret in sorted(shared)
    }
    ranked = sorted(who_won, key=lambda secret: who_won[secret])
    if not ranked:
        return None
    # The middle of each quarter, so that a few at the ends of the order do not count for more than they are.
    middles = sorted({len(ranked) * (2 * quarter + 1) // 8 for quarter in range(4)})
    boards = [(ranked[at], [_board(name, games[name][ranked[at]]) for name in players]) for at in middles]
    return {"secrets": boards, "counts": Counter(who_won.values()).most_common()}


def _board(player: str, game: GameRecord) -> dict[str, Any]:
    # A row of (letter, mark) pairs per turn, marks blank if it was not scored.
    said = [(turn.guess or "", turn.marks) for turn in game.turns]
    rows = [list(zip(guess.upper(), (marks or " " * len(guess)).lower(), strict=False)) for guess, marks in said]
    return {"player": _title(player), "won": game.won, "turns_used": game.turns_used, "rows": rows}


def _wins_chart(run: RunRecord) -> Drawn | None:
    # Wins of all stages that play over the games that they played; without one, the loss of SFT.
    curves = curves_of_play(run)
    if curves:
        caption = (
            "Share of games won, over the games played by all stages. T: temperature at which they are drawn; greedy "
            "games take the likeliest token. Faint: every step or round; bold: running mean."
        )
        return draw(Chart("Wins over training", caption, {}, percent=True), curves, axis="games", size=(440, 250))
    taught = [stage for stage in run.stages if kind_of(stage) == "sft" and stage in run.metrics]
    losses = series_of(run.metrics[taught[-1]] if taught else ())
    if "loss" not in losses or losses["loss"].is_flat:
        return None
    named = {"loss": "training", "validation_loss": "validation"}
    curves = [Series(said, losses[name].steps, losses[name].values) for name, said in named.items() if name in losses]
    caption = "Cross-entropy of the teacher's tokens, by step: lower means that its games are better known."
    return draw(Chart("Loss over training", caption, named), curves, size=(440, 250))


def _stories(run: RunRecord) -> list[dict[str, str]]:
    stories = []
    for stage in [name for name in run.stages if name in run.metrics]:
        kind = kind_of(stage)
        steps = int(max(row["step"] for row in run.metrics[stage]))
        spent = run.facts.get("seconds", {}).get(stage)
        labelled = run.config.get(stage, {}).get("labels") if kind == "expert_iteration" else None
        stories.append(
            {
                "title": title_of(stage),
                "text": _STORIES.get(str(labelled), _STORIES[kind]),
                "extent": f"{steps:,} {'steps' if kind in ('sft', 'grpo') else 'rounds'}",
                "time": elapsed(spent) if is_number(spent) else "",
                "kept": kept_weights(run, stage),
            }
        )
    return stories


def _results(run: RunRecord, players: Sequence[str]) -> tuple[Table, list[tuple[str, str]]]:
    # Wins of all players, and below them what the trained model gained on its start; notes, and what they hold for.
    table = results_table(run.results, WINS, run.shown_parts)
    if len(players) < 2:
        return table, []
    start, last = players
    before, after = run.evaluations[start], run.evaluations[last]
    # By title of the column, since the table knows no other name of a part.
    gains: dict[str, tuple[str, str, str]] = {}
    notes: dict[str, list[str]] = {}
    for part, wanted in run.quoted(before.secrets & after.secrets).items():
        with suppress(EvaluationError):  # no secret that both finished
            found = compare(before.only(wanted), after.only(wanted))
            points, low, high = (f"{100 * value:+.1f}" for value in found.win_rate_difference)
            interval = f"{low} to {high}" if found.win_rate_difference.has_width else MISSING
            gains[PART_TITLES.get(part, part)] = (points, interval, p_text(found.p_value))
            for note in found.notes:
                notes.setdefault(note, []).append(PART_NAMES[part])
    if gains:
        labels = (f"{_title(last)} minus {_title(start)}, points", "  95 %", "  p")
        rows = [
            (label, *(gains[column][place] if column in gains else MISSING for column in table.columns))
            for place, label in enumerate(labels)
        ]
        table = Table(table.columns, (*table.rows, *rows))
    return table, [(", ".join(parts), note) for note, parts in notes.items()]


def _guesses(run: RunRecord) -> list[tuple[str, str]]:
    charts = []
    for part in ("held_out", "train"):
        counts = {name: parts[part].guess_distribution for name, parts in run.results.items() if part in parts}
        shown = {name: found for name, found in counts.items() if sum(found.values())}
        if shown:
            groups = list(next(iter(shown.values())))
            shares = {n: [c.get(key, 0) / sum(c.values()) for key in groups] for n, c in shown.items()}
            charts.append((part, bar_chart(f"Guesses needed, {PART_NAMES[part]}", groups, shares)))
    return charts


def _short(manifest: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(manifest)
    if isinstance(split := shown.get("split"), dict):
        shown["split"] = {k: f"{len(v)} secrets" if isinstance(v, list) else v for k, v in split.items()}
    return shown


# --- games for the browser --------------------------------------------------------------------------------------------


def games_payload(run: RunRecord) -> dict[str, Any]:
    """Pack all games of a run for the browser: `{"sources": [{"id", "label", "note", "games"}, …]}`.

    The source to show first, the model trained last, has `"first": true`. The `id` of a game is the number of an
    evaluated one, or the byte at which the row of a sampled one begins. Fields that say nothing are left out, and long
    replies are cut, so that the page opens anywhere.
    """
    played = [name for name in ("base", *run.stages) if name in run.evaluations]
    sources: list[dict[str, Any]] = []
    for name, evaluation in run.evaluations.items():
        numbered = ({"id": number, **record.to_row()} for number, record in enumerate(evaluation.records))
        source = {"id": name, "label": f"{name} evaluation", "games": _games(numbered, run.split_of)}
        note = evaluation.player and f"Played by {evaluation.player}."
        sources.append(source | {"note": note, "first": played[-1:] == [name]})
    for name, is_validation in (("training", False), ("validation", True)):
        rows = [row for row in run.games if str(row.get("stage")).endswith("/validation") is is_validation]
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


def _games(rows: Iterable[Mapping[str, Any]], split_of: Mapping[str, str]) -> list[dict[str, Any]]:
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


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    packed = {name: value for name, value in _chosen(turn, _TURN_FIELDS).items() if value is not False}
    components = turn.get("components")
    if isinstance(components, dict):
        packed["components"] = {name: value for name, value in components.items() if value}
    guess, reply = turn.get("guess"), str(turn.get("reply") or "")
    if not isinstance(guess, str) or reply not in (f"<guess>{guess}</guess>", " ".join(guess)):
        packed["reply"] = reply
    return packed


def _chosen(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        value = row.get(name)
        if isinstance(value, float):
            value = round(value, 4) if is_number(value) else None
        if value is not None:
            found[name] = value
    return found
