"""Laws of the program: commands of other rooms stand beside its own."""

import pytest

from wordle_rl import __version__
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


@pytest.fixture
def documented() -> dict[str, Command]:
    def greet(name: str = "you") -> None:
        """Say hello.

        In a second paragraph.

        Args:
            name: Somebody.
        """

    return {"greet": Command(greet)}


def test_the_list_of_commands_has_the_first_paragraph_of_each_and_its_own_help_has_all(documented, capsys) -> None:
    shown = []
    for arguments in (["--help"], ["greet", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments, documented)
        assert ended.value.code == 0
        shown.append(capsys.readouterr().out)
    assert all("Say hello." in text for text in shown)
    assert ["second paragraph" in text for text in shown] == [False, True]
    assert ["Somebody" in text for text in shown] == [False, True]


def test_the_version_is_printed(capsys) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["play", "--version"]) == 2
