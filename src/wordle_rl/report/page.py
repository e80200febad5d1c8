"""The report of a run: one HTML file that loads nothing from elsewhere.

It shows how the model plays now, wins over training and the table of results; the rest is folded. This file collects
the figures, `static/page.html` lays them out, `curves.py` and `plots.py` draw, and `page_games.py` packs the games.
Text from a model is escaped by the template, or sent to the browser as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from wordle_rl.config import ALGORITHM_NAMES, RewardSettings, fields_only
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.compare import Comparison, compare
from wordle_rl.evaluate.records import (
    CONSTRAINED_PART,
    PART_NAMES,
    STRATA,
    STRICT_CONSTRAINED_PART,
    Evaluation,
    EvaluationError,
    is_sampled_part,
    quoted_parts,
    sampled_part,
)
from wordle_rl.evaluate.stats import Estimate, p_text
from wordle_rl.import_paths import is_import_path
from wordle_rl.report.claims import control_table
from wordle_rl.report.curves import STAGE_NAMES, Chart, Drawn, draw, ends_text, stage_curves
from wordle_rl.report.page_games import games_payload, json_for_script
from wordle_rl.report.plots import Series, bar_chart, format_value, series_of
from wordle_rl.report.run_record import RunRecord, in_order, kept_weights, read_run
from wordle_rl.reward import Rubric
from wordle_rl.runs import is_number, write_text_atomically
from wordle_rl.runs.progress import elapsed, in_percent

WATCH_PAGE = "watch.html"
"""The page of `wordle-rl watch RUN --export RUN/watch.html`; a report beside it links to its games."""
_PARTS = ("all", "train", "held_out", *STRATA, "strict", CONSTRAINED_PART, STRICT_CONSTRAINED_PART)
_TITLES = {"base": "the base model", "sft": "SFT"} | {str(name): said for name, said in ALGORITHM_NAMES.items()}
_NUM_BOARDS = 4
_NUM_WORDS = 8
_MISSING = "–"

_STORIES = {
    "sft": "Imitates the teacher's games: every token that the teacher wrote becomes likelier (cross-entropy).",
    "grpo": "Plays each secret several times and compares the games of that group: tokens of games that earned more "
    "than the group's mean become likelier, those of games that earned less become less likely.",
    "expert_iteration": "Plays, keeps its own best won games and imitates them, as in supervised fine-tuning.",
    "secret": "Plays, and once the secret is known learns it as the guess that would have won on each board of the "
    "game (hindsight labels, cross-entropy). No reward is used.",
    "mistakes": "Plays, keeps each guess that no mark rules out, and once the secret is known learns it where a guess "
    "was wrong (hindsight labels, cross-entropy). No reward is used.",
    "dpo": "Samples several guesses on one board and makes the better of a pair likelier relative to the worse.",
    "distill": "Plays, asks the solver about every board reached, and learns its answer (cross-entropy).",
}
_WINS = {
    "win_rate": "training secrets, sampled",
    "sampled_win_rate": "validation secrets, sampled",
    "greedy_win_rate": "validation secrets, greedy",
    "train_win_rate": "training secrets, greedy",
}


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into a run directory.

    Parts of a run that are missing are named on the page.

    Returns:
        The path of the page.

    Raises:
        ReportError: If the directory holds no run, or a part of it is damaged; also RunError and EvaluationError, see
            `read_run`.
    """
    path = run_dir / "report.html"
    watch_page = f"{WATCH_PAGE}#" if (run_dir / WATCH_PAGE).is_file() else ""
    write_text_atomically(path, render(read_run(run_dir), watch_page))
    return path


