"""Laws of rows: each sampled token once under its own prompt, its advantage on it, and the right sign."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, turns_of
from grpo_training import logprob
from training_fixtures import compact

from wordle_rl.config import GameSettings, StartSettings
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.samplers.transformers import TransformersSampler


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
    trained = [turn for row in range(len(found["prompt_ids"])) for turn in turns_of(found, row)]
    assert sorted(trained) == sorted(spoken)


@pytest.mark.parametrize("shape", Shape)
def test_every_list_has_a_row_per_prompt_and_lists_of_a_row_are_of_one_length(shape, roll) -> None:
    played = roll(prompter=compact(shape, max_turns=3))
    found = played()
    assert played.rollouts.rows_per_game == (3 if shape is Shape.STATE else 1)
    assert {len(column) for column in found.values()} == {12 * played.rollouts.rows_per_game}
    for row in range(len(found["prompt_ids"])):
        names = ("completion_ids", "logprobs", "env_mask", "token_advantages")
        assert len({len(found[name][row]) for name in names}) == 1
        assert found["completion_ids"][row], "TRL cannot pad an empty row"


def test_blank_rows_of_short_games_teach_nothing(roll) -> None:
    found = roll(
        prompter=compact(Shape.STATE, max_turns=3),
        settings=SETTINGS.model_copy(update={"starts": StartSettings(max_prefix_guesses=2)}),
    )()
    blank = [row for row in range(len(found["env_mask"])) if not any(found["env_mask"][row])]
    assert blank, "some games had turns given, so some rows must be blank"
    assert all(found["token_advantages"][row] == [0.0] for row in blank)


def test_free_refusals_take_rows_of_their_own(roll) -> None:
    """An untrained model is refused as often as the rules allow, and each of its replies has a row."""
    game = GameSettings(
        style=Style.COMPACT, thinking=Thinking.OFF, shape=Shape.STATE, max_turns=2,
        dictionary=Dictionary.APP, max_refusals=3,
    )  # fmt: skip
    played = roll(prompter=game.prompter(5))
    found = played()
    assert played.rollouts.rows_per_game == 5
    assert len(found["prompt_ids"]) == 12 * 5
    assert max(len(game.trajectory.segments) for game in played.games[0]) == 5


@pytest.mark.parametrize("credit", ["turn", "game"])
@pytest.mark.parametrize("shape", Shape)
def test_advantages_stand_on_the_tokens_of_their_turn(credit, shape, roll) -> None:
    settings = SETTINGS.model_copy(update={"credit": credit})
    played = roll(prompter=compact(shape, max_turns=3), settings=settings, pay=lambda _, turn: len(turn.reply) % 7)
    found = played()
    row = 0
    for game in played.games[0]:
        own = iter(game.advantages)
        for _ in game.trajectory.segments:
            expected = [0.0] * len(found["env_mask"][row])
            on = False
            for place, m in enumerate(found["env_mask"][row]):
                if m and not on:
                    advantage = next(own)
                on = bool(m)
                expected[place] = advantage if m else 0.0
            assert found["token_advantages"][row] == expected
            row += 1
        assert next(own, None) is None, "every own turn is credited"
        row += played.rollouts.rows_per_game - len(game.trajectory.segments)
    assert any(any(values) for values in found["token_advantages"])


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
    for prompt, completion, mask, advantages in zip(
        found["prompt_ids"], found["completion_ids"], found["env_mask"], found["token_advantages"], strict=True
    ):
        ids = torch.tensor([[*prompt, *completion]])  # (1, P + T)
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]  # (T, V)
        logprobs = logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])[:, 0]  # (T,)
        (-(logprobs * torch.tensor(advantages) * torch.tensor(mask)).sum()).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-3 * parameter.grad
    assert logprob(model, better) > before[0] + 0.01
    assert logprob(model, worse) < before[1] - 0.01
