"""Lineage of a model, stored beside the weights: rules, word list and split of every training so far.

Held-out results mean something only for words that were never a secret in the model's past. So every training appends
its word list and split to the lineage of the model it began with. Evaluation, audit and further trainings read it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from wordle_rl.config import FIELDS_ONLY, ConfigError, GameSettings, WordSettings, describe
from wordle_rl.config.base import Section
from wordle_rl.runs import parse_json, write_json
from wordle_rl.words import WordList, WordListError, load_words
from wordle_rl.words.split import Split

LINEAGE_FILE = "wordle_rl.json"
"""Written last into the directory of a trained model, so that a model with this file is complete."""


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

    def leaks(self, split: Split) -> list[str]:
        """Return the validation and test secrets of a split that can have been a secret in the past, sorted.

        A `WordListError` says that the word list of a training is missing or has changed.
        """
        own = (split.fingerprint, split.seed)
        others = [lesson for lesson in self.lessons if (lesson.fingerprint, lesson.split_seed) != own]
        return sorted(split.never_trained.intersection(secret for lesson in others for secret in lesson.secrets()))

    def strict_leaks(self, split: Split) -> list[str]:
        """Return the strict words of a split that a past training can have named, sorted."""
        if not split.strict:
            return []
        return sorted(set(split.strict).intersection(word for lesson in self.lessons for word in lesson.named()))


def lineage_of(model_directory: Path) -> Lineage | None:
    """Read the lineage of a model; None if it was not trained with this package."""
    path = model_directory / LINEAGE_FILE
    if not path.is_file():
        return None
    try:
        # A stored import path must not run code when it is only read.
        return Lineage.model_validate(parse_json(path.read_text(encoding="utf-8")), context=FIELDS_ONLY)
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON ({error}); restore the file") from None


def trained_further(base: Path, game: GameSettings, lesson: TrainedSecrets) -> Lineage:
    """Return the lineage of a model after one more training, which began with the model in `base`."""
    before = lineage_of(base)
    earlier = tuple(known for known in before.lessons if known != lesson) if before is not None else ()
    return Lineage(game=game, lessons=(*earlier, lesson))


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


def save_lineage(model_directory: Path, lineage: Lineage) -> None:
    """Store the lineage beside a model."""
    write_json(model_directory / LINEAGE_FILE, lineage.model_dump(mode="json"))