def render(run: RunRecord, watch_page: str = "") -> str:
    """Return the page as text.

    Args:
        run: The run.
        watch_page: Beginning of addresses that replay a game, up to and with the `#` or `&`; empty: there are none.
    """
    script = _asset("page.js")
    last = next((name for name in (*reversed(ALGORITHM_NAMES), "sft", *run.results) if name in run.results), None)
    start = _stage_before(last, run)
    players = [name for name in (start, last) if name is not None]
    played = [name for name in players if name in run.evaluations]
    return from_template(
        _asset("page.html"),
        run=run,
        style=_asset("page.css"),
        script=script,
        # Only this script can run, whatever gets into the page.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        facts=_facts(run),
        players=players,
        tiles=_tiles(run, last, start),
        boards=_boards(run, played),
        wins=_wins_chart(run),
        stories=_stories(run),
        results=_results(run),
        has_sampled=any(map(is_sampled_part, chain.from_iterable(run.results.values()))),
        comparison=_comparison(run, *played) if len(played) == 2 else None,
        controls=control_table(run),
        has_controls=bool(run.controls),
        kept=kept_weights(run),
        guesses=_guesses(run),
        frequent=_frequent(run),
        stages=[stage_curves(run.metrics, stage) for stage in in_order(run.metrics)[::-1]],
        weights=_weights(run.config),
        seconds=_shares([(k, v) for k, v in run.facts.get("seconds", {}).items() if k != "total" and is_number(v)]),
        records={
            "Other results": {name: value for name, value in run.facts.items() if name != "seconds"},
            "Manifest": _short(run.manifest),
            "Settings": run.config,
        },
        games=json_for_script(games_payload(run)),
        watch=watch_page,
    )


