"""The model card: a README.md beside a trained model, from the records of its run, in the hub's format."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import kind_of, stage_title
from wordle_rl.data.game_record import UNKNOWN_TEACHER
from wordle_rl.evaluate.figures import PART_NAMES
from wordle_rl.evaluate.results_table import MAIN_FIGURES, results_table
from wordle_rl.evaluate.strata import audit_shown
from wordle_rl.policy.directory import find_model
from wordle_rl.policy.gguf import GEMMA, PACKAGED, SMOLLM2
from wordle_rl.report.controls import control_table
from wordle_rl.report.run_record import RunRecord, kept_weights, read_run
from wordle_rl.runs import CARD_FILE, RunError, read_jsonl, stages_at, write_text_atomically
from wordle_rl.runs.foreign_text import markdown, visible, visible_json
from wordle_rl.runs.lineage import LINEAGE_FILE, audit
from wordle_rl.runs.provenance import calls
from wordle_rl.words import WordListError

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

_ENGLISH = ("default", "original", "nyt")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_PACKAGED = {SMOLLM2: ("HuggingFaceTB/SmolLM2-135M-Instruct", "apache-2.0"), GEMMA: ("google/gemma-3-270m", "gemma")}
"""Base model whose weights come with a package -> its name on the hub, and its licence."""
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""What the hub takes for the identifier of a licence."""


