"""The checks of an environment.

A check is a function of an `Examiner`. Its docstring is the requirement that the report shows.
"""

from __future__ import annotations

import base64
import codecs
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Literal, NamedTuple

from conformance import examiner as play
from conformance.examiner import MAX_TURNS, PAIRS, Examiner, Game, Player, Reply, naive_marks
from conformance.targets import Dialect, SessionLostError, TargetError, read_marks
from wordle_rl.game import score_guess

_EPSILON = 1e-9

Found = tuple[Sequence[str], str]  # faults, one sentence each; and what was seen, for a report without faults


class NotApplicableError(Exception):
    """The check does not apply to this target. The message is the reason."""


class Check(NamedTuple):
    """One check, under the id of RFC 008 where it has the same one, else `wordle.*`."""

    check_id: str
    requirement: str
    run: Callable[[Examiner], Found]


CHECKS: list[Check] = []
"""Every check, in order."""


def _check(check_id: str) -> Callable[[Callable[[Examiner], Found]], None]:
    return lambda run: CHECKS.append(Check(check_id, " ".join((run.__doc__ or "").split()), run))


def _skip_if(condition: object, reason: str) -> None:
    if condition:
        raise NotApplicableError(reason)


@_check("runtime.seed_control")
def _seed_control(ex: Examiner) -> Found:
    """The seed decides the secret, and nothing else does."""
    games = ex.games(play.SOLVER, count=PAIRS)
    faults = [f"{game}: two different games" for game in ex.unseeded]
    different = len({tuple(game.scored) for game in games})
    if not faults and different < 2 <= len(games):
        faults = [f"{len(games)} seeds all gave the same game"]
    return faults, f"{len(games)} seeds, each opened twice: the same game twice, {different} games"


def _differences(game: Game, again: Game) -> list[str]:
    """Return the first difference of two games in what a policy and its trainer see, if any."""
    for turn, (before, now) in enumerate(zip_longest(game.visible, again.visible)):
        if before != now:
            return [f"{game}: turn {turn} was {before!r:.80}, then {now!r:.80} {again.lost_session}"]
    return []


def _replayed(ex: Examiner, games: Iterable[Game]) -> list[str]:
    return [fault for game in games for fault in _differences(game, ex.replay(game))]


@_check("runtime.episode_determinism")
def _episode_determinism(ex: Examiner) -> Found:
    """Equal seeds and replies give equal texts, rewards and ends, refused replies included."""
    _skip_if(ex.unseeded, "seeds do not decide the game")
    games = ex.games(play.SOLVER, play.CONSISTENT, count=PAIRS)
    games += ex.games(play.LOSER, play.QUITTER, play.INVALID, play.ECHO, play.SPAM, count=3)
    return _replayed(ex, games), f"{len(games)} games played again: every text, reward and end the same"


@_check("runtime.episode_isolation")
def _episode_isolation(ex: Examiner) -> Found:
    """Games in different sessions do not affect each other, and an abandoned game leaves nothing behind."""
    _skip_if(ex.unseeded, "seeds do not decide the game")
    games, others = ex.games(play.SOLVER, count=PAIRS), ex.games(play.LOSER, count=PAIRS)[::-1]
    faults = []
    for game, other in zip(games, others, strict=True):
        with ex.session(other.seed) as beside:
            replies = iter(other.turns)

            # A reply of another game goes to a second session before each reply of this one.
            def by_turns(now: Game, game: Game = game, replies: Iterator[play.Turn] = replies) -> Reply:
                for turn in islice(replies, 1):
                    beside.send(turn.reply.text)
                return game.turns[len(now.turns)].reply

            again = ex.play(Player(game.player, by_turns), game.seed, len(game.turns))
        faults += [f"{fault} beside another session" for fault in _differences(game, again)]
    for game in others[:2]:
        ex.replay(game, turns=2)
        faults += [f"{fault}, after a game given up on its second turn" for fault in _replayed(ex, [game])]
    return faults, f"{len(games)} games by turns with others, as when played alone"


