"""Seeds, determinism, isolation and replays."""

from __future__ import annotations

from collections.abc import Sequence

from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.games import Game, Player, Reply, play_game
from wordle_rl.conformance.players import CONSISTENT, ECHO, INVALID, LOSER, QUITTER, SOLVER, SPAM
from wordle_rl.conformance.results import Finding, failed, passed, skipped

_PAIRS = 10
_SHOWN = 3


def seed_control(examiner: Examiner) -> Finding:
    """Two games of one seed have one secret, and seeds differ in theirs."""
    seeds = examiner.seeds[:_PAIRS]
    pairs = [(examiner.game(SOLVER, seed), examiner.play(SOLVER, seed)) for seed in seeds]
    differing = [first.seed for first, second in pairs if _marks_of(first) != _marks_of(second)]
    boards = {_marks_of(first) for first, _ in pairs}
    measured = {"seeds": len(pairs), "seeds_with_two_secrets": len(differing), "different_games": len(boards)}
    if differing:
        return failed(
            f"{len(differing)} of {len(pairs)} seeds gave different games to the same player: "
            f"seeds {', '.join(map(str, differing[:_SHOWN]))}",
            "draw the secret from a generator seeded by reset(seed=…), and from nothing else",
            **measured,
        )
    if len(boards) < 2 <= len(pairs):
        return failed(
            f"{len(pairs)} seeds all gave the same game",
            "let the seed choose the secret",
            **measured,
        )
    return passed(f"{len(pairs)} seeds, each opened twice: the same game twice, {len(boards)} games", **measured)


def _marks_of(game: Game) -> tuple[tuple[str | None, str | None, bool], ...]:
    return tuple((turn.guess, turn.marks, turn.step.done) for turn in game.turns)


def episode_determinism(examiner: Examiner) -> Finding:
    """Determinism: equal seed and replies give equal texts, rewards and ends."""
    seeds = examiner.seeds[:_PAIRS]
    different = []
    for player in (SOLVER, CONSISTENT):
        for seed in seeds:
            game = examiner.game(player, seed)
            if (place := first_difference(game, replay(examiner, game))) is not None:
                different.append(f"seed {seed}, {player.name}: {place}")
    measured = {"games": 2 * len(seeds), "different": len(different)}
    if different:
        return failed(
            different[:_SHOWN], "let nothing but seed and replies decide what an observation or reward is", **measured
        )
    return passed(f"{measured['games']} games played again: every text, reward and end the same", **measured)


def episode_isolation(examiner: Examiner) -> Finding:
    """Games played by turns in two sessions are those played alone; a game given up leaves nothing behind."""
    seeds = list(examiner.seeds[:_PAIRS])
    faults = []
    for one, other in zip(seeds[::2], seeds[1::2], strict=False):
        games = (examiner.game(SOLVER, one), examiner.game(LOSER, other))
        faults += [f"seeds {one} and {other} by turns: {fault}" for fault in _by_turns(examiner, games)]
    for seed in seeds[:2]:
        game = examiner.game(LOSER, seed)
        replay(examiner, game, turns=2)
        if (place := first_difference(game, replay(examiner, game))) is not None:
            faults.append(f"seed {seed} after a game given up on its second turn: {place}")
    pairs = len(seeds) // 2
    if not pairs:
        return skipped("one game is none to keep apart; ask for at least two")
    if faults:
        return failed(faults[:_SHOWN], "keep every value of a game in its own session", pairs=pairs, faults=len(faults))
    return passed(f"{pairs} pairs of games by turns, as when played alone", pairs=pairs, faults=0)


def _by_turns(examiner: Examiner, games: Sequence[Game]) -> list[str]:
    """Replay games in sessions open at once, a reply each by turns; differences from the games played alone."""
    sessions = [examiner.target.open(game.seed) for game in games]
    try:
        seen = [[session.opening] for session in sessions]
        for turn in range(max(len(game.turns) for game in games)):
            for game, session, steps in zip(games, sessions, seen, strict=True):
                if turn < len(game.turns):
                    steps.append(session.send(game.turns[turn].reply))
    finally:
        for session in sessions:
            session.close()
    alone = [(game.opening, *(turn.step for turn in game.turns)) for game in games]
    return [
        f"{game.player} was answered otherwise on turn {place}"
        for game, steps, own in zip(games, seen, alone, strict=True)
        for place, (step, before) in enumerate(zip(steps, own, strict=True))
        if (step.text, step.reward, step.done) != (before.text, before.reward, before.done)
    ][:_SHOWN]


def replayability(examiner: Examiner) -> Finding:
    """A record of seed and replies is enough to have a game again, bad replies included."""
    kinds = (SOLVER, LOSER, QUITTER, INVALID, ECHO, SPAM)
    games = [examiner.game(player, seed) for player in kinds for seed in examiner.seeds[:3]]
    faults = []
    for game in games:
        if (place := first_difference(game, replay(examiner, game))) is not None:
            faults.append(f"seed {game.seed}, {game.player}: {place}")
    measured = {"records": len(games), "different": len(faults)}
    if faults:
        return failed(faults[:_SHOWN], "let seed and replies determine the game, refusals included", **measured)
    return passed(f"{len(games)} records of {len(kinds)} players, replayed from seed and replies alone", **measured)


def replay(examiner: Examiner, game: Game, turns: int | None = None) -> Game:
    """Send the replies of a recorded game again, whatever is answered."""
    said = game.turns[:turns]

    def again(number: int) -> Reply:
        return Reply(said[number].reply, said[number].guess)

    player = Player(game.player, lambda board: again(len(board.turns)))
    with examiner.session(game.seed) as session:
        board = examiner.board(session, "replay", game.seed)
        return play_game(session, player, board, seed=game.seed, max_replies=len(said))


def first_difference(game: Game, other: Game) -> str | None:
    """First place where two games differ in what a policy and its trainer see; None if nowhere."""
    if other.lost_session:
        return f"the session broke off: {other.lost_session}"
    for turn, (one, two) in enumerate(zip(game.visible, other.visible, strict=False)):
        for name, before, now in zip(("text", "reward", "done", "refused"), one, two, strict=True):
            if before != now:
                return f"{name} of turn {turn} was {_short(before)}, then {_short(now)}"
    if len(game.visible) != len(other.visible):
        return f"{len(game.turns)} turns, then {len(other.turns)}"
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _seed_error(games: int) -> str:
    return (
        f"an environment that ignores seeds and has N secrets gives each of {min(games, _PAIRS)} seeds the same game "
        f"twice with probability (1/N)^{min(games, _PAIRS)}"
    )


_SEEDED = ("runtime.seed_control",)

CHECKS = (
    Check("runtime.seed_control", "The seed decides the secret", seed_control, error_level=_seed_error),
    Check("runtime.episode_determinism", "Same seed and replies, same game", episode_determinism, _SEEDED),
    Check("runtime.episode_isolation", "Sessions share nothing", episode_isolation, _SEEDED),
    Check("semantic.replayability", "Seed and replies replay any game", replayability, _SEEDED),
)
"""Checks of this file, in order."""
