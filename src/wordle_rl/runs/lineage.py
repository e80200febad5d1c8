"""What a model has met: its lineage, stored beside the weights, and the audit of a run.

Held-out results mean something only for words that were never a secret in the model's past. So every training appends
its word list and split to the lineage of the model it began with. The audit proves from a run's records and lineages
that no held-out secret was trained on and that training named no strict word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from wordle_rl.config.base import FIELDS_ONLY, ConfigError, Section
from wordle_rl.config.files import describe, stored_config
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import PlaySettings, RoundSettings, kind_of
from wordle_rl.runs import (
    LABELS_FILE,
    PLAIN_TEXT_FILE,
    VALIDATION_GAMES_FILE,
    RunError,
    boards_file,
    parse_json,
    read_jsonl,
    read_object,
    stages_at,
    write_text_atomically,
)
from wordle_rl.runs.atomic_files import json_text
from wordle_rl.runs.checksums import add_to_seal
from wordle_rl.runs.jsonl_store import LOG_FILES
from wordle_rl.words import WordList, WordListError, load_words
from wordle_rl.words.split import Split

LINEAGE_FILE = "wordle_rl.json"
"""Written last into the directory of a trained model, so that a model with this file is complete."""
_RECORDS = "records"
"""In that file, beside the lineage: rows of the run's records when its stage ended."""


class TrainedSecrets(Section):
    """The secrets of a training: the training part of a split of a word list."""

    source: str
    """The list, as `words.source` names it."""
    fingerprint: str
    """Fingerprint of the list."""
    split_seed: int
    """Seed of the split."""
    strict_fraction: float = 0.0
    """Fraction of the answers that no game of the training named."""

    @property
    def settings(self) -> WordSettings:
        """The words and the split as settings."""
        return WordSettings(source=self.source, split_seed=self.split_seed, strict_fraction=self.strict_fraction)

    def secrets(self) -> tuple[str, ...]:
        """Return all words that can have been a secret: the training secrets, and words outside the answers."""
        words = self._words()
        return (*self.settings.split_of(words).train, *words.outside)

    def named(self) -> frozenset[str]:
        """Return all words that the games can have named, as secrets or guesses."""
        words = self._words()
        return frozenset(words.guesses).difference(self.settings.split_of(words).strict)

    def _words(self) -> WordList:
        words = load_words(self.source)
        if words.fingerprint != self.fingerprint:
            raise WordListError(f"word list {self.source!r} has changed since the model was trained; use the old list")
        return words


def lesson_of(settings: WordSettings, split: Split) -> TrainedSecrets:
    """Record a training whose secrets come from a split."""
    return TrainedSecrets(
        source=settings.source,
        fingerprint=split.fingerprint,
        split_seed=split.seed,
        strict_fraction=settings.strict_fraction,
    )


class Lineage(Section):
    """The game a model was trained for last, and all known trainings in its past, in order."""

    game: GameSettings
    lessons: tuple[TrainedSecrets, ...] = Field(min_length=1)
    licence: str | None = None
    """Licence of the weights that its trainings began with, if their files name one (a GGUF file does)."""

    def taught_by(self, model_directory: Path) -> Lineage:
        """Return this lineage after distillation from a model: what that model met may come through its replies."""
        teacher = lineage_of(model_directory)
        learnt = tuple(each for each in teacher.lessons if each not in self.lessons) if teacher is not None else ()
        return self.model_copy(update={"lessons": (*learnt, *self.lessons)})

    def leaks(self, split: Split) -> list[str]:
        """Return the validation and test secrets of a split that can have been a secret in the past, sorted.

        A `WordListError` says that the word list of a training is missing or has changed.
        """
        # Many strict words take secrets from training, so their number belongs to a split.
        total = len(split.train) + len(split.never_trained)
        own = (split.fingerprint, split.seed, len(split.strict))
        others = [
            lesson
            for lesson in self.lessons
            if (lesson.fingerprint, lesson.split_seed, round(total * lesson.strict_fraction)) != own
        ]
        return sorted(split.never_trained.intersection(secret for lesson in others for secret in lesson.secrets()))

    def strict_leaks(self, split: Split) -> list[str]:
        """Return the strict words of a split that a past training can have named, sorted."""
        if not split.strict:
            return []
        return sorted(set(split.strict).intersection(word for lesson in self.lessons for word in lesson.named()))


