"""Proof from a run's own records that no held-out secret was ever a secret in training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wordle_rl.config import load_config
from wordle_rl.runs import RunError, read_jsonl, read_object
from wordle_rl.split import split_secrets
from wordle_rl.words import load_words


@dataclass(frozen=True)
class Audit:
    """What was looked through and what was found.

    `num_secrets` counts the training games' secrets per record file; `leaks` holds (file, secret) for each
    validation or test secret found there, once.
    """

    num_secrets: dict[str, int]
    leaks: tuple[tuple[str, str], ...]

    @property
    def clean(self) -> bool:
        """Whether nothing leaked."""
        return not self.leaks


def audit(directory: Path) -> Audit:
    """Look through a run's teacher games, RL secrets and sample games.

    The split is worked out anew from the stored config, not read from the manifest.

    Raises:
        RunError: If the directory is no run, the word list has changed since, or a record is damaged.
    """
    stored = directory / "config.json"
    if not stored.is_file():
        raise RunError(f"{directory} is no run directory: it has no config.json")
    config = load_config(stored)
    words = load_words(config.words.source)
    recorded = read_object(directory / "manifest.json").get("fingerprint")
    if recorded != words.fingerprint:
        raise RunError(f"word list {words.name!r} has changed since {directory} was made; audit it with the old one")
    split = split_secrets(words, config.words.split_seed)
    held_out = {*split.val, *split.test}
    counts: Counter[str] = Counter()
    leaks: dict[tuple[str, str], None] = {}
    for name, secret in _training_secrets(directory, frozenset(split.val)):
        counts[name] += 1
        if secret in held_out:
            leaks[name, secret] = None
    return Audit(dict(counts), tuple(leaks))


def _training_secrets(directory: Path, validation: Collection[str]) -> Iterator[tuple[str, str]]:
    """Every secret a training game had, with the file that says so. Teacher games are what SFT trains on.

    Games by which weights are chosen have validation secrets and are none of training.
    """
    for row in _rows(directory / "traces.jsonl"):
        yield "traces.jsonl", str(row["secret"])
    for row in _rows(directory / "secrets.jsonl"):
        for secret in list(row["secrets"]):  # type: ignore[call-overload]  # a JSON list
            yield "secrets.jsonl", str(secret)
    for row in _rows(directory / "games.jsonl"):
        if row.get("stage") != "validation" or row["secret"] not in validation:
            yield "games.jsonl", str(row["secret"])


def _rows(path: Path) -> Iterable[dict[str, object]]:
    return read_jsonl(path) if path.is_file() else ()
