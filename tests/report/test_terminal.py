import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from wordle_rl.config import SamplingSettings
from wordle_rl.env import StopReason
from wordle_rl.evaluate import (
    EvalConditions,
    Evaluation,
    Figures,
    GameRecord,
    TurnRecord,
    compare,
    compare_all,
    measure,
    sampled_part,
)
from wordle_rl.game import Outcome, Rules, Turn, score_guess
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report.terminal import (
    board,
    comparison_notes,
    comparison_table,
    game_panel,
    multi_comparison_table,
    results_table,
    tiles,
)


def rendered(item: RenderableType, *, colors: Literal["standard", "truecolor"] | None = None, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=colors is not None, color_system=colors).print(item)
    return out.getvalue()


def game(secret: str, *guesses: str) -> GameRecord:
    turns = tuple(TurnRecord(g, score_guess(secret, g), reply=g) for g in guesses)
    won = guesses[-1] == secret
    return GameRecord(secret, turns, stop_reason=StopReason.SOLVED if won else StopReason.OUT_OF_TURNS)


def evaluation(name: str, records: Sequence[GameRecord]) -> Evaluation:
    asked = EvalConditions.of(Prompter())
    return Evaluation(name, "", (), Rules(), "f" * 64, tuple(records), asked)


LOST = ("fuzzy",) * 6
FIGURES = measure([game("crane", "crate", "crane"), game("grape", *LOST)], max_turns=6)


# --- boards -----------------------------------------------------------------------------------------------------------


@given(st.text("abcxyz", min_size=3, max_size=10).flatmap(lambda w: st.tuples(st.just(w), st.permutations(w))))
def test_tiles_show_every_letter_in_the_style_of_its_mark(words: tuple[str, list[str]]) -> None:
    secret, letters = words
    marks = score_guess(secret, "".join(letters))
    row = tiles("".join(letters), marks)
    assert row.plain.split() == [letter.upper() for letter in letters]
    style_of = {mark: {str(s.style) for s, m in zip(row.spans, marks, strict=True) if m == mark} for mark in "GYX"}
    assert all(len(style_of[mark]) <= 1 for mark in "GYX")
    assert len(set.union(*style_of.values())) == len(set(marks))


@pytest.mark.parametrize("colors", ["standard", "truecolor"])
def test_the_three_marks_differ_wherever_there_is_colour(colors: Literal["standard", "truecolor"]) -> None:
    line = rendered(tiles("aaa", "GYX"), colors=colors)
    styles = [part.split("m")[0] for part in line.split("\x1b[") if " A " in part]
    assert len(set(styles)) == 3


@pytest.mark.parametrize(("guess", "marks"), [("crane", "GGGG"), ("crane", "GGGG-"), ("crane", "ggggg")])
def test_marks_that_do_not_fit_are_refused(guess: str, marks: str) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        tiles(guess, marks)


def test_a_board_without_colour_still_spells_its_marks() -> None:
    text = rendered(board(game("crane", "caper", "crane").turns))
    assert "\x1b" not in text
    lines = text.splitlines()
    assert len(lines) == 6
    assert lines[0].split() == ["1", *"CAPER", "GYXYY"]
    assert lines[1].split() == ["2", *"CRANE", "GGGGG"]
    assert lines[5].split() == ["6", *"·····"]


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (Turn(None, None, Outcome.MALFORMED), "no guess in the reply"),
        (Turn("qqqqq", None, Outcome.UNLISTED), "not in the word list"),
        (Turn("cat", None, Outcome.WRONG_LENGTH), "wrong length"),
        (Turn("lymph", None, Outcome.HARD_MODE), "leaves out a hint"),
    ],
)
def test_a_turn_that_was_not_scored_says_why(turn: Turn, says: str) -> None:
    line = rendered(board([turn], max_turns=1))
    assert says in line
    assert (turn.guess or "").upper() in line.replace(" ", "")


def test_a_board_never_hides_a_turn() -> None:
    refusals = [Turn("qqqqq", None, Outcome.UNLISTED, costs_turn=False)] * 8
    assert len(rendered(board(refusals)).splitlines()) == 8


