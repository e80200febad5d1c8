"""The last checkpoint of verl as the run's model, where our other commands find it."""

from __future__ import annotations

from pathlib import Path

from wordle_rl.pipeline import finish_model
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.runs import RunError
from wordle_rl.runs.lineage import lesson_of, trained_further
from wordle_rl.trainers.verl.play import RunGames
from wordle_rl.trainers.verl.translate import checkpoints


def last_weights(run: Path) -> Path:
    """The transformers directory in the newest whole checkpoint.

    Raises:
        RunError: If there is none.
    """
    tracker = checkpoints(run) / "latest_checkpointed_iteration.txt"  # written last
    if not tracker.is_file():
        raise RunError(f"verl left no checkpoint in {checkpoints(run)}; its log says why")
    weights = checkpoints(run) / f"global_step_{tracker.read_text().strip()}" / "actor" / "huggingface"
    if not any(weights.glob("*.safetensors")):
        raise RunError(f"{weights} holds no weights; leave hf_model in actor.checkpoint.save_contents")
    return weights


def take_model(run: Path, games: RunGames, start: str) -> Path:
    """Save the newest weights as `<run>/grpo`, with the tokenizer and template that played.

    Args:
        run: The run's directory.
        games: What was played with.
        start: The model that training started from.

    Returns:
        The model directory.

    Raises:
        RunError: If there is no checkpoint, or the directory cannot be written.
    """
    target = run / "grpo"
    model, _ = load_model(games.config.model_at(last_weights(run)), games.config.seed)
    save_model(model, games.codec, target)
    lesson = lesson_of(games.config.words, games.context.split)
    finish_model(target, trained_further(Path(start), games.config.game, lesson))
    return target
