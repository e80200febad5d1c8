"""Laws of replay: a share of teacher games beside those of a round, drawn from the whole file, others each round."""

import pytest
from contexts import context_for
from training_fixtures import compact, make_run, small_model

from wordle_rl.data.dataset import encode_traces
from wordle_rl.runs import write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.train.round_loop import Replay, draw_games
from wordle_rl.train.starts import GameSetup


@pytest.fixture
def replay(tokenizer, codec, sixty, plain_traces, tmp_path):
    """Makes the replay of two rounds of at most 12 games, and gives back the games drawn for both."""

    def make(share: float, traces=plain_traces, model=None) -> tuple[Replay, list]:
        run = make_run(tmp_path / "run", sixty)
        if traces:
            write_jsonl(run.directory / "traces.jsonl", (trace.to_row() for trace in traces))
        setup = GameSetup(context_for(sixty, compact(), Solver(sixty)), sixty.answers)
        made = Replay(model or small_model(tokenizer), codec, setup, share, 12, 2, run, 3)
        most = round(12 * share / (1 - share))
        drawn = draw_games(run.directory / "traces.jsonl", 2 * most, 3) if most else []
        return made, [
            encode_traces(drawn[first : first + most], compact(), codec, 1024).examples for first in (0, most)
        ]

    return make


def test_games_are_drawn_from_the_whole_file(plain_traces, tmp_path) -> None:
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() | {"seed": i} for i, trace in enumerate(plain_traces)])
    drawn = draw_games(tmp_path / "traces.jsonl", 20, 0)
    places = sorted(trace.seed for trace in drawn)
    assert len(set(places)) == 20
    assert places[-1] > 40
    assert drawn == draw_games(tmp_path / "traces.jsonl", 20, 0) != draw_games(tmp_path / "traces.jsonl", 20, 1)
    assert len(draw_games(tmp_path / "traces.jsonl", 1000, 0)) == len(plain_traces)


def test_a_round_replays_its_share_and_the_next_one_other_games(replay) -> None:
    made, (first, second) = replay(0.25)
    assert made(12, 1) == first
    assert made(12, 2) == second
    assert len(first) == 4, "4 of 16 games are a quarter"
    assert made(6, 1) == first[:2], "fewer beside fewer games of its own"
    assert made(0, 1) == []


def test_games_that_no_context_holds_are_left_out(replay, tokenizer) -> None:
    model = small_model(tokenizer)
    model.config.max_position_embeddings = 8
    made, _ = replay(0.25, model=model)
    assert made(12, 1) == []
