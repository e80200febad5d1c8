import io
from dataclasses import replace
from typing import Literal

import pytest
from report_runs import evaluation, game
from rich.console import Console, RenderableType
from scripted import ScriptedSampler
from scripted_evaluations import WORDS, tag

from wordle_rl.boards import InitialState
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.compare import compare, compare_all
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.records import measure
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report.terminal import board, comparison_table, game_panel, results_table, tiles, verbose_lines
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
    assert "[b]x" in rendered(results_table({"[b]x": {"all": FIGURES}}, title="[red]t"))
    a = evaluation("[i]a", [game("crane", "crane")])
    assert "[i]a" in rendered(comparison_table(compare_all([a, replace(a, name="b")])))


WORDED = EvalConditions(Style.ENGLISH, Shape.STATE, Thinking.OFF)
GREEDY = WORDED.drawing(SamplingSettings(temperature=0.0), engine="transformers")
SAMPLED = WORDED.drawing(SamplingSettings(temperature=1.0), engine="transformers", seed=3)
SERVED = WORDED.drawing(SamplingSettings(temperature=0.0), endpoint_default_sampling=True)


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
