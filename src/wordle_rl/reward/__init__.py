"""Rewards: components over finished games, and rubrics that weigh them.

components.py     the components; how a guess uses clues: clues.py
rubric.py         weights, and how they keep wins above losses; presets; a switch of weights
turn_rewards.py   the reward turn by turn, while a game runs
attack.py         search for reward without winning
"""

from wordle_rl.reward.clues import letter_scores, with_candidates
from wordle_rl.reward.components import COMPONENTS, Component, Range, RewardError, Shares, find_component
from wordle_rl.reward.rubric import (
    CURRICULA,
    PRESETS,
    RewardBreakdown,
    Rubric,
    Schedule,
    format_compliance,
    named_schedule,
)
from wordle_rl.reward.turn_rewards import TurnRewards

__all__ = [
    "COMPONENTS",
    "CURRICULA",
    "PRESETS",
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
