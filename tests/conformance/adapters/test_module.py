"""Laws of module targets: any environment with reset and step is one, and what it raises is a refusal."""

import random
from typing import Any

import pytest
from faulty_games import RightGame

from wordle_rl.conformance.adapters import own
from wordle_rl.conformance.adapters.module import ModuleTarget, as_sent, module_target, text_of
from wordle_rl.conformance.adapters.own import OwnGame, wordle
from wordle_rl.conformance.dialects import Dialect, Writing
from wordle_rl.conformance.examiner import Examiner, Settings
from wordle_rl.conformance.results import Status
from wordle_rl.conformance.suite import examine
from wordle_rl.conformance.target import SessionLostError, TargetError
from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Prompter, Style
from wordle_rl.reward import PRESETS
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words


class FiveValues(RightGame):
    """Gymnasium's form: reset gives a pair, step five values."""

    def reset(self, seed: int) -> Any:
        return {"messages": [{"role": "user", "content": super().reset(seed)}]}, {}

    def step(self, reply: str) -> Any:
        text, reward, over, info = super().step(reply)
        return {"text": text}, reward, over, False, info


class SeededBefore(RightGame):
    """The form of old: `seed` and then `reset`."""

    def seed(self, seed: int) -> None:
        self.chosen = seed

    def reset(self) -> str:  # type: ignore[override]
        return super().reset(self.chosen)


@pytest.mark.parametrize("form", [RightGame, FiveValues, SeededBefore])
def test_every_form_plays_the_same_game(form: type[RightGame]) -> None:
    session = ModuleTarget("game", form).open(3)
    assert session.opening.text == "Find the word."
    step = session.send("<guess>crane</guess>")
    assert step.text.startswith("That is") or step.text.startswith("crane ")
    assert (step.done, step.refused) == (False, False)
    secret = RightGame().secret_of(3)
    last = session.send(f"<guess>{secret}</guess>")
    assert (last.done, last.earned) == (True, pytest.approx(1.8))
    again = session.send("<guess>crane</guess>")
    assert again.refused
    assert "RuntimeError" in again.raw
    session.close()


def test_a_step_without_values_is_a_lost_session() -> None:
    class Broken(RightGame):
        def step(self, reply: str) -> Any:
            return None

    with pytest.raises(SessionLostError, match="NoneType"):
        ModuleTarget("broken", Broken).open(0).send("<guess>crane</guess>")


def test_state_is_had_beside_the_observations() -> None:
    class Stateful(RightGame):
        def state(self) -> dict[str, int]:
            return {"turn": self.turns_used}

    session = ModuleTarget("stateful", Stateful).open(0)
    assert session.beside() == '{"turn": 0}'
    assert ModuleTarget("plain", RightGame).open(0).beside() == ""


def test_texts_of_observations() -> None:
    assert text_of({"a": ["x", {"content": "y"}], "n": 3, "metadata": {"id": "z"}, "role": "user"}) == "x\ny"
    assert text_of(None) == ""
    assert as_sent({"é": {1}}) == '{"é": "{1}"}'


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "package.module:factory"),
        ("no_such_module:make", "cannot be imported"),
        ("json:no_such_name", "nothing callable"),
        ("builtins:dict", "no reset and step"),
    ],
)
def test_what_is_no_target_is_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message) as refusal:
        module_target(name)
    assert "\n" not in str(refusal.value)


class OpenSeed(RightGame):
    """A reset that takes whatever it is given."""

    def reset(self, **options: Any) -> str:
        return super().reset(options["seed"])


def test_a_seed_is_given_to_a_reset_that_takes_any_name() -> None:
    session = ModuleTarget("open", OpenSeed).open(3)
    assert session.send(f"<guess>{RightGame().secret_of(3)}</guess>").done


def test_an_environment_that_opens_no_game_is_no_target(monkeypatch) -> None:
    class Broken(RightGame):
        def reset(self, seed: int) -> str:
            raise OSError("no word list")

    with pytest.raises(TargetError, match="OSError: no word list"):
        ModuleTarget("broken", Broken).open(0)
    monkeypatch.setattr(own, "wordle", Broken().reset)
    with pytest.raises(TargetError, match="makes no environment"):
        module_target("wordle_rl.conformance.adapters.own:wordle")


@pytest.mark.parametrize("preset", PRESETS)
def test_own_rewards_add_up_to_the_rubrics(preset: str, small_words: WordList) -> None:
    replies = [f"<guess>{word}</guess>" for word in ("crane", "eerie", "zzzzz", "abbey")] + ["no guess", ""]
    game, secret = OwnGame(small_words, PRESETS[preset], Prompter()), random.Random(4).choice(small_words.answers)
    judged = WordleEnv(secret, small_words, Prompter())
    game.reset(4)
    rewards = []
    while judged.stop_reason is None:
        reply = replies[len(rewards)]
        judged.step(reply)
        _, reward, terminated, _, _ = game.step(reply)
        rewards.append(reward)
    assert terminated
    assert sum(rewards) == pytest.approx(
        PRESETS[preset].score(judged.transcript(), Solver(small_words, use_cache=False)).total
    )


def small_game(style: Style, preset: str) -> Examiner:
    words = load_words("default")
    small = WordList("some", words.answers[::16], tuple(sorted({*words.answers[::16], *words.guesses[::24]})))
    writing = Writing.BRACKETED if style is Style.TEXTARENA else Writing.TAGGED
    target = ModuleTarget("own", lambda: OwnGame(small, PRESETS[preset], Prompter(style=style)))
    return Examiner(target, Solver(small, use_cache=False), Dialect(writing), Settings(games=10))


@pytest.mark.parametrize(
    ("style", "preset"), [(Style.ENGLISH, "sparse"), (Style.TEXTARENA, "notebook"), (Style.COMPACT, "strict_xml")]
)
def test_our_own_game_passes_every_check(style: Style, preset: str) -> None:
    report = examine(small_game(style, preset), {})
    assert {each.check_id: each.evidence for each in report.results if each.status is not Status.PASS} == {}


def test_the_factories_make_games_of_the_embedded_words() -> None:
    observation, _ = wordle().reset(0)
    assert "5-letter" in observation["messages"][0]["content"]
