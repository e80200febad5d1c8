"""Laws of start boards: they leave the one answer they are filed under, and the policy's doubt is measured exactly."""

import random

import pytest

torch = pytest.importorskip("torch")

from scripted import say  # noqa: E402
from test_roller import OUTSIDE, SETTINGS, Roll  # noqa: E402
from test_traces import possible  # noqa: E402
from training_fixtures import compact, rows, small_model  # noqa: E402

from wordle_rl.boards import Boards, likelihoods  # noqa: E402
from wordle_rl.config import GRPOSettings, RunConfig, TeacherSettings, TraceSettings  # noqa: E402
from wordle_rl.env import StopReason, WordleEnv  # noqa: E402
from wordle_rl.rollout import Start  # noqa: E402
from wordle_rl.runs import RunError, write_jsonl  # noqa: E402
from wordle_rl.solver import Solver  # noqa: E402
from wordle_rl.teacher import SolverTeacher  # noqa: E402
from wordle_rl.traces import TraceTurn, draw_secrets, solver_traces  # noqa: E402


@pytest.fixture(scope="module")
def outside_traces(sixty, split, solver):
    """Games with secrets outside the answers alone, some with misspelt words on the board."""
    teacher = TeacherSettings(stray_rate=0.0, reveal_rate=0.3)
    settings = TraceSettings(num_games=300, outside_rate=1.0, slip_rate=0.2, teacher=teacher)
    return list(solver_traces(sixty, draw_secrets(sixty, split, settings, 0), SolverTeacher(solver), settings, 0))


@pytest.fixture
def path(outside_traces, tmp_path):
    write_jsonl(tmp_path / "traces.jsonl", (trace.to_row() for trace in outside_traces))
    return tmp_path / "traces.jsonl"


def turns_at(words, start: Start) -> tuple[TraceTurn, ...]:
    board = WordleEnv(start.secret, words, compact(), start.given).turns
    return tuple(TraceTurn(turn.guess or "", turn.marks or "") for turn in board)


def test_a_board_leaves_the_answer_it_is_filed_under(path, sixty) -> None:
    boards, rng, seen = Boards(path, sixty, 0), random.Random(0), set()
    assert len(boards.answers) > 10
    for answer in boards.answers:
        for _ in range(5):
            start = boards.draw(answer, rng)
            assert start.secret not in sixty.answer_index
            assert possible(sixty, turns_at(sixty, start)) == [answer]
            assert boards.answer_of(start) == answer
            seen.add(start)
    assert len(seen) > len(boards.answers)
    assert boards.answer_of(Start(sixty.answers[0])) is None


def test_games_without_such_a_board_are_refused(plain_traces, sixty, tmp_path) -> None:
    inside = [trace.to_row() for trace in plain_traces if trace.secret in sixty.answer_index]
    write_jsonl(tmp_path / "traces.jsonl", inside)
    with pytest.raises(RunError, match="no game with a secret outside the answers"):
        Boards(tmp_path / "traces.jsonl", sixty, 0)


def test_likelihoods_are_those_of_the_tokens_one_by_one(path, sixty, tokenizer, codec) -> None:
    boards, model, prompter = Boards(path, sixty, 0), small_model(tokenizer), compact()
    starts = {answer: boards.draw(answer, random.Random(1)) for answer in boards.answers[:7]}
    found = likelihoods(model, codec, sixty, prompter, starts)
    assert list(found) == list(starts)
    for answer, start in starts.items():
        prompt = codec.prompt_ids(WordleEnv(start.secret, sixty, prompter, start.given).conversation)
        ids = [*prompt, *codec.reply_ids(say(answer))]
        with torch.no_grad():
            scores = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        by_hand = sum(float(scores[i - 1, ids[i]]) for i in range(len(prompt), len(ids)))
        assert torch.tensor(found[answer]).log() == pytest.approx(by_hand, rel=1e-4)


@pytest.fixture
def roll(tokenizer, codec, sixty, path, tmp_path):
    def make(**changes):
        settings = GRPOSettings.model_validate(SETTINGS.model_dump() | OUTSIDE | changes)
        prompter = compact(max_turns=6)
        return Roll(tokenizer, codec, sixty, tmp_path, settings=settings, prompter=prompter, solver=Solver(sixty))

    return make


def test_groups_go_on_from_boards_at_their_rate_and_remember_how_mixed_they_were(roll, sixty) -> None:
    played = roll(board_rate=1.0, outside_rate=0.0, groups_per_step=8)
    boards, picker = played.roller.starts.boards, played.roller.starts.board_picker
    assert not picker.state()
    played()
    [games] = played.games
    for first in range(0, len(games), 4):
        group = [game.trajectory.transcript for game in games[first : first + 4]]
        assert len({transcript.secret for transcript in group}) == 1
        given = tuple(turn.turn.guess for turn in group[0].turns if turn.given)
        assert boards.answer_of(Start(group[0].secret, given)) is not None
    assert set(picker.state()) == set(boards.answers), "all were looked at before the first step"
    secrets = [secret for row in rows(played.roller.run.directory / "secrets.jsonl") for secret in row["secrets"]]
    assert not set(secrets) & set(sixty.answers)


def test_the_record_of_boards_survives_a_checkpoint(roll) -> None:
    first, second = (roll(board_rate=0.5, outside_rate=0.0).roller.starts for _ in range(2))
    first.board_picker.update(first.boards.answers[0], 0.25)
    second.load_state(first.state())
    assert second.board_picker.state() == {first.boards.answers[0]: 0.25}


def test_a_game_ends_once_its_secret_has_ruled_all_answers_out(roll, sixty) -> None:
    played = roll(board_rate=1.0, outside_rate=0.0, groups_per_step=8)
    settled = played.roller._is_settled
    boards = played.roller.starts.boards
    for answer in boards.answers:
        start = boards.draw(answer, random.Random(0))
        env = WordleEnv(start.secret, sixty, compact(), start.given)
        assert not settled(start.secret, env.turns)
        env.step(say(answer))
        assert settled(start.secret, env.turns)
    assert not settled(sixty.answers[0], ())
    assert StopReason.NOTHING_FITS == "nothing_fits"


def test_boards_want_games_with_outside_secrets() -> None:
    grpo = {"board_rate": 0.5, "reward": OUTSIDE["reward"]}
    with pytest.raises(ValueError, match=r"board_rate goes on from games with outside secrets"):
        RunConfig.model_validate({"grpo": grpo, "traces": {"outside_rate": 0.0}})
    assert RunConfig.model_validate({"grpo": grpo}).grpo.board_rate == 0.5


def test_boards_want_a_reward_that_asks_for_no_win() -> None:
    with pytest.raises(ValueError, match="board_rate needs a reward"):
        GRPOSettings(board_rate=0.5)
