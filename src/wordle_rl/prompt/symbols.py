"""The `symbols` style: the sentences of `english`, and each guess with coloured squares."""

from __future__ import annotations

from wordle_rl.prompt.english import SentenceStyle

_SQUARES = str.maketrans({"G": "🟩", "Y": "🟨", "X": "⬛"})

SYMBOLS = SentenceStyle(
    legend="each letter gets a square: 🟩 in its place, 🟨 elsewhere in the word, ⬛ no (further) copy in it",
    line=lambda guess, marks: f"{guess} {marks.translate(_SQUARES)}",
)
