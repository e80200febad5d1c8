"""The front matter of a model card: what the hub reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from wordle_rl.evaluate import PART_NAMES
from wordle_rl.report.card_sections import base_model, is_english, word_list
from wordle_rl.report.read import RunRecord

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCardData

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def metadata(run: RunRecord, name: str) -> ModelCardData:
    """The front matter of a card."""
    from huggingface_hub import ModelCardData

    base = base_model(run)
    return ModelCardData(
        language="en" if is_english(run) else None,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["wordle", "wordle-rl", "reinforcement-learning", *([] if name == "sft" else [name.replace("_", "-")])],
        base_model=base if _is_hub_name(base) else None,
        model_name=f"{run.name}-{name}",
        eval_results=_eval_results(run, name) or None,
        license="mit" if base == "tiny" else "other",
        license_name=None if base == "tiny" else "see-base-model",
    )


def _eval_results(run: RunRecord, name: str) -> list[EvalResult]:
    from huggingface_hub import EvalResult

    found = []
    for part, label in PART_NAMES.items():
        figures = run.results.get(name, {}).get(part) or {}
        for metric, title in (("win_rate", "Win rate"), ("mean_guesses_on_wins", "Mean guesses on wins")):
            if figures.get(metric) is not None:
                found.append(
                    EvalResult(
                        task_type="text-generation",
                        task_name="Wordle",
                        dataset_type="wordle",
                        dataset_name=f"Wordle, word list {word_list(run)}, {label}",
                        dataset_split=part,
                        metric_type=metric,
                        metric_name=title,
                        metric_value=round(figures[metric], 4),
                    )
                )
    return found


def _is_hub_name(base: str) -> bool:
    return bool(_HUB_NAME.fullmatch(base)) and not Path(base).exists()
