"""Prove from a run's records that no held-out secret was trained on and that training named no strict word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config import RunConfig, stored_config
from wordle_rl.runs import BOARDS_FILE, LABELS_FILE, VALIDATION_GAMES_FILE, RunError, read_jsonl, read_object
from wordle_rl.runs.lineage import LINEAGE_FILE, Lineage, lineage_of
from wordle_rl.words import WordListError, load_words
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class Audit:
    """Result of an audit.

    It does not say whether training games name held-out words that are not strict: a teacher can play them as guesses.
    `evaluate.strata` counts that.
    """

    num_secrets: dict[str, int]
    """Number of training secrets per record file."""
    leaks: tuple[tuple[str, str], ...]
    """(file, secret) for each validation or test secret found there, or in the lineage of a model."""
    num_strict: int = 0
    """Number of strict words (`words.strict_fraction`)."""
    strict_leaks: tuple[tuple[str, str], ...] = ()
    """(file, word) for each strict word that training named: as a secret, a guess, in thinking or a reply that was
    trained on, or on an initial state. What the policy itself says in GRPO does not count."""

    @property
    def clean(self) -> bool:
        """True if nothing leaked."""
        return not (self.leaks or self.strict_leaks)


def audit(directory: Path) -> Audit:
    """Search a run's teacher games, RL secrets and sample games, and the lineage of its models.

    The split is recomputed from the stored config, not read from the manifest. For earlier trainings of a model, every
    word that can have been a secret counts. If no leak is found but a record that the proof needs is missing or empty,
    that is a `RunError`.
    """
    stored = directory / "config.json"
    if not stored.is_file():
        raise RunError(f"{directory} is not a run directory: it has no config.json; name the directory of a run")
    config = stored_config(stored)
    words = load_words(config.words.source)
    recorded = read_object(directory / "manifest.json").get("fingerprint")
    if recorded != words.fingerprint:
        raise RunError(f"word list {words.name!r} has changed since {directory} began; audit it with the old list")
    split = config.words.split_of(words)
    never_trained = split.never_trained
    counts: Counter[str] = Counter()
    leaks: dict[tuple[str, str], None] = {}
    for name, secret in _training_secrets(directory, frozenset(split.val)):
        counts[name] += 1
        if secret in never_trained:
            leaks[name, secret] = None
    for stage in ("sft", config.algorithm):
        for secret in _from_before(directory, stage, lambda lineage: lineage.leaks(split)):
            leaks[f"{stage}/{LINEAGE_FILE}", secret] = None
    strict = dict.fromkeys(_strict_leaks(directory, config, split)) if split.strict else {}
    if not leaks and not strict:
        _check_proof(directory, config, counts, strict=bool(split.strict))
    return Audit(dict(counts), tuple(leaks), len(split.strict), tuple(strict))


def _strict_leaks(directory: Path, config: RunConfig, split: Split) -> Iterator[tuple[str, str]]:
    for name in ("traces.jsonl", VALIDATION_GAMES_FILE, LABELS_FILE, BOARDS_FILE, "games.jsonl", "secrets.jsonl"):
        path = directory / name
        for row in read_jsonl(path) if path.is_file() else ():
            for word in sorted(split.strict_words_in(*_texts(row, sampled=name == "games.jsonl"))):
                yield name, word
    for stage in ("sft", config.algorithm):
        for word in _from_before(directory, stage, lambda lineage: lineage.strict_leaks(split)):
            yield f"{stage}/{LINEAGE_FILE}", word


def _texts(row: Mapping[str, Any], *, sampled: bool) -> Iterator[str | None]:
    # All words and texts of a row. Of games that the policy sampled, only secrets and prefix guesses.
    yield from row.get("secrets", ())
    yield row.get("secret")
    yield from (message.get("content") for message in row.get("messages", ()))
    for turn in row.get("turns", ()):
        if not sampled or turn.get("given"):
            yield from (turn.get(name) for name in ("guess", "thinking", "reply"))


def _check_proof(directory: Path, config: RunConfig, counts: Mapping[str, int], *, strict: bool) -> None:
    # A finished stage without its record proves nothing.
    taught = config.trained[0] if "traces" in config.chain else "sft"
    for stage, record in ((taught, "traces.jsonl"), (config.algorithm, "secrets.jsonl")):
        if (directory / stage / LINEAGE_FILE).is_file() and not counts[record]:
            fault = "is empty" if (directory / record).is_file() else "is missing"
            raise RunError(
                f"{directory} is not proven clean: {stage} was trained, but {record} with its secrets {fault}; restore "
                "the file, or train again"
            )
    by_rounds = config.algorithm != "grpo" and (directory / config.algorithm / LINEAGE_FILE).is_file()
    if strict and by_rounds and not (directory / LABELS_FILE).is_file():
        raise RunError(
            f"{directory} is not proven clean: {config.algorithm} was trained, but {LABELS_FILE} is missing; restore "
            "the file, or train again"
        )
    if not counts:
        raise RunError(f"{directory} has nothing to audit yet: no model was trained and no secret was recorded")


def _from_before(directory: Path, stage: str, leaks_of: Callable[[Lineage], list[str]]) -> list[str]:
    # Words that the model can have met in trainings before or outside this run.
    lineage = lineage_of(directory / stage)
    if lineage is None:
        return []
    try:
        return leaks_of(lineage)
    except WordListError as error:
        raise RunError(
            f"{directory} is not proven clean: {stage} was trained on a word list that is not available ({error})"
        ) from None


def _training_secrets(directory: Path, validation: Collection[str]) -> Iterator[tuple[str, str]]:
    # Validation games in games.jsonl select checkpoints and are not trained on, so their secrets do not count.
    for name in ("traces.jsonl", "secrets.jsonl", "games.jsonl"):
        for row, secrets in _rows(directory / name):
            chooses = name == "games.jsonl" and row.get("stage") == "validation"
            for secret in secrets:
                if not (chooses and secret in validation):
                    yield name, secret


def _rows(path: Path) -> Iterator[tuple[dict[str, object], list[str]]]:
    for number, row in enumerate(read_jsonl(path) if path.is_file() else (), start=1):
        secrets = row.get("secrets") if path.name == "secrets.jsonl" else [row.get("secret")]
        if not isinstance(secrets, list) or not all(isinstance(secret, str) for secret in secrets):
            raise RunError(f"{path}:{number} has no secret, so nothing is proven; fix the line")
        yield row, secrets
