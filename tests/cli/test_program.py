"""Laws of the program: commands of other rooms stand beside its own."""

import pytest

from wordle_rl.cli import main
from wordle_rl.cli.program import Command


def test_further_commands_stand_beside_the_own_ones() -> None:
    said = []

    def greet(name: str) -> None:
        said.append(name)

    assert main(["greet", "--name", "you"], {"greet": Command(greet)}) == 0
    assert said == ["you"]
    with pytest.raises(ValueError, match="already defined"):
        main(["play"], {"play": Command(lambda: None)})