def lineage_of(model_directory: Path) -> Lineage | None:
    """Read the lineage of a model; None if it was not trained with this package."""
    path = model_directory / LINEAGE_FILE
    return parse_lineage(path.read_text(encoding="utf-8"), path) if path.is_file() else None


def parse_lineage(text: str, path: Path) -> Lineage:
    """Parse a lineage that a file holds."""
    try:
        # A stored import path must not run code when it is only read.
        stored = parse_json(text)
        if isinstance(stored, dict):
            stored.pop(_RECORDS, None)
        return Lineage.model_validate(stored, context=FIELDS_ONLY)
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON ({error}); restore the file") from None


def trained_further(base: Path, game: GameSettings, lesson: TrainedSecrets) -> Lineage:
    """Return the lineage of a model after one more training, which began with the model in `base`."""
    before, config = lineage_of(base), base / "config.json"
    earlier = tuple(known for known in before.lessons if known != lesson) if before is not None else ()
    licence = before.licence if before is not None else None
    if licence is None and config.is_file():
        licence = str(read_object(config).get("license") or "") or None
    return Lineage(game=game, lessons=(*earlier, lesson), licence=licence)


def leak_warning(model_directory: Path, split: Split) -> str | None:
    """Explain why held-out results of a training from this model would prove nothing; None if they would."""
    lineage = lineage_of(model_directory)
    if lineage is None:
        return None
    try:
        leaks = lineage.leaks(split)
    except WordListError as error:
        return (
            f"{model_directory} was trained on a word list that is not available ({error}), perhaps on validation or "
            "test secrets"
        )
    for found, kind in ((leaks, "validation or test secrets"), (lineage.strict_leaks(split), "strict words")):
        if found:
            return (
                f"{model_directory} may have been trained on {len(found)} {kind}, for example {found[0]}; results on "
                "them will prove nothing"
            )
    return None


def save_lineage(model_directory: Path, lineage: Lineage, records: Mapping[str, int] | None = None) -> None:
    """Store the lineage beside a model; of a finished one with what `count_records` found."""
    stored = lineage.model_dump(mode="json") | ({} if records is None else {_RECORDS: dict(records)})
    path, text = model_directory / LINEAGE_FILE, json_text(stored)
    add_to_seal(path, text.encode())
    write_text_atomically(path, text)


def count_records(directory: Path, stage: str) -> dict[str, int]:
    """Count the rows that each record of a run has of a stage (of teacher games: all), so that a loss is seen later."""
    paths = [path for name in ("traces.jsonl", *LOG_FILES) if (path := directory / name).is_file()]
    return {path.name: sum(row.get("stage", stage) == stage for row in read_jsonl(path)) for path in paths}


def is_trained(directory: Path) -> bool:
    """Return True if a stage has saved its model; the lineage file is written last."""
    return (directory / LINEAGE_FILE).is_file()


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
    leaks: dict[tuple[str, str], None] = {}  # each word once a file, in the order of the records
    for name, secret in _training_secrets(directory, frozenset(split.val)):
        counts[name] += 1
        if secret in never_trained:
            leaks[name, secret] = None
    strict = dict.fromkeys(_strict_leaks(directory, split)) if split.strict else {}
    for stage in config.stages:
        secrets, named = _from_before(directory, stage, split)
        leaks |= {(f"{stage}/{LINEAGE_FILE}", secret): None for secret in secrets}
        strict |= {(f"{stage}/{LINEAGE_FILE}", word): None for word in named}
    if not leaks and not strict:
        _check_proof(directory, config, counts, strict=bool(split.strict))
    return Audit(dict(counts), tuple(leaks), len(split.strict), tuple(strict))


def _strict_leaks(directory: Path, split: Split) -> Iterator[tuple[str, str]]:
    boards = [boards_file(directory, stage).name for stage in stages_at(directory)]
    records = ("traces.jsonl", VALIDATION_GAMES_FILE, PLAIN_TEXT_FILE, LABELS_FILE, "games.jsonl", "secrets.jsonl")
    for name in (*records, *boards):
        for row in _rows_of(directory / name):
            for word in sorted(split.strict_words_in(*_texts(row, sampled=name == "games.jsonl"))):
                yield name, word


