"""Well-formed rewards, the exact solver at the top, and canaries that do not play at the bottom."""

from __future__ import annotations

import math

from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.examiner import Examiner, mean_total
from wordle_rl.conformance.games import Game
from wordle_rl.conformance.players import IDLE_CANARIES, LOSER, NOTHING, SOLVER, WORD_CANARIES
from wordle_rl.conformance.results import Finding, failed, passed, skipped

_SHOWN = 3
_IDLE_LIMIT = 0.05
_WORD_LIMIT = 0.1


def reward_well_formed(examiner: Examiner) -> Finding:
    """Every reward is a finite number, or none; the end is marked by a truth value."""
    games = [game for player in (SOLVER, LOSER, NOTHING) for game in examiner.games(player)]
    steps = [(game, turn.step) for game in games for turn in game.turns if not turn.step.refused]
    wrong = [f"seed {game.seed}, {game.player}: {step.reward!r}" for game, step in steps if not _is_number(step.reward)]
    unpaid = [game for game in games if game.done and all(turn.step.reward is None for turn in game.turns)]
    wrong += [f"seed {game.seed}, {game.player}: a finished game without any reward" for game in unpaid]
    measured = {"steps": len(steps), "wrong": len(wrong)}
    if not steps:
        return skipped("every reply was refused, so no reward was sent")
    if wrong:
        return failed(wrong[:_SHOWN], "send a finite number as reward: no text, no truth value, no NaN", **measured)
    totals = [game.total for game in games]
    return passed(
        f"{len(steps)} steps of {len(games)} games", **measured, lowest_game=min(totals), highest_game=max(totals)
    )


def _is_number(reward: object) -> bool:
    if reward is None:
        return True
    return isinstance(reward, int | float) and not isinstance(reward, bool) and math.isfinite(reward)


def oracle_max(examiner: Examiner) -> Finding:
    """The exact solver, playing from marks alone, wins every game and is paid for it."""
    games = examiner.games(SOLVER)
    lost = [game for game in games if not game.won]
    wins = [game.total for game in games if game.won]
    declared, tolerance = examiner.settings.max_reward, examiner.settings.oracle_tolerance
    mean_guesses = sum(len(game.turns) for game in games if game.won) / max(1, len(wins))
    measured: dict[str, float | None] = {
        "games": len(games),
        "won": len(wins),
        "mean_reward": mean_total(games),
        "lowest_win": min(wins, default=None),
        "declared_max": declared,
        "mean_guesses": mean_guesses,
    }
    faults = [f"seed {game.seed}: {_how_lost(examiner, game)}" for game in lost]
    if declared is not None:
        faults += [
            f"seed {game.seed}: won with {game.total:g}, declared are {declared:g} less {tolerance:g}"
            for game in games
            if game.won and game.total < declared - tolerance
        ]
    highest_loss = max((game.total for game in examiner.games(LOSER)), default=-math.inf)
    if wins and min(wins) <= highest_loss:
        faults.append(f"a win earns {min(wins):g}, a loss {highest_loss:g}")
    if faults:
        remedy = "pay every win more than any loss; check the marks and the word list if the solver cannot win"
        return failed(faults[:_SHOWN], remedy, **measured, faults=len(faults))
    return passed(
        f"{len(wins)} of {len(games)} games won in {mean_guesses:.2f} guesses, each paid more than a loss",
        **measured,
    )


def _how_lost(examiner: Examiner, game: Game) -> str:
    if game.lost_session:
        return f"the session broke off: {game.lost_session}"
    if not game.done:
        return f"the game did not end within {len(game.turns)} replies"
    scored = [(turn.guess or "", turn.marks) for turn in game.turns if turn.marks is not None]
    if not scored:
        return "no marks could be read from the observations"
    if len(examiner.solver.candidates(scored)) == 0:
        return "no answer of the word list fits the marks: they are wrong, or the secret is not listed"
    return f"lost after {len(game.turns)} turns"


def floor_gap(examiner: Examiner) -> Finding:
    """The solver stands a margin above doing nothing."""
    floor, top = mean_total(examiner.games(NOTHING)), mean_total(examiner.games(SOLVER))
    margin = examiner.settings.floor_margin
    measured = {"floor": floor, "oracle_reward": top, "gap": top - floor, "declared_margin": margin}
    if top - floor < margin:
        return failed(
            f"doing nothing earns {floor:g}, the solver {top:g}: a gap of {top - floor:g}, asked are {margin:g}",
            "pay for the secret found, not for replies sent",
            **measured,
        )
    return passed(f"doing nothing earns {floor:g}, the solver {top:g}", **measured)


def canary_floor(examiner: Examiner) -> Finding:
    """Canaries that never make one guess stay at the floor; those that say words without thought earn as losers do.

    Rewards are measured on the way to the solver (1): from doing nothing (0) for the former, from honest losses (0) for
    the latter.
    """
    top = mean_total(examiner.games(SOLVER))
    bases = {NOTHING: (IDLE_CANARIES, _IDLE_LIMIT), LOSER: (WORD_CANARIES, _WORD_LIMIT)}
    faults, measured = [], {}
    for base, (canaries, limit) in bases.items():
        floor = mean_total(examiner.games(base))
        if top <= floor:
            faults.append(f"the solver earns {top:g}, {base.name} {floor:g}")
            continue
        for canary in canaries:
            reached = (mean_total(examiner.games(canary)) - floor) / (top - floor)
            measured[canary.name.replace(" ", "_")] = round(reached, 4)
            if reached > limit:
                faults.append(f"{canary.name} gets {reached:.0%} of the way from {base.name} to the solver")
    for canary in (*IDLE_CANARIES, *WORD_CANARIES):
        if endless := [game for game in examiner.games(canary) if not game.done]:
            faults.append(f"{canary.name}: {len(endless)} games did not end within {len(endless[0].turns)} replies")
    if faults:
        remedy = "read one guess a reply by a strict grammar, end every game, and pay for marks rather than for words"
        return failed(faults, remedy, **measured)
    return passed(", ".join(f"{name} {value:.0%}" for name, value in measured.items()), **measured)


def _lost_games(games: int) -> str:
    return f"an environment in which the solver loses a fraction p of games passes with probability (1 - p)^{games}"


def _means(games: int) -> str:
    return f"means of {games} games each, compared with limits and not with each other; no test of significance"


CHECKS = (
    Check("runtime.reward_well_formed", "Rewards are finite numbers", reward_well_formed),
    Check("semantic.oracle_max", "The exact solver wins and is paid", oracle_max, error_level=_lost_games),
    Check("semantic.floor_gap", "Doing nothing earns little", floor_gap, error_level=_means),
    Check("semantic.canary_floor", "Canaries stay at the floor", canary_floor, error_level=_means),
)
"""Checks of this file, in order."""