def write_cards(path: Path, *, anew: bool = True, dry_run: bool = False) -> list[Path]:
    """Write the card of each trained model of a run, or of one model in it. Return the cards, in training order.

    `anew` replaces existing cards. `dry_run` writes nothing, but checks that it would work.
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
    """Return the finished models of a run, or the one model that `path` names."""
    # A lineage is written last, so a stage that has one is finished; without any, `path` names a single model.
    named = [path / name for name in stages_at(path)]
    models = [model for model in named if (model / LINEAGE_FILE).is_file()] or [find_model(path)]
    directory = models[0].resolve().parent
    needed = (directory / "config.json", directory / "manifest.json", models[0] / LINEAGE_FILE)
    if not all(file.is_file() for file in needed):
        raise ConfigError(
            f"{models[0]} is not in a run directory, so there are no records for a card; name a run, or write your own "
            f"{CARD_FILE} there"
        )
    return [directory / model.name for model in models]


def card_text(run: RunRecord, name: str, teachers: Mapping[str, int] | None = None, proof: str = "") -> str:
    """Render the card of a stage's model: `static/card.md` with the results of its run.

    `teachers` counts teacher games by teacher. `proof` is what the audit says about held-out secrets.
    """
    from jinja2 import Environment

    figures, split = run.results.get(name, {}), run.manifest.get("split", {})
    base, word_list = _base_model(run), _word_list(run)
    is_english = word_list in _ENGLISH
    # Whatever is filled in is text of others until a filter says that it is Markdown.
    environment = Environment(finalize=lambda value: value if isinstance(value, Markup) else markdown(str(value)))
    environment.filters |= {"code": _code, "fenced": _fenced}
    card = environment.from_string((files("wordle_rl.report") / "static" / "card.md").read_text(encoding="utf-8"))
    text = card.render(
        card_data=_card_data(run, name).to_yaml(),
        run=run,
        stage=stage_title(name),
        game=run.config.get("game", {}),
        model=run.config.get("model", {}),
        base=base,
        is_adapter=_is_adapted(run),
        install=PACKAGED[base][1] if base in PACKAGED else None,
        results=results_table({stage_title(name): figures}, MAIN_FIGURES, run.shown_parts) if figures else None,
        controls=control_table(run) if name == run.last else None,
        taught=_taught(run, teachers or {}),
        word_list=word_list,
        is_english=is_english,
        split=split,
        num_words=[f"{len(split.get(part, ())):,}" for part in ("train", "val", "test")],
        proof=proof,
        weights=kept_weights(run, name) or "those at the end of training",
        hardware=_hardware(run),
        time=_time(run),
        versions=_of_calls(run, "wordle_rl"),
        commits=_of_calls(run, "git_commit"),
        # Any word that the reader's copy of the list has.
        secret="crane" if is_english else min(filter(str.isalpha, run.secrets_of("train")), default="crane"),
        commands=_of_calls(run, "command"),
        settings=visible_json(json.dumps(run.config, indent=2, ensure_ascii=False)),
    )
    return f"{text}\n"


def _code(text: object) -> Markup:
    shown = visible(" ".join(str(text).split()))
    # Markdown's rule: longer quotes than any inside, and a blank where the text begins or ends with one.
    ticks = _ticks(shown, 1)
    room = " " if "`" in shown else ""
    return Markup(f"{ticks}{room}{shown}{room}{ticks}")


def _fenced(blocks: Sequence[str], language: str) -> Markup:
    shown = "\n".join(map(visible, blocks))
    ticks = _ticks(shown, 3)
    return Markup(f"{ticks}{language}\n{shown}\n{ticks}")


def _ticks(text: str, least: int) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _card_data(run: RunRecord, name: str) -> ModelCardData:
    from huggingface_hub import EvalResult, ModelCardData

    base, word_list = _base_model(run), _word_list(run)
    # USER/NAME may be a local directory as well, which means nothing on the hub.
    is_on_hub = _HUB_NAME.fullmatch(base) and not Path(base).exists()
    # Weights trained from nothing have the licence of this package; others depend on their base.
    unknown = (base if is_on_hub else None, "mit" if base == "tiny" else "see-base-model")
    hub_base, named = _PACKAGED.get(base, unknown)
    named = run.licence or named
    licence = named if _LICENCE.fullmatch(named) and named != "see-base-model" else "other"
    is_adapter = _is_adapted(run)
    metrics = (("win_rate", "Win rate"), ("mean_guesses_on_wins", "Mean guesses on wins"))
    results = [
        EvalResult(
            task_type="text-generation",
            task_name="Wordle",
            dataset_type="wordle",
            dataset_name=f"Wordle, word list {word_list}, {label}",
            dataset_split=part,
            metric_type=metric,
            metric_name=title,
            metric_value=round(value, 4),
        )
        for part, label in PART_NAMES.items()
        for metric, title in metrics
        if (value := getattr(run.results.get(name, {}).get(part), metric, None)) is not None
    ]
    return ModelCardData(
        language="en" if word_list in _ENGLISH else None,
        library_name="peft" if is_adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["wordle", "wordle-rl", *(["reinforcement-learning", name.replace("_", "-")] if name != "sft" else [])],
        base_model=hub_base,
        base_model_relation="adapter" if is_adapter and hub_base else None,
        model_name=f"{run.name}-{name}",
        eval_results=results or None,
        license=licence,
        license_name=named if licence == "other" else None,
    )


def _taught(run: RunRecord, teachers: Mapping[str, int]) -> str:
    named = {"solver": "the solver", UNKNOWN_TEACHER: "an unknown teacher"}
    said = ", ".join(f"{count:,} by {named.get(teacher, teacher)}" for teacher, count in teachers.items()) or "none"
    # Without an SFT stage, teacher games are only mixed into rounds of play.
    is_replayed = teachers and not any(kind_of(stage) == "sft" for stage in run.stages)
    return f"{'to replay beside its own' if is_replayed else 'for supervised fine-tuning'}: {said}"


def _is_adapted(run: RunRecord) -> bool:
    return bool((run.config.get("model", {}).get("lora") or {}).get("rank"))


def _base_model(run: RunRecord) -> str:
    return str(run.config.get("model", {}).get("path", "tiny"))


def _word_list(run: RunRecord) -> str:
    # For a directory only its name: its path means nothing on other machines.
    return Path(str(run.manifest.get("words"))).name


def _hardware(run: RunRecord) -> str:
    machines = []
    for call in calls(run.manifest):
        facts = call["hardware"] or {}
        parts = [facts.get("accelerator"), f"{facts.get('cores')} cores of {facts.get('processor')}"]
        machines.append(", ".join(part for part in parts if part))
    return "; ".join(dict.fromkeys(machines))


def _time(run: RunRecord) -> str:
    seconds = run.facts.get("seconds") or {}
    if "total" not in seconds:
        return "unknown"
    stages = ", ".join(f"{stage} {s / 60:.1f}" for stage, s in seconds.items() if stage != "total")
    return f"{seconds['total'] / 60:.1f} minutes ({stages})"


def _of_calls(run: RunRecord, fact: str) -> list[str]:
    return list(dict.fromkeys(str(call[fact]) for call in calls(run.manifest) if call[fact]))


def _teachers(path: Path) -> dict[str, int]:
    rows = read_jsonl(path) if path.is_file() else ()
    return dict(Counter(str(row.get("teacher", UNKNOWN_TEACHER)) for row in rows).most_common())


def _proof(directory: Path) -> str:
    try:
        found = audit(directory)
        leaks = {secret for _, secret in found.leaks}
        shown = audit_shown(directory).num_secrets
    # A card is written at the end of hours of training; missing records are told in it, not raised.
    except (RunError, ConfigError, WordListError) as error:
        return f"It is unknown whether held-out secrets were trained on: {error}."
    if leaks:
        return f"{len(leaks)} validation or held-out secrets were trained on, so results on them prove nothing."
    strict = ""
    if found.num_strict:
        named = len({word for _, word in found.strict_leaks})
        strict = f" Of the {found.num_strict:,} strict words {named or 'none'} is named in training."
    return (
        "No validation or held-out secret was the secret of a training game. Of the held-out secrets, training shows "
        f"{shown['board_shown']:,} on their decisive board, names {shown['board_not_shown']:,} elsewhere, and never "
        f"says {shown['never_said']:,}.{strict}"
    )
