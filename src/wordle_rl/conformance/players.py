"""Players that the checks send in: the exact solver, honest ones of less skill, and canaries that do not play."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np

from wordle_rl.conformance.games import Board, Player, Reply
from wordle_rl.game import score_guess
from wordle_rl.solver import Solver
from wordle_rl.solver.search import Candidates

PROSE = "I do not know which word it could be."
SPAM_WORDS = 40


def _guess(board: Board, word: str) -> Reply:
    return Reply(board.dialect.write(word), word)


def _solve(board: Board) -> Reply:
    """The solver's best guess; once no answer fits the marks, random words, since there is nothing left to solve."""
    fits = board.candidates
    if not fits:
        return _any_word(board)
    if not board.scored:
        return _guess(board, board.solver.best_openers(1)[0].guess)
    indices = board.solver.candidates(board.scored)
    return _guess(board, board.solver.best_guess(indices))


def _any_word(board: Board) -> Reply:
    return _guess(board, board.rng.choice(board.solver.words.guesses))


def _consistent(board: Board) -> Reply:
    fits = board.candidates
    return _guess(board, board.rng.choice(fits)) if fits else _any_word(board)


def _lose(board: Board) -> Reply:
    """A listed word that cannot be the secret, not guessed before."""
    fits, said = set(board.candidates), {turn.guess for turn in board.turns}
    words = [word for word in board.solver.words.guesses if word not in fits and word not in said]
    # On an empty board every answer fits: an outside word then, or any word if the list has none.
    return _guess(board, board.rng.choice(words or board.solver.words.guesses))


def _find_out(board: Board) -> Reply:
    """Find the secret without saying it, try words of repeated letters on it, and say it on the last turn.

    It goes by the marks of words that have no letter twice: how repeated letters are marked is what these games show.
    """
    probed = [(guess, marks) for guess, marks in board.scored if len(set(guess)) == len(guess)]
    known = board.solver.candidates(probed)
    if len(known) == 0:
        return _any_word(board)
    secret = board.solver.words.answers[known[0]]
    said = frozenset(turn.guess for turn in board.turns if turn.guess is not None)
    if len(board.turns) >= board.max_turns - 1:
        return _guess(board, secret)
    if len(known) == 1:
        return _guess(board, _telling_repeats(secret, board.solver.words.guesses, said))
    return _guess(board, _best_probe(board.solver, known if probed else None, said))


def _best_probe(solver: Solver, known: Candidates | None, said: frozenset[str]) -> str:
    """The guess with most information among words that cannot be the secret and have no letter twice.

    Nothing known (None): every answer may be the secret, so the first probe is none of them where the list allows.
    """
    if known is None:
        ranked = [opener.guess for opener in solver.best_openers(len(solver.words.guesses))]
        fits = set(solver.words.answers)
    else:
        ranked = [solver.words.guesses[index] for index in np.argsort(-solver.information(known), kind="stable")]
        fits = {solver.words.answers[index] for index in known}
    probes = (word for word in ranked if word not in fits and word not in said and len(set(word)) == len(word))
    return next(probes, ranked[0])


@lru_cache(maxsize=4096)
def _telling_repeats(secret: str, words: tuple[str, ...], said: frozenset[str]) -> str:
    """The word with a repeated letter on whose marks most faulty scorers disagree with the rules."""

    def disagreeing(word: str) -> int:
        right = score_guess(secret, word)
        return sum(faulty != right for faulty in faulty_marks(secret, word))

    pool = [word for word in words if len(set(word)) < len(word) and word != secret and word not in said]
    return max(pool or [word for word in words if word != secret], key=disagreeing)


def faulty_marks(secret: str, guess: str) -> tuple[str, ...]:
    """Marks of three faulty scorers that are common: they treat a repeated letter wrongly.

    The first gives yellow to every letter that occurs, the second counts copies from the left without setting greens
    apart, the third counts them from the left, greens first, but never uses a copy up.
    """
    occurs = "".join("G" if s == g else "Y" if g in secret else "X" for s, g in zip(secret, guess, strict=True))
    seen: Counter[str] = Counter()
    from_left = []
    for s, g in zip(secret, guess, strict=True):
        seen[g] += 1
        from_left.append("G" if s == g else "Y" if seen[g] <= secret.count(g) else "X")
    free = Counter(s for s, g in zip(secret, guess, strict=True) if s != g)
    unused = "".join("G" if s == g else "Y" if free[g] else "X" for s, g in zip(secret, guess, strict=True))
    return occurs, "".join(from_left), unused


def _quit(board: Board) -> Reply:
    """Two good guesses, then nothing but prose."""
    return _find_out(board) if len(board.turns) < 2 else Reply(PROSE)


def _spam(board: Board) -> Reply:
    words = board.rng.sample(board.solver.words.guesses, min(SPAM_WORDS, len(board.solver.words.guesses)))
    return Reply(" ".join(board.dialect.write(word) for word in words))


def _constant(board: Board) -> Reply:
    words = board.solver.words.guesses
    return _guess(board, words[len(words) // 2])


SOLVER = Player("solver", _solve)
CONSISTENT = Player("consistent", _consistent)
RANDOM_WORD = Player("random word", _any_word)
LOSER = Player("honest loser", _lose)
DETECTIVE = Player("last turn", _find_out)
QUITTER = Player("quitter", _quit)
NOTHING = Player("do nothing", lambda _: Reply(""))
CONSTANT = Player("constant", _constant)
ECHO = Player("echo", lambda board: Reply((board.turns[-1].step if board.turns else board.opening).text))
INVALID = Player("always invalid", lambda _: Reply(PROSE))
SPAM = Player("bracket spam", _spam)

IDLE_CANARIES = (NOTHING, ECHO, INVALID, SPAM)
"""Canaries that never make one guess: they must stay at the floor."""

WORD_CANARIES = (CONSTANT, RANDOM_WORD)
"""Canaries that say listed words without looking at the marks."""
