"""Laws of players to watch: a page names those of the list alone, and a model plays with the weights it has now."""

import shutil
from pathlib import Path

import pytest
from training_fixtures import context_for

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.runs import RunError
from wordle_rl.serve.watch.live_games import MAX_MODELS, Players, live_events
from wordle_rl.serve.watch.review import Reviewer


@pytest.fixture
def context(sixty, solver):
    return context_for(sixty, GameSettings().prompter(5), solver)


@pytest.mark.parametrize("name", ["", "human", "/etc", "..", "openai:gpt", "sft"])
def test_only_listed_players_are_seated(context, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="player"):
        Players(tmp_path, context).seat(name, 0.0, 1)


def test_the_address_of_endpoints_is_for_no_other_player(context, tmp_path: Path) -> None:
    players = Players(tmp_path, context, ("openai:some",), "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9"):
        players.seat("openai:some", 0.0, 1)
    assert players.seat("solver", 0.0, 1).lock is players.lock_of(context.solver), "also that of reviews"


def test_a_model_of_a_run_says_its_likeliest_guesses(context, finished_run: Path) -> None:
    pytest.importorskip("torch")
    from worded_models import teach_run

    first, second = context.words.answers[10], context.words.answers[20]
    teach_run(finished_run, {first: 0.6, second: 0.4})
    players = Players(finished_run, context)
    identity = f"{finished_run.name}/grpo"
    assert list(players.ids())[:2] == [identity, f"{finished_run.name}/sft"]
    seat = players.seat(identity, 0.0, 1)
    assert seat.context.words.fingerprint == context.words.fingerprint
    start, *turns, _ = live_events(seat, context.words.answers[3], Reviewer(seat.context.solver))
    assert start["has_probabilities"]
    assert [each["guess"] for each in turns[0]["likely"][:2]] == [turns[0]["guess"], second] == [first, second]
    assert turns[0]["likely"][0]["probability"] == pytest.approx(0.6, abs=0.1)
    for turn in [turn for turn in turns if turn["guess"]]:
        likely = [each["probability"] for each in turn["likely"]]
        assert likely == sorted(likely, reverse=True)
        assert 0 < sum(likely) <= 1.0001
        assert all(each["listed"] == (each["guess"] in context.words) for each in turn["likely"])


def test_a_model_that_has_lost_its_weights_is_listed_and_refused_by_the_name_of_the_file(
    context, finished_run: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    (run / "grpo" / "model.safetensors").unlink()
    players = Players(tmp_path, context)
    assert {"run/grpo", "run/sft"} <= players.ids().keys()
    with pytest.raises(RunError, match=str(run / "grpo" / "model.safetensors")):
        players.seat("run/grpo", 0.0, 1)


def test_a_model_is_loaded_once_and_again_when_its_weights_change(context, finished_run: Path) -> None:
    pytest.importorskip("torch")
    players = Players(finished_run, context)
    identity = f"{finished_run.name}/sft"
    first, again = (players.seat(identity, 1.0, seed).probabilities for seed in (1, 2))
    assert first is again
    (weights,) = (finished_run / "sft").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes())
    assert players.seat(identity, 1.0, 1).probabilities is not first
    players.seat(f"{finished_run.name}/grpo", 1.0, 1)
    assert players._opened.cache_info().currsize <= MAX_MODELS
