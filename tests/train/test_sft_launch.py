"""Laws of launches with accelerate: the files in scripts/launch start what they say, on two processes of a CPU.

FSDP2's shards, its checkpoints and what gathers them are the real ones; that accelerate shards on a CPU at all is the
doing of `sharded_training`.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from sharded_training import BATCH, EPOCHS, LAST_BATCH, STEPS_PER_EPOCH, train
from training_fixtures import close, compact, rows, same_bits, small_model, weights_of

from wordle_rl.config.model import ModelSettings
from wordle_rl.policy.loading import load_model
from wordle_rl.train.example import encode_traces

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def launch(file: str, *arguments: object) -> str:
    """Start two processes with a launch file, at a port that is free, and wait for them; what they said."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--main_process_port", "0"]
    command += ["--config_file", str(ROOT / "scripts" / "launch" / file), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Trained(NamedTuple):
    """Run directories of the same training: on two processes under DDP and under FSDP2, and on one process.

    The sharded one was stopped after its first epoch, then resumed.
    """

    together: Path
    stopped: Path
    finished: Path
    alone: Path
    games: list[list[int]]


@pytest.fixture(scope="module")
def trained(plain_traces, codec, word_directory, tmp_path_factory) -> Trained:
    out = tmp_path_factory.mktemp("launched")
    taught = (STEPS_PER_EPOCH - 1) * BATCH + LAST_BATCH
    examples = encode_traces(plain_traces, compact(), codec, 1000).examples[:taught]
    games = out / "games.json"
    games.write_text(json.dumps([asdict(example) for example in examples]))
    program = (ROOT / "tests" / "support" / "sharded_training.py", word_directory, games)
    launch("ddp.yaml", *program, out / "together", 0)
    launch("fsdp2.yaml", *program, out / "finished", STEPS_PER_EPOCH)
    shutil.copytree(out / "finished", out / "stopped")
    launch("fsdp2.yaml", *program, out / "finished", 0)
    train(str(word_directory), games, out / "alone")
    places = (out / name for name in ("together", "stopped", "finished", "alone"))
    return Trained(*places, [list(e.token_ids) for e in examples[:4]])


def outputs(directory: Path, games: list[list[int]]) -> tuple[dict, list]:
    """Weights of the model in a directory, and its logits over games."""
    model = load_model(ModelSettings(path=str(directory)), 0)[0].eval()
    with torch.no_grad():
        return weights_of(model), [model(input_ids=torch.tensor([ids])).logits for ids in games]


def facts(directory: Path) -> list[dict]:
    """What each process said about itself."""
    return [json.loads((directory / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def assert_alike(one: Path, other: Path, games: list[list[int]], tolerance: float) -> None:
    (weights, logits), (other_weights, other_logits) = outputs(one, games), outputs(other, games)
    assert close(weights, other_weights, tolerance)
    for a, b in zip(logits, other_logits, strict=True):
        assert torch.allclose(a, b, atol=10 * tolerance, rtol=0)


def assert_logged_alike(directory: Path, alone: Path, tolerance: float) -> None:
    """Lines of all steps, and of a validation after each epoch, with the same numbers."""
    steps, epochs = [*range(1, EPOCHS * STEPS_PER_EPOCH + 1)], [STEPS_PER_EPOCH * n for n in range(1, EPOCHS + 1)]
    for places, names in (
        (steps, ("loss", "grad_norm", "mean_token_accuracy", "num_tokens", "epoch")),
        (epochs, ("validation_loss", "validation_mean_token_accuracy")),
    ):
        found, expected = ([row for row in rows(d / "metrics.jsonl") if names[0] in row] for d in (directory, alone))
        assert [row["step"] for row in found] == places
        for name in names:
            assert [row[name] for row in found] == pytest.approx([row[name] for row in expected], rel=tolerance)


def test_two_processes_train_as_one_does(trained) -> None:
    """Though in the last step of an epoch one of them has no game."""
    assert [(fact["world_size"], fact["kind"]) for fact in facts(trained.together)] == [(2, "MULTI_CPU")] * 2
    assert_logged_alike(trained.together, trained.alone, 1e-5)
    # A six-hundredth of two steps: AdamW moves a weight of hardly any gradient by as much as others, and sums of two
    # halves round otherwise.
    assert_alike(trained.together / "sft", trained.alone / "sft", trained.games, 1e-5)
    first, second = (torch.load(trained.together / f"rank{rank}.pt") for rank in (0, 1))
    assert same_bits(first, second), "both hold the same weights"


def test_each_process_holds_a_half_of_every_weight(trained, tokenizer) -> None:
    ranks = facts(trained.stopped)
    assert [rank["kind"] for rank in ranks] == ["FSDP", "FSDP"]
    whole = {name: weight.numel() for name, weight in weights_of(small_model(tokenizer)).items()}
    assert whole == {name: numbers for name, (_, numbers) in ranks[0]["held"].items()}
    for name, numbers in whole.items():
        held = [rank["held"][name][0] for rank in ranks]
        assert sum(held) == numbers
        assert max(held) < 0.51 * numbers


def test_the_shards_of_a_checkpoint_gather_to_the_whole_model_of_that_step(trained, tmp_path, cli) -> None:
    assert not (trained.stopped / "sft" / "model.safetensors").exists(), "it was stopped"
    checkpoint = trained.stopped / "sft" / "checkpoints" / f"checkpoint-{STEPS_PER_EPOCH}"
    assert len(list((checkpoint / "pytorch_model_fsdp_0").glob("*.distcp"))) == 2
    assert not list(checkpoint.glob("*.safetensors"))
    code, out, err = cli("export", checkpoint, "--out", tmp_path / "gathered")
    assert code == 0, (out, err)
    assert_alike(tmp_path / "gathered", trained.stopped / "sft" / "epochs" / "epoch-1", trained.games, 0.0)


def test_a_sharded_training_goes_on_where_it_stopped_and_ends_as_one_process_does(trained) -> None:
    assert_logged_alike(trained.finished, trained.alone, 1e-4)
    assert_alike(trained.finished / "sft", trained.alone / "sft", trained.games, 1e-5)
    assert not (trained.finished / "sft" / "checkpoints").exists()
