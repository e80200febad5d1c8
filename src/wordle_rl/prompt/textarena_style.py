"""The `textarena` style: the sentences of `english`, guesses in brackets, and boards as TextArena draws them."""

from __future__ import annotations

from wordle_rl.prompt.english import SentenceStyle
from wordle_rl.prompt.textarena_texts import board

TEXTARENA = SentenceStyle(
    legend="each letter gets a mark: G in its place, Y elsewhere in the word, X no (further) copy in it",
    line=board,
    has_brackets=True,
)