@_check("semantic.oracle_max")
def _oracle_max(ex: Examiner) -> Found:
    """The exact solver wins every game by marks and word list, and earns more than any loss, in finite numbers."""
    games = ex.games(play.SOLVER)
    wins = [game for game in games if game.secret]
    faults = [
        f"seed {game.seed}: not won in {len(game.turns)} replies {game.lost_session}, by the marks {game.scored}"
        for game in games
        if not game.secret
    ]
    steps = [turn.step for game in games for turn in game.turns]
    faults += [f"{step.reward!r} is no finite number" for step in steps if step.reward not in (None, step.earned)]
    lowest_win = min((game.total for game in wins), default=math.inf)
    highest_loss = max(game.total for game in ex.games(play.LOSER))
    if lowest_win <= highest_loss:
        faults.append(f"a win earns {lowest_win:g}, a loss {highest_loss:g}")
    guesses = sum(len(game.turns) for game in wins) / max(1, len(wins))
    return faults, f"{len(wins)} of {len(games)} games won in {guesses:.2f} guesses, each paid more than a loss"


@_check("semantic.canary_floor")
def _canary_floor(ex: Examiner) -> Found:
    """Play without thought stays near the lowest reward, and every game ends."""
    # Fraction of the way from a base player's reward to the solver's. Word canaries are measured from honest losses.
    top, faults = ex.mean(play.SOLVER), []
    for base, canaries, limit in ((play.NOTHING, play.IDLE_CANARIES, 0.05), (play.LOSER, play.WORD_CANARIES, 0.1)):
        floor = ex.mean(base)
        if top <= floor:
            faults.append(f"the solver earns {top:g}, {base.name} {floor:g}")
        for canary in canaries:
            reached = (ex.mean(canary) - floor) / max(top - floor, _EPSILON)
            if reached > limit:
                faults.append(f"{canary.name} gets {reached:.0%} of the way from {base.name} to the solver")
            if endless := sum(not game.done for game in ex.games(canary)):
                faults.append(f"{canary.name}: {endless} games did not end")
    return faults, "canaries stay within 5 and 10 % of the way to the solver, and their games end"


@_check("wordle.turn_limit")
def _turn_limit(ex: Examiner) -> Found:
    """A game without the secret ends exactly on its last guess."""
    games = ex.games(play.LOSER)
    faults = []
    for game in games:
        if not game.done or len(game.turns) != MAX_TURNS:
            how = "over" if game.done else "not over"
            faults.append(f"seed {game.seed}: {how} after {len(game.turns)} guesses instead of {MAX_TURNS}")
            if refused := [turn.step.text[:60] for turn in game.turns if turn.marks is None]:
                faults[-1] += f"; a guess got no marks (--words, --dialect): {refused[0]!r}"
    return faults, f"{len(games)} games of {MAX_TURNS} guesses"


@_check("wordle.marks")
def _marks(ex: Examiner) -> Found:
    """Greens come first, then yellows from the left while copies of the letter are left, by the word list (--words)."""
    games = ex.games(play.SOLVER, play.CONSISTENT, play.DETECTIVE)
    marked = [(game.secret, *pair) for game in games if game.secret is not None for pair in game.scored]
    faults = [
        f"secret {secret!r}, guess {guess!r}: {marks}, by the rules {score_guess(secret, guess)}"
        for secret, guess, marks in marked
        if marks != score_guess(secret, guess)
    ]
    faults += [
        f"{game}: no answer of the word list fits {game.scored}"
        for game in games
        if not game.secret and game.scored and not game.candidates
    ]
    _skip_if(not faults and not marked, "no game was won, or no marks could be read")
    telling = sum(naive_marks(secret, guess) != score_guess(secret, guess) for secret, guess, _ in marked)
    return faults, f"{len(marked)} guesses of {len(games)} games; {telling} tell a scorer that forgets copies apart"


@_check("wordle.after_end")
def _after_end(ex: Examiner) -> Found:
    """After the end, a reply is refused, or changes nothing and earns nothing."""
    faults, seen = [], []
    for player in (play.SOLVER, play.LOSER):
        with ex.session(ex.seeds[0]) as session:
            game = ex.play_in(session, player, ex.seeds[0])
            if not game.done:
                continue
            step = session.send(game.turns[0].reply.text)
        seen.append(f"after a game of {player.name} a further guess is answered {step.text[:60]!r}")
        if not step.refused and (not step.done or step.earned != 0.0):
            faults.append(f"{seen[-1]}, reward {step.earned:g}, {'over' if step.done else 'not over'}")
    _skip_if(not seen, "no game came to its end")
    return faults, "; ".join(seen)


