"""Laws of scouting: every secret is played greedily at its time, and groups go where that gives most away."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, Roll
from training_fixtures import rows

from wordle_rl.config import GRPOSettings


@pytest.fixture
def roll(tokenizer, codec, sixty, tmp_path):
    def make(**changes):
        return Roll(tokenizer, codec, sixty, tmp_path / f"run{len(list(tmp_path.iterdir()))}", **changes)

    return make


def test_scouting_plays_every_secret_greedily_and_prefers_what_it_gives_away(roll, sixty) -> None:
    lost = {secret for secret in sixty.answers if secret < "g"}
    pay = lambda transcript, _: -1.0 * (transcript.secret in lost)  # noqa: E731
    settings = SETTINGS.model_copy(update={"scout_every_steps": 2, "focus": 1.0, "max_refills": 0})
    played = roll(settings=settings, pay=pay)
    for step in (0, 1, 2):
        played(step)
        assert ("scouted_win_rate" in played.rollouts.metrics) == (step % 2 == 0)
        if step == 0:
            state = played.rollouts.starts.picker.state()
    drawn = rows(played.rollouts.run.directory / "secrets.jsonl")
    assert [(row["stage"], row["step"]) for row in drawn] == [
        ("scout", 0),
        *[("grpo", n) for n in (0, 1)],
        ("scout", 2),
        ("grpo", 2),
    ]
    assert all(row["secrets"] == list(sixty.answers) for row in drawn if row["stage"] == "scout")
    in_groups = {*drawn[1]["secrets"]}
    assert in_groups <= lost
    turns = played.rollouts.setup.prompter.rules.max_turns
    for secret in sixty.answers:
        worth = turns * (secret in lost)  # a group of games that all earn the same then halves it
        assert state[secret] == worth / (2 if secret in in_groups else 1)


def test_scouting_is_greedy_and_leaves_the_samplers_chance_alone(roll, sixty) -> None:
    plain, scouting = (
        roll(settings=SETTINGS.model_copy(update={"scout_every_steps": n, "focus": 0.0})) for n in (0, 1)
    )
    scouting.model.load_state_dict(plain.model.state_dict())
    for step in (0, 1):
        assert plain(step)["completion_ids"] == scouting(step)["completion_ids"]


def test_scouting_without_a_preference_is_refused() -> None:
    with pytest.raises(ValueError, match="focus 0 prefers none"):
        GRPOSettings(scout_every_steps=5, focus=0.0)
