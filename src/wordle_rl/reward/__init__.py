"""Rewards: components over finished games, and rubrics that weigh them.

components.py   the components, and how a guess uses clues
rubric.py       weights, and how they keep wins above losses; the reward turn by turn; presets; weights that change
attack.py       search for reward without winning
"""

from wordle_rl.reward.components import (
    COMPONENTS,
    Component,
    Range,
    RewardError,
    Shares,
    find_component,
    letter_scores,
    with_candidates,
)
from wordle_rl.reward.rubric import (
    CURRICULA,
    PRESETS,
    TERMINAL_COMPONENTS,
    RewardBreakdown,
    Rubric,
    Schedule,
    TurnRewards,
    format_compliance,
    named_schedule,
)

__all__ = [
    "COMPONENTS",
    "CURRICULA",
    "PRESETS",
    "TERMINAL_COMPONENTS",
    "Component",
    "Range",
    "RewardBreakdown",
    "RewardError",
    "Rubric",
    "Schedule",
    "Shares",
    "TurnRewards",
    "find_component",
    "format_compliance",
    "letter_scores",
    "named_schedule",
    "with_candidates",
]
