"""What is done with a finished run: its page, its cards, the hub, the audit, whole models from parts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from wordle_rl.commands.console import out, print_json
from wordle_rl.config import ConfigError
from wordle_rl.models.directory import find_model
from wordle_rl.report import write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.hub import push
from wordle_rl.runs.audit import audit
from wordle_rl.runs.lineage import lineage_of, save_lineage


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
    """Whether a validation or test secret was ever trained on."""
    found = audit(directory)
    if as_json:
        print_json({"clean": found.clean, **asdict(found)})
    else:
        for name, count in found.num_secrets.items():
            out.print(f"{count:>9,} training secrets in {name}", highlight=False)
        if found.clean:
            out.print("no validation or test secret among them")
    if not found.clean:
        records: dict[str, list[str]] = {}
        for name, secret in found.leaks:
            records.setdefault(secret, []).append(name)
        named = ", ".join(f"{secret} ({', '.join(names)})" for secret, names in list(records.items())[:5])
        raise ConfigError(f"{len(records)} validation or test secrets were trained on: {named}")


def merge_adapter(
    path: Path, out_directory: Path, dtype: Literal["auto", "float32", "bfloat16"], as_json: bool
) -> None:
    """An adapter and its base model as one model."""
    adapter = find_model(path)
    export = _export_room()
    difference = export.merge(adapter, out_directory, dtype)
    _keep_lineage(adapter, out_directory)
    if as_json:
        print_json({"model": str(out_directory), "difference": difference})
    else:
        out.print(f"model: {out_directory}; logits differ by {difference:.1e} standard deviations", highlight=False)


def consolidate_checkpoint(checkpoint: Path, out_directory: Path, as_json: bool) -> None:
    """A sharded checkpoint as one model."""
    num_weights = _export_room().consolidate(checkpoint, out_directory)
    _keep_lineage(checkpoint, out_directory)
    if as_json:
        print_json({"model": str(out_directory), "num_weights": num_weights})
    else:
        out.print(f"model: {out_directory}; {num_weights} weights", highlight=False)


def _export_room() -> Any:
    try:
        from wordle_rl.models import export
    except ModuleNotFoundError as error:
        raise ConfigError(f'this command needs {error.name}: pip install "wordle-rl[train]"') from None
    return export


def _keep_lineage(source: Path, target: Path) -> None:
    """What a model comes from goes with it."""
    if (lineage := lineage_of(source)) is not None:
        save_lineage(target, lineage)