def from_template(text: str, **values: Any) -> str:
    """Render an HTML template; values are escaped unless it marks them as safe."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Callable[[Any], Any]] = {
        "p_text": p_text,
        "percent": lambda rate: f"{in_percent(rate)} %" if is_number(rate) else _MISSING,
        "number": _number,
        "part": lambda part: PART_NAMES.get(part, part),
        "shares": _shares,
        "json": lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
    }
    environment.filters.update(filters)
    return environment.from_string(text).render(**values)


def _asset(name: str) -> str:
    return (files("wordle_rl.report") / "static" / name).read_text(encoding="utf-8")


def _facts(run: RunRecord) -> list[str]:
    model, hardware = run.config.get("model"), run.manifest.get("hardware")
    facts = []
    if isinstance(model, dict) and "path" in model:
        facts.append(f"model {model['path']}")
    if "words" in run.manifest:
        facts.append(f"word list {run.manifest['words']}")
    if isinstance(hardware, dict):
        facts += [str(hardware[key]) for key in ("accelerator", "processor") if hardware.get(key)][:1]
    for key, label in (("seed", "seed"), ("wordle_rl", "wordle-rl"), ("git_commit", "commit")):
        if run.manifest.get(key) is not None:
            facts.append(f"{label} {run.manifest[key]}")
    return facts


def _stage_before(player: str | None, run: RunRecord) -> str | None:
    if player not in ("sft", *ALGORITHM_NAMES):
        return None
    starts = ("base",) if player == "sft" else ("sft", "base")
    return next((name for name in starts if name in run.results), None)


def _tiles(run: RunRecord, last: str | None, start: str | None) -> list[dict[str, Any]]:
    labels = {
        "all": ("of all secrets found", ""),
        "held_out": ("of held-out secrets found", "never a secret in training; often shown as a guess"),
        "strict": ("of strict secrets found", "named nowhere in training"),
    }
    found = run.results.get(last or "", {})
    shown = [part for part in labels if found.get(part, {}).get("num_games")]
    before = run.results.get(start or "", {})
    tiles: list[dict[str, Any]] = [
        {
            "label": labels[part][0],
            "note": labels[part][1],
            "value": f"{in_percent(found[part]['win_rate'])} %",
            "interval": _interval(found[part]),
            "before": _rate(before.get(part)),
            "sampled": _rate(found.get(sampled_part(part))),
        }
        for part in shown
    ]
    for part in shown[:1]:
        value = found[part].get("mean_guesses_with_losses")
        earlier = before.get(part, {}).get("mean_guesses_with_losses")
        tile = {"label": "guesses a game", "note": "a loss counted as one more than the last turn", "interval": ""}
        tiles.append(tile | {"value": _number(value), "before": earlier and _number(earlier), "sampled": ""})
    return tiles


def _boards(run: RunRecord, players: Sequence[str]) -> dict[str, Any] | None:
    # Show games of a few secrets before and after training, chosen by a rule that favours neither: of the secrets that
    # both played (held-out ones if there are any), the first of each outcome (only the trained model won, only its
    # start, both, neither), then more of the most frequent outcome. Without evaluations, show the newest games.
    if not players:
        newest = [row for row in run.games if row.get("stage") != "validation" and row["turns"]][-_NUM_BOARDS:]
        boards = [(str(row["secret"]), [_board("", bool(row.get("won")), row["turns"])]) for row in newest]
        return {"secrets": boards, "counts": [], "newest": True, "held_out": False} if boards else None
    games = {name: _first_games(run.evaluations[name]) for name in players}
    shared = set.intersection(*map(set, games.values()))
    held_out = shared & run.secrets_of("held_out")
    outcomes: dict[tuple[bool, ...], list[str]] = {}
    for secret in sorted(held_out or shared):
        outcomes.setdefault(tuple(games[name][secret].won for name in players), []).append(secret)
    names = {
        (False, True): f"only {players[-1]} found",
        (True, False): f"only {players[0]} found",
        (True, True): "both found",
        (False, False): "neither found",
        (True,): "found",
        (False,): "not found",
    }
    if not outcomes:
        return None
    ordered = [outcome for outcome in names if outcome in outcomes]
    chosen = [outcomes[outcome][0] for outcome in ordered]
    most = max(outcomes.values(), key=len)
    chosen += [secret for secret in most if secret not in chosen][: _NUM_BOARDS - len(chosen)]
    boards = [
        (secret, [_board(name, games[name][secret].won, games[name][secret].turns) for name in players])
        for secret in chosen
    ]
    counts = [(names[outcome], len(outcomes[outcome])) for outcome in ordered]
    return {"secrets": boards, "counts": counts, "newest": False, "held_out": bool(held_out)}


def _first_games(evaluation: Evaluation) -> dict[str, GameRecord]:
    return {record.secret: record for record in reversed(evaluation.records) if not record.failed}


def _board(player: str, won: bool, turns: Sequence[Any]) -> dict[str, Any]:
    # A row of (letter, mark) pairs per turn, both empty if it was not scored.
    rows = []
    for turn in turns:
        guess, marks = (turn.get(key) if isinstance(turn, dict) else getattr(turn, key) for key in ("guess", "marks"))
        letters = str(guess or "")
        rows.append(list(zip(letters.upper(), str(marks or " " * len(letters)).lower(), strict=False)))
    return {"player": player, "won": won, "rows": rows}


def _wins_chart(run: RunRecord) -> Drawn | None:
    # Wins over the steps of the RL stage, with those of its validations; without RL, the loss of SFT.
    stage = next((name for name in reversed(list(run.metrics)) if name in ALGORITHM_NAMES), None)
    found = series_of(run.metrics[stage]) if stage else {}
    validated = series_of(run.metrics.get("validation", ()))
    curves = [
        Series(label, (found | validated)[name].steps, (found | validated)[name].values)
        for name, label in _WINS.items()
        if name in found or name in validated
    ]
    if stage and curves:
        caption = (
            f"{ALGORITHM_NAMES[stage]}: share of games won, by step. Sampled games are drawn at the temperature of "
            "training, greedy ones take the likeliest token. Faint: every step; bold: running mean."
        )
        return draw(Chart("Wins over training", caption, _WINS, percent=True), curves, size=(440, 250))
    losses = series_of(run.metrics.get("sft", ()))
    if "loss" not in losses or losses["loss"].is_flat:
        return None
    curves = [Series("training", losses["loss"].steps, losses["loss"].values)]
    if "validation_loss" in losses:
        curves.append(Series("validation", losses["validation_loss"].steps, losses["validation_loss"].values))
    caption = "Cross-entropy of the teacher's tokens, by step: lower means that its games are better known."
    return draw(Chart("Loss over training", caption, {"loss": "training"}), curves, size=(440, 250))


def _stories(run: RunRecord) -> list[dict[str, Any]]:
    validated = series_of(run.metrics.get("validation", ()))
    measured = {"loss": "loss", "validation_loss": "validation loss", "win_rate": f"wins, {_WINS['win_rate']}"}
    stories = []
    for stage in [name for name in ("sft", *ALGORITHM_NAMES) if name in run.metrics]:
        found = {name: curve for name, curve in series_of(run.metrics[stage]).items() if name in measured}
        labels = dict(measured)
        if stage == "grpo":  # its loss is no measure of anything
            found = {name: curve for name, curve in found.items() if name == "win_rate"}
            found |= {name: curve for name, curve in validated.items() if name in _WINS}
            labels |= {name: f"wins, {label}" for name, label in _WINS.items()}
        ends = []
        for name, curve in found.items():
            ends.append((labels[name], ends_text(curve, name in _WINS)))
        steps = int(max(row["step"] for row in run.metrics[stage]))
        spent = run.facts.get("seconds", {}).get(stage)
        settings = run.config.get(stage, {})
        labelled = settings.get("labels") if stage == "expert_iteration" else None
        stories.append(
            {
                "title": STAGE_NAMES[stage].removesuffix(", by round"),
                "text": _STORIES.get(str(labelled), _STORIES[stage]),
                "extent": f"{steps:,} {'steps' if stage in ('sft', 'grpo') else 'rounds'}",
                "time": elapsed(spent) if is_number(spent) else "",
                "ends": ends,
                "kept": kept_weights(run) if stage == "grpo" else "",
            }
        )
    return stories


def _results(run: RunRecord) -> list[dict[str, Any]]:
    """The figures of every part of the secrets that was played, with those of each player, greedy and sampled."""

    def played(figures: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return {**figures, "interval": _interval(figures)} if figures and is_number(figures.get("win_rate")) else None

    parts = []
    for part in _parts(run):
        players: list[dict[str, Any]] = [
            {"name": name, "greedy": played(found.get(part)), "sampled": played(found.get(sampled_part(part)))}
            for name, found in run.results.items()
        ]
        games = [player["greedy"].get("num_games", 0) for player in players if player["greedy"]]
        if games:
            parts.append({"part": part, "num_games": max(games), "players": players})
    return parts


def _parts(run: RunRecord) -> list[str]:
    # If the stratum `never_said` equals the strict secrets, show only one of them.
    is_twice = bool(run.strict) and run.secrets_of("never_said") == run.strict
    return [part for part in _PARTS if not (is_twice and part == "never_said")]


def _comparison(run: RunRecord, start: str, last: str) -> dict[str, Any] | None:
    before, after = run.evaluations[start], run.evaluations[last]
    title, start_title = _TITLES[last], _TITLES[start]
    quoted = [*quoted_parts(before.secrets & after.secrets, run.split_of, run.strict), *STRATA]
    rows: dict[str, dict[str, Any]] = {}
    notes: dict[str, list[str]] = {}  # and the parts they hold for
    for part in (part for part in _parts(run) if part in quoted):
        wanted = None if part == "all" else run.secrets_of(part)
        a, b = before.only(wanted), after.only(wanted)
        if not (a.records and b.records):
            continue
        try:
            found: Comparison = compare(a, b)
        except EvaluationError as error:
            return {"error": str(error), "rows": {}, "notes": []}
        for note in found.notes:
            notes.setdefault(note, []).append(PART_NAMES[part])
        wins, guesses = (
            _difference(found.win_rate_difference, 100, ".1f"),
            _difference(found.guesses_difference, 1, ".2f"),
        )
        rows[part] = {"found": found, "wins": wins, "guesses": guesses}
    if not rows:
        return None
    return {
        "error": "",
        "title": f"{title[0].upper()}{title[1:]} against {start_title}",
        "minus": f"{title} minus {start_title}",
        "rows": rows,
        "notes": [(", ".join(parts), note) for note, parts in notes.items()],
    }


def _guesses(run: RunRecord) -> list[tuple[str, str]]:
    charts = []
    for part in ("held_out", "train"):
        counts = {name: parts.get(part, {}).get("guess_distribution") for name, parts in run.results.items()}
        shown = {name: found for name, found in counts.items() if isinstance(found, dict) and sum(found.values())}
        if shown:
            groups = list(next(iter(shown.values())))
            shares = {n: [c.get(key, 0) / sum(c.values()) for key in groups] for n, c in shown.items()}
            charts.append((part, bar_chart(f"Guesses needed, {PART_NAMES[part]}", groups, shares)))
    return charts


def _frequent(run: RunRecord) -> list[tuple[str, list[tuple[str, float]], int]]:
    rows = []
    for player, evaluation in run.evaluations.items():
        games = [record for record in evaluation.records if record.turns]
        said = Counter(word for record in games for word in {turn.guess for turn in record.turns if turn.guess})
        most = sorted(said.items(), key=lambda item: (-item[1], item[0]))[:_NUM_WORDS]  # of equals by the alphabet
        if most:
            rows.append((player, [(word, count / len(games)) for word, count in most], len(said)))
    return rows


def _weights(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    # A table per set of weights. A share is |weight| over the sum of all. The weights used differ from those set if
    # `Rubric` had to keep order.
    shared = config.get("rl")
    algorithm = config.get("algorithm", "grpo")
    is_paid = algorithm == "grpo" or (algorithm == "dpo" and config.get("dpo", {}).get("judge") == "outcome")
    if not isinstance(shared, Mapping) or not isinstance(shared.get("reward"), Mapping) or not is_paid:
        return []
    if algorithm == "grpo" and not config.get("grpo", {}).get("steps", 1):
        return []
    with fields_only():
        settings = RewardSettings.model_validate(dict(shared["reward"]))
    if any(map(is_import_path, settings.weights)):
        # A page is also made of runs of other people, whose settings must not choose what is imported here.
        rows = [(name, format_value(weight), None, None) for name, weight in settings.weights.items()]
        return [{"title": "", "rows": rows}]
    schedule = settings.schedule()
    rubrics = {"" if schedule.end is None else "At first": schedule.rubric(None)}
    if schedule.end is not None:
        rubrics[f"From a format compliance of {in_percent(schedule.threshold, 0)} % on"] = schedule.rubric(1.0)
    return [{"title": title, "rows": _weight_rows(rubric)} for title, rubric in rubrics.items()]


def _weight_rows(rubric: Rubric) -> list[tuple[str, str, str | None, float | None]]:
    # Component, weight as set, weight used, share of all weights.
    total = sum(map(abs, rubric.effective_weights.values()))
    return [
        (
            name,
            format_value(rubric.weights[name]) if name in rubric.weights else _MISSING,
            format_value(weight),
            abs(weight) / total if total else 0.0,
        )
        for name, weight in rubric.effective_weights.items()
    ]


def _shares(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float, float]]:
    positive = sorted(((name, float(amount)) for name, amount in parts if amount > 0), key=lambda part: -part[1])
    total = sum(amount for _, amount in positive)
    return [(name, amount, amount / total) for name, amount in positive]


def _short(manifest: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(manifest)
    if isinstance(split := shown.get("split"), dict):
        shown["split"] = {k: f"{len(v)} secrets" if isinstance(v, list) else v for k, v in split.items()}
    return shown


def _difference(estimate: Estimate, scale: float, digits: str) -> tuple[str, str]:
    mean, low, high = (format(scale * value, f"+{digits}") for value in estimate)
    return mean, f"{low} to {high}" if estimate.has_width else ""


def _interval(figures: Mapping[str, Any]) -> str:
    low, high = figures.get("win_rate_low"), figures.get("win_rate_high")
    return f"{in_percent(low)}–{in_percent(high)} %" if is_number(low) and is_number(high) else ""


def _rate(figures: Mapping[str, Any] | None) -> str:
    rate = (figures or {}).get("win_rate")
    return f"{in_percent(rate)} %" if is_number(rate) else ""


def _number(value: Any) -> str:
    if not is_number(value):
        return _MISSING
    return f"{value:.3f}" if isinstance(value, float) else format_value(value)
