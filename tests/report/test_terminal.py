import io
from dataclasses import replace
from typing import Literal

import pytest
from report_runs import evaluation, game
from rich.console import Console, RenderableType
from scripted import WORDS, ScriptedSampler, tag

from wordle_rl.boards import InitialState
from wordle_rl.evaluate.compare import compare, compare_all
from wordle_rl.evaluate.figures import measure
from wordle_rl.evaluate.records import EvalConditions
from wordle_rl.evaluate.results_table import results_table
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report.terminal import board, comparison_table, figures_table, game_panel, tiles, verbose_lines
from wordle_rl.reward import Rubric
from wordle_rl.rollout import play
from wordle_rl.solver import Solver


def rendered(item: RenderableType, *, colors: Literal["standard", "truecolor"] | None = None, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=colors is not None, color_system=colors).print(item)
    return out.getvalue()


FIGURES = measure([game("crane", "crate", "crane"), game("grape", *["fuzzy"] * 6)], max_turns=6)


def test_the_three_marks_differ_in_a_terminal_of_few_colours_too() -> None:
    line = rendered(tiles("aaa", "GYX"), colors="standard")
    styles = [part.split("m")[0] for part in line.split("\x1b[") if " A " in part]
    assert len(set(styles)) == 3


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


def test_names_are_text_and_never_markup() -> None:
    assert "[b]x" in rendered(
        figures_table(results_table({name: {"all": FIGURES} for name in ("[b]x", "y")}), "[red]t")
    )
    a = evaluation("[i]a", [game("crane", "crane")])
    assert "[i]a" in rendered(comparison_table(compare_all([a, replace(a, name="b")])))


PARTS = ("all", "train", "held_out", "strict")


def test_the_table_of_a_run_fits_into_80_columns_with_all_secrets_first() -> None:
    ways = ("", "_sampled", "_constrained")
    names = ("base", "sft", "expert_iteration")
    results = {name: {f"{part}{way}": FIGURES for part in PARTS for way in ways} for name in names}
    head, _, *lines = rendered(figures_table(results_table(results))).splitlines()
    assert head.split("  ")[-1].strip() == "strict"
    assert head.split() == ["all", "training", "held", "out", "strict"]
    assert "…" not in "".join(lines)
    wins = [line.strip().split("  ")[0] for line in lines[2:20:2]]
    assert wins == [f"{name}{way}" for name in names for way in ("", ", T = 1", ", listed words")]
    assert lines[0].split() == ["games", *["2"] * 4], "the same for all"


def test_figures_of_one_player_stand_without_its_name_and_what_nobody_measured_is_left_out() -> None:
    unmeasured = replace(FIGURES, mean_regret=None)
    found = results_table({"a": {"all": FIGURES, "train": unmeasured}})
    assert found.columns == ("all", "training")
    rows = {label: cells for label, *cells in found.rows}
    assert rows["wins, %"] == ["50.0", "50.0"]
    assert rows["regret per turn"] == ["0.250", "–"]
    assert "regret per turn" not in {label for label, *_ in results_table({"a": {"all": unmeasured}}).rows}
    repeated = replace(FIGURES, pass_at={"2": (0.5, 0.25, 0.75)})
    assert results_table({"a": {"all": repeated}}).rows[-2:] == (("pass@2, %", "50.0"), ("  95 %", "25.0–75.0"))


WORDED = EvalConditions(Style.ENGLISH, Shape.STATE, Thinking.OFF)
GREEDY = replace(WORDED, temperature=0.0, max_completion_tokens=512, engine="transformers")
SAMPLED = replace(GREEDY, temperature=1.0, seed=3)
SERVED = replace(WORDED, max_completion_tokens=512)


@pytest.mark.parametrize(
    ("a", "b", "differing"),
    [
        (GREEDY, SAMPLED, "temperature"),
        (SAMPLED, replace(SAMPLED, seed=4), None),
        (GREEDY, replace(GREEDY, style=Style.COMPACT), "style"),
        (GREEDY, SERVED, "temperature"),
        (GREEDY, replace(GREEDY, engine="vllm"), "engine"),
        (WORDED, SAMPLED, None),
    ],
)
def test_what_players_were_asked_differently_is_told(a: EvalConditions, b: EvalConditions, differing: str) -> None:
    games = [game("crane", "crane")]
    left, right = (replace(evaluation(name, games), conditions=asked) for name, asked in (("a", a), ("b", b)))
    named = [note.rpartition("conditions: ")[2].split()[0] for note in compare(left, right).notes]
    assert named == ([differing] if differing else [])


@pytest.mark.parametrize("shape", Shape)
def test_every_turn_has_completion_guess_marks_feedback_reward_and_end(shape: Shape) -> None:
    prompter, replies = Prompter(shape=shape), [tag("speed"), "no word", tag("crane")]
    [game] = play([InitialState("crane")], WORDS, prompter, ScriptedSampler({0: replies}))
    reward = Rubric({"win": 1.0}).score(game.transcript, Solver(WORDS))
    lines = [*verbose_lines(game.transcript, WORDS, prompter, reward, "own")]
    text = "\n".join(lines)
    for part in (*replies, "speed", "XXYXX", "no_guess", "malformed", prompter.opening()[0]["content"][:20]):
        assert part in text
    assert [line.split()[-1] for line in lines if "reward" in line] == ["0.0000", "0.0000", "1.0000", "1.0000"]
    assert [line.split(": ")[1] for line in lines if "done" in line] == ["no", "no", "yes, solved"]


def test_the_command_shows_it(cli) -> None:
    code, out, _ = cli("play", "--player", "solver", "--secret", "crane", "--verbose", "--reward", "shaped")
    assert code == 0
    assert "reward of the game (shaped)" in out
