"""Laws of the wording and the reply grammar: what is a guess, what never is, and that every sentence is true."""

import re
import time
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_forms import FORMS

from wordle_rl.data.readers import guesses_of_history
from wordle_rl.game import Outcome, Turn, score_guess, violates_clues
from wordle_rl.prompt import (
    FailureReason,
    Guess,
    ParseFailure,
    Prompter,
    Shape,
    Style,
    Thinking,
    describe_knowledge,
    knowledge_of,
    parse_reply,
)

G, T, E = "<guess>crane</guess>", "<think>", "</think>"


# --- the grammar ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "replies"),
    [
        ("no_guess", ["", "My guess is CRANE.", "[crane]", "<guess>crane", "crane</guess>", f"{T}{G}{E}"]),
        ("several_guesses", [f"{G}{G}", f"{G}\n<guess>slate</guess>", f"{T}or <guess>slate</guess>?{E}{G}"]),
        ("text_outside_tags", [f"I say {G}", f"{T}a{E}{T}b{E}{G}"]),
        ("text_after_guess", [f"{G} I hope.", f"{G}{T}too late{E}"]),
        ("thinking_unclosed", [f"{T}hm", f"{T}a{G}", f"{E}{T}{G}"]),
        ("not_a_word", ["<guess></guess>", "<guess>two words</guess>", "<guess>cr4ne</guess>"]),
        ("not_a_word", ["<guess>\N{KELVIN SIGN}rane</guess>", "<guess>cra\N{ZERO WIDTH SPACE}ne</guess>"]),
    ],
)
def test_every_other_reply_fails_for_a_named_reason(reason, replies) -> None:
    for reply in replies:
        assert parse_reply(reply) == ParseFailure(FailureReason(reason), has_tags="<" in reply)


def test_thinking_is_allowed_as_the_setting_says() -> None:
    not_allowed = ParseFailure(FailureReason.THINKING_NOT_ALLOWED, has_tags=True)
    assert parse_reply(f"{T}a{E}{G}", Thinking.OFF) == parse_reply(f"{T}{E}{G}", Thinking.OFF) == not_allowed
    assert parse_reply(G, Thinking.REQUIRED) == ParseFailure(FailureReason.THINKING_MISSING, has_tags=True)


def test_a_failure_in_brackets_says_whether_the_grammar_was_tried() -> None:
    for reply in ("crane", "[crane] [slate]", "[a crane]", f"{T}hm"):
        assert parse_reply(reply, brackets=True).has_tags is (reply != "crane")


thoughts = st.text(alphabet=st.characters(exclude_characters="<>[]", exclude_categories=("Cs",)), max_size=40)


@given(
    st.text(alphabet="abcxyz", min_size=3, max_size=10),
    thoughts.map(str.strip).filter(bool),
    st.sampled_from(FORMS),
)
def test_the_parser_takes_back_what_a_prompter_writes(word, thought, form) -> None:
    style, thinking = form
    prompter = Prompter(style=style, thinking=thinking, word_length=len(word))
    kept = "" if prompter.thinking is Thinking.OFF else thought
    assert prompter.parse(prompter.reply(word, thought)) == Guess(word, kept)
    assert prompter.parse(prompter.reply(word)) == Guess(word)


@pytest.mark.parametrize("brackets", [False, True])
@pytest.mark.parametrize(
    "unit",
    ["<guess>", "</guess>", T, E, E + T, T + E, f"{E}<guess>a", f"{E}<guess>a</guess> ", " ", "\n", "a", "[", "[a] "],
)
def test_a_hundred_kilobytes_of_garbage_are_read_quickly(unit, brackets) -> None:
    garbage = unit * (100_000 // len(unit))
    started = time.process_time()
    for reply in (garbage, f"<guess>{garbage}", f"{T}{garbage}", f"[{garbage}", f"{garbage}{G}x"):
        parse_reply(reply, brackets=brackets)
    assert time.process_time() - started < 0.5


# --- knowledge ------------------------------------------------------------------------------------------------------


@st.composite
def boards(draw: st.DrawFn, alphabet: str = "abcde", longest: int = 7) -> tuple[str, list[Turn]]:
    """A secret and up to five turns, from few letters; some turns earned no marks."""
    length = draw(st.integers(3, longest))
    word = st.text(alphabet=alphabet, min_size=length, max_size=length)
    secret = draw(word)
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in draw(st.lists(word, max_size=4))]
    if draw(st.booleans()):
        turns.insert(draw(st.integers(0, len(turns))), Turn(None, None, Outcome.MALFORMED))
    return secret, turns


