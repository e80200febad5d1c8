"""Finished games for the reward tests: played through the real environment over a small word list."""

import math

from hypothesis import strategies as st

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.game import Dictionary, Outcome, Rules
from wordle_rl.prompt import Prompter
from wordle_rl.reward import COMPONENTS, Component, with_candidates
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

ANSWERS = (
    "crane",
    "crate",
    "trace",
    "grape",
    "drape",
    "graze",
    "abbey",
    "babes",
    "geese",
    "these",
    "speed",
    "abide",
    "eerie",
    "pesto",
    "tests",
)
GUESSES = (*ANSWERS, "zzzzz", "fuzzy", "kudzu", "lymph", "nymph", "think", "civic", "mamma")
WORDS = WordList("small", ANSWERS, GUESSES)
SOLVER = Solver(WORDS)
SIX_TURNS = Rules()
DEVIANT_REPLIES = ["", "a crane", "<guess>", "<guess>two words</guess>", "<guess>cat</guess>", "<guess>qqqqq</guess>"]


def tag(word: str) -> str:
    return f"<guess>{word}</guess>"


def play(
    secret: str,
    *replies: str,
    rules: Rules = SIX_TURNS,
    words: WordList = WORDS,
    given: tuple[str, ...] = (),
    budget: bool = False,
    num_tokens: int | None = 20,
    overlong: bool = False,
) -> Transcript:
    """Play replies until the game is over; bare words are put into tags, `budget` cuts the game short."""
    prompter = Prompter(rules=rules, word_length=len(secret))
    env = WordleEnv(secret, words, prompter, given, invented=secret not in words)
    for reply in replies:
        if env.stop_reason is not None:
            break
        text = tag(reply) if reply.isalpha() else reply
        env.step(text, num_tokens=num_tokens, overlong=overlong)
    if env.stop_reason is None:
        env.truncate(StopReason.TOKEN_BUDGET if budget else StopReason.REQUEST_FAILED)
    return env.transcript()


def value(name: str, transcript: Transcript) -> float:
    return math.fsum(COMPONENTS[name].compute(transcript, SOLVER))


def honest(transcript: Transcript) -> bool:
    return transcript.stop_reason is StopReason.OUT_OF_TURNS and not broke_rules(transcript)


def broke_rules(transcript: Transcript) -> bool:
    return any(played.turn.outcome is not Outcome.SCORED for played in transcript.own_turns)


@st.composite
def games(draw: st.DrawFn, secret: str | None = None) -> Transcript:
    """Any finished game with at least one own turn: every dictionary, broken rules, cut replies, spent budgets."""
    secret = secret or draw(st.sampled_from(GUESSES))
    rules = Rules(
        max_turns=draw(st.integers(1, 8)),
        dictionary=draw(st.sampled_from(Dictionary)),
        hard_mode=draw(st.booleans()),
        max_refusals=draw(st.integers(0, 3)),
    )
    others = st.sampled_from([word for word in GUESSES if word != secret])
    before = draw(st.lists(others, max_size=min(2, rules.max_turns - 1), unique=True)) if not rules.hard_mode else []
    words = st.sampled_from(GUESSES).map(tag)
    replies = draw(st.lists(st.one_of(words, words, st.sampled_from(DEVIANT_REPLIES)), min_size=1, max_size=12))
    cut = draw(st.frozensets(st.integers(0, 11), max_size=2))
    num_tokens = draw(st.one_of(st.none(), st.integers(1, 2000)))
    env = WordleEnv(secret, WORDS, Prompter(rules=rules), tuple(before))
    for place, reply in enumerate(replies):
        if env.stop_reason is None:
            env.step(reply, num_tokens=num_tokens, overlong=place in cut)
    if env.stop_reason is None:
        env.truncate(StopReason.TOKEN_BUDGET)
    return env.transcript()


@st.composite
def wins(draw: st.DrawFn, secret: str) -> Transcript:
    """Games won after any replies, good or bad."""
    rules = Rules(max_turns=draw(st.integers(1, 8)), dictionary=draw(st.sampled_from(Dictionary)))
    before = draw(st.lists(st.sampled_from([*GUESSES, *DEVIANT_REPLIES]), max_size=rules.max_turns - 1))
    return play(secret, *before, secret, rules=rules)


@st.composite
def honest_losses(draw: st.DrawFn, secret: str) -> Transcript:
    """Games lost in which every turn was played and no rule broken."""
    turns = draw(st.lists(st.sampled_from([word for word in GUESSES if word != secret]), min_size=1, max_size=8))
    return play(secret, *turns, rules=Rules(max_turns=len(turns)))


@st.composite
def rule_breaking_losses(draw: st.DrawFn, secret: str) -> Transcript:
    """Games lost, or cut short by the token budget, in which a rule was broken."""
    words = st.sampled_from([word for word in GUESSES if word != secret])
    turns = draw(st.lists(words, max_size=7))
    turns.insert(draw(st.integers(0, len(turns))), draw(st.sampled_from(DEVIANT_REPLIES)))
    unplayed = draw(st.integers(0, 3))
    return play(secret, *turns, rules=Rules(max_turns=len(turns) + unplayed), budget=True)


# --- the pay of single guesses that charbull/wordle-rl-gemma publishes (config/grpo_lora_config.json), in 150ths;
# summed over a game here, as aws-samples/sample-multi-turn-rl-wordle did first ---

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