def _texts(row: Mapping[str, Any], *, sampled: bool) -> Iterator[str | None]:
    # All words and texts of a row. Of games that the policy sampled, only secrets and prefix guesses.
    yield from row.get("secrets", ())
    yield row.get("secret")
    yield row.get("text")
    yield from (message.get("content") for name in ("messages", "prompt") for message in row.get(name, ()))
    for turn in row.get("turns", ()):
        if not sampled or turn.get("given"):
            yield from (turn.get(name) for name in ("guess", "thinking", "reply"))


def _check_proof(directory: Path, config: RunConfig, counts: Mapping[str, int], *, strict: bool) -> None:
    # A finished stage without its record proves nothing.
    for stage in config.stages:
        if not (directory / stage / LINEAGE_FILE).is_file():
            continue
        own = config.settings_of(stage)
        plays = isinstance(own, PlaySettings)
        records = [("traces.jsonl", not plays or own.replays), ("secrets.jsonl", plays)]
        lost = [record for record, is_needed in records if is_needed and not counts[record]]
        if strict and isinstance(own, RoundSettings) and not (directory / LABELS_FILE).is_file():
            lost.append(LABELS_FILE)
        if lost:
            fault = "is empty" if (directory / lost[0]).is_file() else "is missing"
            raise RunError(
                f"{directory} is not proven clean: {stage} was trained, but {lost[0]} with its secrets {fault}; "
                "restore the file, or train again"
            )
    for stage in config.stages:
        _check_lines(directory, stage)
    if not counts:
        raise RunError(f"{directory} has nothing to audit yet: no model was trained and no secret was recorded")


def _check_lines(directory: Path, stage: str) -> None:
    # A record has at least the rows it had when its stage ended, and learning by play leaves some at every step.
    path, found = directory / stage / LINEAGE_FILE, count_records(directory, stage)
    was = read_object(path).get(_RECORDS, {}) if path.is_file() else {}
    for name, count in was.items():
        if found.get(name, 0) < count:
            raise RunError(
                f"{directory} is not proven clean: {name} has {found.get(name, 0):,} of the {count:,} rows that it had "
                f"when {stage} ended; restore the file, or train again"
            )
    if kind_of(stage) == "sft":
        return
    steps = {
        name: {row.get("step") for row in _rows_of(directory / name) if row.get("stage") == stage}
        for name in ("metrics.jsonl", "secrets.jsonl")
    }
    done = max((step for step in steps["metrics.jsonl"] if isinstance(step, int)), default=0)
    for name, first in (("metrics.jsonl", 1), ("secrets.jsonl", 0)):
        if lost := set(range(first, first + done)) - steps[name]:
            raise RunError(
                f"{directory} is not proven clean: {name} has lost the rows of {stage} with step {min(lost)}; restore "
                "the file, or train again"
            )


def _rows_of(path: Path) -> Iterator[dict[str, Any]]:
    return read_jsonl(path) if path.is_file() else iter(())


def _from_before(directory: Path, stage: str, split: Split) -> tuple[list[str], list[str]]:
    # Held-out secrets and strict words that the model can have met in trainings before or outside this run.
    lineage = lineage_of(directory / stage)
    try:
        return (lineage.leaks(split), lineage.strict_leaks(split)) if lineage else ([], [])
    except WordListError as error:
        raise RunError(
            f"{directory} is not proven clean: {stage} was trained on a word list that is not available ({error})"
        ) from None


def _training_secrets(directory: Path, validation: Collection[str]) -> Iterator[tuple[str, str]]:
    # Validation games in games.jsonl select checkpoints and are not trained on, so their secrets do not count.
    for name in ("traces.jsonl", "secrets.jsonl", "games.jsonl"):
        for row, secrets in _rows(directory / name):
            chooses = name == "games.jsonl" and str(row.get("stage")).endswith("/validation")
            for secret in secrets:
                if not (chooses and secret in validation):
                    yield name, secret


def _rows(path: Path) -> Iterator[tuple[dict[str, object], list[str]]]:
    for number, row in enumerate(_rows_of(path), start=1):
        secrets = row.get("secrets") if path.name == "secrets.jsonl" else [row.get("secret")]
        if not isinstance(secrets, list) or not all(isinstance(secret, str) for secret in secrets):
            raise RunError(f"{path}:{number} has no secret, so nothing is proven; fix the line")
        yield row, secrets
