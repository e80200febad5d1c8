"""The texts that a style provides, built-in or your own class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from wordle_rl.game import Turn
from wordle_rl.import_paths import check_call, resolve
from wordle_rl.prompt.custom_system_prompt import PromptError

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter


class StyleTexts(Protocol):
    """Texts of a style, as pure functions of the board.

    Each method gets the `Prompter` of the game with its `word_length`, `rules`, and `reply(word)`, which writes a
    well-formed reply. `turns` are all turns so far, including refused ones, which have an `outcome` but no `marks`.
    """

    def brackets(self, prompter: Prompter) -> bool:
        """True if a guess is written `[crane]` instead of `<guess>crane</guess>`."""

    def rules(self, prompter: Prompter) -> str:
        """Return the system prompt, or '' for none; `game.system_prompt` replaces it."""

    def opening(self, prompter: Prompter) -> str:
        """Return the first user message."""

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """Return the user message after the last of `turns`, in `transcript` shape."""

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """Return the user message that restates the game after one or more `turns`, in `state` shape."""


def find_style(path: str) -> StyleTexts:
    """Import the class of a style by `module:attribute` and create it."""
    found = resolve(path, "style", PromptError)
    methods = [name for name in vars(StyleTexts) if not name.startswith("_")]
    missing = [name for name in methods if not callable(getattr(found, name, None))]
    if not isinstance(found, type) or missing:
        lacks = f"lacks {', '.join(missing)}" if missing else "is not a class"
        raise PromptError(f"style {path!r} {lacks}; give a class with the methods of wordle_rl.prompt.StyleTexts")
    check_call(found, f"style {path!r}", PromptError, takes="")
    texts: StyleTexts = found()
    return texts
