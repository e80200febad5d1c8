"""What each command does and prints, once its arguments are read."""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.prompt import Prompt
from rich.table import Table

from wordle_rl import display
from wordle_rl.audit import audit
from wordle_rl.card import write_cards
from wordle_rl.config import (
    ConfigError,
    LLMTeacherSettings,
    RunConfig,
    SamplingSettings,
    TraceSettings,
    load_config,
)
from wordle_rl.dataset import DatasetLimits, summarise, summarise_teachers, write_dataset
from wordle_rl.env import WordleEnv
from wordle_rl.evaluate import CONSTRAINED_PART, Evaluation, Figures, figures_by_split
from wordle_rl.game import Dictionary, Rules
from wordle_rl.hub import push
from wordle_rl.imports import Format, import_rows
from wordle_rl.pipeline import Pipeline, Stage, elapsed, start_anew
from wordle_rl.players import GAME_FILE, find_model, game_of, make_player, refuse_constraint
from wordle_rl.preflight import Preflight, preflight
from wordle_rl.processes import is_first, wait_for_all
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report import write_report
from wordle_rl.rollout import Start
from wordle_rl.rollout import play as play_games
from wordle_rl.runs import write_json, write_jsonl, write_text_atomically
from wordle_rl.solver import Solver
from wordle_rl.teacher import SolverTeacher
from wordle_rl.trace_files import read_games
from wordle_rl.traces import draw_secrets, solver_traces
from wordle_rl.words import import_words, load_words, split_secrets

out = Console(soft_wrap=True)
messages = Console(stderr=True)