@_check("wordle.refusals")
def _refusals(ex: Examiner) -> Found:
    """Every bad reply gets an error and no marks, all at the same cost, and only so many are free."""
    words = ex.solver.words.guesses
    length = len(words[0])
    unlisted = next(word for letter in "qxzjvk" if (word := letter * length) not in words)
    as_guess = (words[0][:-1], words[0] + "s", unlisted, *(letter * length for letter in "1éс🟩\x00"))
    bad = [Reply(""), Reply(" \n\t"), Reply("z " * 20_000), *(Reply(ex.dialect.write(word), word) for word in as_guess)]
    faults: list[str] = []
    by_cost: dict[str, list[str]] = {}
    for reply in bad:
        name = f"{reply.text!r:.30}"
        # An honest loser whose second reply is the bad one.
        player = Player(name, lambda now, bad=reply: bad if len(now.turns) == 1 else play.LOSER.choose(now))  # type: ignore[misc]
        game = ex.play(player, ex.seeds[0])
        if fault := _bad_answer(game):
            faults.append(f"{name}: {fault}")
        by_cost.setdefault(f"{MAX_TURNS + 1 - len(game.turns)} turns" if game.done else "no end", []).append(name)
    if len(by_cost) > 1:
        faults.append(f"bad replies differ in cost: {by_cost}")
    if not all(game.done for game in ex.games(play.INVALID, count=3)):
        faults.append("a game of bad replies alone does not end")
    return faults, f"{len(bad)} kinds of bad replies; each costs {next(iter(by_cost))}"


def _bad_answer(game: Game) -> str:
    """Return the fault of the answer to the second reply, or ''."""
    if len(game.turns) < 3:
        return game.lost_session or "it ended the game"
    first, bad, after = game.turns[:3]
    before = first.reply.guess or ""
    # Marks of the earlier guess are no fault if later answers repeat them too: then they are a history.
    stale = read_marks(bad.step.text, before) is not None and read_marks(after.step.text, before) is None
    if after.marks is None:
        return f"the next guess got no marks: {after.step.text[:60]!r}"
    if bad.marks is not None or (stale and not bad.step.refused):
        return f"it got marks: {bad.step.text[:60]!r}"
    return f"it earned {bad.step.earned:g}" if bad.step.earned > max(0.0, first.step.earned) else ""


@_check("wordle.guess_grammar")
def _guess_grammar(ex: Examiner) -> Found:
    """Only a single guess in its own tags, outside the thinking, is a guess."""
    _skip_if(ex.dialect is Dialect.PLAIN, "in this dialect a reply is a word and nothing else")
    # Two listed words without a common letter, so that marks of one are never read as the other's.
    words, write = ex.solver.words.guesses, ex.dialect.write
    one = next(word for word in words if len(set(word)) == len(word))
    other = next((word for word in words if not set(word) & set(one)), words[-1])
    no_guesses = (
        *(f"My guess is {one}.", one, f'"{one}"', f"{write(one)} {write(other)}"),
        *(f"<think>{write(one)} may be good</think>", f"<think>perhaps {write(one)}"),
    )
    faults = []
    for text in no_guesses:
        with ex.session(ex.seeds[0]) as session:
            step = session.send(text)
        if not step.refused and any(read_marks(step.text, word) for word in (one, other)):
            faults.append(f"{text!r} was taken for a guess: {step.text[:60]!r}")
    return faults, f"none of {len(no_guesses)} kinds of replies without one guess was taken for one"


def disguises(word: str) -> Mapping[str, re.Pattern[str]]:
    """Return patterns of a word in the forms in which environments have leaked it, by name."""
    codes, places = (r"\s*,\s*".join(str(ord(letter) - base) for letter in word) for base in (0, 96))
    encoded = {base64.b64encode(form.encode()).decode().rstrip("=") for form in (word, word.upper())}

    def alone(form: str) -> re.Pattern[str]:
        return re.compile(rf"(?<![a-z]){form}(?![a-z])", re.IGNORECASE)

    return {
        "as it is": alone(word),
        "spelled out": alone(r"[^a-z0-9]{1,4}".join(word)),
        "backwards": alone(word[::-1]),
        "in rot13": alone(codecs.encode(word, "rot13")),
        "in base64": re.compile("|".join(map(re.escape, sorted(encoded)))),
        "in hexadecimal": re.compile(f"{word.encode().hex()}|{word.upper().encode().hex()}", re.IGNORECASE),
        "as numbers": re.compile(rf"(?<!\d)(?:{codes}|{places})(?!\d)"),
    }


