"""The model card: a README.md beside a trained model, from the run's own records and in the hub's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from wordle_rl.config import ALGORITHM_NAMES, ConfigError
from wordle_rl.data.game_record import UNKNOWN_TEACHER
from wordle_rl.evaluate.strata import audit_shown
from wordle_rl.models.directory import find_model
from wordle_rl.report import card_sections as sections
from wordle_rl.report.card_metadata import metadata
from wordle_rl.report.read import RunRecord, read_run
from wordle_rl.runs import RunError, read_jsonl, write_text_atomically
from wordle_rl.runs.audit import audit
from wordle_rl.runs.lineage import LINEAGE_FILE
from wordle_rl.words import WordListError

CARD_FILE = "README.md"
"""File in which the hub looks for a model's card."""


def write_cards(path: Path, *, anew: bool = True, dry_run: bool = False) -> list[Path]:
    """Write the card of each trained model of a run, or that of one model directory in it.

    Args:
        path: A run directory, or the directory of one of its models.
        anew: Replace a card that is there; else it is left as it is.
        dry_run: Write nothing, but check that it could be written.

    Returns:
        The cards, in the order in which the models were trained.

    Raises:
        ConfigError: If there is no trained model of a run, or huggingface_hub is not installed.
        RunError: If a record is damaged or a card cannot be written.
    """
    models = models_of(path)
    wanted = [model for model in models if anew or not (model / CARD_FILE).is_file()]
    if wanted:
        directory = models[0].parent
        run, teachers, proof = read_run(directory), _teachers(directory / "traces.jsonl"), _proof(directory)
        for model in wanted:
            text = card_text(run, model.name, teachers, proof)
            if not dry_run:
                write_text_atomically(model / CARD_FILE, text)
    return [model / CARD_FILE for model in models]


def models_of(path: Path) -> list[Path]:
    """The finished models meant by a run directory, or by one model of a run.

    Raises:
        ConfigError: If there are none, or the model's run is not around it.
    """
    named = [path / name for name in ("sft", *ALGORITHM_NAMES)]
    models = [model for model in named if (model / LINEAGE_FILE).is_file()] or [find_model(path)]
    directory = models[0].resolve().parent
    needed = (directory / "config.json", directory / "manifest.json", models[0] / LINEAGE_FILE)
    if not all(file.is_file() for file in needed):
        raise ConfigError(
            f"{models[0]} lies in no run directory, so there are no records to make a card from; "
            f"name a run, or write a {CARD_FILE} of your own there"
        )
    return [directory / model.name for model in models]


def card_text(run: RunRecord, name: str, teachers: Mapping[str, int] | None = None, proof: str = "") -> str:
    """The card of one model of a run.

    Args:
        run: The run's records.
        name: The model's directory in it: `sft`, `grpo`, `expert_iteration`, `dpo`, `distill`.
        teachers: How many of the run's teacher games each teacher played; None or empty: not known.
        proof: What is known of held-out secrets in training; empty: the card leaves it out.

    Raises:
        ConfigError: If huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import ModelCard
    except ModuleNotFoundError:
        raise ConfigError('a model card needs huggingface_hub: pip install "wordle-rl[train]"') from None
    parts = [
        f"# {run.name}, {sections.stage_name(name)}",
        sections.opening(run, name),
        "## Results",
        sections.results(run, name),
        "## Training",
        sections.training(run, name, teachers or {}, proof),
        "## Use",
        sections.use(run),
        "## Limitations",
        sections.limitations(run),
        "## Licence",
        sections.licence(run),
        "## Settings",
        sections.settings(run),
    ]
    body = "\n\n".join(parts)
    return str(ModelCard(f"---\n{metadata(run, name).to_yaml()}\n---\n\n{body}\n"))


def _teachers(path: Path) -> dict[str, int]:
    """Number of games of a traces file by teacher, most first; empty if there is no such file."""
    rows = read_jsonl(path) if path.is_file() else ()
    return dict(Counter(str(row.get("teacher", UNKNOWN_TEACHER)) for row in rows).most_common())


def _proof(directory: Path) -> str:
    """Result of an audit of the run, as a sentence."""
    try:
        found = audit(directory)
        leaks = {secret for _, secret in found.leaks}
        shown = audit_shown(directory).num_secrets
    except (RunError, ConfigError, WordListError) as error:
        return f"Whether held-out secrets were secrets of training games is not known: {error}."
    if leaks:
        return f"{len(leaks)} of the validation and held-out secrets were trained on, so their figures prove nothing."
    strict = f" None of the {found.num_strict:,} strict words is named in training." if found.num_strict else ""
    if found.strict_leaks:
        strict = f" {len({word for _, word in found.strict_leaks})} strict words were named in training."
    return (
        "No validation or held-out secret was the secret of a training game. Of the held-out secrets, training shows "
        f"{shown['board_shown']:,} on their decisive board, names {shown['board_not_shown']:,} elsewhere, and never "
        f"says {shown['never_said']:,}.{strict}"
    )
