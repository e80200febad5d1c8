"""Laws of the search for pay without winning: no shipped reward has any, and the search finds it where it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from reward_games import SOLVER

from wordle_rl.config import load_config
from wordle_rl.prompt import Prompter, Style
from wordle_rl.reward import PRESETS, Effort, Gameability, Rubric, attack, words_for
from wordle_rl.reward.gameability import thinned
from wordle_rl.words import load_words

ROOT = Path(__file__).resolve().parents[2]
SMALL = Effort(num_secrets=2, steps=4, steps_per_secret=15)
COMPACT = Prompter(style=Style.COMPACT)
TINY = Effort(num_secrets=1, steps=2, steps_per_secret=5)


def attacked(rubric: Rubric, effort: Effort = SMALL, prompter: Prompter = COMPACT) -> Gameability:
    return attack(rubric, SOLVER, prompter, effort)


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_pays_a_policy_that_never_wins_what_it_pays_honest_play(name: str) -> None:
    found = attacked(PRESETS[name])
    assert found.holds
    assert found.gap == found.honest - found.floor > 0
    assert found.best_loss < found.lowest_win
    assert found.best_loss >= found.floor >= found.shared_floor
    assert found.replies > 3000


@pytest.mark.parametrize("path", [*sorted((ROOT / "configs").rglob("*.toml"))], ids=lambda path: path.stem)
def test_no_shipped_config_does(path: Path) -> None:
    schedule = load_config(path).rl.reward.schedule()
    own = [weights for weights in (schedule.start, schedule.end) if weights is not None]
    checked = {tuple(preset.weights.items()) for preset in PRESETS.values()} if schedule.keep_order else set()
    for weights in own:
        if tuple(weights.items()) not in checked:
            assert attacked(Rubric(weights, schedule.keep_order), TINY).holds


@pytest.mark.parametrize(
    ("weights", "floor"),
    [
        ({"format": 1.0}, 1.0),
        ({"win": 1.0, "rule_break": 3.0}, 3.0),
        ({"win": 0.5, "greens": 1.0, "variety": 1.0, "speed": -5.0}, None),
    ],
    ids=str,
)
def test_a_reward_that_can_be_had_is_found_out(weights: dict[str, float], floor: float | None) -> None:
    found = attacked(Rubric(weights, keep_order=False), TINY)
    assert not found.holds
    assert floor is None or found.floor == pytest.approx(floor)
    assert attacked(Rubric(weights), TINY).holds


def test_the_search_climbs_above_the_policies_it_begins_with() -> None:
    rubric = replace(PRESETS["notebook"], keep_order=False)
    idle = attacked(rubric, Effort(num_secrets=1, steps=0, steps_per_secret=0))
    found = attacked(rubric, Effort(num_secrets=1, steps=20, steps_per_secret=40))
    assert found.floor > idle.floor


def test_the_same_search_finds_the_same() -> None:
    first = attacked(PRESETS["notebook"], TINY)
    assert first == attacked(PRESETS["notebook"], TINY)
    assert first != attacked(PRESETS["notebook"], replace(TINY, seed=1))


def test_a_game_won_without_a_guess_of_the_secret_is_a_hole() -> None:
    # In a grammar of brackets the wording `[secret]` is a guess, which stands for a parser that takes prose for one.
    found = attacked(PRESETS["sparse"], TINY, Prompter(style=Style.TEXTARENA))
    assert found.false_wins > 0
    assert not found.holds


def test_only_rewards_that_ask_the_solver_are_searched_on_a_thinned_list() -> None:
    words = load_words()
    assert words_for(PRESETS["notebook"], words, 100) is words
    few = words_for(PRESETS["solver"], words, 100)
    assert len(few.answers) <= 100
    assert set(few.answers) < set(words.answers)
    assert set(few.guesses) < set(words.guesses)
    assert len(few.guesses) / len(few.answers) == pytest.approx(len(words.guesses) / len(words.answers), rel=0.05)
    assert thinned(words, len(words.answers)) is words


def test_the_record_has_every_shipped_reward_and_the_guide_its_figures() -> None:
    record = json.loads((ROOT / "benchmarks" / "records" / "gameability.json").read_text(encoding="utf-8"))
    guide = (ROOT / "docs" / "guides" / "rewards.md").read_text(encoding="utf-8")
    shipped = {*PRESETS, "configs/quickstart.toml"}
    assert set(record["rewards"]) == shipped | {f"{name}, as published" for name in PRESETS}
    assert record["replies"] > 100_000
    for name, row in record["rewards"].items():
        assert row["false_wins"] == row["replies_after_end"] == 0
        assert row["gap"] > 0 or name not in shipped
        figures = [f"{row[figure]:.2f}" for figure in ("honest", "lowest_win", "best_loss", "floor", "gap")]
        if name in shipped:
            assert f"| `{name}` | {' | '.join(figures)} |" in guide, name