def leaks_in(texts: Sequence[tuple[Game, str]]) -> list[str]:
    """Return a fault for every text that holds its own game's secret, unless most other games' texts do too.

    A word of the instructions or of the player's own replies appears in all of them, and so gives nothing away.
    """

    def holds(game: Game, text: str, form: re.Pattern[str]) -> bool:
        said = game.said - {game.secret}
        return any(re.sub("[^a-z]", "", match[0].lower()) not in said for match in form.finditer(text))

    leaks = []
    for game, text in texts:
        others = [each for each in texts if each[0].player == game.player and each[0].secret != game.secret]
        for name, form in disguises(game.secret or "").items():
            if holds(game, text, form) and 2 * sum(holds(*each, form) for each in others) <= len(others):
                leaks.append(f"{game}: the secret {game.secret!r} is sent {name}")
    return leaks


@_check("semantic.no_solution_leakage")
def _no_solution_leakage(ex: Examiner) -> Found:
    """No observation, state or error before the end holds the secret in any form."""
    games = [game for game in ex.games(play.SOLVER, play.DETECTIVE) if game.secret]
    _skip_if(not games, "no game was won, so no secret is known to search for")
    # A few lost games too, whose secrets are known from won games of the same seed.
    lost = [] if ex.unseeded else [game for game in ex.games(play.LOSER, play.INVALID, count=5) if not game.secret]
    secrets = {game.seed: game.secret for game in games}
    games += [replace(game, secret=secrets[game.seed]) for game in lost if game.seed in secrets]
    texts = []
    for game in games:
        shown = [(turn.step.raw, turn.beside) for turn in game.turns if not turn.step.done]
        texts.append(
            (game, "\n".join([game.opening.raw, game.beside_opening, *(part for pair in shown for part in pair)]))
        )
    return leaks_in(texts), f"{sum(len(text) for _, text in texts)} characters of {len(texts)} games searched"


@_check("statistical.gameability_gap")
def _gameability_gap(ex: Examiner) -> Found:
    """No broken rule earns more than an honest loss, and no loss as much as a win."""
    everyone = ex.games(play.SOLVER, play.DETECTIVE, play.LOSER, play.QUITTER, *play.IDLE_CANARIES, *play.WORD_CANARIES)
    games = sorted((game for game in everyone if game.done), key=lambda game: -game.total)
    wins, losses = ([game for game in games if bool(game.secret) is won] for won in (True, False))
    honest = [game for game in losses if game.player == play.LOSER.name and game.honest]
    _skip_if(not wins or not honest, "there is no win, or no honest loss, to compare with")
    faults = []
    if losses[0].total >= wins[-1].total - _EPSILON:
        faults.append(f"{losses[0]}: a loss earns {losses[0].total:g}, a win {wins[-1].total:g}")
    faults += [
        f"{game}: broken rules earn {game.total:g}, an honest loss {honest[-1].total:g}"
        for game in losses
        if not game.honest and game.total > honest[-1].total + _EPSILON
    ]
    return faults, f"{len(wins)} wins above {len(losses)} losses; no broken rule pays"


Status = Literal["pass", "fail", "skip", "error"]


@dataclass(frozen=True)
class CheckResult:
    """Result of a check: its requirement, and the evidence in at most three sentences."""

    check_id: str
    requirement: str
    status: Status
    evidence: tuple[str, ...]


def examine(examiner: Examiner, checks: Iterable[Check] = tuple(CHECKS)) -> Iterator[CheckResult]:
    """Run checks on a target. A session that breaks off is an error of one check only."""
    for check in checks:
        found: tuple[Status, Sequence[str]]
        try:
            faults, seen = check.run(examiner)
            found = ("fail", faults) if faults else ("pass", [seen])
        except NotApplicableError as reason:
            found = ("skip", [str(reason)])
        except (SessionLostError, TargetError) as error:
            found = ("error", [f"{type(error).__name__}: {error}"])
        yield CheckResult(check.check_id, check.requirement, found[0], tuple(found[1][:3]))
