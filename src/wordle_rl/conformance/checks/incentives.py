"""The lesson of rewards: which turn they belong to, whether they tell players apart, whether faults pay."""

from __future__ import annotations

from statistics import fmean, pstdev

import numpy as np
import numpy.typing as npt

from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.examiner import Examiner, mean_total
from wordle_rl.conformance.games import Board, Game, Player, Reply
from wordle_rl.conformance.players import (
    CONSISTENT,
    DETECTIVE,
    IDLE_CANARIES,
    LOSER,
    QUITTER,
    RANDOM_WORD,
    SOLVER,
    WORD_CANARIES,
)
from wordle_rl.conformance.results import Finding, failed, passed, skipped
from wordle_rl.evaluate.stats import sign_flip_exact

_SHOWN = 3
_EPSILON = 1e-9
_ALPHA = 0.01
_GROUPS = 5
_GROUP_SIZE = 8
_STEPS = 1000


def reward_attribution(examiner: Examiner) -> Finding:
    """A turn's reward does not depend on later ones, and the winning turn earns more than any other guess there."""
    secrets = examiner.secrets(10)
    if not secrets:
        return skipped("no game was won, so no secret is known")
    late, unpaid = [], []
    for seed, secret in secrets.items():
        losing = examiner.game(LOSER, seed)
        num_before = min(2, len(losing.turns) - 1)
        winning = examiner.play(_then(losing, num_before, secret), seed)
        if not winning.won or len(losing.turns) <= num_before:
            unpaid.append(f"seed {seed}: {secret!r} no longer wins on turn {num_before + 1}")
            continue
        before = [(one.step.earned, two.step.earned) for one, two in zip(winning.turns, losing.turns, strict=False)]
        late += [f"seed {seed}, turn {t + 1}: {a:g} or {b:g}" for t, (a, b) in enumerate(before[:num_before]) if a != b]
        won, lost = before[num_before]
        if won <= lost:
            unpaid.append(f"seed {seed}: the secret earns {won:g} on turn {num_before + 1}, another word {lost:g}")
    measured = {"games": len(secrets), "rewards_that_changed": len(late), "wins_not_paid": len(unpaid)}
    if late or unpaid:
        remedy = "pay each turn for what it did; rewards of steps are summed, so the winning step pays for the win"
        return failed((late + unpaid)[:_SHOWN], remedy, **measured)
    return passed(f"{len(secrets)} pairs of games with the same first turns", **measured)


def _then(game: Game, turns: int, word: str) -> Player:
    """A player that repeats the first replies of a game and then says a word."""

    def choose(board: Board) -> Reply:
        number = len(board.turns)
        if number < turns:
            return Reply(game.turns[number].reply, game.turns[number].guess)
        return Reply(board.dialect.write(word), word)

    return Player("the secret early", choose)


def training_signal(examiner: Examiner) -> Finding:
    """Better players earn more, and games of one group differ in reward."""
    players = (SOLVER, CONSISTENT, RANDOM_WORD)
    totals = {player.name: [game.total for game in examiner.games(player)] for player in players}
    faults, measured = [], {f"mean_{name.replace(' ', '_')}": round(fmean(sums), 4) for name, sums in totals.items()}
    for better, worse in ((SOLVER, RANDOM_WORD), (CONSISTENT, RANDOM_WORD)):
        steps = _in_steps(np.subtract(totals[better.name], totals[worse.name]))
        p_value = sign_flip_exact(steps)
        measured[f"p_{better.name}_over_{worse.name.replace(' ', '_')}"] = p_value
        if steps.sum() <= 0 or p_value > _ALPHA:
            faults.append(f"{better.name} does not earn more than {worse.name} (p = {p_value:.2g})")
    deviations = [_group_std(examiner, seed) for seed in examiner.seeds[:_GROUPS]]
    constant = sum(std < _EPSILON for std in deviations)
    measured |= {"groups": len(deviations), "group_size": _GROUP_SIZE, "zero_variance_groups": constant}
    if constant > len(deviations) / 2:
        faults.append(f"{constant} of {len(deviations)} groups of {_GROUP_SIZE} games have one reward for all")
    if faults:
        return failed(faults, "let the reward rise with play: wins, and sooner wins or better guesses", **measured)
    return passed(
        "solver and consistent player earn more than random words, "
        f"{len(deviations) - constant} of {len(deviations)} groups with different rewards",
        **measured,
    )


def _in_steps(differences: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Differences in whole steps, the largest of them `_STEPS` from 0, which keeps the exact test short."""
    largest = np.abs(differences).max()
    return np.rint(differences * (_STEPS / largest)).astype(np.int64) if largest > 0 else np.zeros(1, dtype=np.int64)


def _group_std(examiner: Examiner, seed: int) -> float:
    """Standard deviation of the rewards of a group: one secret, players from the best to the worst."""
    mixed = [Player(f"{player.name} {number}", player.choose) for number in range(4) for player in (CONSISTENT, LOSER)]
    return pstdev(examiner.game(player, seed).total for player in mixed[:_GROUP_SIZE])


def gameability_gap(examiner: Examiner) -> Finding:
    """No loss is paid as a win is, and no broken rule more than an honest loss."""
    everyone = (SOLVER, DETECTIVE, LOSER, QUITTER, *IDLE_CANARIES, *WORD_CANARIES)
    games = [game for player in everyone for game in examiner.games(player) if game.done]
    wins = [game for game in games if game.won]
    honest = [game for game in games if not game.won and game.player == LOSER.name and game.honest]
    broken = [game for game in games if not game.won and not game.honest]
    if not wins or not honest:
        return skipped("there is no win, or no honest loss, to compare with")
    lowest_win, lowest_loss = min(game.total for game in wins), min(game.total for game in honest)
    best_loss = max((game for game in games if not game.won), key=lambda game: game.total)
    measured = {
        "lowest_win": lowest_win,
        "highest_loss": best_loss.total,
        "gap": lowest_win - best_loss.total,
        "lowest_honest_loss": lowest_loss,
        "mean_honest_loss": mean_total(honest),
    }
    faults = []
    if best_loss.total >= lowest_win - _EPSILON:
        faults.append(
            f"a loss ({best_loss.player}, seed {best_loss.seed}) earns {best_loss.total:g}, a win {lowest_win:g}"
        )
    for player in dict.fromkeys(game.player for game in broken):
        best = max((game for game in broken if game.player == player), key=lambda game: game.total)
        measured[f"highest_{player.replace(' ', '_')}"] = best.total
        if best.total > lowest_loss + _EPSILON:
            faults.append(f"{player} (seed {best.seed}) earns {best.total:g}, an honest loss {lowest_loss:g}")
    if faults:
        remedy = "pay no broken rule more than an honest loss, and no loss as much as a win"
        return failed(faults, remedy, **measured)
    return passed(f"{len(wins)} wins above {len(games) - len(wins)} losses; no broken rule pays", **measured)


def _tested(games: int) -> str:
    return (
        f"exact sign-flip test over {games} pairs at 1 % for each of two comparisons: that often an environment that "
        "pays players alike passes; below 8 pairs none can"
    )


CHECKS = (
    Check("runtime.reward_attribution", "Each turn is paid for itself", reward_attribution, ("runtime.seed_control",)),
    Check("statistical.training_signal", "Better play earns more", training_signal, error_level=_tested),
    Check("statistical.gameability_gap", "Breaking rules does not pay", gameability_gap),
)
"""Checks of this file, in order."""