def print_json(value: Any) -> None:
    """Print JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def words(action: Literal["show", "import"], source: str, as_json: bool) -> None:
    """Show or import a word list."""
    found = import_words(Path(source)) if action == "import" else load_words(source)
    split = split_secrets(found)
    facts = {
        "name": found.name,
        "word_length": found.word_length,
        "num_answers": len(found.answers),
        "num_guesses": len(found.guesses),
        "fingerprint": found.fingerprint,
        "answers_sha256": found.answers_sha256,
        "guesses_sha256": found.guesses_sha256,
        "split": {"train": len(split.train), "val": len(split.val), "test": len(split.test)},
        "notes": list(found.notes),
    }
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        if name != "notes":
            out.print(f"{name:<15} {value}", highlight=False)
    for note in found.notes:
        out.print(f"note: {note}", highlight=False, markup=False)


def solve(source: str, opener: str | None, tree: bool, secret: str | None, top: int, as_json: bool) -> None:
    """Openers, a tree's totals, or one secret's path."""
    solver = Solver(load_words(source))
    if secret is not None and secret not in solver.words.answer_index:
        raise ConfigError(f"secret {secret!r} is not among the answers of word list {solver.words.name!r}")
    if tree or secret or opener:
        best = solver.tree(opener)
        summary: dict[str, Any] = {"words": solver.words.name, **best.summary()}
        if secret:
            summary["path"] = list(best.path(secret))
        if as_json:
            print_json(summary)
            return
        for name, value in summary.items():
            out.print(f"{name:<15} {value}", highlight=False)
        return
    openers = solver.best_openers(top)
    if as_json:
        print_json([asdict(scored) for scored in openers])
        return
    table = Table("opener", "bits", "words left on average", title=f"{solver.words.name}: most informative openers")
    for scored in openers:
        table.add_row(scored.guess, f"{scored.bits:.3f}", f"{scored.expected_remaining:.1f}")
    out.print(table)


def traces(path: Path, source: str, settings: TraceSettings, split_seed: int, seed: int, as_json: bool) -> None:
    """Teacher games to a file."""
    if seed < 0:
        raise ConfigError(f"seed {seed} must not be negative")
    if _holds_bought_games(path):
        raise ConfigError(f"{path} holds games of a language model, which cost money; name another --out")
    found = load_words(source)
    secrets = draw_secrets(found, split_secrets(found, split_seed), settings, seed)
    with messages.status("teacher plays…") as status:
        games = solver_traces(
            found,
            secrets,
            SolverTeacher(Solver(found)),
            settings,
            seed,
            lambda done: status.update(f"teacher plays… {done:,} of {settings.num_games:,} games"),
        )
        count = write_jsonl(path, (trace.to_row() for trace in games))
    if as_json:
        print_json({"file": str(path), "num_games": count})
    else:
        out.print(f"{count:,} games in {path}", highlight=False)


def _holds_bought_games(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return any('"teacher":' in line and '"teacher":"solver"' not in line for line in file)


def llm_traces(
    path: Path,
    source: str,
    settings: LLMTeacherSettings,
    split_seed: int,
    seed: int,
    csv_directory: Path | None,
    as_json: bool,
) -> None:
    """A language model's games to a file; goes on where it was stopped."""
    if seed < 0:
        raise ConfigError(f"seed {seed} must not be negative")
    try:
        from wordle_rl.collect import collect, describe
    except ModuleNotFoundError:
        raise ConfigError('this teacher needs the openai package: pip install "wordle-rl[openai]"') from None
    found = load_words(source)
    split = split_secrets(found, split_seed)
    done = collect(path, found, split, settings, seed, csv_directory, messages)
    tally = done.tally
    if as_json:
        print_json(
            {"file": str(path), **asdict(tally), "cost": tally.cost(settings)}
            | {"num_before": done.num_before, "num_missing": done.num_missing}
        )
    else:
        out.print(f"{tally.num_games:,} games added to {path}, {done.num_before:,} were there", highlight=False)
        out.print(describe(tally, settings), highlight=False)
    if tally.over_budget:
        messages.print(f"the budget is used up: {done.num_missing:,} games are still to be played", highlight=False)
    if tally.num_errors:
        messages.print(
            f"{tally.num_errors} games failed and are no losses; the same command plays them again. "
            f"The last: {tally.last_error}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        if not tally.num_games and not tally.over_budget:
            raise ConfigError(f"no game could be played: {tally.last_error}")


def analyze(path: Path, csv_path: Path | None, source: str, split_seed: int, top: int, as_json: bool) -> None:
    """A table of success per word."""
    found = load_words(source)
    split = split_secrets(found, split_seed)
    part_of = {secret: part for part in ("train", "val", "test") for secret in getattr(split, part)}
    games = list(read_games(path))
    teachers = [{**asdict(row), "win_rate": row.win_rate} for row in summarise_teachers(games)]
    rows = [
        {**asdict(row), "win_rate": row.win_rate, "part": part_of.get(row.secret, "outside")}
        for row in summarise(games)
    ]
    if not rows:
        raise ConfigError(f"{path} holds no games")
    if csv_path is not None:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text_atomically(csv_path, text.getvalue())
    num_games, num_wins, num_errors = (
        sum(row[name] for row in teachers) for name in ("num_games", "num_wins", "num_errors")
    )
    if as_json:
        totals = {"num_games": num_games, "num_wins": num_wins, "num_errors": num_errors}
        secrets = {row["secret"] for row in rows}
        print_json({**totals, "num_secrets": len(secrets), "teachers": teachers, "words": rows})
        return
    won = f"{num_wins / num_games:.1%} won" if num_games else "none finished"
    if len(teachers) > 1 or num_errors:
        out.print(_summary_table(teachers, "teacher", "teachers"))
    out.print(_summary_table(rows[:top], "secret", f"{num_games:,} games, {won}"))


def _summary_table(rows: Sequence[dict[str, Any]], first: str, title: str) -> Table:
    names = ["secret", "part", "teacher"] if first == "secret" else ["teacher"]
    if len({row["teacher"] for row in rows}) == 1 and first == "secret":
        names.remove("teacher")
    table = Table(*names, "games", "wins", "guesses on wins", "errors", "broken turns", title=title)
    for row in rows:
        guesses = row["mean_guesses_on_wins"]
        table.add_row(
            *(escape(row[name]) for name in names),
            str(row["num_games"]),
            str(row["num_wins"]),
            f"{guesses:.2f}" if guesses else "–",
            str(row["num_errors"]),
            str(row["num_broken_turns"]),
        )
    return table


def dataset(
    path: Path,
    stem: Path,
    source: str,
    split_seed: int,
    style: Style,
    shape: Shape,
    thinking: Thinking,
    limits: DatasetLimits,
    as_json: bool,
) -> None:
    """SFT and RL rows from traces."""
    found = load_words(source)
    prompter = Prompter(style, shape, thinking, found.word_length, Rules(max_turns=limits.max_turns))
    counts = write_dataset(read_games(path), found, split_secrets(found, split_seed), prompter, limits, stem)
    if as_json:
        print_json(counts)
        return
    for name, rows in counts["rows"].items():
        out.print(f"{rows:>8,} rows  {stem}_{name}.jsonl", highlight=False)
    for reason, games in counts["rejected"].items():
        out.print(f"{games:>8,} games left out: {reason}", highlight=False)


def import_data(
    path: Path,
    target: Path,
    form: Format,
    source: str,
    split_seed: int,
    thinking: Thinking,
    max_turns: int,
    as_json: bool,
) -> None:
    """Somebody else's rows as ours."""
    found = load_words(source)
    prompter = Prompter(thinking=thinking, word_length=found.word_length, rules=Rules(max_turns=max_turns))
    counts = import_rows(path, target, form, found, split_secrets(found, split_seed), prompter)
    if as_json:
        print_json(counts)
        return
    out.print(f"{counts['rows']:>8,} rows  {target}", highlight=False)
    for reason, number in counts["skipped"].items():
        out.print(f"{number:>8,} rows left out: {reason}", highlight=False)


def run(config: RunConfig, directory: Path, overwrite: bool, until: Stage, as_json: bool) -> None:
    """The whole chain; ends with figures, two games and the report's path."""
    if overwrite:
        if is_first():
            start_anew(directory)
        wait_for_all()
    results = Pipeline(config, directory, messages)(until)
    if not is_first():
        return
    if results is None:
        out.print(f"finished up to {until}: {directory}", highlight=False)
        return
    if as_json:
        print_json(results)
        return
    _show_results(directory, results)


def preflight_run(config: RunConfig, num_groups: int, as_json: bool) -> None:
    """Whether a run will work: everything looked at, then what was found."""
    with messages.status("looking at the model…"):
        report = preflight(config, num_groups)
    if as_json:
        memory = {stage: {**asdict(e), "counted": e.counted, "total": e.total} for stage, e in report.memory.items()}
        print_json({**asdict(report), "memory": memory})
    else:
        _show_preflight(config.model.path, report)
    problems = sum(finding.level == "problem" for finding in report.findings)
    if problems:
        raise ConfigError(
            f"this run cannot work: {problems} {'problem' if problems == 1 else 'problems'}, listed above"
        )


def _show_preflight(path: str, report: Preflight) -> None:
    numbers, played = report.numbers, report.played
    facts: dict[str, str] = {"model": path}
    if numbers is not None:
        facts["parameters"] = f"{numbers.num_parameters:,}, {numbers.num_trainable:,} of them trained"
        facts["context"] = f"{numbers.context:,} tokens" if numbers.context else "not said"
    if report.picture:
        facts["chat template"] = "; ".join(report.template_changes) or "as it stands"
        facts["a turn ends with"] = f"{report.turn_end}; sampling stops at {', '.join(report.stop_tokens)}"
        facts["longest guess"] = f"{report.longest_reply} tokens"
        facts["longest game"] = f"{report.longest_game} tokens; the teacher's {report.longest_teacher_game}"
    if played is not None:
        facts["games played"] = (
            f"{played.num_games}: {played.win_rate:.0%} won, {played.format_compliance:.0%} of replies well formed, "
            f"{played.overlong_share:.0%} cut, {played.mean_reply_tokens:.0f} tokens each, "
            f"{played.zero_variance_share:.0%} of groups without a difference"
        )
    for name, value in facts.items():
        out.print(f"{name:<17} {value}", highlight=False, markup=False)
    if report.device is not None:
        out.print(display.memory_table(report.memory))
        size = report.device.num_bytes
        has = f"{size / 1024**3:.1f} GiB" if size else "an unknown size"
        out.print(f"{report.device.name} has {has}", highlight=False, markup=False)
    if report.picture:
        out.print(f"\ntrained tokens of a game, in brackets:\n{report.picture}\n", highlight=False, markup=False)
    for finding in report.findings:
        out.print(f"{finding.level}: {finding.message}", highlight=False, markup=False)


def _show_results(directory: Path, results: dict[str, Any]) -> None:
    config = load_config(directory / "config.json")
    split = split_secrets(load_words(config.words.source), config.words.split_seed)
    found = [Evaluation.load(path) for path in sorted((directory / "eval").glob("*.json"), reverse=True)]
    figures: dict[str, dict[str, Figures]] = {}
    for evaluation in found:
        figures.setdefault(evaluation.name, {}).update(figures_by_split(evaluation, split))
    apart = {name: {p: f for p, f in parts.items() if p == CONSTRAINED_PART} for name, parts in figures.items()}
    plain = {name: {p: f for p, f in parts.items() if p != CONSTRAINED_PART} for name, parts in figures.items()}
    out.print(display.results_table(plain, title="Greedy decoding, one game per secret, strict dictionary"))
    if any(apart.values()):
        out.print(display.results_table(apart, title="The same, every guess limited to listed words"))
    last = [evaluation for evaluation in found if evaluation.constrain == "none"][-1]
    held_out = [record for record in last.records if record.secret in set(split.test)]
    samples = [next((record for record in held_out if record.won is won), None) for won in (True, False)]
    for record in samples:
        if record is not None:
            out.print()
            out.print(display.game_panel(record, max_turns=last.rules.max_turns))
    out.print()
    seconds = results["seconds"]
    parts = ", ".join(f"{stage} {elapsed(s)}" for stage, s in seconds.items() if stage != "total")
    out.print(
        f"{elapsed(seconds['total'])} in all ({parts}); peak memory {results['peak_memory_gib']} GiB", highlight=False
    )
    out.print(f"report: {directory / 'report.html'}", highlight=False)


def report(directory: Path, as_json: bool) -> None:
    """A run's page."""
    path = write_report(directory)
    if as_json:
        print_json({"report": str(path)})
    else:
        out.print(f"report: {path}", highlight=False)


def card(path: Path, as_json: bool) -> None:
    """The cards of a run's models, or of one."""
    cards = write_cards(path)
    if as_json:
        print_json({"cards": [str(card) for card in cards]})
        return
    for written in cards:
        out.print(f"card: {written}", highlight=False, markup=False)


def push_model(path: Path, repo: str, private: bool, dry_run: bool, as_json: bool) -> None:
    """A model to the hub, or what would go there."""
    files = push(path, repo, private=private, dry_run=dry_run)
    if as_json:
        print_json({"repo": repo, "sent": not dry_run, "files": files})
        return
    for name in files:
        out.print(name, highlight=False, markup=False)
    verb = "would be sent" if dry_run else "sent"
    out.print(f"{len(files)} files {verb} to {repo}", highlight=False, markup=False)


def audit_run(directory: Path, as_json: bool) -> None:
    """Whether a held-out secret was ever trained on."""
    found = audit(directory)
    if as_json:
        print_json({"clean": found.clean, **asdict(found)})
    else:
        for name, count in found.num_secrets.items():
            out.print(f"{count:>9,} training secrets in {name}", highlight=False)
        if found.clean:
            out.print("no validation or test secret among them")
    if not found.clean:
        named = ", ".join(f"{secret} ({name})" for name, secret in found.leaks[:5])
        raise ConfigError(f"{len(found.leaks)} held-out secrets were trained on: {named}")


def merge_adapter(
    path: Path, out_directory: Path, dtype: Literal["auto", "float32", "bfloat16"], as_json: bool
) -> None:
    """An adapter and its base model as one model."""
    adapter = find_model(path)
    export = _export_room()
    difference = export.merge(adapter, out_directory, dtype)
    _keep_game(adapter, out_directory)
    if as_json:
        print_json({"model": str(out_directory), "difference": difference})
    else:
        out.print(f"model: {out_directory}; logits differ by {difference:.1e} standard deviations", highlight=False)


def consolidate_checkpoint(checkpoint: Path, out_directory: Path, as_json: bool) -> None:
    """A sharded checkpoint as one model."""
    num_weights = _export_room().consolidate(checkpoint, out_directory)
    _keep_game(checkpoint, out_directory)
    if as_json:
        print_json({"model": str(out_directory), "num_weights": num_weights})
    else:
        out.print(f"model: {out_directory}; {num_weights} weights", highlight=False)


def _export_room() -> Any:
    try:
        from wordle_rl import export
    except ModuleNotFoundError as error:
        raise ConfigError(f'this command needs {error.name}: pip install "wordle-rl[train]"') from None
    return export


def _keep_game(source: Path, target: Path) -> None:
    """The game a model was trained for goes with it."""
    if (game := game_of(source)) is not None:
        write_json(target / GAME_FILE, game.model_dump(mode="json"))


def play(
    player: str,
    secret: str | None,
    source: str,
    sampling: SamplingSettings,
    base_url: str | None,
    dictionary: Dictionary,
    hard_mode: bool,
    seed: int | None,
) -> None:
    """One game in the terminal."""
    found = load_words(source)
    chosen = secret or random.Random(seed).choice(found.answers)
    if chosen not in found:
        raise ConfigError(f"secret {chosen!r} is not in word list {found.name!r}")
    refuse_constraint(player, sampling)
    if player == "human":
        _play_yourself(chosen, WordleEnv(chosen, found, _human_prompter(found.word_length, dictionary, hard_mode)))
        return
    who = make_player(player, found, None, sampling, solver=Solver(found), base_url=base_url, seed=seed or 0)
    trajectory = play_games([Start(chosen)], found, who.prompter, who.sampler)[0]
    if trajectory.error is not None:
        raise ConfigError(f"{who.label} could not be asked: {trajectory.error}")
    for played in trajectory.transcript.turns:
        out.print(played.reply, style="dim", markup=False, highlight=False)
    turns = [played.turn for played in trajectory.transcript.turns]
    out.print(display.board(turns, word_length=found.word_length, max_turns=who.prompter.rules.max_turns))
    out.print(f"{'found' if trajectory.transcript.won else 'not found'}: {chosen.upper()}", style="bold")


def _human_prompter(word_length: int, dictionary: Dictionary, hard_mode: bool) -> Prompter:
    rules = Rules(dictionary=dictionary, hard_mode=hard_mode, max_refusals=1000)
    return Prompter(Style.SYMBOLS, Shape.TRANSCRIPT, Thinking.OFF, word_length, rules)


def _play_yourself(secret: str, env: WordleEnv) -> None:
    while env.stop_reason is None:
        try:
            word = Prompt.ask(f"guess {len(env.turns) + 1}", console=out)
        except EOFError:
            raise KeyboardInterrupt from None
        env.step(env.prompter.reply(word.strip().lower()))
        out.print(display.board(env.turns, word_length=len(secret), max_turns=env.prompter.rules.max_turns))
    out.print(f"{'well done' if env.stop_reason == 'solved' else 'the word was'}: {secret.upper()}", style="bold")
