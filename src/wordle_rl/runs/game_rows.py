"""The row form of games in files, one for all of them: games.jsonl, traces, boards, evaluations.

    {"secret": "crane", "turns": [{"guess": "slate", "marks": "XXGXG", "outcome": "scored", ...}, ...], ...}

`guess` is null where none was read, `marks` where the guess was not scored. A field that has its default may be left
out; the default of `outcome` is "scored". GAME_FIELDS and TURN_FIELDS name the further fields that some files have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

GAME_FIELDS = MappingProxyType(
    {
        "secret": "the word to find",
        "turns": "list of turns, prefix guesses included",
        "won": "true if the secret was found",
        "turns_used": "turns that the game cost",
        "stop_reason": "why the game ended",
        "reward": "training: total reward",
        "stage": "training: name of the stage",
        "step": "training: optimizer step or round",
        "group": "training: number of the group within the step; its games share secret and prefix guesses",
        "game": "training: number of the game within its group",
        "group_size": "training: games of the group, recorded or not",
        "teacher": "traces: solver, or a language model's name",
        "seed": "traces: seed of the game",
        "messages": "traces made of chat: the conversation, trained on word for word",
        "error": "reason why the game could not be finished; it is then no loss",
        "prompt_tokens": "traces of an endpoint: tokens of all prompts",
        "completion_tokens": "traces of an endpoint: tokens of all completions",
    }
)
"""Fields of a game."""

TURN_FIELDS = MappingProxyType(
    {
        "guess": "the word played; null: none was read",
        "marks": "G right place, Y elsewhere, X no copy left; null: not scored",
        "outcome": "how the rules judged the reply",
        "reply": "text of the completion",
        "given": "true for a prefix guess, which the policy did not choose",
        "costs_turn": "false for a refusal that was free",
        "reward": "training: reward of the turn",
        "components": "training: its components before their weights",
        "advantage": "training: advantage of the turn's tokens within its group",
        "taught": "traces: false for a turn that is not to be trained on",
        "remaining": "traces: candidate answers before the guess; 0: not counted",
        "thinking": "traces: the teacher's reasoning",
        "finish": "traces of an endpoint: why the completion ended, if unusual",
        "repeated": "evaluations: the word was guessed before",
        "violates_clues": "evaluations: the guess contradicts earlier marks",
        "regret": "evaluations: expected guesses given away; null: not measured",
    }
)
"""Fields of a turn."""

OTHER_NAMES = MappingProxyType({"word": "secret", "feedback": "marks"})
"""Names that other projects' rows have for the same; they are read and never written."""


def board_row(secret: str, turns: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """A board to continue from: the secret, and the guesses played with their marks."""
    return {"secret": secret, "turns": [{"guess": guess, "marks": marks, "given": True} for guess, marks in turns]}


def in_our_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with OTHER_NAMES replaced by ours, where ours are not there as well.

    Examples:
        >>> in_our_names({"word": "crane", "turns": []})
        {'secret': 'crane', 'turns': []}
    """
    return {OTHER_NAMES.get(name, name) if OTHER_NAMES.get(name) not in row else name: row[name] for name in row}
