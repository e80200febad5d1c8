"""The parts of the page that are figures: headline, table, comparison, guesses, curves, time, and how it was made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from html import escape
from typing import Any

from wordle_rl.config import ALGORITHM_NAMES
from wordle_rl.evaluate import (
    CONSTRAINED_PART,
    PART_NAMES,
    STRATA,
    STRICT_CONSTRAINED_PART,
    Evaluation,
    EvaluationError,
    compare,
    is_sampled_part,
    quoted_parts,
    sampled_part,
)
from wordle_rl.evaluate.stats import Estimate
from wordle_rl.report.controls import control_table
from wordle_rl.report.html.charts import NUM_COLORS, format_value, time_bar
from wordle_rl.report.read import RunRecord
from wordle_rl.report.terminal import comparison_notes
from wordle_rl.runs import is_number
from wordle_rl.runs.progress import in_percent

_SHOWN_PARTS = ("strict", "held_out", *STRATA, "train", "all")
_TITLES = {"base": "the base model", "sft": "SFT"} | {str(name): said for name, said in ALGORITHM_NAMES.items()}
_MISSING = "–"
_MOST = 8
"""Words listed for each player."""

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]

_COLUMNS = (
    ("num_games", "games", False),
    ("mean_guesses_on_wins", "guesses on wins", False),
    ("mean_guesses_with_losses", "losses as one more", False),
    ("mean_regret", "regret per turn", False),
    ("invalid_rate", "invalid", True),
    ("malformed_rate", "malformed", True),
    ("repeated_rate", "repeated", True),
    ("clue_violating_rate", "against clues", True),
    ("num_errors", "errors", False),
)


def headline(results: Results) -> str:
    """The figures to look at first: the last stage on held-out secrets, beside the stage before it."""
    players = [name for name in results if "held_out" in results[name]]
    if not players:
        return ""
    last = next((name for name in (*ALGORITHM_NAMES, "sft") if name in players), players[-1])
    before = _stage_before(last, players)
    figures = results[last]["held_out"]
    at_1 = _at_temperature_1(results[last], "held_out")
    strict = results[last].get("strict", {}), results[last].get(STRICT_CONSTRAINED_PART, {})
    if any(found.get("num_games") for found in strict):
        return _strict_headline(results, last, before)
    cards = (
        ("held-out secrets found", "win_rate", True, f"95 %: {_interval(figures)}<br>{at_1}"),
        ("guesses per word, losses as one more", "mean_guesses_with_losses", False, ""),
        ("guesses given away per turn", "mean_regret", False, ""),
        ("turns that contradict earlier clues", "clue_violating_rate", True, ""),
    )
    tiles = "".join(
        f'<div class="card"><p class="label">{label}</p><p class="big">{_value(figures.get(key), percent)}</p>'
        f"<p class='muted'>{extra}{_beside(results, before, key, percent)}</p></div>"
        for label, key, percent, extra in cards
    )
    label = f"{escape(last)} on words that were never a secret in training"
    return f'<section><p class="label">{label}</p><div class="cards">{tiles}</div></section>'


def _strict_headline(results: Results, last: str, before: str | None) -> str:
    """Headline of a run with strict words: these, greedily and with limited guesses, then all held-out secrets."""
    shown = (
        ("strict secrets found", "strict", "win_rate"),
        ("the same, guesses limited to listed words", STRICT_CONSTRAINED_PART, "win_rate"),
        ("held-out secrets found, shown or not", "held_out", "win_rate"),
        ("guesses given away per turn, strict", "strict", "mean_regret"),
    )
    tiles = ""
    for label, part, key in shown:
        figures, percent = results[last].get(part, {}), key == "win_rate"
        extra = f"95 %: {_interval(figures)}<br>" if percent and _interval(figures) else ""
        extra += _at_temperature_1(results[last], part) if percent else ""
        beside = _beside(results, before, key, percent, part)
        tiles += (
            f'<div class="card"><p class="label">{label}</p><p class="big">{_value(figures.get(key), percent)}</p>'
            f"<p class='muted'>{extra}{beside}</p></div>"
        )
    label = f"{escape(last)} on words that training names nowhere, neither as secret nor as guess"
    return f'<section><p class="label">{label}</p><div class="cards">{tiles}</div></section>'


def _stage_before(player: str, players: Collection[str]) -> str | None:
    """The model that a stage started from, if it is among the players."""
    if player not in ("sft", *ALGORITHM_NAMES):
        return None
    starts = ("base",) if player == "sft" else ("sft", "base")
    return next((name for name in starts if name in players), None)


def results_section(results: Results, kept: str = "") -> str:
    """Every figure of every player and part of the secrets; `kept`: which weights GRPO's are, in words."""
    if not results:
        return ""
    chosen = f"<p>The weights of grpo are {escape(kept)}.</p>" if kept else ""
    sampled = ""
    if any(is_sampled_part(part) for figures in results.values() for part in figures):
        sampled = " Rows with T = 1: every secret once more, sampled at temperature 1."
    head = "".join(f"<th scope='col'>{label}</th>" for _, label, _ in _COLUMNS)
    body = ""
    for part in (
        part
        for part in (*_SHOWN_PARTS, CONSTRAINED_PART, STRICT_CONSTRAINED_PART)
        if any(part in figures for figures in results.values())
    ):
        body += f"<tr class='part'><th colspan='{len(_COLUMNS) + 2}' scope='colgroup'>{PART_NAMES[part]}</th></tr>"
        for place, (player, parts) in enumerate(results.items()):
            if part in parts:
                body += _result_row(player, parts[part], place)
            if sampled_part(part) in parts:
                body += _result_row(f"{player}, T = 1", parts[sampled_part(part)], place)
    return (
        "<section><h2>Results</h2><p>The bar is the win rate, the thin line its 95 % Wilson interval; several games of "
        "one secret are treated as a cluster. Guesses are averaged over won games, then over all games with each loss "
        "counted as one more than the last turn. The rates on the right are shares of turns: invalid turns name no "
        "listed word, malformed ones no word at all, repeated ones a word that was guessed before, and those against "
        "clues a word that cannot be the secret. Regret is what a guess gives away to the best play of the solver, in "
        "expected guesses. Greedy decoding, one game per secret, no retries unless the settings below say so."
        f"{sampled}</p>{chosen}"
        "<div class='scroll'><table class='results'><thead><tr><th scope='col'>player</th>"
        f"<th scope='col'>win rate (95 %)</th>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def comparison_section(run: RunRecord) -> str:
    """The last model against the one it started from on the same secrets, separately for each part of the split."""
    player = next((name for name in (*ALGORITHM_NAMES, "sft") if name in run.evaluations), "")
    start = _stage_before(player, run.evaluations)
    if start is None:
        return ""
    title, start_title = _TITLES[player], _TITLES[start]
    heading = f"{title[0].upper()}{title[1:]} against {start_title}"
    rows = ""
    notes: dict[str, list[str]] = {}  # and the parts they hold for
    before, after = run.evaluations[start], run.evaluations[player]
    quoted = [*quoted_parts(before.secrets & after.secrets, run.split_of, run.strict), *STRATA]
    for part in (part for part in _SHOWN_PARTS if part in quoted):
        wanted = None if part == "all" else run.secrets_of(part)
        a, b = before.only(wanted), after.only(wanted)
        if not (a.records and b.records):
            continue
        try:
            found = compare(a, b)
        except EvaluationError as error:
            return f"<section><h2>{heading}</h2><p>No comparison: {escape(str(error))}</p></section>"
        for note in comparison_notes(found):
            notes.setdefault(note, []).append(PART_NAMES[part])
        cells = (
            *map(str, (found.both, found.only_a, found.only_b, found.neither)),
            _difference(found.win_rate_difference, 100, ".1f"),
            _difference(found.guesses_difference, 1, ".2f"),
            f"{found.p_value:.2g}",
            f"{found.guesses_p_value:.2g}",
        )
        rows += f"<tr><th scope='row'>{PART_NAMES[part]}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    heads = (
        "both won",
        f"only {start_title}",
        f"only {title}",
        "neither",
        "win rate, points",
        "guesses",
        "p of wins",
        "p of guesses",
    )
    columns = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    told = "".join(f"<p class='muted'>{', '.join(parts)}: {escape(note)}</p>" for note, parts in notes.items())
    return (
        f"<section><h2>{heading}, secret by secret</h2><p>Differences are {title} minus {start_title}, on the "
        "same secrets, with 95 % intervals: Tango's score interval for the win rate (a paired bootstrap if secrets "
        "were played more than once) and a paired bootstrap for guesses, where losses count as above. p is from "
        "McNemar's exact test for wins (if secrets were played more than once, a sign-flip test by secret, since games "
        "of one secret are alike) and from the exact sign-flip test for guesses.</p>"
        "<div class='scroll'><table><thead><tr><td></td>"
        f"{columns}</tr></thead><tbody>{rows}</tbody></table></div>{told}</section>"
    )


