"""Put a run's report into one HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib.resources import files
from pathlib import Path

from wordle_rl.report.html.games import games_payload, json_for_script
from wordle_rl.report.html.reward_weights import weights_section
from wordle_rl.report.html.sections import (
    comparison_section,
    controls_section,
    frequent_section,
    guesses_section,
    headline,
    results_section,
    run_section,
)
from wordle_rl.report.html.stage_curves import curves_of
from wordle_rl.report.read import RunRecord, in_order, kept_weights, read_run
from wordle_rl.runs import write_text_atomically

WATCH_PAGE = "watch.html"
"""The page that `wordle-rl watch RUN --export RUN/watch.html` writes; a report beside it links to its games."""
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


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
    """The page as text.

    Args:
        run: The run.
        watch_page: Beginning of addresses that replay a game, up to and with the `#` or `&`; empty: there are none.
    """
    script = _asset("page.js")
    stages = in_order(run.metrics)[::-1]  # the last stage is what readers look for first
    return fill(
        _asset("page.html"),
        {
            "script": script,
            # Only this script may run, whatever gets into the page.
            "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            "style": _asset("page.css"),
            "title": escape(run.name),
            "subtitle": _subtitle(run),
            "missing": _missing(run),
            "headline": headline(run.results),
            "results": results_section(run.results, kept_weights(run)),
            "comparison": comparison_section(run),
            "controls": controls_section(run),
            "guesses": guesses_section(run.results),
            "frequent": frequent_section(run.evaluations),
            "curves": "".join(curves_of(run.metrics, stage) for stage in stages),
            "weights": weights_section(run.config),
            "how": run_section(run),
            "watch": escape(watch_page),
            "replay": _replay_hint(run, watch_page),
            "games": json_for_script(games_payload(run)),
        },
    )


def fill(template: str, values: dict[str, str]) -> str:
    """Put values into a template's `{{name}}` places in one pass, so that values are never read as templates."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _asset(name: str) -> str:
    return (files("wordle_rl.report.html") / name).read_text(encoding="utf-8")


def _subtitle(run: RunRecord) -> str:
    """Summary of the run, in a line or two."""
    facts = []
    model = run.config.get("model")
    if isinstance(model, dict) and "path" in model:
        facts.append(f"model {model['path']}")
    if "words" in run.manifest:
        facts.append(f"word list {run.manifest['words']}")
    hardware = run.manifest.get("hardware")
    if isinstance(hardware, dict):
        facts += [str(hardware[key]) for key in ("accelerator", "processor") if hardware.get(key)][:1]
    for key, label in (("seed", "seed"), ("wordle_rl", "wordle-rl"), ("git_commit", "commit")):
        if run.manifest.get(key) is not None:
            facts.append(f"{label} {run.manifest[key]}")
    line = " · ".join(escape(fact) for fact in facts)
    command = run.manifest.get("command")
    return f"<p>{line}</p>" + (f"<p><code>{escape(str(command))}</code></p>" if command else "")


def _replay_hint(run: RunRecord, watch_page: str) -> str:
    if watch_page:
        return f'<a href="{escape(watch_page)}view=replay">Replay games turn by turn</a>.'
    return f"<code>wordle-rl watch {escape(run.name)}</code> replays them turn by turn."


def _missing(run: RunRecord) -> str:
    if not run.missing:
        return ""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in run.missing)
    return f'<p class="missing" role="note">Not in this run, so not on this page: {names}.</p>'
