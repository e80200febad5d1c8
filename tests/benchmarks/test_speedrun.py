"""The speedrun takes runs that reached their goal by the rules, and no others; curves are compared with a record's."""

import json
import sys
from pathlib import Path

import pytest

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig
from wordle_rl.evaluate.compare import against_reference, games_per_point, reference_for
from wordle_rl.runs import Run, read_object, write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from speedrun import SpeedrunError, check_speedrun, main, record_of, row_of

CURVE = (0.1, 0.5, 0.9)


def plant(place: Path, seed: int = 0, *, wins: float = 0.84, curve: tuple[float, ...] = CURVE, **changes) -> Path:
    """Write the records of a finished quickstart."""
    config = load_config("quickstart", {tuple(name.split("__")): value for name, value in changes.items()})
    config = RunConfig.model_validate(config.model_dump() | {"seed": seed})
    split = GameContext.of(config).split
    run = Run.create(place, config, split)
    write_json(place / "results.json", {config.stages[-1]: {"all": {"win_rate": wins}}})
    seconds = {"sft": 30.0, "expert_iteration": 100.0 + seed, "eval": 50.0}
    write_json(place / "timings.json", {"seconds": {}, "processor_seconds": seconds})
    run.append("traces.jsonl", {"secret": split.train[0]})
    for number, rate in enumerate(curve):
        run.append("secrets.jsonl", {"stage": "expert_iteration", "step": number, "secrets": list(split.train[:4])})
        run.append("metrics.jsonl", {"stage": "sft", "step": number, "loss": 1.0})
        run.append("metrics.jsonl", {"stage": "expert_iteration", "step": number, "win_rate": rate})
    return place


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [plant(tmp_path / str(seed), seed) for seed in range(3)]


def test_three_seeds_make_a_row_by_the_seconds_before_the_evaluation(runs: list[Path]) -> None:
    goal, attempts = check_speedrun(runs)
    assert goal == "play"
    assert [each.processor_seconds for each in attempts] == [130.0, 131.0, 132.0]
    assert "| **131** (130 / 131 / 132) | 84.0 / 84.0 / 84.0 |" in row_of(goal, attempts, "")


def leaking(run: Path) -> Path:
    held_out = GameContext.of(load_config("quickstart")).split.test[0]
    Run(run).append("secrets.jsonl", {"stage": "expert_iteration", "secrets": [held_out]})
    return run


BROKEN = {
    "seeds": lambda runs, new: [runs[0], runs[0], runs[1]],
    "settings": lambda runs, new: [*runs, plant(new, 3, expert_iteration__rounds=3)],
    "goal 'play'": lambda runs, new: [*runs[:2], plant(new, 2, wins=0.79)],
    "/somewhere": lambda runs, new: [plant(new / str(seed), seed, model__path="/somewhere") for seed in range(3)],
    "secrets": lambda runs, new: [leaking(runs[0]), *runs[1:]],
}
"""What a refusal names, and the runs that it is about."""


@pytest.mark.parametrize("rule", BROKEN)
def test_runs_that_break_a_rule_are_refused(rule: str, tmp_path: Path, runs: list[Path]) -> None:
    with pytest.raises(SpeedrunError, match=rule):
        check_speedrun(BROKEN[rule](runs, tmp_path / "new"))


@pytest.mark.parametrize(
    "asks",
    [
        {"traces__num_games": 2_001},
        {"traces__teacher__noise_rate": 0.5},
        {"stages": ["sft", "distill"]},
        {"stages": ["sft", "dpo"]},
        {"stages": ["sft", "grpo"], "grpo__reward__weights": {"quick_regret": -1.0}},
        {"stages": ["sft", "grpo"]},
    ],
)
def test_a_recipe_that_asks_a_solver_is_judged_as_imitation(tmp_path: Path, asks: dict[str, object]) -> None:
    runs = [plant(tmp_path / str(seed), seed, **asks) for seed in range(3)]
    if asks == {"stages": ["sft", "grpo"]}:  # by wins
        assert check_speedrun(runs)[0] == "play"
        return
    with pytest.raises(SpeedrunError, match="imitation"):
        check_speedrun(runs)


def test_a_curve_is_inside_the_band_of_its_reference_or_not(tmp_path: Path, runs: list[Path]) -> None:
    record = json.loads(json.dumps(record_of(*check_speedrun(runs))))
    assert all(point.inside for point in against_reference(runs[0], record))
    late = plant(tmp_path / "late", curve=(0.1, 0.3, 0.9))
    assert [point.inside for point in against_reference(late, record)] == [True, False, True]


@pytest.mark.parametrize(
    ("apart", "spread"),
    [(0.0, 0.025), (0.01, 0.025), (0.1, 0.1)],
    ids=["only luck", "less than luck", "seeds and luck"],
)
def test_the_band_counts_the_luck_of_games_once(tmp_path: Path, runs: list[Path], apart: float, spread: float) -> None:
    # Even odds over 400 games have a standard deviation of 0.025, which the spread of seeds holds already. One more
    # seed differs from the mean of three by its own spread and by that mean's.
    attempts = [{"curve": [0.5 + apart * seed], "games_per_point": 400} for seed in (-1, 0, 1)]
    (point,) = against_reference(plant(tmp_path / "own", curve=(0.5,)), {"attempts": attempts})
    assert (point.high - point.low) / 2 == pytest.approx(3 * spread * (4 / 3) ** 0.5)


@pytest.mark.parametrize(
    ("stages", "games"), [(["sft"], 0), (["sft", "grpo", "dpo"], 3 * 4), (["sft", "dpo", "grpo"], 5 * 2)]
)
def test_the_games_behind_a_point_are_those_of_the_first_stage_that_plays(stages: list[str], games: int) -> None:
    sizes = {"grpo": {"groups_per_step": 3, "group_size": 4}, "dpo": {"groups_per_round": 5, "group_size": 2}}
    config = RunConfig.model_validate({"stages": stages, **{name: sizes[name] for name in stages if name in sizes}})
    assert games_per_point(config) == games


def test_the_script_prints_a_row_and_writes_a_record(runs: list[Path], tmp_path: Path, capsys) -> None:
    main([*map(str, runs), "--changed", "nothing", "--out", str(tmp_path / "record.json")])
    assert capsys.readouterr().out.strip().endswith("nothing |")
    assert len(read_object(tmp_path / "record.json")["attempts"]) == 3
    with pytest.raises(SystemExit):
        main([str(tmp_path)])


def test_the_quickstart_has_a_reference_and_a_run_that_learns_nothing_leaves_its_band(tmp_path: Path, cli) -> None:
    record = read_object(reference_for(plant(tmp_path / "mine")))
    for number, each in enumerate(record["attempts"]):
        assert cli("compare", "--reference", plant(tmp_path / str(number), curve=tuple(each["curve"])))[0] == 0
    code, out, _ = cli("compare", "--reference", plant(tmp_path / "flat", curve=(0.05,) * 12), "--json")
    told = json.loads(out)
    assert (code, told["outside"]) == (1, sum(not p["low"] <= p["own"] <= p["high"] for p in told["points"]))
    assert cli("compare", "--reference", plant(tmp_path / "other", expert_iteration__rounds=3))[0] == 2