def controls_section(run: RunRecord) -> str:
    """Learning by play beside its controls, and the controls that are not there."""
    table = control_table(run)
    if table is None:
        return ""
    heads = "".join(f"<th scope='col'>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><th scope='row'>{escape(label)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for label, *cells in table.rows
    )
    verdict = f"<p class='missing' role='note'>{escape(table.verdict)}</p>" if table.verdict else ""
    return (
        f"<section><h2>{escape(table.model)} and its controls</h2><p>Wins in % on each part, and what else "
        "comes to as much: the start on the same words; supervised fine-tuning alone with no word kept from its "
        "teacher; the start drawn at the temperature at which its games are as random as the trained model's. p is of "
        "wins against the trained model, played alike. <em>Board shown</em>: the word's decisive board stands in the "
        "training games with the word as label.</p><div class='scroll'><table><thead><tr><td></td>"
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>{verdict}</section>"
    )


def guesses_section(results: Results) -> str:
    """Guess distribution, players side by side."""
    panels = "".join(_guess_panel(results, part) for part in ("held_out", "train"))
    if not panels:
        return ""
    return (
        "<section><h2>Guesses needed</h2><p>Share of games won with each number of guesses, and of games lost.</p>"
        f"<div class='grid'>{panels}</div></section>"
    )