@given(boards(alphabet="abc", longest=4))
def test_knowledge_holds_for_exactly_the_words_that_fit_the_marks(board) -> None:
    secret, turns = board
    known = knowledge_of(turns, len(secret))
    for word in map("".join, product("abc", repeat=len(secret))):
        holds = (
            all(letter in (None, word[place]) for place, letter in enumerate(known.placed))
            and all(word[place] != letter for letter, places in known.misplaced.items() for place in places)
            and all(word.count(letter) >= n for letter, n in known.at_least.items())
            and all(word.count(letter) == n for letter, n in known.exactly.items())
            and not set(known.absent) & set(word)
        )
        assert holds == (not violates_clues(word, turns))


def claims_hold(sentence: str, secret: str, placed: Sequence[str | None]) -> bool:
    """Check one sentence against the secret, reading it as a player would."""
    topic, _, claims = sentence.removesuffix(".").partition(": ")
    if topic == "Letters in their place":
        return all(secret[int(place) - 1] == letter for letter, place in re.findall(r"(\w) at (\d+)", claims))
    if topic == "Letters to place":
        found = re.findall(r"(\w) \(not at ([\d, ]+)\)", claims)
        return bool(found) and all(
            secret.count(letter) > placed.count(letter)
            and all(secret[int(place) - 1] != letter for place in places.split(", "))
            for letter, places in found
        )
    counts = {letter: int(n) for n, letter in re.findall(r"(\d+) (\w)", claims)}
    if topic == "No more than":
        return bool(counts) and all(secret.count(letter) <= n for letter, n in counts.items())
    if topic == "At least":
        return bool(counts) and all(secret.count(letter) >= n for letter, n in counts.items())
    assert topic == "Letters not in the word", sentence
    return not set(claims.split()) & set(secret)


@given(boards())
def test_no_english_sentence_is_false(board) -> None:
    secret, turns = board
    known = knowledge_of(turns, len(secret))
    assert all(claims_hold(sentence, secret, known.placed) for sentence in describe_knowledge(known))


# --- spelled replies ------------------------------------------------------------------------------------------------


@given(
    st.one_of(
        st.lists(st.sampled_from([*"ab Z\n\t", "é", "ｃ", "\N{KELVIN SIGN}", " c", "r a", T, E]), max_size=12).map(
            "".join
        ),
        st.text(alphabet="abc", min_size=1, max_size=7).map(" ".join),
    ),
    st.integers(3, 6),
)
def test_a_spelled_guess_is_single_letters_between_single_spaces_and_nothing_else(reply, word_length) -> None:
    letters = reply.strip().split(" ")
    sound = len(letters) == word_length and all(len(one) == 1 and one.isascii() and one.isalpha() for one in letters)
    parsed = Prompter(style=Style.SPELLED, word_length=word_length).parse(reply)
    assert parsed == Guess("".join(letters).lower()) if sound else isinstance(parsed, ParseFailure)


def test_the_spelled_style_has_no_form_for_thinking() -> None:
    assert Prompter(style="spelled", thinking="optional") == Prompter(style="spelled", thinking="off")
    with pytest.raises(ValueError, match="thinking"):
        Prompter(style="spelled", thinking="required")


# --- prompts --------------------------------------------------------------------------------------------------------

