"""Replies that are no guess: refusals of bad replies, and words that a strict reader must not take for guesses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.dialects import Dialect, read_marks
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.games import Board, Game, Player, Reply
from wordle_rl.conformance.players import INVALID, LOSER
from wordle_rl.conformance.results import Finding, failed, passed, skipped
from wordle_rl.conformance.target import SessionLostError

_HUGE = 20_000


def bad_replies(dialect: Dialect, words: tuple[str, ...]) -> Mapping[str, Reply]:
    """Replies that no rule takes for a guess, by what is wrong with them, with the word that might get marks."""
    length = len(words[0])
    listed = set(words)
    unlisted = next(word for letter in "qxzjvk" if (word := letter * length) not in listed)
    as_guess = {
        "too short": words[0][:-1],
        "too long": words[0] + "s",
        "unlisted": unlisted,
        "digits": "1" * length,
        "accents": "é" * length,
        "other alphabet": "с" * length,
        "emoji": "🟩" * length,
        "null characters": "\x00" * length,
    }
    others = {"empty": "", "blank": " \n\t", "huge": "z " * _HUGE}
    written = {name: Reply(dialect.write(word), word) for name, word in as_guess.items()}
    return {name: Reply(text) for name, text in others.items()} | written


def refusals(examiner: Examiner) -> Finding:
    """Every bad reply has one answer: no marks, no crash, the same cost, and the game continues."""
    faults, costs = [], {}
    seed = examiner.seeds[0]
    for name, bad in bad_replies(examiner.dialect, examiner.solver.words.guesses).items():
        game = examiner.play(_with_bad_reply(bad), seed)
        if fault := _fault(game):
            faults.append(f"{name}: {fault}")
        costs[name] = examiner.settings.max_turns + 1 - len(game.turns) if game.done else None
    if len(set(costs.values())) > 1:
        faults.append(f"bad replies differ in cost: {_by_cost(costs)}")
    endless = [game for game in examiner.games(INVALID, 3) if not game.done]
    if endless:
        faults.append(f"a game of bad replies alone does not end within {len(endless[0].turns)} of them")
    measured = {"kinds": len(costs), "turns_a_bad_reply_costs": costs, "faults": len(faults)}
    if faults:
        remedy = "answer each bad reply with an error and no marks, at one cost, and bound how many are free"
        return failed(faults, remedy, **measured)
    return passed(f"{len(costs)} kinds of bad replies; each costs {next(iter(costs.values()))} turns", **measured)


def _with_bad_reply(bad: Reply) -> Player:
    """An honest loser whose second reply is a bad one."""
    return Player("a bad reply", lambda board: bad if len(board.turns) == 1 else LOSER.choose(board))


def _fault(game: Game) -> str:
    """Fault of the answer to the second reply; '' if it has none."""
    if game.lost_session:
        return f"the session broke off: {game.lost_session}"
    if len(game.turns) < 3:
        return "it ended the game"
    first, bad, after = game.turns[:3]
    if after.marks is None:
        return f"the next guess got no marks: {after.step.text[:60]!r}"
    if bad.marks is not None:
        return f"it got marks: {bad.marks}"
    if not bad.step.refused and _marks_repeated(first.guess or "", bad.step.text, after.step.text):
        return "it was answered with the marks of the guess before"
    if bad.step.earned > max(0.0, first.step.earned):
        return f"it earned {bad.step.earned:g}"
    return ""


def _marks_repeated(guess: str, answer: str, later: str) -> bool:
    """True if an answer marks an earlier guess, and later ones do not: not a history, but stale marks."""
    return read_marks(answer, guess) is not None and read_marks(later, guess) is None


def _by_cost(costs: Mapping[str, int | None]) -> str:
    groups = {cost: [name for name in costs if costs[name] == cost] for cost in costs.values()}
    return "; ".join(f"{'no end' if cost is None else cost}: {', '.join(names)}" for cost, names in groups.items())


def guess_grammar(examiner: Examiner) -> Finding:
    """Prose, thoughts and several guesses are no guess: words in them get no marks."""
    if not examiner.dialect.has_grammar:
        return skipped("in this dialect a reply is a word and nothing else")
    words = _words(examiner)
    taken = {}
    for name, text in _no_guesses(examiner.dialect, *words).items():
        game = examiner.play(Player(name, partial(_first, text)), examiner.seeds[0])
        if not game.turns:
            raise SessionLostError(f"{name}: {game.lost_session}")
        step = game.turns[0].step
        if not step.refused and (marked := [word for word in words if read_marks(step.text, word) is not None]):
            taken[name] = marked[0]
    measured = {"kinds": len(_no_guesses(examiner.dialect, *words)), "taken": taken}
    if taken:
        seen = [f"{name}: {word!r} was taken for the guess" for name, word in taken.items()]
        return failed(seen, "take one guess in its own tags, outside the thinking, and nothing else", **measured)
    return passed(f"none of {measured['kinds']} kinds of replies without one guess was taken for one", **measured)


def _words(examiner: Examiner) -> tuple[str, str]:
    """Two listed words with no common letter, so that marks of one are not read as the other's."""
    words = examiner.solver.words.guesses
    one = next(word for word in words if len(set(word)) == len(word))
    other = next((word for word in words if not set(word) & set(one)), words[-1])
    return one, other


def _first(text: str, board: Board) -> Reply:
    return Reply(text) if not board.turns else LOSER.choose(board)


def _no_guesses(dialect: Dialect, one: str, other: str) -> Mapping[str, str]:
    """Replies without exactly one guess, by name."""
    return {
        "prose": f"My guess is {one}.",
        "a bare word": one,
        "a word in quotes": f'"{one}"',
        "a guess while thinking": f"<think>{dialect.write(one)} may be good</think>",
        "two guesses": f"{dialect.write(one)} {dialect.write(other)}",
        "an open thought": f"<think>perhaps {dialect.write(one)}",
    }


CHECKS = (
    Check("wordle.refusals", "Every bad reply has one answer", refusals),
    Check("wordle.guess_grammar", "Prose and thoughts are no guess", guess_grammar),
)
"""Checks of this file, in order."""
