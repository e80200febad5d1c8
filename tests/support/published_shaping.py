"""The pay of single guesses that charbull/wordle-rl-gemma publishes (config/grpo_lora_config.json), in 150ths.

Summed over a game here, as aws-samples/sample-multi-turn-rl-wordle did first.
"""

from wordle_rl.env import Transcript
from wordle_rl.game import Outcome
from wordle_rl.reward import Component, with_candidates
from wordle_rl.solver import Solver

CORRECT, VALID, OPENER_PER_BIT, NEW_LETTER, REDUCTION = 150.0, 15.0, 7.5, 2.0, 15.0
TIME, GRAY, YELLOW, GREEN, REPEATED, UNLISTED, MALFORMED = 1.0, 20.0, 20.0, 30.0, 40.0, 35.0, 200.0


def pay(transcript: Transcript, solver: Solver) -> tuple[float, ...]:
    """What each own turn earns."""
    paid, before = [], []
    for turn, candidates in with_candidates(transcript, solver):
        earned = -TIME
        if turn.outcome is not Outcome.SCORED:
            earned -= UNLISTED if turn.guess else MALFORMED
        elif turn.guess == transcript.secret:
            earned += CORRECT
        else:
            guess = turn.guess
            known = [
                (place, letter, mark)
                for old in before
                for place, (letter, mark) in enumerate(zip(old.guess, old.marks, strict=True))
            ]
            in_word = {letter for _, letter, mark in known if mark != "X"}
            earned += VALID
            if before:
                left = solver.candidates([*((old.guess, old.marks) for old in before), (guess, turn.marks)])
                earned += NEW_LETTER * len(set(guess) - {letter for _, letter, _ in known})
                earned += REDUCTION * (1 - len(left) / max(1, len(candidates)))
            else:
                earned += OPENER_PER_BIT * solver.information_of(guess, candidates)
            earned -= GREEN * sum(mark == "G" and guess[place] != letter for place, letter, mark in known)
            earned -= YELLOW * len({letter for _, letter, mark in known if mark == "Y"} - set(guess))
            earned -= GRAY * len({letter for _, letter, mark in known if mark == "X"} & set(guess) - in_word)
            earned -= REPEATED * any(old.guess == guess for old in before)
        paid.append(earned / 150)
        if turn.marks:
            before.append(turn)
    return tuple(paid)


SHAPING = Component(pay, (-20.0, 3.0), (-20.0, 3.0), (-20.0, 4.0), asks_solver=True)
