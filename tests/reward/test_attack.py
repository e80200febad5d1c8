"""Laws of the search for pay without winning: no shipped reward has any, and the search finds it where it is."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from reward_games import ANSWERS, SIX_TURNS, SOLVER, WORDS

from wordle_rl.config.files import load_config
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Guess, Prompter, Style, Thinking
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.reward.attack import (
    CHOICES,
    REPLIES,
    Effort,
    Gameability,
    Move,
    Policy,
    Search,
    View,
    attack,
    worded,
    wordings,
)

ROOT = Path(__file__).resolve().parents[2]
SMALL = Effort(num_secrets=2, steps=8)
COMPACT = Prompter(style=Style.COMPACT)
TINY = Effort(num_secrets=1, steps=3)
SEARCH = Search(PRESETS["sparse"], SOLVER, Prompter(), random.Random(0))


def attacked(rubric: Rubric, effort: Effort = SMALL, prompter: Prompter = COMPACT) -> Gameability:
    return attack(rubric, SOLVER, prompter, effort)


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_pays_a_policy_that_never_wins_what_it_pays_honest_play(name: str) -> None:
    found = attacked(PRESETS[name])
    assert found.holds
    assert found.gap == found.honest - found.floor > 0
    assert found.best_loss < found.lowest_win
    assert found.best_loss >= found.floor
    assert found.replies > 3000


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "src" / "wordle_rl" / "config" / "presets").rglob("*.toml"))], ids=lambda path: path.stem
)
def test_no_shipped_config_does(path: Path) -> None:
    schedule = load_config(path).grpo.reward.schedule()
    checked = {tuple(preset.weights.items()) for preset in PRESETS.values()} if schedule.keep_order else set()
    for _, weights in schedule.phases:
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
    idle, found = (attacked(rubric, Effort(num_secrets=1, steps=steps)) for steps in (0, 30))
    assert found.floor > idle.floor


def test_a_game_won_without_a_guess_of_the_secret_is_a_hole() -> None:
    found = attacked(PRESETS["sparse"], TINY, Prompter(lenient=True))  # it takes prose for a guess
    assert found.false_wins > 0
    assert not found.holds


GAMES = [(style, thinking) for style in Style for thinking in Thinking if (style, thinking) != ("spelled", "required")]


@pytest.mark.parametrize(("style", "thinking"), GAMES)
def test_no_wording_is_a_guess_of_the_secret_in_any_style(style: Style, thinking: Thinking) -> None:
    prompter = Prompter(style=style, thinking=thinking)
    names = wordings(prompter)
    assert len(REPLIES) - len(names) <= 3
    for secret in (*ANSWERS, "fuzzy", "vivid"):
        parsed = {name: prompter.parse(worded(name, "slate", secret, prompter)) for name in names}
        assert secret not in {found.word for found in parsed.values() if isinstance(found, Guess)}
        assert parsed["plain"] == Guess("slate")
        if thinking is not Thinking.REQUIRED:
            assert parsed["unlisted"] == Guess("q" * 5)


def test_the_floor_does_not_depend_on_the_brackets_of_a_guess() -> None:
    floors = {attacked(PRESETS["shaped"], TINY, Prompter(style=style)).floor for style in ("english", "textarena")}
    assert len(floors) == 1


@pytest.mark.parametrize("choice", CHOICES)
def test_no_way_to_choose_names_the_secret(choice: str) -> None:
    for secret in ANSWERS:
        env = WordleEnv(secret, WORDS, Prompter())
        while env.stop_reason is None:
            word = CHOICES[choice](View(SEARCH, secret, env, random.Random(0)))
            assert word in WORDS
            assert word != secret
            env.step(Prompter().reply(word))


@pytest.mark.parametrize("dictionary", Dictionary)
def test_no_adversary_wins_under_any_dictionary(dictionary: Dictionary) -> None:
    rules = Rules(dictionary=dictionary)
    search = Search(PRESETS["sparse"], SOLVER, Prompter(rules=rules), random.Random(0))
    for move in (Move(reply, choice) for reply in REPLIES for choice in CHOICES):
        transcript = search.play(Policy((move,)), "crane")
        assert transcript.stop_reason is StopReason.OUT_OF_TURNS, move
        assert transcript.turns_used == SIX_TURNS.max_turns
        assert len(transcript.turns) <= rules.max_replies
