"""Laws of players: a name becomes a sampler with the prompts it understands, here or behind an endpoint."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
import torch
from fake_endpoint import KEY, FakeEndpoint, chat
from model_server import model_server, plays_the_same_games
from training_fixtures import small_model

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.players import find_player, make_player, make_sampler, reply_bound
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.directory import game_of, settings_of
from wordle_rl.policy.loading import save_model
from wordle_rl.policy.providers import PROVIDERS, Endpoint
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.rollout import play
from wordle_rl.runs import write_json
from wordle_rl.runs.lineage import Lineage, lesson_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

SAMPLING = SamplingSettings(temperature=0.0, max_completion_tokens=8)
COMPACT = GameSettings(style=Style.COMPACT, shape=Shape.STATE, thinking=Thinking.OFF)


@pytest.fixture
def run_directory(tokenizer, codec, tmp_path: Path) -> Path:
    run = tmp_path / "run"
    save_model(small_model(tokenizer), codec, run / "sft")
    lesson = lesson_of(WordSettings(), split_secrets(load_words()))
    save_lineage(run / "sft", Lineage(game=COMPACT, lessons=(lesson,)))
    return run


def stores(run: Path, config: RunConfig) -> None:
    write_json(run / "config.json", config.stored())
    write_json(run / "manifest.json", {})


def test_a_model_plays_with_the_prompts_it_was_trained_with(run_directory, sixty, solver) -> None:
    player = make_player(PlayerSpec(str(run_directory), SAMPLING), sixty, solver)
    assert player.label == str(run_directory / "sft")
    assert (player.prompter.style, player.prompter.shape) == (Style.COMPACT, Shape.STATE)
    [game] = play([InitialState(sixty.answers[0])], sixty, player.prompter, player.sampler)
    assert game.transcript.own_turns
    asked = make_player(PlayerSpec(str(run_directory), SAMPLING), sixty, solver, GameSettings(style=Style.SYMBOLS))
    assert asked.prompter.style is Style.SYMBOLS


def test_a_model_is_held_as_its_run_held_it_or_in_the_type_asked_for(run_directory, sixty, solver) -> None:
    def dtype(asked: str | None) -> torch.dtype:
        player = find_player(PlayerSpec(str(run_directory), SAMPLING), asked)
        return make_sampler(player, sixty, Prompter(), solver, 0).model.dtype

    assert (dtype(None), dtype("bfloat16")) == (torch.float32, torch.bfloat16)
    assert settings_of(run_directory / "sft") == ModelSettings(path=str(run_directory / "sft"))
    stores(run_directory, RunConfig.model_validate({"model": {"dtype": "bfloat16"}}))
    assert settings_of(run_directory / "sft").dtype == "bfloat16"
    assert dtype(None) == torch.bfloat16


@pytest.mark.parametrize(("module", "player", "extra"), [("openai", "openai:m", "openai"), ("loading", "", "train")])
def test_a_missing_extra_is_named(module, player, extra, sixty, solver, run_directory, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, f"wordle_rl.policy.{module}", None)
    with pytest.raises(ConfigError, match=rf"wordle-rl\[{extra}\]"):
        make_player(PlayerSpec(player or str(run_directory), SAMPLING), sixty, solver)


def test_replies_are_bounded_as_in_the_run_unless_asked_otherwise(run_directory) -> None:
    assert [reply_bound(name, None) for name in ("solver", "openai:m", str(run_directory))] == [512] * 3
    stores(run_directory, RunConfig(max_completion_tokens=7))
    assert reply_bound(str(run_directory), None) == reply_bound(str(run_directory / "sft"), None) == 7
    assert reply_bound(str(run_directory), 9) == 9
    with pytest.raises(ConfigError, match="nowhere"):
        reply_bound("nowhere", None)


def test_a_served_model_that_is_named_by_its_directory_is_asked_as_it_was_trained(
    finished_run, cli, serve, monkeypatch
) -> None:
    monkeypatch.chdir(finished_run.parent)
    trained = game_of(finished_run / "grpo")
    assert trained is not None
    told = trained.prompter(5).opening()
    for name, is_known in (
        (f"{finished_run.name}", True), (f"{finished_run.name}/sft=served", True), ("served", False)
    ):  # fmt: skip
        endpoint = serve(lambda *_: chat("<guess>crane</guess>"))
        asked = ["eval", "--player", f"openai:{name}", "--base-url", endpoint.url, "--max-games", "1", "--no-regret"]
        code, _, err = cli(*asked)
        assert code == 0
        assert (endpoint.requests[0]["messages"] == told) == is_known
        assert ("asked in the wording of" in err) == is_known
        assert endpoint.requests[0]["model"] == name.split("=")[-1]


@pytest.fixture
def command(serve, word_directory, split):
    """Start an endpoint that opens with the first secret of the test split; it, and the command that evaluates it."""

    def started(*more: object) -> tuple[FakeEndpoint, list[object]]:
        endpoint = serve(lambda *_: chat(f"<guess>{split.test[0]}</guess>"))
        asked = ["eval", "--player", "openai:org/m", "--base-url", endpoint.url, "--words", word_directory]
        return endpoint, [*asked, "--split", "test", *more]

    return started


def test_an_evaluation_is_written_as_json_and_csv(cli, command, split, tmp_path: Path) -> None:
    json_file, csv_file = tmp_path / "m.json", tmp_path / "m.csv"
    endpoint, asked = command("--out", json_file, "--csv", csv_file, "--json")
    asked[4] = endpoint.url.replace("http://", "http://me:hidden@") + "?token=hidden"
    code, out, err = cli(*asked)
    assert code == 0
    assert len(err.splitlines()) == 1, "whose sampling counts"
    found = json.loads(out)
    assert (found["player"], found["num_games"], found["num_errors"]) == ("openai:org/m", len(split.test), 0)
    assert found["win_rate"] == 1 / len(split.test)
    assert found["mean_regret"] > 0
    kept = Evaluation.load(json_file)
    assert [record.secret for record in kept.records] == list(split.test)
    assert (kept.name, kept.records[0].won, kept.records[0].turns[0].notes.regret is None) == ("m", True, False)
    rows = list(csv.DictReader(io.StringIO(csv_file.read_text())))
    assert [(row["secret"], row["split"]) for row in rows] == [(secret, "test") for secret in split.test]
    games = (tmp_path / "m.games.jsonl").read_text()
    assert '"base_url":"http://127.0.0.1:' in games
    assert "hidden" not in games


def test_a_key_from_a_file_is_sent_to_its_provider_alone(cli, command, serve, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    endpoint = serve(lambda *_: chat(f"{KEY} <guess>crane</guess>"))
    named = Endpoint(endpoint.url, "TOGETHER_API_KEY", limit_name="max_completion_tokens")
    monkeypatch.setitem(PROVIDERS, "together", named)
    _, asked = command("--out", "m.json", "--csv", "m.csv", "--max-games", 2, "--max-completion-tokens", 9)
    asked[3:5] = ["--provider", "together"]
    code, _, err = cli(*asked, "--no-regret")
    assert code == 2
    assert "TOGETHER_API_KEY" in err
    (tmp_path / ".env").write_text(f"TOGETHER_API_KEY={KEY}\n")
    code, out, err = cli(*asked, "--no-regret")
    assert code == 0, err
    assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    assert {body["max_completion_tokens"] for body in endpoint.requests} == {9}
    assert KEY not in out + err
    assert f'"base_url":"{endpoint.url}"' in (tmp_path / "m.games.jsonl").read_text()
    written = [path for path in tmp_path.rglob("*") if path.is_file() and KEY in path.read_text(errors="replace")]
    assert written == [tmp_path / ".env"]


def test_drawing_can_be_left_to_the_endpoint(cli, command, tmp_path: Path) -> None:
    endpoint, asked = command("--out", tmp_path / "m.json", "--max-games", 1, "--no-regret")
    assert cli(*asked, "--temperature", "None")[0] == 0
    assert not {"temperature", "top_p"} & set(endpoint.requests[0])
    assert '"temperature":null' in (tmp_path / "m.games.jsonl").read_text()
    assert Evaluation.load(tmp_path / "m.json").conditions.temperature is None
    assert cli(*asked)[0] == 2, "greedy games are others"
    assert cli("eval", "--player", "solver", "--temperature", "None")[0] == 2


def test_each_seed_of_a_sampled_endpoint_is_a_replication(cli, command, tmp_path: Path) -> None:
    endpoint, asked = command("--temperature", 1, "--max-games", 2, "--no-regret")
    for seed in (1, 2):  # names that differ in what looks like a suffix
        before = len(endpoint.requests)
        assert cli(*asked, "--seed", seed, "--out", tmp_path / f"rep.{seed}")[0] == 0
        assert len(endpoint.requests) > before, "the games of one replication are not those of another"
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {"rep.1.games.jsonl", "rep.2.games.jsonl"}
    (tmp_path / "rep.1").unlink()
    assert cli(*asked, "--seed", 2, "--out", tmp_path / "rep.1")[0] == 2


def test_games_scored_by_one_reward_are_not_shown_under_another(cli, command, tmp_path: Path) -> None:
    _, asked = command("--out", tmp_path / "m.json", "--no-regret", "--json")
    code, out, _ = cli(*asked, "--reward", "sparse")
    found = json.loads(out)
    rewards = found["reward"]["test"]
    assert (code, rewards["mean"]) == (0, pytest.approx(rewards["highest"] * found["win_rate"])), "one game is won"
    assert cli(*asked, "--reward", "sparse")[1] == out, "all of them are kept"
    for other in (["--reward", "shaped"], []):
        code, out, err = cli(*asked, *other)
        assert (code, out, "reward" in err) == (2, "", True)


@pytest.mark.slow
def test_a_served_model_plays_the_games_it_plays_here(tiny_model, codec, cli, word_directory, tmp_path: Path) -> None:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package)
    directory, hub = tmp_path / "model", tmp_path / "hub"
    save_model(tiny_model, codec, directory)
    hub.mkdir()  # the server lists what is in the cache, and wants there to be one
    command = [Path(sys.executable).with_name("transformers"), "serve", directory, "--device", "cpu"]
    command += ["--host", "127.0.0.1", "--continuous-batching", "--cb-num-blocks", "64", "--port"]
    variables = {"HF_HOME": tmp_path, "HF_HUB_CACHE": hub, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with model_server(
        lambda port: [*map(str, command), str(port)],
        tmp_path / "server.log",
        {name: str(value) for name, value in variables.items()},
        120,
    ) as url:
        plays_the_same_games(cli, url, str(directory), directory, word_directory, tmp_path)
    code, out, _ = cli("compare", tmp_path / "here.json", tmp_path / "served.json", "--names", "here", "served")
    assert code == 0
    assert "games differ" not in out
