"""One table of scripted games on which all trainers must agree; `agreement.json` holds what they must come to.

Two groups of games with wins, losses, prose, unlisted words and replies that are cut. Tokens, masks and rewards follow
from them; log-probabilities are those of a small model whose weights are written down here as a formula. The sampler's
are stored with some distance from these, so that ratios leave the clip range on both sides.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from scripted import scripted
from training_fixtures import compact
from transformers import PreTrainedModel

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.policy.tiny import formula_model, make_tokenizer
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.rollout import Trajectory, play
from wordle_rl.solver import Solver
from wordle_rl.train.example import Example
from wordle_rl.trainers.check import plain_logprobs
from wordle_rl.words import WordList

TABLE = Path(__file__).with_name("agreement.json")
ANSWERS = ("abbey", "abide", "civic", "crane", "crate", "drape", "eerie", "grape", "graze", "speed", "these", "trace")
WORDS = WordList("agreement", ANSWERS, (*ANSWERS, "aahed", "eagle", "xylyl"))
GROUP = 3
GAMES = [
    ("crane", ("trace", "crate", "crane")),
    ("crane", ("speed", "qqqqq", "no idea")),
    ("crane", ("crane",)),
    ("grape", ("drape", None, "grape")),
    ("grape", ("eagle", "graze", "these")),
    ("grape", ("abide", "abide", None)),
]
"""Secret, and for each turn a guess, prose, or None for a reply that is cut at its limit."""
GAME_NUMBERS = range(len(GAMES))
WEIGHTS = {"win": 1.0, "speed": 0.5, "format": 0.3, "information": 0.2}
CLIP = {"epsilon": 0.2, "epsilon_high": 0.28}
TOLERANCE = 1e-4
LOSSES = {
    "dapo": {"loss_type": "dapo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "grpo": {"loss_type": "grpo"},
    "dapo with a penalty": {"loss_type": "dapo", "beta": 0.1},
}
"""Name -> settings of GRPO. Advantages are those of turn credit."""
LONGEST = 16
"""Token limit of a completion, by which dr_grpo divides."""
CREDITS = [(credit, scale) for credit in ("turn", "guess", "game") for scale in (False, True)]


def prompter() -> Prompter:
    return compact(max_turns=3)


def reply_of(number: int, turn: int) -> str | None:
    """The text of a reply of a game."""
    word = GAMES[number][1][turn]
    return word if word is None or " " in word else f"<guess>{word}</guess>"


@cache
def embedded_codec() -> ChatCodec:
    return ChatCodec(make_tokenizer())


def played(codec: ChatCodec, prompts: Prompter | None = None) -> list[Trajectory]:
    """The games by our own rollout; log-probabilities are blank."""
    sampler = scripted(lambda game, turns: reply_of(game, len(turns)))(None, codec)
    starts = [InitialState(secret) for secret, _ in GAMES]
    return play(starts, WORDS, prompts or prompter(), sampler)


def rubric() -> Rubric:
    return Rubric(WEIGHTS)


def turn_rewards(games: list[Trajectory]) -> list[tuple[float, ...]]:
    solver = Solver(WORDS)
    return [rubric().score(game.transcript, solver).turn_rewards for game in games]


def model(scale: float = 0.12) -> PreTrainedModel:
    """A small model with weights that no library's random numbers decide; its reference has another scale."""
    return formula_model(make_tokenizer(), scale)


@dataclass(frozen=True)
class Expected:
    """Contents of the table.

    Attributes:
        tokens: Prompt and completion of each game.
        masks: Loss mask along each completion.
        masks_without_overlong: The same, 0 on replies that were cut.
        rewards: Of each turn of each game.
        sampler_logprobs: Along each completion.
        policy_logprobs: Along each completion, 0 off the mask.
        reference_logprobs: The same for the reference.
        advantages: Credit and scale -> advantage of each turn of each game.
        losses: Name of `LOSSES` -> loss.
    """

    tokens: list[tuple[list[int], list[int]]]
    masks: list[list[int]]
    masks_without_overlong: list[list[int]]
    rewards: list[list[float]]
    sampler_logprobs: list[list[float]]
    policy_logprobs: list[list[float]]
    reference_logprobs: list[list[float]]
    advantages: dict[str, list[list[float]]]
    losses: dict[str, float]

    def along(self, number: int, credit: str = "turn") -> list[float]:
        """Advantages along the completion of a game, whose turns are the runs of ones in its mask."""
        turn, before, found = -1, 0, []
        for m in self.masks[number]:
            turn += m and not before
            before = m
            found.append(self.advantages[f"{credit} False"][number][turn] if m else 0.0)
        return found

    def padded(self, columns: list[list[float]]) -> torch.Tensor:
        """Values along completions as a tensor, shape (games, longest), padded on the right with 0."""
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(c, dtype=torch.float32) for c in columns], True)


@cache
def expected() -> Expected:
    return Expected(**json.loads(TABLE.read_text(encoding="utf-8")))


def write(**found: Any) -> None:
    """Store a table that was computed by TRL's trainer."""
    TABLE.write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")


def segments() -> list:
    return [game.segments[0] for game in played(embedded_codec())]


def examples(credit: str = "turn") -> list[Example]:
    """The games of the table as rows of a step."""
    table = expected()
    return [
        Example(
            [*prompt, *completion],
            [0] * len(prompt) + table.masks[number],
            [0.0] * len(prompt) + table.along(number, credit),
            [0.0] * len(prompt) + table.sampler_logprobs[number],
        )
        for number, (prompt, completion) in zip(GAME_NUMBERS, table.tokens, strict=True)
    ]


def grouped(values: list) -> list[list]:
    return [values[first : first + GROUP] for first in range(0, len(values), GROUP)]


def settings_of(name: str) -> GRPOSettings:
    return GRPOSettings(groups_per_step=2, group_size=GROUP, credit="turn", **LOSSES[name])


def full_logprobs(network: Any) -> list[list[float]]:
    """Log-probabilities along each completion by one plain forward pass of transformers, 0 off the mask."""
    found = []
    for segment in segments():
        first = len(segment.prompt_ids)
        values = plain_logprobs(network, [*segment.prompt_ids, *segment.token_ids])[first:]
        found.append([value * m for value, m in zip(values, segment.loss_mask, strict=True)])
    return found
