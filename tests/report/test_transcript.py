"""Laws of a game shown turn by turn: it says what the player was told, what it said, how that was read and paid."""

import pytest
from scripted import ScriptedSampler
from scripted_evaluations import WORDS, tag

from wordle_rl.prompt import Prompter, Shape
from wordle_rl.report.terminal import verbose_lines
from wordle_rl.reward import Rubric
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver

SOLVER = Solver(WORDS)


def shown(prompter: Prompter, replies: list[str], prefix: tuple[str, ...] = ()) -> list[str]:
    [game] = play([InitialState("crane", prefix)], WORDS, prompter, ScriptedSampler({0: replies}))
    reward = Rubric({"win": 1.0}).score(game.transcript, SOLVER)
    return [*verbose_lines(game.transcript, WORDS, prompter, reward, "own")]


@pytest.mark.parametrize("shape", Shape)
def test_every_turn_has_completion_guess_marks_feedback_reward_and_end(shape: Shape) -> None:
    lines = shown(Prompter(shape=shape), [tag("speed"), "no word", tag("crane")])
    text = "\n".join(lines)
    assert lines[0] == "prompt:"
    assert "    [system] Find the secret" in text
    assert (
        "turn 1: completion: <guess>speed</guess>\n  parsed guess: speed\n  marks: XXYXX\n  feedback message:" in text
    )
    assert "turn 2: completion: no word\n  parsed guess: none (no_guess)\n  marks: none (malformed)" in text
    assert lines[-3:] == ["  reward: 1.0000", "  done: yes, solved", "reward of the game (own): 1.0000"]
    assert text.count("  done: no") == 2


def test_the_command_shows_it(cli) -> None:
    code, out, _ = cli("play", "--player", "solver", "--secret", "crane", "--verbose", "--reward", "shaped")
    assert code == 0
    assert "reward of the game (shaped): " in out
