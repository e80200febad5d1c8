"""Rules of the game: marks, repeated letters, the last turn, the limit of turns, the end."""

from __future__ import annotations

from collections import Counter

from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.games import Game, play_game
from wordle_rl.conformance.players import CONSISTENT, DETECTIVE, LOSER, SOLVER, faulty_marks
from wordle_rl.conformance.results import Finding, failed, passed, skipped

_SHOWN = 3


def expected_marks(secret: str, guess: str) -> str:
    """Marks by counting: a letter that is not in its place is yellow while copies are left that no green took.

    Written apart from the rules of this package, so that it is a second opinion on them too.

    Examples:
        >>> expected_marks("abbey", "babes")
        'YYGGX'
    """
    places = range(len(secret))
    greens = {place for place in places if secret[place] == guess[place]}
    left = Counter(secret[place] for place in places if place not in greens)
    marks = []
    for place in places:
        letter = guess[place]
        earlier = sum(guess[before] == letter for before in range(place) if before not in greens)
        marks.append("G" if place in greens else "Y" if earlier < left[letter] else "X")
    return "".join(marks)


def marks(examiner: Examiner) -> Finding:
    """Marks of every guess in games whose secret is known are those of the rules."""
    games = [game for player in (SOLVER, CONSISTENT) for game in examiner.games(player)]
    checked = _marked(games)
    wrong = _wrong(checked)
    lost = [game for game in games if not game.won and _contradicts(examiner, game)]
    measured = {"guesses": len(checked), "wrong": len(wrong), "games_no_answer_fits": len(lost)}
    remedy = "green first; then yellow for each letter while copies are left, from the left"
    if wrong:
        return failed(wrong[:_SHOWN], remedy, **measured)
    if lost:
        seen = [f"seed {game.seed}, {game.player}: no answer of the word list fits {_board(game)}" for game in lost]
        return failed(seen[:_SHOWN], f"{remedy}; or examine it with its own word list (--words)", **measured)
    if not checked:
        return skipped("no game was won, or no marks could be read", **measured)
    return passed(f"{len(checked)} guesses of {len(games)} games", **measured)


def repeated_letters(examiner: Examiner) -> Finding:
    """Marks of words with a repeated letter, chosen for the secret so that common faults show."""
    games = examiner.games(DETECTIVE)
    checked = [each for each in _marked(games) if len(set(each[1])) < len(each[1])]
    telling = [
        each for each in checked if any(faulty != expected_marks(*each[:2]) for faulty in faulty_marks(*each[:2]))
    ]
    wrong = _wrong(checked)
    measured = {"guesses": len(checked), "guesses_that_tell": len(telling), "wrong": len(wrong)}
    if wrong:
        return failed(wrong[:_SHOWN], "use each copy of a letter up once, greens before yellows", **measured)
    if not telling:
        return skipped("no game could be played to a known secret with a guess that tells scorers apart", **measured)
    return passed(f"{len(checked)} guesses with a repeated letter; on {len(telling)} a common fault shows", **measured)


def _marked(games: list[Game]) -> list[tuple[str, str, str]]:
    """Secret, guess and marks of every guess in games that were won."""
    return [
        (game.secret, turn.guess, turn.marks)
        for game in games
        for turn in game.turns
        if game.secret is not None and turn.guess is not None and turn.marks is not None
    ]


def _wrong(checked: list[tuple[str, str, str]]) -> list[str]:
    return [
        f"secret {secret!r}, guess {guess!r}: {given}, by the rules {expected_marks(secret, guess)}"
        for secret, guess, given in checked
        if given != expected_marks(secret, guess)
    ]


def _contradicts(examiner: Examiner, game: Game) -> bool:
    scored = [(turn.guess, turn.marks) for turn in game.turns if turn.guess and turn.marks]
    return bool(scored) and len(examiner.solver.candidates(scored)) == 0


def _board(game: Game) -> str:
    return ", ".join(f"{turn.guess} {turn.marks}" for turn in game.turns if turn.marks)


def last_turn_win(examiner: Examiner) -> Finding:
    """The secret on the last turn wins, ends the game and is paid as a win."""
    last = examiner.settings.max_turns
    games = [game for game in examiner.games(DETECTIVE) if game.won and len(game.turns) == last]
    losses = [game.total for game in examiner.games(LOSER) if game.done]
    if not games:
        return skipped(f"no game could be brought to turn {last} with its secret known")
    unpaid = [game for game in games if losses and game.total <= max(losses)]
    measured = {
        "games": len(games),
        "lowest_reward": min(game.total for game in games),
        "highest_loss": max(losses, default=None),
        "unpaid": len(unpaid),
    }
    if unpaid:
        seen = [f"seed {game.seed}: won on turn {last} for {game.total:g}" for game in unpaid]
        return failed(
            [*seen[:_SHOWN], f"a loss earns up to {max(losses):g}"], "ask for the win before the limit", **measured
        )
    return passed(f"{len(games)} games won on turn {last}", **measured)


def turn_limit(examiner: Examiner) -> Finding:
    """A game without the secret ends on its last turn, not before and not after."""
    games = examiner.games(LOSER)
    limit = examiner.settings.max_turns
    unread = [game for game in games if not game.honest]
    faults = [_length_fault(game, limit) for game in games if not game.done or len(game.turns) != limit]
    measured = {"games": len(games), "wrong_length": len(faults), "with_refused_words": len(unread)}
    if faults and len(unread) == len(games):
        return failed(
            f"every game had a listed word refused or left without marks: {_refused_word(games)}",
            "examine it with its own word list (--words) and dialect (--dialect)",
            **measured,
        )
    if faults:
        return failed(faults[:_SHOWN], f"end a game after {limit} guesses, whatever they were", **measured)
    return passed(f"{len(games)} games of {limit} guesses", **measured)


def _length_fault(game: Game, limit: int) -> str:
    if not game.done:
        return f"seed {game.seed}: not over after {len(game.turns)} replies"
    return f"seed {game.seed}: over after {len(game.turns)} guesses instead of {limit}"


def _refused_word(games: list[Game]) -> str:
    first = next(turn for game in games for turn in game.turns if turn.marks is None)
    return f"{first.reply!r} was answered {first.step.text[:80]!r}"


def after_end(examiner: Examiner) -> Finding:
    """After the end a reply changes nothing: it is refused, or the game stays over and pays nothing more."""
    faults, answers = [], []
    for player in (SOLVER, LOSER):
        seed = examiner.seeds[0]
        with examiner.session(seed) as session:
            board = examiner.board(session, player.name, seed)
            game = play_game(session, player, board, seed=seed, max_replies=examiner.settings.max_replies)
            if not game.done:
                continue
            step = session.send(game.turns[0].reply)
        how = "is refused" if step.refused else "changes nothing" if step.done else "is played"
        answers.append(f"after a game of {player.name} a further guess {how}: {step.text[:60]!r}")
        if not step.refused and (not step.done or step.earned != 0.0):
            faults.append(f"{answers[-1]}, reward {step.earned:g}")
    if faults:
        return failed(faults, "refuse replies once a game is over, until it is reset")
    if not answers:
        return skipped("no game came to its end")
    return passed(*answers)


CHECKS = (
    Check("wordle.turn_limit", "Six guesses, no more and no fewer", turn_limit),
    Check("wordle.marks", "Marks follow the rules", marks),
    Check("wordle.repeated_letters", "Repeated letters are marked by the rules", repeated_letters),
    Check("wordle.last_turn_win", "A win on the last turn is a win", last_turn_win),
    Check("wordle.after_end", "After the end nothing changes", after_end),
)
"""Checks of this file, in order."""
