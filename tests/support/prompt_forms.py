"""Styles, and what thinking each of them may be set to."""

from itertools import product

from wordle_rl.prompt import Style, Thinking

FORMS = [form for form in product(Style, Thinking) if form != (Style.SPELLED, Thinking.REQUIRED)]
"""The spelled style has no form for thinking."""
