"""Laws of module targets: any environment with reset and step is one, and what it raises is a refusal."""

import sys
from pathlib import Path
from typing import Any

import pytest
from faulty_games import RightGame, write_words

from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.conformance.environment_checks import examine
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.targets import Dialect, ModuleTarget, TargetError, module_target
from wordle_rl.prompt import Style
from wordle_rl.solver import Solver
from wordle_rl.trainers.games import LoopSettings
from wordle_rl.words import load_words

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from conformance_peers import OwnGame


class FiveValues(RightGame):
    """Gymnasium's form: reset gives a pair, step five values."""

    def reset(self, seed: int) -> Any:
        return {"messages": [{"role": "user", "content": super().reset(seed)}]}, {}

    def step(self, reply: str) -> Any:
        text, reward, over, info = super().step(reply)
        return {"text": text}, reward, over, False, info


@pytest.mark.parametrize("form", [RightGame, FiveValues])
def test_every_form_plays_the_same_game(form: type[RightGame]) -> None:
    session = ModuleTarget("game", form).open(3)
    assert session.opening.text == "Find the word."
    step = session.send("<guess>crane</guess>")
    assert step.text.startswith(("That is", "crane "))
    assert (step.done, step.refused) == (False, False)
    secret = RightGame().secret_of(3)
    last = session.send(f"<guess>{secret}</guess>")
    assert (last.done, last.earned) == (True, pytest.approx(1.8))
    again = session.send("<guess>crane</guess>")
    assert again.refused
    assert "RuntimeError" in again.raw
    session.close()


@pytest.mark.parametrize("name", ["nowhere", "no_such_module:make", "json:no_such_name", "builtins:dict"])
def test_what_is_no_target_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(TargetError, match=name) as refusal:
        module_target(name)
    assert "\n" not in str(refusal.value)


def test_an_environment_that_opens_no_game_is_no_target() -> None:
    class Broken(RightGame):
        def reset(self, seed: int) -> str:
            raise OSError("no word list")

    with pytest.raises(TargetError, match="no word list"):
        ModuleTarget("broken", Broken).open(0)


@pytest.mark.parametrize(
    ("style", "preset"), [(Style.ENGLISH, "sparse"), (Style.TEXTARENA, "notebook"), (Style.COMPACT, "strict_xml")]
)
def test_our_own_game_passes_every_check(style: Style, preset: str, tmp_path: Path) -> None:
    words, game = WordSettings(source=write_words(tmp_path)), GameSettings(style=style)
    target = ModuleTarget("own", lambda: OwnGame(LoopSettings(words=words, game=game, reward_preset=preset)))
    dialect = Dialect.BRACKETED if style is Style.TEXTARENA else Dialect.TAGGED
    examiner = Examiner(target, Solver(load_words(str(tmp_path))), dialect, num_games=10)
    assert {each.check_id: each.evidence for each in examine(examiner) if each.status != "pass"} == {}
