"""Laws of the adapter for gym-wordle, over a stand-in with the interface and the faults of 0.1.3."""

import pytest

from wordle_rl.conformance.adapters import gym_wordle
from wordle_rl.conformance.adapters.gym_wordle import GymWordleTarget
from wordle_rl.conformance.target import TargetError

np = pytest.importorskip("numpy")
WORDS = ["crane", "slate", "geese"]


class Actions:
    def index_of(self, word: list[int]) -> int:
        found = [[ord(letter) - 96 for letter in each] for each in WORDS]
        return found.index(word) if word in found else -1


class StandIn:
    """Boards of 6 x 10; flags stand over the letters, as they do in 0.1.3, or where they belong."""

    flags_at = 0

    def __init__(self) -> None:
        self.action_space = Actions()
        self.closed = False

    def seed(self, seed: int) -> None:
        self.seeded = seed

    def reset(self):
        self.board, self.round = np.zeros((6, 10), dtype=np.int64), 0
        return self.board

    def step(self, action: int):
        if action < 0:
            raise AssertionError("Invalid word!")
        self.board[self.round][:5] = [ord(letter) - 96 for letter in WORDS[action]]
        self.board[self.round][self.flags_at : self.flags_at + 5] = [1, 2, 3, 3, 1]
        self.round += 1
        return self.board, -1.0, self.round == 6, {}

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("flags_at", [0, 5])
def test_flags_are_read_where_they_stand(flags_at: int) -> None:
    class Placed(StandIn):
        pass

    Placed.flags_at = flags_at
    session = GymWordleTarget(Placed).open(7)
    assert [session.send(word).text for word in WORDS] == [f"{word} GYXXG" for word in WORDS]
    assert session.send("crane").earned == -1.0


@pytest.mark.parametrize("reply", ["", "zzzzz", "CRANE", "cran", "cranes", "🟩🟩🟩🟩🟩", "é" * 5])
def test_what_has_no_number_is_refused(reply: str) -> None:
    step = GymWordleTarget(StandIn).open(0).send(reply)
    assert step.refused
    assert step.text == "Invalid word!"


def test_without_the_package_the_refusal_names_it(monkeypatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(gym_wordle.importlib, "import_module", missing)
    with pytest.raises(TargetError, match="gym-wordle"):
        gym_wordle.target()