def test_a_free_refusal_takes_no_row_of_the_game() -> None:
    refused = Turn("qqqqq", None, Outcome.UNLISTED)
    turns = [refused, *(Turn(g, score_guess("crane", g), Outcome.SCORED) for g in ("slate", "crane")), refused]
    lines = [line.split()[0] for line in rendered(board(turns, num_free=1)).splitlines()]
    assert lines == ["Q", "1", "2", "3", "4", "5", "6"], "only the first refusal was free"
    record = game("crane", "qqqqq", "slate", "crane")
    unlisted = replace(record.turns[0], marks=None, outcome=Outcome.UNLISTED, costs_turn=False)
    text = rendered(game_panel(replace(record, turns=(unlisted, *record.turns[1:]))))
    assert [line.split()[0] for line in text.splitlines()] == ["Q", "1", "2", "3", "4", "5", "6", "CRANE"]


def test_a_finished_game_tells_its_end() -> None:
    assert "CRANE found in 2" in rendered(game_panel(game("crane", "crate", "crane")))
    assert "the word was GRAPE (out of turns)" in rendered(game_panel(game("grape", *LOST)))
    failed = replace(game("grape", "crane"), stop_reason=StopReason.REQUEST_FAILED, error="[timeout] after 30 s")
    assert "not finished: [timeout] after 30 s" in rendered(game_panel(failed))


# --- tables -----------------------------------------------------------------------------------------------------------


def test_results_of_two_players_fit_into_eighty_columns() -> None:
    parts = {"all": FIGURES, "train": FIGURES, "held_out": FIGURES}
    lines = rendered(results_table({"sft": parts, "grpo": parts}, title="Results")).splitlines()
    assert all("…" not in line for line in lines)
    heading = next(line for line in lines if "held out" in line)
    assert heading.split() == ["held", "out", "train", "all"]
    players = lines[lines.index(heading) + 1]
    assert players.split() == ["sft", "grpo"] * 3
    assert next(line for line in lines if "win rate" in line).split()[3:] == ["50.0"] * 6


def test_in_a_narrow_terminal_each_part_has_a_table_of_its_own() -> None:
    parts = {"all": FIGURES, "train": FIGURES, "held_out": FIGURES}
    shown = rendered(results_table({"sft": parts, "grpo": parts}, title="Results"), width=50)
    assert "…" not in shown
    assert [shown.count(text) for text in ("Results", "held out", "train", "all", "win rate")] == [1, 1, 1, 1, 3]
    assert shown.index("held out") < shown.index("train") < shown.index("all")


def test_the_longest_name_of_an_algorithm_fits_too() -> None:
    parts = {"all": FIGURES, "train": FIGURES, "held_out": FIGURES}
    lines = rendered(results_table({"sft": parts, "expert_iteration": parts})).splitlines()
    assert all("…" not in line for line in lines)
    heading = next(line for line in lines if "held out" in line)
    assert heading.split() == ["held", "out", "expert", "train", "expert", "all", "expert"]
    assert lines[lines.index(heading) + 1].split() == ["sft", "iter."] * 3


def test_the_win_rate_at_temperature_1_stands_below_the_greedy_one() -> None:
    lost = measure([game("grape", *LOST)], max_turns=6)
    parts = {"all": FIGURES, "train": FIGURES}
    table = results_table({"sft": {**parts, sampled_part("all"): lost}, "grpo": parts})
    rows = [line.split() for line in rendered(table).splitlines()]
    place = next(number for number, row in enumerate(rows) if "T" in row)
    assert rows[place - 3][3:] == ["50.0"] * 4
    assert rows[place][-4:] == ["–", "–", "0.0", "–"]
    low, high = (f"{100 * rate:.1f}" for rate in (lost.win_rate_low, lost.win_rate_high))
    assert [rows[place + 1][-2], rows[place + 2][-2]] == [low, high]
    assert "T" not in rendered(results_table({"sft": parts})).split()


def test_what_was_not_measured_shows_a_dash() -> None:
    nothing = measure([], max_turns=6)
    table = results_table({"sft": {"held_out": FIGURES, "train": nothing}, "grpo": {"held_out": FIGURES}})
    lines = rendered(table).splitlines()
    assert next(line for line in lines if "losses as one more" in line).split()[4:] == ["4.500", "4.500", "–", "–"]
    assert next(line for line in lines if "regret" in line).split()[3:] == ["–"] * 4