def frequent_section(evaluations: Mapping[str, Evaluation]) -> str:
    """The words that each player says most: one that says the same in every game, whatever the marks, shows here."""
    rows = ""
    for place, (player, evaluation) in enumerate(evaluations.items()):
        games = [record for record in evaluation.records if record.turns]
        said = Counter(word for record in games for word in {turn.guess for turn in record.turns if turn.guess})
        most = sorted(said.items(), key=lambda item: (-item[1], item[0]))[:_MOST]  # of equals by the alphabet
        words = ", ".join(
            f"<span>{escape(word)} <small>{format_value(n / len(games), True)}</small></span>" for word, n in most
        )
        if words:
            rows += (
                f"<tr><th scope='row'><i class='swatch c{place % NUM_COLORS}'></i>{escape(player)}</th>"
                f"<td>{words}</td><td>{len(said):,}</td></tr>"
            )
    if not rows:
        return ""
    return (
        "<section><h2>Most frequent guesses</h2><p>With the share of evaluated games in which each was guessed, "
        "the opener included. A player that has collapsed guesses the same few words in every game.</p>"
        "<div class='scroll'><table class='guesses'><thead><tr><th scope='col'>player</th><th scope='col'>words</th>"
        f"<th scope='col'>different words</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def run_section(run: RunRecord) -> str:
    """Settings, hardware and duration of the run, and missing parts."""
    facts = ""
    seconds = run.facts.get("seconds")
    if isinstance(seconds, dict):
        stages = [(str(k), float(v)) for k, v in seconds.items() if k != "total" and is_number(v)]  # total: their sum
        facts += time_bar("Seconds of the whole run", stages)
    others = {name: value for name, value in run.facts.items() if name != "seconds"}
    for title, content in (("Other results", others), ("Manifest", _short(run.manifest)), ("Settings", run.config)):
        if content:
            text = escape(json.dumps(content, indent=2, ensure_ascii=False, default=str))
            facts += f"<details><summary>{title}</summary><pre>{text}</pre></details>"
    return f"<section><h2>How it was made</h2>{facts}</section>" if facts else ""


def _result_row(player: str, figures: Mapping[str, Any], place: int) -> str:
    rate, low, high = (figures.get(key) for key in ("win_rate", "win_rate_low", "win_rate_high"))
    bar = ""
    if is_number(rate) and is_number(low) and is_number(high):
        bar = (
            f"<span class='meter' aria-hidden='true'><i class='c{place % NUM_COLORS}' style='width:{100 * rate:.2f}%'>"
            f"</i><b style='left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%'></b></span>"
        )
    cells = "".join(f"<td>{_value(figures.get(key), percent)}</td>" for key, _, percent in _COLUMNS)
    return (
        f"<tr><th scope='row'><i class='swatch c{place % NUM_COLORS}'></i>{escape(player)}</th>"
        f"<td class='rate'>{bar}<span>{_value(rate, True)} <small>{_interval(figures)}</small></span></td>{cells}</tr>"
    )


def _guess_panel(results: Results, part: str) -> str:
    shown = {
        player: (place, parts[part]["guess_distribution"])
        for place, (player, parts) in enumerate(results.items())
        if isinstance(parts.get(part, {}).get("guess_distribution"), dict)
    }
    shown = {player: (place, counts) for player, (place, counts) in shown.items() if sum(counts.values())}
    if not shown:
        return ""
    tallest = max(max(counts.values()) / sum(counts.values()) for _, counts in shown.values())
    rows = ""
    for key in next(iter(shown.values()))[1]:
        bars = ""
        for player, (place, counts) in shown.items():
            count, share = counts.get(key, 0), counts.get(key, 0) / sum(counts.values())
            bars += (
                f"<div class='bar' title='{escape(player)}: {count}'><i class='c{place % NUM_COLORS}' "
                f"style='width:{78 * share / tallest:.2f}%'></i><span>{in_percent(share)} %</span></div>"
            )
        rows += f"<div class='guess-bars'><span>{escape(key)}</span><div>{bars}</div></div>"
    legend = "".join(f"<li><i class='swatch c{p % NUM_COLORS}'></i>{escape(n)}</li>" for n, (p, _) in shown.items())
    return f"<div class='card'><h3>{PART_NAMES[part]}</h3><ul class='legend flat'>{legend}</ul>{rows}</div>"


def _short(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the words of the split counted instead of listed."""
    shown = dict(manifest)
    if isinstance(split := shown.get("split"), dict):
        shown["split"] = {k: f"{len(v)} secrets" if isinstance(v, list) else v for k, v in split.items()}
    return shown


def _beside(results: Results, player: str | None, key: str, percent: bool, part: str = "held_out") -> str:
    if player is None or part not in results[player]:
        return ""
    return f"{escape(player)}: {_value(results[player][part].get(key), percent)}"


def _at_temperature_1(parts: Mapping[str, Mapping[str, Any]], part: str) -> str:
    """The win rate of sampled play, for a tile; empty if the part was played greedily alone."""
    figures = parts.get(sampled_part(part))
    return f"T = 1: {_value(figures.get('win_rate'), True)}<br>" if figures else ""


def _difference(estimate: Estimate, scale: float, digits: str) -> str:
    mean, low, high = (format(scale * value, f"+{digits}") for value in estimate)
    return f"{mean} <small>({low} to {high})</small>" if estimate.has_width else mean


def _interval(figures: Mapping[str, Any]) -> str:
    low, high = figures.get("win_rate_low"), figures.get("win_rate_high")
    return f"{in_percent(low)}–{in_percent(high)} %" if is_number(low) and is_number(high) else ""


def _value(value: Any, percent: bool) -> str:
    if not is_number(value):
        return _MISSING
    if isinstance(value, float) and not percent:
        return f"{value:.3f}"
    return format_value(value, percent)
