"""Laws of rows: each sampled token once under its own prompt, its advantage on it, and the right sign."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, turns_of
from grpo_training import logprob, roll_fixture  # noqa: F401  # a fixture
from reward_games import play
from training_fixtures import compact

from wordle_rl.config import GameSettings, StartSettings
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rollout import Segment, Trajectory
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.train.games import Scored
from wordle_rl.train.groups import rows_of


def pay_by_length(_transcript, turn) -> float:
    return len(turn.reply) % 7


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("max_prefix_guesses", [0, 2])
def test_every_sampled_token_is_trained_once_under_its_own_prompt(shape, max_prefix_guesses, roll, monkeypatch) -> None:
    spoken = []
    sample = TransformersSampler.sample

    def listen(self, requests):
        completions = sample(self, requests)
        spoken.extend((tuple(r.prompt_ids), c.token_ids) for r, c in zip(requests, completions, strict=True))
        return completions

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    settings = SETTINGS.model_copy(update={"starts": StartSettings(max_prefix_guesses=max_prefix_guesses)})
    found = roll(settings=settings, prompter=compact(shape, max_turns=3))()
    assert sorted(turn for row in found for turn in turns_of(row)) == sorted(spoken)


@pytest.mark.parametrize("shape", Shape)
def test_there_is_a_row_per_prompt_and_its_columns_are_of_one_length(shape, roll) -> None:
    played = roll(prompter=compact(shape, max_turns=3))
    found = played()
    turns = sum(len(game.advantages) for game in played.games[0])
    assert len(found) == (turns if shape is Shape.STATE else 12)
    for row in found:
        columns = (row.token_ids, row.loss_mask, row.advantages, row.sampler_logprobs)
        assert len({len(column) for column in columns}) == 1
        assert [value < 0 for value in row.sampler_logprobs] == [bool(m) for m in row.loss_mask]


def test_free_refusals_take_rows_of_their_own(roll) -> None:
    """An untrained model is refused as often as the rules allow, and each of its replies has a row."""
    game = GameSettings(
        style=Style.COMPACT, thinking=Thinking.OFF, shape=Shape.STATE, max_turns=2,
        dictionary=Dictionary.APP,
    )  # fmt: skip
    played = roll(prompter=game.prompter(5))
    found = played()
    assert max(len(game.trajectory.segments) for game in played.games[0]) == 2 + 10
    assert len(found) == sum(len(game.trajectory.segments) for game in played.games[0])


def test_a_game_as_a_row_drawn_by_hand(codec) -> None:
    """Two replies of two tokens, the second of which was cut: `s` ends a reply, `e` is the environment's."""
    s = next(iter(codec.stop_ids))
    #         prompt     x  s  e  x  x
    tokens = ((91, 92), (5, s, 7, 5, 6))
    segment = Segment(*tokens, (1, 1, 0, 1, 1), (-1.0, -2.0, 0.0, -3.0, -4.0), ((0, 0, 2), (1, 3, 5)))
    reward = RewardBreakdown({}, {}, (0.0, 0.0), 0.0)
    game = lambda live=None: Scored(Trajectory(play("crane"), (segment,)), reward, (0.5, -2.0), live)  # noqa: E731
    [row] = rows_of(game(), codec)
    assert row.token_ids == [91, 92, 5, s, 7, 5, 6]
    assert row.loss_mask == [0, 0, 1, 1, 0, 1, 1]
    assert row.advantages == [0, 0, 0.5, 0.5, 0.0, -2.0, -2.0]
    assert row.sampler_logprobs == [0, 0, -1.0, -2.0, 0.0, -3.0, -4.0]
    [without_cut], [without_dead] = rows_of(game(), codec, mask_overlong=True), rows_of(game(1), codec)
    assert without_cut.loss_mask == without_dead.loss_mask == [0, 0, 1, 1, 0, 0, 0]
    assert without_cut.token_ids == without_dead.token_ids == row.token_ids


@pytest.mark.parametrize("shape", Shape)
def test_overlong_replies_are_masked_where_asked(shape, roll, codec) -> None:
    plain, masked = (
        roll(settings=SETTINGS.model_copy(update={"mask_overlong": on}), prompter=compact(shape, max_turns=3))()
        for on in (False, True)
    )
    turns, kept = ([turn for row in found for turn in turns_of(row)] for found in (plain, masked))
    assert kept == [turn for turn in turns if turn[1][-1] in codec.stop_ids]
    assert 0 < len(kept) < len(turns)


@pytest.mark.parametrize("credit", ["turn", "game"])
@pytest.mark.parametrize("shape", Shape)
def test_advantages_stand_on_the_tokens_of_their_turn(credit, shape, roll) -> None:
    settings = SETTINGS.model_copy(update={"credit": credit})
    played = roll(prompter=compact(shape, max_turns=3), settings=settings, pay=pay_by_length)
    left = iter(played())
    for game in played.games[0]:
        own = iter(game.advantages)
        for _ in game.trajectory.segments:
            row, advantage, before = next(left), 0.0, 0
            for value, m in zip(row.advantages, row.loss_mask, strict=True):
                advantage = next(own) if m and not before else advantage
                assert value == (advantage if m else 0.0)
                before = m
        assert next(own, None) is None, "every own turn is credited"
    assert next(left, None) is None
    assert any(value for game in played.games[0] for value in game.advantages)


@pytest.mark.parametrize("shape", Shape)
def test_one_step_on_the_rows_raises_the_better_game_and_lowers_the_worse(shape, roll) -> None:
    """The policy gradient of the rows alone, without any trainer."""
    paid: dict[int, float] = {}
    settings = SETTINGS.model_copy(update={"groups_per_step": 1, "group_size": 2, "credit": "game"})
    pay = lambda transcript, _: paid.setdefault(id(transcript), float(not paid))  # noqa: E731  # the first is better
    played = roll(settings=settings, prompter=compact(shape, max_turns=3), pay=pay)
    found, model = played(), played.model
    better, worse = (game.trajectory.segments for game in played.games[0])
    before = [logprob(model, segments) for segments in (better, worse)]
    for row in found:
        ids = torch.tensor([row.token_ids])  # (1, T)
        logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]  # (T - 1,)
        (-(logprobs * torch.tensor(row.advantages)[1:] * torch.tensor(row.loss_mask)[1:]).sum()).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-3 * parameter.grad
    assert logprob(model, better) > before[0] + 0.01
    assert logprob(model, worse) < before[1] - 0.01
