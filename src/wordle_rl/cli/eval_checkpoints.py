"""`eval --checkpoints`: the start, every kept checkpoint and the trained model of a run, one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wordle_rl.cli import console
from wordle_rl.cli.eval_games import evaluate_player
from wordle_rl.cli.eval_request import EvalRequest, Outputs
from wordle_rl.cli.eval_secrets import Source
from wordle_rl.config import ConfigError, PlayerEvalSettings
from wordle_rl.runs import STEPS, is_run, trained_model


def checkpoints_of(run: Path) -> dict[str, Path]:
    """The models of a run in the order of their training: `start`, `step-20` and so on, `end`.

    `end` is the trained model, whose weights checkpoint selection may have taken from elsewhere than the last step.

    Raises:
        ConfigError: If it is no run, or kept no checkpoint.
    """
    steps = sorted((run / "grpo" / STEPS).glob("step-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]))
    if not is_run(run) or not steps:
        raise ConfigError(
            f"--checkpoints needs a run that kept some, and {run} has none in grpo/{STEPS}; train with "
            "--grpo.save-steps 10 --grpo.save-total-limit -1"
        )
    found = {"start": run / "sft", **{step.name: step for step in steps}, "end": run / "grpo"}
    return {name: path for name, path in found.items() if trained_model(path) == path}


def evaluate_checkpoints(
    asked: EvalRequest, source: Source, outputs: Outputs, settings: PlayerEvalSettings, as_json: bool
) -> None:
    """Evaluate every kept checkpoint, each in a file of its own.

    Args:
        asked: The request; its player is the run.
        source: The secrets, the same for all.
        outputs: `json` is a directory here; None: `eval/steps` of the run.
        settings: As for one player.
        as_json: Print JSON, an object per model.

    Raises:
        ConfigError: If the run kept no checkpoint, or a model cannot be evaluated.
    """
    run = Path(asked.player)
    directory = outputs.json or run / "eval" / STEPS
    if outputs.csv is not None:
        raise ConfigError("--csv is for one player; leave it out, and give `wordle-rl compare` the files")
    for name, model in checkpoints_of(run).items():
        one = replace(asked, player=str(model), name=name)
        played = replace(source, player=str(model))
        evaluate_player(one, played, replace(outputs, json=directory / f"{name}.json"), settings, as_json)
    console.messages.print(
        f"win rates over the steps: wordle-rl compare {directory} --svg wins.svg", markup=False, highlight=False
    )
