"""Teachers' games as traces: the solver's, with slips and thinking in words, and those of your own teacher."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from wordle_rl.boards import InitialState
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.data.game_record import GameNotes, GameRecord, TurnNotes, TurnRecord
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Outcome, Turn, score_guess, violates_clues
from wordle_rl.import_paths import source_mark
from wordle_rl.policy.scripted import OwnSampler
from wordle_rl.prompt import Guess, describe_knowledge, knowledge_of
from wordle_rl.rollout import play
from wordle_rl.runs import write_jsonl
from wordle_rl.runs.jsonl_store import unfinished
from wordle_rl.solver import Solver, decode_marks
from wordle_rl.teachers.made_up_secrets import Spelling, invented_words, pseudo_secret
from wordle_rl.teachers.solver import SolverTeacher, TeacherGames, misspelt
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

_CHUNK = 4096
_OWN_CHUNK = 256
"""Games of your own teacher that are played and stored together; a stop loses fewer than this."""
_TRY_RATE = 0.6
"""Probability, per spare turn, of a refused string before an invented word is named. On a board that no known word
fits, a policy is often refused and must learn to try something else."""


def draw_secrets(words: WordList, split: Split, settings: TraceSettings, seed: int) -> list[str]:
    """Draw the secrets of the teacher's games; held-out secrets are never among them.

    They are training secrets (without those reserved for RL), words outside the answers, and invented words. Some of
    the words outside keep a place for a pseudo secret, which is known only when the game was played.
    """
    rng = random.Random(seed)
    num_outside = round(settings.num_games * sum(_outside_rates(words, settings)))
    secrets = rng.choices(words.outside, k=num_outside) if num_outside else []
    num_invented = min(round(settings.num_games * settings.invented_rate), settings.num_games - num_outside)
    taught, _ = split.shared(settings.rl_only_fraction)
    rounds, rest = divmod(settings.num_games - num_outside - num_invented, len(taught))
    secrets += list(taught) * rounds + rng.sample(taught, rest)
    if num_invented:
        secrets += islice(invented_words(words, rng), num_invented)
    rng.shuffle(secrets)
    return secrets


def _outside_rates(words: WordList, settings: TraceSettings) -> tuple[float, float]:
    # The fractions of listed words outside the answers and of pseudo secrets. Narration speaks about the answers. With
    # a secret outside them, "Only essay fits" would be false.
    return (settings.outside_rate, settings.pseudo_rate) if words.outside and not settings.narrate else (0.0, 0.0)


def solver_traces(
    secrets: Sequence[str], teacher: SolverTeacher, settings: TraceSettings, seed: int, max_turns: int = 6
) -> Iterator[GameRecord]:
    """Play one teacher game per secret; with `pseudo_rate`, letters can replace words outside the answers."""
    for start in range(0, len(secrets), _CHUNK):
        yield from _chunk_of(secrets, teacher, settings, seed, start, max_turns)


def _chunk_of(
    secrets: Sequence[str], teacher: SolverTeacher, settings: TraceSettings, seed: int, start: int, max_turns: int
) -> Iterator[GameRecord]:
    # A chunk depends on no other chunk, so a run can resume at any of them. Each draws from streams of its own.
    words, drawn = teacher.words, list(secrets[start : start + _CHUNK])
    slips, letters = (random.Random(f"{stream} {seed} {start}") for stream in ("slips", "letters"))

    def played(secrets: Sequence[str]) -> Iterator[GameRecord]:
        games = teacher.play(secrets, settings.teacher, seed + start, max_turns)
        return _as_traces(words, games, settings, seed, slips)

    if not settings.pseudo_rate:
        return played(drawn)
    # Play an answer in place of such an outside word, then replace the secret by letters with the same marks. Of the
    # k first words outside, k * share are replaced.
    rates = _outside_rates(words, settings)
    share = rates[1] / (sum(rates) or 1)
    outside = [place for place, secret in enumerate(drawn) if _is_outside(secret, words)]
    num_before = sum(_is_outside(secret, words) for secret in secrets[:start])
    pseudo = [
        place for k, place in enumerate(outside, num_before) if math.floor((k + 1) * share) > math.floor(k * share)
    ]
    shown = _evenly(words.answers, math.floor(num_before * share), len(pseudo), seed)
    secret_of = dict(zip(pseudo, shown, strict=True))
    answers = [secret_of.get(place, secret) for place, secret in enumerate(drawn)]
    found = {
        place: _with_pseudo_secret(trace, words, letters) if place in secret_of else trace
        for place, trace in enumerate(played(answers))
    }
    if without := [place for place, trace in found.items() if trace is None]:  # no such letters: play the outside word
        found |= zip(without, played([drawn[place] for place in without]), strict=True)
    return (trace for trace in found.values() if trace is not None)


def _is_outside(secret: str, words: WordList) -> bool:
    return secret in words.guess_index and secret not in words.answer_index


def _evenly(answers: Sequence[str], start: int, count: int, seed: int) -> list[str]:
    # A slice of an endless sequence: all answers in random order, then all again in another order, and so on.
    found: list[str] = []
    for turn in range(start // len(answers), (start + count) // len(answers) + 1):
        shuffled = list(answers)
        random.Random(f"answers {seed} {turn}").shuffle(shuffled)
        found += shuffled
    begin = start % len(answers)
    return found[begin : begin + count]


def _with_pseudo_secret(trace: GameRecord, words: WordList, rng: random.Random) -> GameRecord | None:
    *earlier, last = trace.turns
    guesses = [turn.guess for turn in earlier if turn.guess and turn.marks]
    refused = [turn.guess for turn in earlier if turn.guess and not turn.marks]
    letters = pseudo_secret(trace.secret, guesses, words, rng, refused) if trace.won and guesses else None
    if letters is None or last.guess is None:
        return None
    return replace(trace, secret=letters, turns=(*earlier, replace(last, marks=score_guess(letters, last.guess))))


def validation_traces(
    split: Split, teacher: SolverTeacher, settings: TraceSettings, seed: int, max_turns: int = 6
) -> Iterator[GameRecord]:
    """Play one teacher game per validation secret, for SFT's validation loss; they are never trained on.

    The teacher plays as in the training games, with noise. A part of every loss is therefore irreducible, and a model
    that memorises the noise loses most there.
    """
    # Another seed than for training, or both would have the same random openings.
    seed = random.Random(f"validation {seed}").getrandbits(31)
    return solver_traces(split.val, teacher, settings, seed, max_turns)


def write_solver_traces(
    path: Path,
    split: Split,
    solver: Solver,
    settings: TraceSettings,
    seed: int,
    on_progress: Callable[[int], None],
    validation: Path | None = None,
    max_turns: int = 6,
) -> int:
    """Let the solver teacher play `settings.num_games` games, write them to a file, and return their number.

    With `validation`, that file gets the `validation_traces` first. A stopped call resumes.
    """
    teacher = SolverTeacher(solver)
    secrets = draw_secrets(solver.words, split, settings, seed)
    asked = {
        "settings": settings.model_dump(mode="json"),
        "max_turns": max_turns,
        "seed": seed,
        "words": solver.words.fingerprint,
        "reserved": sorted(solver.words.reserved),
        "secrets": secrets,
    }
    if validation is not None:
        games = validation_traces(split, teacher, settings, seed, max_turns)
        write_jsonl(validation, (trace.to_row() for trace in games))

    def play_chunk(start: int) -> Iterator[GameRecord]:
        on_progress(start)
        return _chunk_of(secrets, teacher, settings, seed, start, max_turns)

    _write_traces(path, asked, len(secrets), _CHUNK, play_chunk)
    on_progress(len(secrets))
    return len(secrets)


def _write_traces(
    path: Path, asked: Mapping[str, Any], num_games: int, chunk: int, play_chunk: Callable[[int], Iterable[GameRecord]]
) -> None:
    # Games are kept beside the file until all are complete. A stopped call resumes after the last complete chunk if
    # `asked`, everything that the games depend on, is the same.
    with unfinished(path, asked) as store:
        for start in range(store.keep_multiple(chunk), num_games, chunk):
            store.add(*(trace.to_row() for trace in play_chunk(start)))
        store.finish(path)


def _as_traces(
    words: WordList, games: TeacherGames, settings: TraceSettings, seed: int, rng: random.Random
) -> Iterator[GameRecord]:
    spelling = Spelling(words)
    columns = (games.guesses, games.codes, games.taught, games.remaining, games.classes)
    for secret, *rows in zip(games.secrets, *(column.tolist() for column in columns), strict=True):
        turns: list[TurnRecord] = []
        spare = len(rows[0]) - sum(guess >= 0 for guess in rows[0])  # turns that slips can use without losing the game
        for guess, code, taught, remaining, classes in zip(*rows, strict=True):
            if guess < 0:
                break
            word = words.guesses[guess]
            if taught and turns:
                slip = partial(misspelt, word, words=words, rng=rng)
                slips = _refused(slip, turns, settings.slip_rate, spare, remaining, rng)
                turns += slips
                spare -= len(slips)
            thinking = ""
            if settings.narrate and taught:
                probe = word not in words.answer_index or violates_clues(word, [turn.turn for turn in turns])
                thinking = narration(turns, word, remaining, classes, probe=probe)
            turns.append(
                TurnRecord(word, decode_marks(code, words.word_length), taught, thinking, notes=TurnNotes(remaining))
            )
        if secret not in words.guess_index and spare > 0:
            tried = partial(spelling.draw_fitting, secret=secret, rng=rng)
            turns += _refused(tried, turns, _TRY_RATE, spare - 1, 0, rng)
            thinking = narration(turns, secret, 0, 0) if settings.narrate else ""
            turns.append(TurnRecord(secret, "G" * words.word_length, thinking=thinking))
        yield GameRecord(secret, tuple(turns), notes=GameNotes("solver", seed))


def _refused(
    draw: Callable[[Sequence[Turn]], str | None],
    turns: Sequence[TurnRecord],
    rate: float,
    most: int,
    remaining: int,
    rng: random.Random,
) -> list[TurnRecord]:
    # Strings that are refused before a guess. Each costs a turn and is not trained on, but what follows it is.
    refused: list[TurnRecord] = []
    while len(refused) < most and rng.random() < rate:
        word = draw([turn.turn for turn in (*turns, *refused)])
        if word is None:
            break
        refused.append(TurnRecord(word, None, taught=False, outcome=Outcome.UNLISTED, notes=TurnNotes(remaining)))
    return refused


_FEW = 5
"""Number of answers that a player can keep in mind."""


def narration(turns: Sequence[TurnRecord], guess: str, remaining: int, classes: int, *, probe: bool = False) -> str:
    """Write the teacher's thinking: facts, how many words are possible, and the reason for the guess.

    It is true by construction and holds no number that a player could not know. A model that learns to write the
    solver's counts would learn to make up numbers. `remaining` is 0 if the guess is an invented word, `classes` is 0 if
    the guess was not chosen for them, and a `probe` cannot be the secret.
    """
    known = describe_knowledge(knowledge_of([turn.turn for turn in turns], len(guess)))
    if remaining == 0:
        return " ".join([*known, f"No word I know fits; {guess} is possible."])
    if remaining == 1:
        return " ".join([*known, f"Only {guess} fits."])
    count = "A few words are possible" if remaining <= _FEW else "Many words are possible"
    apart = "all" if classes == remaining <= _FEW else "most" if 2 * classes > remaining else "some"
    reason = f"{guess} is one of them"
    if not turns:
        reason = f"I open with {guess}"
    elif probe:
        reason = f"{guess} is none of them but tells {apart} of them apart"
    elif classes:
        reason = f"{guess} is one of them and tells {apart} of them apart"
    return " ".join([*known, f"{count}; {reason}."])


# --- your own teacher, by import path ----------------------------------------------------------------------


def own_teacher(words: WordList, settings: TeacherSettings, game: GameSettings, seed: int) -> OwnSampler:
    """Load the teacher that `traces.teacher.name` names."""
    return OwnSampler(settings.name, "traces.teacher.name", words, game.prompter(words.word_length), seed)


def own_teacher_traces(
    words: WordList,
    secrets: Sequence[str],
    teacher: OwnSampler,
    seed: int,
    on_finished: Callable[[], None] | None = None,
) -> Iterator[GameRecord]:
    """Play one game per secret, all at once, and yield them, lost ones included; call `on_finished` at each end."""
    starts = [InitialState(secret) for secret in secrets]
    ended = None if on_finished is None else lambda _place, _game: on_finished()
    for trajectory in play(starts, words, teacher.prompter, teacher, on_finished=ended):
        found = trajectory.transcript
        yield GameRecord(found.secret, tuple(map(_turn_of, found.turns)), notes=GameNotes(teacher.path, seed))


def write_own_teacher_traces(
    path: Path,
    words: WordList,
    secrets: Sequence[str],
    settings: TeacherSettings,
    game: GameSettings,
    seed: int,
    on_progress: Callable[[int], None],
) -> int:
    """Let your teacher play a game per secret, write them to a file, and return their number.

    A stopped call resumes if the teacher's source file is unchanged. A class is created anew for each chunk of games,
    with a seed of its own, so that a resumed call plays what the stopped one would have.
    """
    teacher = own_teacher(words, settings, game, seed)
    asked = {
        "teacher": teacher.path,
        "code": source_mark(teacher.path),
        "game": game.model_dump(mode="json"),
        "seed": seed,
        "words": words.fingerprint,
        "secrets": list(secrets),
    }

    def play_chunk(start: int) -> Iterator[GameRecord]:
        done = count(start + 1)
        chunk = secrets[start : start + _OWN_CHUNK]
        fresh = own_teacher(words, settings, game, seed + start) if start else teacher
        return own_teacher_traces(words, chunk, fresh, seed, on_finished=lambda: on_progress(next(done)))

    _write_traces(path, asked, len(secrets), _OWN_CHUNK, play_chunk)
    return len(secrets)


def _turn_of(played: PlayedTurn) -> TurnRecord:
    parsed = played.parsed
    said = {"thinking": parsed.thinking, "reply": ""} if isinstance(parsed, Guess) else {"reply": played.reply}
    return TurnRecord.of(played, taught=not played.turn.outcome.broke_rules, **said)
