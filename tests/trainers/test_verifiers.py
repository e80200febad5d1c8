"""Laws of the verifiers taskset, played by `vf-eval` itself. Opt-in: `make test-trainers`."""

import json
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1")

from chat_families import family_tokenizer
from fake_endpoint import FakeEndpoint, streamed_chat
from other_loops import SETTINGS, TASK, ours, replies_of

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.trainers.games import BoardTask, game_source
from wordle_rl.trainers.verifiers import WordleTaskset, WordleTasksetConfig


def token_engine(codec: ChatCodec, say: Callable[[list[int]], str]) -> FakeEndpoint:
    """Serve what is said to the tokens of a prompt, in the tokens of a codec; log-probabilities are -1."""

    def generate(_number: int, body: dict[str, Any]) -> tuple[int, object]:
        ids = codec.reply_ids(say(body["token_ids"]))
        content = [{"token": f"token_id:{token}", "logprob": -1.0} for token in ids]
        choice = {"index": 0, "token_ids": ids, "logprobs": {"content": content}, "finish_reason": "stop"}
        return 200, {"request_id": "1", "choices": [choice]}

    return FakeEndpoint(generate)


pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]
BIN = Path(sys.executable).parent
TASKSET = {"split": TASK.split, "max_given": 2, "seed": 3, "settings": SETTINGS.model_dump(mode="json")}


def a_task() -> BoardTask:
    """The first task with prefix guesses, as the taskset makes it."""
    tasks = game_source(SETTINGS).tasks("train", 20, max_given=2, seed=3)
    return next(task for task in tasks if len(task.given) == 2)


def evaluate(out: Path, url: str, client: dict, group_size: int) -> list[dict]:
    """Run `vf-eval` as a user does; the traces that it wrote."""
    config = {
        "env": {"taskset": {"id": "wordle-rl-taskset", **TASKSET}},
        "client": {"base_url": url, "api_key_var": "OPENAI_API_KEY", **client},
        "select": {"include": {"idx": [str(a_task().index)]}},
    }
    path = out / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [BIN / "vf-eval", "@", path, "--no-push", "--no-rich", "-m", "m", "-r", str(group_size), "-o", out / "evals"],
        env={**os.environ, "OPENAI_API_KEY": "x", "PATH": f"{BIN}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"},
        cwd=out,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (written,) = (out / "evals").rglob("traces.jsonl")
    episodes = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    return [trace for episode in episodes for trace in episode["traces"]]


def test_tasks_name_games_without_their_secrets() -> None:
    config = WordleTasksetConfig(id="wordle-rl-taskset", **TASKSET)
    tasks, again = (list(WordleTaskset(config).take(30)) for _ in range(2))
    for task in tasks:
        secret = game_source(SETTINGS).context.split.train[task.data.index]
        assert secret not in task.data.model_dump_json()
    assert [task.hash for task in tasks] == [task.hash for task in again]
    assert len({task.key for task in tasks}) == 30


def test_a_group_over_a_chat_endpoint_shares_its_game_and_gets_the_rubrics_reward(tmp_path: Path) -> None:
    task = a_task()
    replies = replies_of("won", game_source(SETTINGS), task)

    def answer(_number: int, body: dict):
        own = sum(message["role"] == "assistant" for message in body["messages"]) - len(task.given)
        return streamed_chat(replies[own], usage=(10, 5))

    endpoint = FakeEndpoint(answer)
    try:
        traces = evaluate(tmp_path, endpoint.url, {}, 2)
    finally:
        endpoint.close()
    mine = ours("won", task=task)
    assert len(traces) == 2
    for trace in traces:
        assert (trace["task"]["data"]["index"], tuple(trace["task"]["data"]["given"])) == (task.index, task.given)
        assert math.isclose(trace["rewards"]["game"]["score"], mine.reward.total, abs_tol=1e-9)
        assert math.isclose(math.fsum(trace["info"]["turn_rewards"]), mine.reward.total, abs_tol=1e-9)
        assert trace["metrics"]["won"] == 1.0
    shortest = min(len(body["messages"]) for body in endpoint.requests)
    openings = [body["messages"] for body in endpoint.requests if len(body["messages"]) == shortest]
    assert openings == [openings[0]] * 2
    assert mine.trajectory.transcript.secret not in json.dumps(openings)


def test_the_training_clients_tokens_and_mask_are_the_rollouts(tmp_path: Path) -> None:
    """prime-rl trains on these: token ids in, token ids out, bridged by a renderer instead of rendered anew."""
    tokenizer = family_tokenizer("qwen3")
    tokenizer.save_pretrained(tmp_path / "model")
    codec, task, source = ChatCodec(tokenizer), a_task(), game_source(SETTINGS)
    replies, openings = replies_of("messy", source, task), []

    def say(ids: list[int]) -> str:
        openings.append(ids.count(codec.turn_end_ids[0]))
        return replies[(openings[-1] - min(openings)) // 2]

    engine = token_engine(codec, say)
    renderer = {"name": "qwen3", "thinking_retention": "all"}
    client = {"type": "train", "renderer": renderer, "renderer_model_name": str(tmp_path / "model")}
    try:
        traces = evaluate(tmp_path, engine.url, client, 1)
    finally:
        engine.close()
    mine, (trace,) = ours("messy", task=task, codec=codec, from_messages=True), traces
    assert [token for node in trace["nodes"] for token in node["token_ids"]] == mine.ids
    assert [int(flag) for node in trace["nodes"] for flag in node["mask"]] == mine.mask
    assert math.isclose(trace["rewards"]["game"]["score"], mine.reward.total, abs_tol=1e-9)


def test_verifiers_and_renderers_take_the_launch_file_for_prime_rl() -> None:
    from pydantic import TypeAdapter
    from renderers import DefaultRendererConfig, RendererConfig
    from verifiers.v1.utils.loaders import resolve_env_config

    file = Path(__file__).resolve().parents[2] / "scripts" / "prime_rl" / "eight_gpus.toml"
    orchestrator = tomllib.loads(file.read_text(encoding="utf-8"))["orchestrator"]
    for part, split in (("train", "train"), ("eval", "val")):
        (source,) = orchestrator[part]["source"]
        env = resolve_env_config(source["env"])
        assert env.agent.harness.id == "null"
        task = next(iter(WordleTaskset(env.taskset).load()))
        assert (task.data.split, task.data.index) == (split, 0)
    assert isinstance(TypeAdapter(RendererConfig).validate_python(orchestrator["renderer"]), DefaultRendererConfig)