TURNS = [
    Turn("crane", "XYXXG", Outcome.SCORED),
    Turn(None, None, Outcome.MALFORMED),
    Turn("three", "XXGXG", Outcome.SCORED),
]


@pytest.mark.parametrize(
    ("style", "lines"),
    [
        (Style.ENGLISH, "crane: c: no (further) copy, r: elsewhere in the word, a: no (further) copy, "),
        (Style.SYMBOLS, "crane ⬛🟨⬛⬛🟩"),
        (Style.LETTERS, "CRANE -> C(x)R(-)A(x)N(x)E(✓)"),
        (Style.COMPACT, "cXrYaXnXeG"),
        (Style.TEXTARENA, "C R A N E\nX Y X X G"),
        (Style.SPELLED, "X Y X X G"),
    ],
)
def test_each_style_shows_the_marks_its_own_way(style, lines) -> None:
    prompter = Prompter(style=style)
    assert prompter.feedback(TURNS[:1])["content"].startswith(lines)
    assert lines in prompter.state(TURNS)[-1]["content"]


def test_a_line_of_the_style_letters_is_read_back_from_a_history() -> None:
    line = Prompter(style="letters").feedback(TURNS[:1])["content"].split("\n")[0]
    guess, marked = line.split(" -> ")
    assert guesses_of_history(str([[guess, marked]])) == ("crane",)


@pytest.mark.parametrize("style", [Style.ENGLISH, Style.SYMBOLS, Style.LETTERS, Style.TEXTARENA, Style.VERIFIERS])
@pytest.mark.parametrize("thinking", Thinking)
def test_the_answer_to_a_reply_without_a_guess_says_how_to_reply(style, thinking) -> None:
    prompter = Prompter(style=style, thinking=thinking)
    assert prompter.example in prompter.feedback(TURNS[1:2])["content"]


@pytest.mark.parametrize("style", Style)
def test_a_state_prompt_holds_what_each_answer_said(style) -> None:
    prompter = Prompter(style=style, shape=Shape.STATE)
    state = prompter.state(TURNS)[-1]["content"].split("\n")
    for count in range(1, len(TURNS) + 1):
        assert prompter.feedback(TURNS[:count])["content"].split("\n")[0] in state
    if style not in (Style.COMPACT, Style.SPELLED, Style.NOTEBOOK, Style.NOTEBOOK_PLAYER0, Style.VERIFIERS):
        assert state[-1] == "3 guesses left."


@pytest.mark.parametrize("style", Style)
def test_each_broken_rule_has_its_own_answer_without_marks(style) -> None:
    broken = [Turn(None, None, outcome) for outcome in Outcome if outcome.broke_rules]
    said = [Prompter(style=style).feedback([turn])["content"] for turn in broken]
    assert len(set(said)) == len(broken)
    assert not set("🟩🟨⬛") & set("".join(said))


@pytest.mark.parametrize(("costs", "left"), [([True] * 5, "1 guess left."), ([True, False, False], "5 guesses left.")])
def test_refusals_do_not_shorten_the_count_of_guesses(costs, left) -> None:
    turns = [Turn("qqqqq", None, Outcome.UNLISTED, costs_turn=cost) for cost in costs]
    assert Prompter().feedback(turns)["content"].endswith(left)


@pytest.mark.parametrize(("style", "thinking"), FORMS)
def test_given_turns_open_a_transcript_as_if_they_had_been_played(style, thinking) -> None:
    given_turns = [TURNS[0], TURNS[2]]
    prompter = Prompter(style=style, thinking=thinking)
    opening = prompter.opening(given_turns)
    replies = [message["content"] for message in opening if message["role"] == "assistant"]
    assert [prompter.parse(reply) for reply in replies] == [Guess("crane"), Guess("three")]
    assert opening[-1] == prompter.feedback(given_turns)
    assert opening[: -2 * len(given_turns)] == prompter.opening()
    fresh = Prompter(style=style, thinking=thinking, shape=Shape.STATE)
    assert fresh.opening(given_turns) == prompter.state(given_turns)
