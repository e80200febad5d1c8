"""Reward presets by name, and where each comes from.

Every preset keeps order (see `Rubric`), which adjusts `win` and `rule_break`; `Rubric(…, keep_order=False)` uses the
weights as they are. Other projects score single replies. Here scores are averaged over the policy's turns, so a game
with one own turn gets exactly their number. There are two deliberate deviations: a turn that broke a rule gets the
worst score of every component (some projects gave 0, which was exploited), and a loss earns nothing of `win`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wordle_rl.reward.components import RewardError
from wordle_rl.reward.rubric import Rubric
from wordle_rl.reward.schedule import Schedule

PRESETS: Mapping[str, Rubric] = MappingProxyType(
    {
        # Only the result counts, and an early win more.
        "sparse": Rubric({"win": 1.0, "speed": 0.5}),
        # A pipeline of fine-tuning on strict XML traces and GRPO in a multi-turn game names these five terms without
        # weights; the weights are ours.
        "strict_xml": Rubric({"win": 1.0, "speed": 0.5, "format": 0.2, "consistency": 0.2, "length": 0.1}),
        # The trainer notebook on a TextArena game: four rewards of the last guess with equal weights.
        "notebook": Rubric({"win": 1.0, "greens": 1.0, "yellows": 1.0, "variety": 1.0}),
        # Shaping of single guesses: form, use of clues, value of the guess, and -1.0 per repeated guess of a six-turn
        # game. That penalty was proposed after a policy had repeated one word.
        "shaped": Rubric({"format": 1.0, "feedback": 0.5, "information": 0.3, "repeat": -6.0}),
        # The second phase of the same proposal, once nine of ten replies are well formed.
        "shaped_strategy": Rubric({"format": 0.3, "feedback": 1.0, "information": 1.0, "repeat": -6.0}),
        # The distance of each guess from the solver's best play.
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
    """Return the schedule of a preset (constant) or curriculum.

    Raises:
        RewardError: If there is no preset or curriculum of that name.
    """
    if name in CURRICULA:
        return CURRICULA[name]
    if name not in PRESETS:
        raise RewardError(f"unknown reward preset {name!r}; known are {', '.join([*PRESETS, *CURRICULA])}")
    return Schedule(PRESETS[name].weights)
