"""A run made by hand, small enough to know every figure of its page."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pages import Page, parse_page

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.records import EvalConditions, Evaluation
from wordle_rl.game import Rules, score_guess
from wordle_rl.prompt import Prompter
from wordle_rl.report import write_report
from wordle_rl.words.split import Split

SPLIT = Split(train=("crane", "crate"), val=("trace",), test=("grape", "speed"), seed=0, fingerprint="f" * 64)
ANSWERS = SPLIT.named("all")


def game(secret: str, *guesses: str, reply: str | None = None) -> GameRecord:
    turns = tuple(
        TurnRecord(g, score_guess(secret, g), reply=reply or f"<guess>{g}</guess>").noted(regret=0.25) for g in guesses
    )
    won = guesses[-1] == secret
    return GameRecord(secret, turns, stop_reason=StopReason.SOLVED if won else StopReason.OUT_OF_TURNS)


def evaluation(name: str, records: list[GameRecord]) -> Evaluation:
    asked = EvalConditions.of(Prompter())
    return Evaluation(name, f"runs/x/{name}", ("all",), Rules(), SPLIT.fingerprint, tuple(records), asked)


SFT = evaluation("sft", [game(secret, *["fuzzy"] * 6) for secret in ANSWERS])
GRPO = evaluation("grpo", [game(secret, "lymph", secret) for secret in ANSWERS])


def metric_row(step: int, **values: float) -> dict[str, Any]:
    return {"stage": "grpo", "step": step, "win_rate": 0.1 * step, "reward/win": 0.1, "seconds/rollout": 1.5, **values}


def training_game(step: int, reply: str = "<guess>crane</guess>") -> dict[str, Any]:
    turn = {"reply": reply, "guess": "crane", "marks": "GGGGG", "outcome": "scored", "given": False}
    rewards = {"reward": 0.5, "components": {"win": 1.0, "speed": 0.0}}
    turns = {"turns": [turn | rewards], "turns_used": 1}
    return {"stage": "grpo", "step": step, "secret": "crane", "won": True, "reward": 0.5, **turns}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_run(run_dir: Path) -> Path:
    run_dir.mkdir(parents=True)
    parts = ("all", "train", "held_out")
    results = {e.name: {part: asdict(e.figures(SPLIT.named(part))) for part in parts} for e in (SFT, GRPO)}
    (run_dir / "results.json").write_text(json.dumps(results | {"seconds": {"sft": 3.0, "grpo": 9.0, "total": 12.0}}))
    split = {"train": SPLIT.train, "val": SPLIT.val, "test": SPLIT.test}
    (run_dir / "manifest.json").write_text(json.dumps({"command": "wordle-rl train", "seed": 7, "split": split}))
    (run_dir / "config.json").write_text(json.dumps({"model": {"path": "tiny"}, "stages": ["sft", "grpo"]}))
    sft_rows = [{"stage": "sft", "step": step, "loss": 3.0 / step} for step in range(1, 50)]
    write_lines(run_dir / "metrics.jsonl", sft_rows + [metric_row(step) for step in range(1, 9)])
    write_lines(run_dir / "games.jsonl", [training_game(step) for step in (1, 2, 3)])
    SFT.save(run_dir / "eval" / "sft.json")
    GRPO.save(run_dir / "eval" / "grpo.json")
    return run_dir


def read_page(run_dir: Path) -> Page:
    return parse_page(write_report(run_dir).read_text(encoding="utf-8"))