def test_names_are_text_and_never_markup() -> None:
    figures: dict[str, Figures] = {"all": FIGURES}
    assert "[b]x" in rendered(results_table({"[b]x": figures}, title="[red]t"))
    a = evaluation("[i]a", [game("crane", "crane")])
    assert "only [i]a won" in rendered(comparison_table(compare_all([a, replace(a, name="b")])))


def test_an_interval_that_says_nothing_is_not_shown() -> None:
    a = evaluation("a", [game("crane", "crane"), game("grape", "grape")])
    b = evaluation("b", [game("crane", "crate", "crane"), game("grape", "crate", "grape")])
    lines = rendered(comparison_table(compare_all([a, b]))).splitlines()
    assert next(line for line in lines if "mean guesses" in line).split()[-1] == "+1.00"
    assert "(95 %: -65." in next(line for line in lines if "win rate" in line)
    row = next(
        line for line in rendered(multi_comparison_table(compare_all([a, b]))).splitlines() if line.startswith(" b")
    )
    assert row.split()[4:7] == ["+1.00", "–", "–"]


def test_a_comparison_shows_counts_warnings_and_the_widest_words_first() -> None:
    a = evaluation("a", [game("crane", "crane"), game("grape", *LOST), game("trace", "crane", "trace")])
    b = evaluation("b", [game("crane", "crate", "crane"), game("grape", "grape"), game("trace", "crane", "trace")])
    text = rendered(comparison_table(compare_all([a, evaluation("b", [*b.records, game("speed", *LOST)])])))
    lines = [line.split() for line in text.splitlines()]
    assert ["both", "won", "2"] in lines
    assert ["only", "b", "won", "1"] in lines
    assert "p = 1" in text
    assert "games without a counterpart (a player played the secret less often): 1" in text
    assert lines.index(["grape", "lost", "1"]) < lines.index(["crane", "1", "2"])
    assert not any(line[:1] == ["trace"] for line in lines)


def test_a_comparison_shows_no_more_words_than_asked() -> None:
    a = evaluation("a", [game("crane", "crane"), game("grape", "grape")])
    b = evaluation("b", [game("crane", *LOST), game("grape", *LOST)])
    assert "grape" not in rendered(comparison_table(compare_all([a, b]), max_rows=1))
    assert "crane" not in rendered(comparison_table(compare_all([a, b]), max_rows=0))


# --- how players were asked -------------------------------------------------------------------------------------------


def notes_of(a: EvalConditions, b: EvalConditions) -> list[str]:
    games = [game("crane", "crane")]
    left, right = (replace(evaluation(name, games), conditions=asked) for name, asked in (("a", a), ("b", b)))
    return comparison_notes(compare(left, right))


def test_players_that_were_asked_differently_are_set_side_by_side_with_a_word() -> None:
    worded = EvalConditions(Style.ENGLISH, Shape.STATE, Thinking.OFF)
    greedy = worded.drawing(SamplingSettings(temperature=0.0), engine="transformers")
    sampled = worded.drawing(SamplingSettings(temperature=1.0), engine="transformers", seed=3)
    assert notes_of(greedy, sampled) == ["a and b were asked under different conditions: temperature 0 and 1"]
    assert notes_of(sampled, replace(sampled, seed=4)) == []
    assert notes_of(greedy, replace(greedy, style=Style.COMPACT, max_completion_tokens=9)) == [
        "a and b were asked under different conditions: style english and compact, max_completion_tokens 512 and 9"
    ]
    served = worded.drawing(SamplingSettings(temperature=0.0), endpoint_default_sampling=True)
    assert notes_of(greedy, served) == [
        "a and b were asked under different conditions: "
        "temperature 0 and the endpoint's own, top_p 1 and the endpoint's own"
    ]
    assert notes_of(greedy, replace(greedy, engine="vllm"))[0].endswith("engine transformers and vllm")
    assert notes_of(worded, sampled) == [], "a player without tokens is not asked for any"
