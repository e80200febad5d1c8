"""Strict words won by a speller without fault, the yardstick of a model that has never met them.

    python benchmarks/strict_words.py [imitation] [--games runs/imitation/eval/sft.json] [--seed 0] [--json]

The solver that knows every answer but the strict ones plays until none of its words fits. From there on the speller
names what the marks allow: any listed word, drawn at random; or any letters, the likeliest first by the letters of the
words that training may name, which costs a turn where they are no listed word. Neither knows the strict words.

With `--games`, the evaluation of a model, the speller by letters goes on from that model's own boards, and what the
model did with its turns from there on is counted.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.errors import UserError
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Dictionary, Outcome, Turn, score_guess, violates_clues
from wordle_rl.prompt import Knowledge, knowledge_of
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList

NUM_TURNS = 6
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CONTEXT = 2
"""Letters before a letter that it depends on, beside its place."""
FLOOR = 0.02
"""Share of a letter's probability that is the same for all."""


def main() -> None:
    """Play every strict word both ways and print the wins, and those of a model."""
    parser = argparse.ArgumentParser(description="Win strict words by spelling alone.")
    parser.add_argument("config", nargs="?", type=Path, default=Path("imitation"))
    parser.add_argument("--games", type=Path, help="evaluation of a model that played the strict words")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    config = load_config(options.config)
    context = GameContext.of(config)
    strict = context.split.strict
    if not strict:
        parser.error(f"{options.config} has no strict words; set words.strict_fraction")
    rng = random.Random(options.seed)
    letters = Letters(context.for_training.solver.words.guesses)
    boards = exhausted_boards(context, config.traces, options.seed)
    listed = frozenset(context.words.guesses)
    counts = {
        "strict words": len(strict),
        "speller: listed words": sum(by_listed_words(secret, boards[secret], sorted(listed), rng) for secret in strict),
        "speller: letters": sum(
            by_letters(secret, board, (), NUM_TURNS - len(board), listed, letters) for secret, board in boards.items()
        ),
    }
    if options.games:
        try:
            played = Evaluation.load(options.games).only(strict)
        except UserError as error:
            parser.error(str(error))
        if (
            not played.records
            or played.rules.max_turns != NUM_TURNS
            or played.rules.dictionary is not Dictionary.STRICT
        ):
            parser.error(
                f"{options.games}: no strict word of {options.config} is played in {NUM_TURNS} turns with the strict "
                "dictionary; name an evaluation of that model"
            )
        counts |= by_a_model(played.records, context, listed, letters)
    if options.json:
        print(json.dumps(counts))
        return
    for name, count in counts.items():
        print(f"{name:<40}{count:>4}")


def exhausted_boards(context: GameContext, traces: TraceSettings, seed: int) -> dict[str, list[Turn]]:
    """For each strict word the board of the solver's game at which none of the words that it knows is left."""
    named = context.for_training.solver.words
    teacher = SolverTeacher(Solver(WordList("without strict words", named.answers, named.guesses)))
    exact = traces.teacher.model_copy(update={"noise_rate": 0.0, "random_opener_rate": 0.0})
    settings = traces.model_copy(update={"teacher": exact, "slip_rate": 0.0, "pseudo_rate": 0.0})
    games = solver_traces(context.split.strict, teacher, settings, seed)
    return {
        game.secret: [
            Turn(turn.guess, turn.marks, Outcome.SCORED)
            for turn in game.turns
            if turn.marks and turn.guess != game.secret
        ]
        for game in games
    }


def by_listed_words(secret: str, board: list[Turn], listed: list[str], rng: random.Random) -> bool:
    """True if the secret is found by naming any listed word that the marks allow, in the turns that are left."""
    turns = list(board)
    while len(turns) < NUM_TURNS:
        guess = rng.choice([word for word in listed if not violates_clues(word, turns)])
        if guess == secret:
            return True
        turns.append(Turn(guess, score_guess(secret, guess), Outcome.SCORED))
    return False


def by_letters(
    secret: str, board: list[Turn], named: Iterable[str], left: int, listed: frozenset[str], letters: Letters
) -> bool:
    """True if the secret is found in the turns that are left, by naming the likeliest letters that the marks allow.

    A string that is no listed word costs a turn; those in `named` have been refused before.
    """
    turns, refused = list(board), set(named)
    for _ in range(left):
        known = knowledge_of(turns, len(secret))
        guess = next(
            word for word in letters.likeliest(known) if word not in refused and not violates_clues(word, turns)
        )
        if guess == secret:
            return True
        if guess in listed:
            turns.append(Turn(guess, score_guess(secret, guess), Outcome.SCORED))
        else:
            refused.add(guess)
    return False


def by_a_model(
    games: Iterable[GameRecord], context: GameContext, listed: frozenset[str], letters: Letters
) -> dict[str, int]:
    """Count what a model did in games of strict words from the first board that no answer known to its training fits.

    `letters from its boards` are the wins of the speller that goes on from there. A turn is counted once: it has no
    guess of the right length, names the secret, repeats a refused string, contradicts a mark, or names what fits.
    """
    solver = context.for_training.solver
    found, kinds = Counter[str](), Counter[str]()
    for game in games:
        if game.error is not None:  # neither won nor lost
            continue
        found["games"] += 1
        found["wins"] += game.won
        board, refused, fitting, exhausted = list[Turn](), set[str](), solver.candidates(()), False
        for place, turn in enumerate(played.turn for played in game.turns):
            if not exhausted and not len(fitting):
                exhausted = True
                found["boards without a known word"] += 1
                left = NUM_TURNS - place
                found["letters from its boards"] += by_letters(game.secret, board, refused, left, listed, letters)
            if exhausted:
                kinds[_kind(turn, game.secret, board, refused)] += 1
            if turn.guess and turn.marks:
                board.append(turn)
                fitting = solver.narrow(fitting, turn.guess, turn.marks)
            elif turn.guess:
                refused.add(turn.guess)
    return {f"model: {name}": count for name, count in found.items()} | {
        f"model: turns, {name}": count for name, count in kinds.most_common()
    }


def _kind(turn: Turn, secret: str, board: list[Turn], refused: set[str]) -> str:
    if turn.guess is None or turn.outcome not in (Outcome.SCORED, Outcome.UNLISTED):
        return "no guess"
    if turn.guess == secret:
        return "the secret"
    if turn.guess in refused:
        return "a refused string again"
    if violates_clues(turn.guess, board):
        return "against a mark"
    return "a listed word that fits" if turn.outcome is Outcome.SCORED else "no word, but it fits"


class Letters:
    """Probabilities of the letters of words, given the place and the two letters before."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for word in words:
            for place, letter in enumerate(word):
                self._counts[place, word[max(0, place - CONTEXT) : place]][letter] += 1

    def likeliest(self, known: Knowledge) -> Iterator[str]:
        """Strings that have known letters in place and none that is absent, the likeliest first."""
        begun = [(0.0, "")]
        while begun:
            cost, text = heapq.heappop(begun)
            if (place := len(text)) == len(known.placed):
                yield text
                continue
            counts = self._counts[place, text[-CONTEXT:]]
            total = counts.total()
            for letter in known.placed[place] or LETTERS:
                if letter not in known.absent and place not in known.misplaced.get(letter, ()):
                    share = counts[letter] / total if total else 0.0
                    heapq.heappush(begun, (cost - math.log((1 - FLOOR) * share + FLOOR / len(LETTERS)), text + letter))


if __name__ == "__main__":
    main()
