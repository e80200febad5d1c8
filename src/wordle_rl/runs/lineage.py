"""Lineage stored beside the weights: rules, word list and training secrets of every training so far.

Held-out figures mean something only for words that no game in the model's past had as its secret. So every training
leaves beside the weights which word list and which split it drew its secrets from, after those of the model it began
with, and whoever evaluates, audits or trains the model further reads that.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from wordle_rl.config import ConfigError, GameSettings, WordSettings, describe, fields_only
from wordle_rl.config.base import Section
from wordle_rl.runs import parse_json, write_json
from wordle_rl.words import WordList, WordListError, load_words
from wordle_rl.words.split import Split

LINEAGE_FILE = "wordle_rl.json"
"""Beside a trained model; it is written last, so that a model with it is whole."""


class TrainedSecrets(Section):
    """One training's secrets: the training part of a split of a word list."""

    source: str
    """The list, as `words.source` names it."""
    fingerprint: str
    """Of the list's words."""
    split_seed: int
    """Seed of the split."""
    strict_fraction: float = 0.0
    """Fraction of the answers that no game of the training named."""

    @property
    def settings(self) -> WordSettings:
        """The words and the split as settings."""
        return WordSettings(source=self.source, split_seed=self.split_seed, strict_fraction=self.strict_fraction)

    def secrets(self) -> tuple[str, ...]:
        """All words a game may have had as its secret: the training secrets, and words outside the answers.

        Raises:
            WordListError: If the list is not there any more, or is another one.
        """
        words = self._words()
        return (*self.settings.split_of(words).train, *words.outside)

    def named(self) -> frozenset[str]:
        """All words that its games may have named, as secrets or guesses.

        Raises:
            WordListError: As `secrets`.
        """
        words = self._words()
        return frozenset(words.guesses).difference(self.settings.split_of(words).strict)

    def _words(self) -> WordList:
        words = load_words(self.source)
        if words.fingerprint != self.fingerprint:
            raise WordListError(f"word list {self.source!r} is not what it was when the model was trained")
        return words


def lesson_of(settings: WordSettings, split: Split) -> TrainedSecrets:
    """Record of a training whose secrets come from a split."""
    return TrainedSecrets(
        source=settings.source,
        fingerprint=split.fingerprint,
        split_seed=split.seed,
        strict_fraction=settings.strict_fraction,
    )


class Lineage(Section):
    """The game a model was trained for last, and every training in its past that is known, first to last."""

    game: GameSettings
    lessons: tuple[TrainedSecrets, ...] = Field(min_length=1)

    def leaks(self, split: Split) -> list[str]:
        """A split's validation and test secrets that a game in the model's past may have had as its own, sorted.

        Raises:
            WordListError: If the words of a training are not known any more.
        """
        own = (split.fingerprint, split.seed)
        others = [lesson for lesson in self.lessons if (lesson.fingerprint, lesson.split_seed) != own]
        return sorted(split.never_trained.intersection(secret for lesson in others for secret in lesson.secrets()))

    def strict_leaks(self, split: Split) -> list[str]:
        """A split's strict words that a game in the model's past may have named, sorted.

        Raises:
            WordListError: If the words of a training are not known any more.
        """
        if not split.strict:
            return []
        return sorted(set(split.strict).intersection(word for lesson in self.lessons for word in lesson.named()))


def lineage_of(model_directory: Path) -> Lineage | None:
    """Lineage of a model; None if it was not trained here.

    Raises:
        ConfigError: If the file is damaged.
    """
    path = model_directory / LINEAGE_FILE
    if not path.is_file():
        return None
    try:
        with fields_only():  # reading a model's past imports no code that it names
            return Lineage.model_validate(parse_json(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None


def trained_further(base: Path, game: GameSettings, lesson: TrainedSecrets) -> Lineage:
    """The lineage of a model that began as another and was trained once more.

    Args:
        base: Where the other one lies; it has no past if it was not trained here, or is no directory.
        game: What it was trained for now.
        lesson: The training just done, with its secrets.

    Raises:
        ConfigError: If the file beside the other one is damaged.
    """
    before = lineage_of(base)
    earlier = tuple(known for known in before.lessons if known != lesson) if before is not None else ()
    return Lineage(game=game, lessons=(*earlier, lesson))


def leak_warning(model_directory: Path, split: Split) -> str | None:
    """Reason why held-out figures of a training from this model would prove nothing; None if there is none.

    Raises:
        ConfigError: If the file beside the model is damaged.
    """
    lineage = lineage_of(model_directory)
    if lineage is None:
        return None
    try:
        leaks = lineage.leaks(split)
    except WordListError as error:
        return (
            f"{model_directory} was trained on words that are not here ({error}), perhaps from validation or test "
            "secrets"
        )
    if not leaks and (strict := lineage.strict_leaks(split)):
        return (
            f"{model_directory} may have been trained on {len(strict)} of the strict words, {strict[0]} for one; their "
            "figures will prove nothing"
        )
    if not leaks:
        return None
    return (
        f"{model_directory} may have been trained on {len(leaks)} of the validation and test secrets, "
        f"{leaks[0]} for one; held-out figures will prove nothing"
    )


def save_lineage(model_directory: Path, lineage: Lineage) -> None:
    """Store it beside a model."""
    write_json(model_directory / LINEAGE_FILE, lineage.model_dump(mode="json"))
