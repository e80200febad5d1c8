"""Laws of the notebook: it learns, every cell runs, a group shares its secret, what is trained is what was sampled."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("openenv")
from chat_families import family_config, family_tokenizer
from transformers import Qwen3ForCausalLM

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "openenv_wordle_grpo.ipynb"

ACCUMULATED = "gradient_accumulation_steps=1 if is_embedded else 32"
SMALLER = {
    "warm_up_steps = 80": "warm_up_steps = 1",
    "max_steps=20 if is_embedded else 200": "max_steps=1",
    "per_device_train_batch_size=32 if is_embedded": "per_device_train_batch_size=8 if is_embedded",
    ACCUMULATED: "gradient_accumulation_steps=1 if is_embedded else 4",
}
"""Numbers of the notebook that a test has no time for."""

NAME = 'model_name = "embedded"'
EXECUTED = "03a101f4ff131251e66b118a1c3292bf319d201a0ee14bef3866f114bb610e78"
"""Digest of the cells whose outputs are committed. If you change one, run them all: `jupyter execute --inplace`."""

OF_THE_ORIGINAL = {
    "rollout_func", "rollout_once", "make_user_prompt", "format_history", "scale_repetition_score", "reward_correct",
    "reward_greens", "reward_yellows", "reward_repetition", "play_wordle", "extract_guess", "extract_wordle_feedback",
    "extract_feedback_counts", "generate_rollout_completions", "system_prompt", "dataset", "grpo_config", "trainer",
    "trainer_stats", "fine_tuned_model", "textarena_url", "env",
}  # fmt: skip
"""Names that the notebook of TRL and OpenEnv defines or imports, under which its readers look for things."""


def test_its_committed_outputs_are_those_of_its_cells_and_show_that_it_learns() -> None:
    code = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert hashlib.sha256("\n".join("".join(cell["source"]) for cell in code).encode()).hexdigest() == EXECUTED
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream"}, "no error, no bar, no picture"
    said = "".join("".join(output["text"]) for output in outputs)
    assert not re.search(r"/(root|home|work|tmp|usr|content)/|\r|\d%\||Warning", said)
    won = [float(share) for share in re.findall(r"^ *\d+ - +\d+ +(\S+)", said, flags=re.MULTILINE)]
    assert won[-1] >= won[0] + 0.2


def cells(changes: dict[str, str]) -> list[tuple[str, str]]:
    """Id and source of every code cell, magic apart, with lines changed."""
    unused = set(changes)
    found = []
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(line for line in cell["source"] if not line.startswith("%pip"))
        for line, other in changes.items():
            unused -= {line} if line in source else set()
            source = source.replace(line, other)
        found.append((cell["id"], source))
    assert unused == set(), "lines that the notebook does not have"
    return found


class Listening:
    """The notebook's `rollout_func`, and what it returned; the secret of each session after every round."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names, self._play = names, names["rollout_func"]
        self.rounds: list[tuple[list[str], dict[str, list[Any]], list[str]]] = []

    def __call__(self, prompts: list[str], trainer: Any = None) -> dict[str, list[Any]]:
        rows = self._play(prompts, trainer)
        states = [session.state().raw_state["game_state"] for session in self._names["sessions"][: len(prompts)]]
        self.rounds.append((prompts, rows, [state["secret_word"] for state in states]))
        return rows


def executed(changes: dict[str, str]) -> dict[str, Any]:
    """Run the notebook cell by cell; the names that it leaves."""
    names: dict[str, Any] = {}
    try:
        for cell, source in cells({**SMALLER, **changes}):
            exec(compile(source, cell, "exec"), names)
            if "def rollout_func" in source:
                names["rollout_func"] = names["listening"] = Listening(names)
    finally:
        if "server" in names:
            names["server"].kill()
            names["server"].wait()
            names["server"].stdout.close()
    return names


def check_rounds(names: dict[str, Any], num_games: int = 8) -> None:
    (prompts, rows, secrets), *_ = names["listening"].rounds
    assert set(rows) == set(names["FIELDS"])
    assert len(prompts) == len(rows["prompt_ids"]) == num_games
    by_prompt = dict(zip(prompts, secrets, strict=True))
    assert [by_prompt[prompt] for prompt in prompts] == secrets, "a group shares its secret"
    codec = names["codec"]
    for ids, mask, logprobs in zip(rows["completion_ids"], rows["env_mask"], rows["logprobs"], strict=True):
        assert len(ids) == len(mask) == len(logprobs)
        assert mask[0] == 1
        assert mask[-1] == 1, "a game ends with the policy's last token"
        said = codec.tokenizer.decode([token for token, m in zip(ids, mask, strict=True) if not m])
        assert said.count("[GAME]") == 2 * said.count("guesses left."), "each turn is an echo and an answer"
        assert all(logprob < 0 if m else logprob == 0 for logprob, m in zip(logprobs, mask, strict=True))
    for field in ("correct_reward", "green_reward", "yellow_reward", "repetition_reward"):
        assert all(0 <= reward <= 1 for reward in rows[field])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_every_cell_runs_on_the_embedded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    names = executed({})
    assert set(names) >= OF_THE_ORIGINAL
    check_rounds(names)
    assert names["trainer"].state.global_step == 1
    assert (tmp_path / "wordle-grpo-embedded" / "model.safetensors").is_file()
    said = capfd.readouterr().out
    assert "[GAME] You are Playing Wordle." in said
    assert "seconds used for training" in said
    assert "GiB of it for training" in said
    assert "Game finished" in said


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_one_line_makes_it_a_qwen3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    """A Qwen3 of two layers with the published chat template, loaded by name as Qwen3-1.7B is."""
    monkeypatch.chdir(tmp_path)
    tokenizer = family_tokenizer("qwen3")
    torch.manual_seed(0)
    Qwen3ForCausalLM(family_config("qwen3", len(tokenizer))).save_pretrained(tmp_path / "Qwen3-tiny")
    tokenizer.save_pretrained(tmp_path / "Qwen3-tiny")
    names = executed({NAME: f'model_name = "{tmp_path / "Qwen3-tiny"}"'})
    check_rounds(names)
    assert names["trainer"].state.global_step == 1
    assert type(names["fine_tuned_model"]).__name__ == "Qwen3ForCausalLM"
    assert (tmp_path / "wordle-grpo-Qwen3-tiny" / "model.safetensors").is_file()
    assert not (tmp_path / "wordle-warm-up").exists(), "a pretrained model needs no warm-up"
    assert "Game finished" in capfd.readouterr().out


@pytest.mark.smollm2
@pytest.mark.filterwarnings("default")
def test_one_line_makes_it_smollm2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    fewer = {"num_generations=8": "num_generations=4", ACCUMULATED: "gradient_accumulation_steps=2"}
    names = executed({NAME: 'model_name = "smollm2"', **fewer})
    check_rounds(names, num_games=4)
    assert names["trainer"].state.global_step == 1
    assert names["fine_tuned_model"].num_parameters() == 134_515_008
    assert (tmp_path / "wordle-grpo-smollm2" / "model.safetensors").is_file()
    assert "Game finished" in capfd.readouterr().out
