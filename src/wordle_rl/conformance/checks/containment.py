"""Secrets in what an environment sends before the end: in observations, and beside them."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.games import Game
from wordle_rl.conformance.players import DETECTIVE, INVALID, LOSER, SOLVER
from wordle_rl.conformance.results import Finding, failed, passed, skipped

_SHOWN = 3
_LISTED_RATE = 0.2
"""Fraction of the secrets found that must stand outside sessions to count as listed: a few are plain words."""


def disguises(word: str) -> Mapping[str, re.Pattern[str]]:
    """Patterns of a word in the forms in which environments have been seen to send it, by name.

    Examples:
        >>> [name for name, form in disguises("crane").items() if form.search("C-R-A-N-E")]
        ['spelled out']
    """
    letters = [re.escape(letter) for letter in word]
    raw = word.encode()
    codes = r"\s*,\s*".join(str(ord(letter)) for letter in word)
    places = r"\s*,\s*".join(str(ord(letter) - 96) for letter in word)
    encoded = {base64.b64encode(form.encode()).decode().rstrip("=") for form in (word, word.upper())}
    return {
        "as it is": re.compile(rf"(?<![a-z]){word}(?![a-z])", re.IGNORECASE),
        "spelled out": re.compile(r"(?<![a-z])" + r"[^a-z0-9]{1,4}".join(letters) + r"(?![a-z])", re.IGNORECASE),
        "backwards": re.compile(rf"(?<![a-z]){word[::-1]}(?![a-z])", re.IGNORECASE),
        "in rot13": re.compile(rf"(?<![a-z]){codecs.encode(word, 'rot13')}(?![a-z])", re.IGNORECASE),
        "in base64": re.compile("|".join(map(re.escape, sorted(encoded)))),
        "in hexadecimal": re.compile(f"{raw.hex()}|{raw.upper().hex()}", re.IGNORECASE),
        "as numbers": re.compile(rf"(?<!\d)(?:{codes}|{places})(?!\d)"),
    }


@dataclass(frozen=True)
class Sample:
    """Text sent during one game before its end, its secret, and the words that were guessed in it."""

    player: str
    seed: int
    secret: str
    said: frozenset[str]
    text: str


def no_solution_leakage(examiner: Examiner) -> Finding:
    """No observation before the end holds the secret in any known form."""
    won = [game for player in (SOLVER, DETECTIVE) for game in examiner.games(player) if game.won]
    if not won:
        return skipped("no game was won, so no secret is known to search for")
    samples = [_sample(game, game.secret or "", _observations(game)) for game in won]
    samples += [_sample(game, secret, _observations(game)) for game, secret in _lost(examiner)]
    leaks = leaks_in(samples)
    measured = {"games": len(samples), "characters": sum(len(each.text) for each in samples), "leaks": len(leaks)}
    if leaks:
        remedy = "send the secret in no form before the end; build observations from guesses and marks alone"
        return failed(leaks[:_SHOWN], remedy, **measured)
    forms = len(disguises("crane"))
    searched = f"{measured['characters']} characters of {len(samples)} games searched for {forms} forms of it"
    return passed(searched, **measured)


def oracle_containment(examiner: Examiner) -> Finding:
    """Neither state nor refusals nor anything outside sessions holds the secret before the end."""
    won = [game for player in (SOLVER, DETECTIVE) for game in examiner.games(player) if game.won]
    if not won:
        return skipped("no game was won, so no secret is known to search for")
    samples = [_sample(game, game.secret or "", _beside(game)) for game in won]
    samples += [_sample(game, secret, [*_beside(game), *_refusals(game)]) for game, secret in _lost(examiner)]
    outside = examiner.target.surroundings()
    if not outside and not any(sample.text for sample in samples):
        return skipped("there is nothing beside the observations: no state, no refusal, no listing")
    faults = leaks_in(samples) + _listed(sorted({game.secret or "" for game in won}), outside)
    measured = {"characters": sum(len(sample.text) for sample in samples) + len(outside), "leaks": len(faults)}
    if faults:
        remedy = "keep the secret out of state, errors, metadata and task ids until the game is over"
        return failed(faults[:_SHOWN], remedy, **measured)
    return passed(f"{measured['characters']} characters of state, refusals and metadata searched", **measured)


def leaks_in(samples: Sequence[Sample]) -> list[str]:
    """Samples that hold their own secret, in a form that stands in few samples of the same player with other secrets.

    A word of the instructions, or of the player's replies, stands in all of them: it gives nothing away.
    """
    leaks = []
    for sample in samples:
        others = [each for each in samples if each.player == sample.player and each.secret != sample.secret]
        for name, form in disguises(sample.secret).items():
            if _holds(sample, form) and 2 * sum(_holds(other, form) for other in others) <= len(others):
                leaks.append(f"seed {sample.seed}, {sample.player}: the secret {sample.secret!r} is sent {name}")
    return leaks


def _holds(sample: Sample, form: re.Pattern[str]) -> bool:
    return any(re.sub("[^a-z]", "", match[0].lower()) not in sample.said for match in form.finditer(sample.text))


def _listed(secrets: Sequence[str], outside: str) -> list[str]:
    """Faults of a text outside sessions that lists secrets."""
    faults = []
    for name in disguises("crane"):
        found = [word for word in secrets if disguises(word)[name].search(outside)]
        if len(found) >= 2 and len(found) >= _LISTED_RATE * len(secrets):
            shown = ", ".join(found[:_SHOWN])
            faults.append(f"{len(found)} of {len(secrets)} secrets stand outside sessions {name}: {shown}")
    return faults


def _sample(game: Game, secret: str, texts: Iterable[str]) -> Sample:
    said = frozenset(turn.guess for turn in game.turns if turn.guess is not None and turn.guess != secret)
    return Sample(game.player, game.seed, secret, said, "\n".join(texts))


def _lost(examiner: Examiner) -> list[tuple[Game, str]]:
    """A few lost games with their secrets, where seeds reveal them: games of refused replies are among them."""
    if "runtime.seed_control" not in examiner.passed:
        return []
    secrets = examiner.secrets()
    lost = [game for player in (LOSER, INVALID) for game in examiner.games(player, 5) if not game.won]
    return [(game, secrets[game.seed]) for game in lost if game.seed in secrets]


def _observations(game: Game) -> list[str]:
    """Everything that observations were made of until the reply that ended the game."""
    return [game.opening.raw, *(turn.step.raw for turn in game.turns[:-1] if not turn.step.refused)]


def _beside(game: Game) -> list[str]:
    """Everything to be had beside them until then."""
    return [game.beside_opening, *(turn.beside for turn in game.turns if not turn.step.done)]


def _refusals(game: Game) -> list[str]:
    return [turn.step.raw for turn in game.turns if turn.step.refused]


def _error(games: int) -> str:
    return f"a leak in a fraction p of games is missed with probability (1 - p)^{games}"


CHECKS = (
    Check("semantic.no_solution_leakage", "No observation holds the secret", no_solution_leakage, error_level=_error),
    Check("runtime.oracle_containment", "Nothing beside holds the secret", oracle_containment, error_level=_error),
)
"""Checks of this file, in order."""
