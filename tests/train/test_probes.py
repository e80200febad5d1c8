"""Laws of probes: every secret is played greedily at its time, and groups go where that loses most."""

from group_games import SETTINGS
from grpo_training import roll_fixture  # noqa: F401  # a fixture
from training_fixtures import rows


def test_probes_play_every_secret_greedily_and_prefer_what_they_lose(roll, sixty) -> None:
    lost = {secret for secret in sixty.answers if secret < "g"}
    pay = lambda transcript, _: -1.0 * (transcript.secret in lost)  # noqa: E731
    settings = SETTINGS.model_copy(update={"probe_every_steps": 2, "prioritized_fraction": 1.0, "max_refills": 0})
    played = roll(settings=settings, pay=pay)
    for step in (0, 1, 2):
        played(step)
        assert ("scouted_win_rate" in played.metrics) == (step % 2 == 0)
        if step == 0:
            state = played.rollouts.starts.picker.state()
    drawn = rows(played.run.directory / "secrets.jsonl")
    assert [(row["stage"], row["step"]) for row in drawn] == [
        ("scout", 0),
        *[("grpo", n) for n in (0, 1)],
        ("scout", 2),
        ("grpo", 2),
    ]
    assert all(row["secrets"] == list(sixty.answers) for row in drawn if row["stage"] == "scout")
    in_groups = {*drawn[1]["secrets"]}
    assert in_groups <= lost
    turns = played.prompter.rules.max_turns
    for secret in sixty.answers:
        priority = turns * (secret in lost)  # a group of games that all earn the same then halves it
        assert state[secret] == priority / (2 if secret in in_groups else 1)


def test_probes_leave_the_samplers_random_stream_alone(roll, sixty) -> None:
    plain, probing = (
        roll(settings=SETTINGS.model_copy(update={"probe_every_steps": n, "prioritized_fraction": 0.0})) for n in (0, 1)
    )
    probing.model.load_state_dict(plain.model.state_dict())
    for step in (0, 1):
        assert plain(step) == probing(step)
