"""Laws of the rules: marks against a second scorer, outcomes and turn costs, hard mode, the end of a game."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.game import Dictionary, Game, Outcome, Rules, Turn, hard_mode_fault, score_guess, violates_clues

LISTED = frozenset({"crane", "crate", "trace", "abbey", "babes", "speed", "abide", "geese", "eerie"})


def second_opinion(secret: str, guess: str) -> str:
    """Marks by counting: a letter out of place is yellow while fewer earlier ones claimed the spare copies."""
    marks = ""
    for place, letter in enumerate(guess):
        green = sum(s == g == letter for s, g in zip(secret, guess, strict=True))
        spare = secret.count(letter) - green
        claimed = sum(guess[i] == letter != secret[i] for i in range(place))
        marks += "G" if secret[place] == letter else "Y" if claimed < spare else "X"
    return marks


@st.composite
def word_pairs(draw: st.DrawFn, size: int = 2) -> tuple[str, ...]:
    """Words of one length from so few letters that most repeat."""
    length = draw(st.integers(1, 10))
    word = st.text(alphabet="abcd", min_size=length, max_size=length)
    return tuple(draw(st.tuples(*[word] * size)))


@st.composite
def boards(draw: st.DrawFn) -> tuple[str, str, list[Turn]]:
    """A secret, a word, and one to four scored turns, all of one length."""
    secret, word, *guesses = draw(word_pairs(6))
    turns = [Turn(guess, second_opinion(secret, guess), Outcome.SCORED) for guess in guesses]
    return secret, word, turns[: draw(st.integers(1, 4))]


@given(word_pairs())
def test_marks_agree_with_a_second_scorer(pair: tuple[str, str]) -> None:
    assert score_guess(*pair) == second_opinion(*pair)


def test_repeated_letters_by_hand() -> None:
    pairs = (("abbey", "kebab"), ("those", "geese"), ("dread", "added"), ("close", "cheer"), ("lemon", "mamma"))
    assert [score_guess(*pair) for pair in pairs] == ["XYGYY", "XXXGG", "YYXYG", "GXYXX", "XXGXX"]


@given(boards())
def test_a_word_violates_clues_unless_it_would_have_been_marked_alike(board: tuple[str, str, list[Turn]]) -> None:
    secret, word, turns = board
    assert violates_clues(word, turns) == any(second_opinion(word, turn.guess or "") != turn.marks for turn in turns)
    assert not violates_clues(secret, turns)


@given(boards())
def test_hard_mode_asks_for_every_green_in_place_and_every_copy_revealed(board: tuple[str, str, list[Turn]]) -> None:
    _, word, turns = board
    allowed = all(
        all(w == g for w, g, mark in zip(word, turn.guess or "", turn.marks or "", strict=True) if mark == "G")
        and Counter(g for g, m in zip(turn.guess or "", turn.marks or "", strict=True) if m != "X") <= Counter(word)
        for turn in turns
    )
    assert (hard_mode_fault(word, turns) is None) == allowed


def test_hard_mode_names_the_hint_and_lets_a_yellow_stay_where_it_was() -> None:
    turns = [Turn("crane", "XXGXY", Outcome.SCORED)]
    assert hard_mode_fault("speed", turns) == "letter 3 must be a"
    assert hard_mode_fault("tramp", turns) == "the guess must contain e"
    assert hard_mode_fault("shake", turns) is None
    assert violates_clues("shake", turns)


@pytest.mark.parametrize(
    ("dictionary", "guess", "outcome", "costs_turn"),
    [
        (Dictionary.STRICT, None, Outcome.MALFORMED, True),
        (Dictionary.STRICT, "qqqqq", Outcome.UNLISTED, True),
        (Dictionary.STRICT, "speed", Outcome.SCORED, True),
        (Dictionary.LENIENT, "cranes", Outcome.WRONG_LENGTH, True),
        (Dictionary.LENIENT, "qqqqq", Outcome.SCORED, True),
        (Dictionary.APP, "cran", Outcome.WRONG_LENGTH, False),
        (Dictionary.APP, "qqqqq", Outcome.UNLISTED, False),
        (Dictionary.APP, "speed", Outcome.SCORED, True),
    ],
)
def test_every_outcome_has_one_turn_cost(dictionary, guess, outcome: Outcome, costs_turn: bool) -> None:
    game = Game("crane", LISTED, Rules(dictionary=dictionary))
    turn = game.play(guess)
    assert (turn.outcome, turn.costs_turn, game.turns_used) == (outcome, costs_turn, int(costs_turn))
    assert turn.marks == (score_guess("crane", guess) if outcome is Outcome.SCORED and guess else None)


@pytest.mark.parametrize(("dictionary", "costs_turn"), [(Dictionary.STRICT, True), (Dictionary.APP, False)])
def test_hard_mode_refuses_a_guess_that_drops_a_hint(dictionary: Dictionary, costs_turn: bool) -> None:
    game = Game("crane", LISTED, Rules(dictionary=dictionary, hard_mode=True))
    game.play("crate")
    assert game.play("speed") == Turn("speed", None, Outcome.HARD_MODE, costs_turn)
    assert game.play("crane").outcome is Outcome.SCORED
    assert game.won


def test_refusals_are_free_until_they_run_out() -> None:
    game = Game("crane", LISTED, Rules(max_turns=2, dictionary=Dictionary.APP, max_refusals=2))
    assert [game.play("qqqqq").costs_turn for _ in range(4)] == [False, False, True, True]
    assert (game.refusals, game.over, game.won) == (2, True, False)


@given(
    st.lists(st.sampled_from([None, "cran", "qqqqq", *sorted(LISTED - {"crane"})]), min_size=24, max_size=24),
    st.sampled_from(Dictionary),
    st.booleans(),
    st.integers(1, 8),
    st.integers(0, 4),
)
def test_every_game_ends_and_its_turns_add_up(replies, dictionary, hard_mode, max_turns, max_refusals) -> None:
    game = Game("crane", LISTED, Rules(max_turns, dictionary, hard_mode, max_refusals))
    for reply in replies:
        if game.over:
            break
        game.play(reply)
    assert game.over
    assert max_turns <= len(game.turns) <= game.rules.max_replies
    assert game.rules.max_replies == max_turns + max_refusals * (dictionary is Dictionary.APP)
    assert game.turns_used == sum(turn.costs_turn for turn in game.turns) == max_turns
    assert all((turn.marks is not None) == (turn.outcome is Outcome.SCORED) for turn in game.turns)
    assert all(turn.outcome.broke_rules == (turn.outcome is not Outcome.SCORED) for turn in game.turns)


@given(
    st.lists(st.sampled_from([None, "cran", "qqqqq", *sorted(LISTED)]), max_size=8),
    st.sampled_from(Dictionary),
    st.booleans(),
)
def test_a_preview_says_what_playing_then_says_and_changes_nothing(replies, dictionary, hard_mode) -> None:
    game = Game("crane", LISTED, Rules(dictionary=dictionary, hard_mode=hard_mode, max_refusals=2))
    for reply in replies:
        if game.over:
            break
        before = list(game.turns), game.turns_used, game.refusals, game.won
        foreseen = game.preview(reply)
        assert (game.turns, game.turns_used, game.refusals, game.won) == before
        assert game.play(reply) == foreseen


@pytest.mark.parametrize("settings", [{"max_turns": 0}, {"max_refusals": -1}])
def test_impossible_rules_are_refused_by_name(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Rules(**settings)
