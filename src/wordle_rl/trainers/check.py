"""`conformance --trainer`: recorded games pass through a trainer's batch builder, model call and loss, beside ours.

An adapter is a function from a `Case` to a dict of what the trainer computes for its games. Missing keys are skipped:

    ids         all tokens of each game, prompt included
    mask        per token, 1 where the trainer learns
    logprobs    per token, log-probabilities under the model; tokens outside the mask do not count
    advantages  per token, the game's reward minus its group's mean, in any scale; 0 outside the mask
    loss        by name, `dapo`, `grpo` or `dr_grpo`: from the rows' advantages and ratios to the sampler, with `CLIP`

The games contain what trainers got wrong: replies before the policy's first turn, a reply sampled letter by letter
although its text has a shorter encoding, a reply cut at its limit, and games of different lengths.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from rich.text import Text
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.cli import console
from wordle_rl.cli.arguments import fill_in
from wordle_rl.config.base import ConfigError
from wordle_rl.config.options import Json
from wordle_rl.import_paths import resolve
from wordle_rl.policy.tiny import formula_model, make_tokenizer
from wordle_rl.runs import write_json
from wordle_rl.train.example import Example
from wordle_rl.train.loss import PolicyLoss, Totals, policy_loss
from wordle_rl.train.micro_batches import Batch

TOLERANCE = 1e-4
GROUP_SIZE = 3
LONGEST = 48  # most trained tokens of a game, the divisor of `dr_grpo`
CLIP: dict[str, Any] = {"epsilon": 0.2, "epsilon_high": 0.28}


@dataclass(frozen=True)
class RecordedGame:
    """A game as text, and as a row of tokens, loss mask, advantages and sampler log-probabilities, with its reward."""

    group: int
    messages: Sequence[Mapping[str, str]]
    num_prompt_tokens: int  # at the start of the row; replies on the board follow
    row: Example
    reward: float


@dataclass(frozen=True)
class Case:
    """Input of an adapter: a model, its tokenizer and template, and games in groups."""

    model: PreTrainedModel
    codec: ChatCodec
    games: Sequence[RecordedGame]

    @classmethod
    def recorded(cls) -> Case:
        """Load the games of recorded.json, and the model that scores them."""
        codec = ChatCodec(make_tokenizer())
        rows = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
        games = [RecordedGame(**{**row, "row": Example(**row["row"])}) for row in rows]
        return cls(formula_model(codec.tokenizer), codec, games)


Made = Mapping[str, Any]  # an adapter's result: columns by game, and losses by name


@torch.no_grad()
def plain_logprobs(model: Any, ids: Sequence[int]) -> list[float]:
    """Log-probability of each token given those before it, one row at a time; 0.0 for the first."""
    tokens = torch.tensor([list(ids)])
    logprobs = model(input_ids=tokens).logits[0, :-1].float().log_softmax(-1)
    return [0.0, *logprobs.gather(1, tokens[0, 1:, None])[:, 0].tolist()]


def expected(case: Case) -> Made:
    """Return what an adapter should return."""
    rows = [game.row for game in case.games]
    logprobs = [plain_logprobs(case.model, row.token_ids) for row in rows]
    learnt = [value for row, values in zip(rows, logprobs, strict=True) for value in compress(values, row.loss_mask)]
    counts, losses = [sum(row.loss_mask) for row in rows], {}
    for name in ("dapo", "grpo", "dr_grpo"):
        # One micro-batch of all rows: what a trainer divides by must not depend on how it cuts them.
        weights = PolicyLoss(name, LONGEST).token_weights(counts, Totals(sum(counts), len(rows)))
        batch = Batch.of(rows, weights, case.codec.pad_id)
        assert batch.sampler_logprobs is not None
        assert batch.advantages is not None
        loss, _ = policy_loss(torch.tensor(learnt), batch.sampler_logprobs, batch.advantages, batch.weights, **CLIP)
        losses[name] = loss.item()
    # Adapters answer in the words of their field; these are ours.
    columns = {"ids": "token_ids", "mask": "loss_mask", "advantages": "advantages"}
    made: Made = {key: [list(getattr(row, name)) for row in rows] for key, name in columns.items()}
    return {**made, "logprobs": logprobs, "loss": losses}


CHECKS = {  # key of an adapter's dict -> its requirement
    "ids": "Trains on the sampled tokens; no text is tokenised again.",
    "mask": "Learns the policy's own replies as a whole, and neither feedback nor replies in the prompt.",
    "logprobs": "Scores each token given all before it, as for a row by itself.",
    "advantages": "Compares a game with its own group, and credits only trained tokens.",
    "loss": "Sums clipped terms as the loss of that name does.",
}


@dataclass(frozen=True)
class CheckResult:
    """Result of a check: its requirement, and the evidence in at most three sentences."""

    check_id: str
    requirement: str
    status: Literal["pass", "fail", "skip"]
    evidence: tuple[str, ...]


def examine_trainer(adapter: Callable[[Case], Made], case: Case | None = None) -> Iterator[CheckResult]:
    """Run every check on an adapter."""
    case = case or Case.recorded()
    ours, made = expected(case), adapter(case)
    for key, requirement in CHECKS.items():
        if key not in made or (key == "loss" and not made[key]):
            yield CheckResult(f"trainer.{key}", requirement, "skip", (f"the adapter returns no {key!r}",))
            continue
        faults = [*(_losses(made[key], ours[key]) if key == "loss" else _columns(key, made[key], ours))]
        evidence = tuple(faults[:3]) or (f"{len(case.games)} games as ours",)
        yield CheckResult(f"trainer.{key}", requirement, "fail" if faults else "pass", evidence)


def _columns(key: str, made: Sequence[Sequence[float]], ours: Made) -> Iterator[str]:
    """Yield the first difference of a column from ours, for each game."""
    scales: dict[int, float] = {}
    if len(made) > len(ours[key]):
        yield f"{len(made)} games for {len(ours[key])}"
    for place, wanted in enumerate(ours[key]):
        theirs = list(made[place]) if place < len(made) else []
        if len(theirs) != len(wanted):  # nothing else of this game can be compared
            yield f"game {place}: {len(theirs)} values for {len(wanted)} tokens"
            continue
        counted = ours["mask"][place] if key == "logprobs" else [1] * len(wanted)
        # The largest value sets the scale, since dividing by a small one would magnify rounding.
        largest = wanted.index(max(wanted, key=abs))
        # The scale of a group's advantages is free, as long as it is one and positive.
        free = key == "advantages" and wanted[largest]
        scale = scales.setdefault(place // GROUP_SIZE, theirs[largest] / wanted[largest]) if free else 1.0
        for at, (a, b, counts) in enumerate(zip(theirs, wanted, counted, strict=True)):
            if counts and not (abs(a - scale * b) <= TOLERANCE * max(1.0, scale) and scale > 0):
                yield f"game {place}, token {at}: {a:.5g}, ours {scale * b:.5g}"
                break


def _losses(made: Mapping[str, float], ours: Mapping[str, float]) -> Iterator[str]:
    for name, value in made.items():
        # Written so that nan and a name that we do not know fail.
        if not abs(float(value) - ours.get(name, math.nan)) <= TOLERANCE:
            yield f"{name}: {float(value):.5f}, ours {ours.get(name, math.nan):.5f}"


def conformance(trainer: str, out: Path | None = None, as_json: Json = False) -> int:
    """Check a trainer on recorded games: its tokens, masks, log-probabilities, advantages and loss beside ours.

    The exit code is 1 if a check fails.

    Args:
        trainer: package.module:adapter of the trainer.
        out: Directory to write conformance.json to. {time} in its name stands for the time of the call.
    """
    out = None if out is None else fill_in(out, None)
    results = list(examine_trainer(resolve(trainer, "--trainer", ConfigError, takes="case")))
    counts = dict(Counter(result.status for result in results))
    conforms = "fail" not in counts
    report = {"target": trainer, "conforms": conforms, "counts": counts, "results": [*map(asdict, results)]}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "conformance.json", report)
    table = Table("check", "finding", "evidence", show_lines=True)
    for result in results:
        seen = [result.requirement, *result.evidence] if result.status == "fail" else result.evidence
        style = {"pass": "green", "skip": "yellow", "fail": "bold red"}[result.status]
        table.add_row(result.check_id, Text(result.status, style), Text("\n".join(seen)))
    verdict = f"{trainer} {'conforms' if conforms else 'does not conform'}: {counts}"
    console.show(report, [table, verdict], as_json)
    return 0 if conforms else 1
