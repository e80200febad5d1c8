"""Reward sets that people train with, by name, and where each comes from.

Every preset keeps order (see `Rubric`), which adds to `win` and `rule_break`. `Rubric(…, keep_order=False)`
gives the weights bare.
Scores that other projects give to a single reply are averaged over the policy's turns here, so a game of one own
turn has exactly their number. There are two deliberate deviations: a turn that broke a rule gets the worst score of
every component, where some of them gave it 0 and were exploited, and a loss earns nothing of `win`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wordle_rl.reward.components import RewardError
from wordle_rl.reward.rubric import Rubric
from wordle_rl.reward.schedule import Schedule

PRESETS: Mapping[str, Rubric] = MappingProxyType(
    {
        # Only the result counts, and an early one more.
        "sparse": Rubric({"win": 1.0, "speed": 0.5}),
        # The pipeline of fine-tuning on strict XML traces followed by GRPO in a multi-turn game names these five
        # terms without their weights; the weights are ours.
        "strict_xml": Rubric({"win": 1.0, "speed": 0.5, "format": 0.2, "consistency": 0.2, "length": 0.1}),
        # The trainer notebook on a TextArena game: four rewards, summed with equal weights, of the last guess.
        "notebook": Rubric({"win": 1.0, "greens": 1.0, "yellows": 1.0, "variety": 1.0}),
        # Shaping of single guesses: form first, then the use of clues, then the value of the guess; and 1.0 less for
        # every repeated guess of a six-turn game, the penalty proposed after one word had been said over and over.
        "shaped": Rubric({"format": 1.0, "feedback": 0.5, "information": 0.3, "repeat": -6.0}),
        # The second phase proposed for the same set, once nine replies in ten are well formed.
        "shaped_strategy": Rubric({"format": 0.3, "feedback": 1.0, "information": 1.0, "repeat": -6.0}),
        # How far each guess falls behind the solver's best play.
        "solver": Rubric({"win": 1.0, "speed": 0.2, "regret": -1.0}),
    }
)
"""Rubrics by name."""

CURRICULA: Mapping[str, Schedule] = MappingProxyType(
    {
        "shaped_curriculum": Schedule(PRESETS["shaped"].weights, PRESETS["shaped_strategy"].weights, threshold=0.9),
    }
)
"""Schedules by name, in addition to the presets."""


def named_schedule(name: str) -> Schedule:
    """The schedule a preset or curriculum stands for; a preset never changes.

    Raises:
        RewardError: If there is neither a preset nor a curriculum of that name.
    """
    if name in CURRICULA:
        return CURRICULA[name]
    if name not in PRESETS:
        raise RewardError(f"unknown reward preset {name!r}; known are {', '.join([*PRESETS, *CURRICULA])}")
    return Schedule(PRESETS[name].weights)
