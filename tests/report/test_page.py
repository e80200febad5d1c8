"""Laws of the report's page: it shows the figures of the run, all its games, and what is missing."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from report_runs import (
    GRPO,
    SPLIT,
    evaluation,
    game,
    make_run,
    metric_row,
    read_page,
    training_game,
    write_lines,
)

from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.figures import CONSTRAINED_PART, STRATA
from wordle_rl.evaluate.strata import STRATA_FILE, Strata
from wordle_rl.report import ReportError, read_run, write_report
from wordle_rl.report.curves import curves_of_play, stage_curves
from wordle_rl.report.page import MAX_REPLY_CHARACTERS, MAX_SAMPLE_GAMES, _boards, games_payload
from wordle_rl.report.svg import COLORS, DASHES, Series, bar_chart, line_chart, wins_plot
from wordle_rl.runs import RunError, write_json, write_jsonl
from wordle_rl.words import load_words


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return make_run(tmp_path / "my-run")


def test_the_page_shows_the_figures_of_the_run(run_dir: Path) -> None:
    page = read_page(run_dir)
    for wanted in ("my-run", "wordle-rl train", "tiny", "seed 7", "held-out secrets", "100.0 %", "2.000", "7.000"):
        assert wanted in page.text
    charts = [attrs["aria-label"] or "" for _, attrs in page.tags if attrs.get("class") == "drawing"]
    assert any("10.0 % → 80.0 % from step 1 to 8" in label for label in charts)


def test_what_is_played_comes_first_and_before_stands_beside_now(run_dir: Path) -> None:
    html = write_report(run_dir).read_text()
    places = [html.index(f'<section id="{name}">') for name in ("plays", "training", "results", "more")]
    assert places == sorted(places)
    boards = _boards(read_run(run_dir), ["sft", "grpo"])
    assert boards["counts"] == [("GRPO", 5)]
    assert len(boards["secrets"]) == 4
    secret, (before, now) = boards["secrets"][0]
    assert (before["player"], before["won"], len(before["rows"])) == ("SFT", False, 6)
    assert (now["player"], now["won"]) == ("GRPO", True)
    assert now["rows"][-1] == [(letter, "g") for letter in secret.upper()]


@pytest.mark.parametrize(("won", "shown"), [(84, 3), (60, 2), (10, 0), (97, 4)])
def test_boards_are_won_and_lost_in_the_ratio_of_the_results(won: int, shown: int, run_dir: Path) -> None:
    secrets = load_words().answers[:100]
    for name, good in (("sft", 0), ("grpo", won)):
        records = [game(secret, "fuzzy" if number >= good else secret) for number, secret in enumerate(secrets)]
        evaluation(name, records).save(run_dir / "eval" / f"{name}.json")
    boards = _boards(read_run(run_dir), ["sft", "grpo"])
    assert sum(games[1]["won"] for _, games in boards["secrets"]) == shown


def test_wins_of_all_stages_lie_on_one_axis_of_games(run_dir: Path) -> None:
    rows = [metric_row(step) | {"stage": "expert_iteration"} for step in (1, 2)]
    write_lines(run_dir / "metrics.jsonl", [*rows, *(metric_row(step) for step in (1, 2, 3))])
    sections = {
        "expert_iteration": {"groups_per_round": 100, "group_size": 1, "temperature": 0.1},
        "grpo": {"groups_per_step": 4, "group_size": 8, "temperature": 1.0},
    }
    (run_dir / "config.json").write_text(json.dumps({"stages": ["sft", "expert_iteration", "grpo"], **sections}))
    first, second = curves_of_play(read_run(run_dir))
    assert (first.name, second.name) == ("expert iteration, T = 0.1", "GRPO, T = 1")
    assert first.steps.tolist() == [100, 200]
    assert second.steps.tolist() == [232, 264, 296]


def test_no_table_and_no_list_of_the_page_is_empty(run_dir: Path) -> None:
    for name in ("results.json", "games.jsonl", "eval/grpo.json", "eval/sft.json", "metrics.jsonl"):
        html = write_report(run_dir).read_text()
        assert not re.search(r"<tbody>\s*</tbody>|<ul[^>]*>\s*</ul>|<div class=\"grid\">\s*</div>", html)
        (run_dir / name).unlink()
    html = write_report(run_dir).read_text()
    assert "<figure" not in html
    assert 'id="results"' not in html


def test_figures_are_those_of_the_evaluations_that_are_there(run_dir: Path) -> None:
    before = read_run(run_dir).results
    lost = evaluation("grpo", [game(secret, *["fuzzy"] * 6) for secret in SPLIT.test])
    lost.save(run_dir / "eval" / "grpo.json")
    replace(lost, name="other").save(run_dir / "eval" / "other.json")
    drawn = replace(lost, name="sft-sampled", conditions=replace(GRPO.conditions, temperature=1.0))
    drawn.save(run_dir / "eval" / "sft-sampled.json")
    limited = replace(evaluation("sft", [game(secret, secret) for secret in SPLIT.test]), constrain="words")
    limited.save(run_dir / "eval" / "sft-constrained.json")
    results = read_run(run_dir).results
    assert list(results) == ["sft", "grpo", "other"]
    assert results["grpo"] == results["other"] == {"held_out": lost.figures()}
    others = {CONSTRAINED_PART: limited.figures(), "held_out_sampled": drawn.figures()}
    assert results["sft"] == before["sft"] | others
    text = read_page(run_dir).text
    assert "sft, T = 1" in text
    assert "sft, listed words" in text


@pytest.mark.parametrize("complete", [True, False])
def test_strata_are_quoted_unless_a_part_of_the_training_is_not_on_record(complete: bool, run_dir: Path) -> None:
    strata = Strata(frozenset({"grape"}), frozenset(), frozenset({"speed"}), complete=complete)
    write_json(run_dir / STRATA_FILE, strata.to_row())
    run = read_run(run_dir)
    assert run.strata == (strata if complete else None)
    found = {part: figures.num_games for part, figures in run.results["grpo"].items() if part in STRATA}
    assert found == ({"board_shown": 1, "never_said": 1} if complete else {})


def test_every_game_can_be_browsed(run_dir: Path) -> None:
    sources = read_page(run_dir).games["sources"]
    assert [(source["id"], len(source["games"])) for source in sources] == [("sft", 5), ("grpo", 5), ("training", 3)]
    assert [source["id"] for source in sources if source["first"]] == ["grpo"], "the model trained last"
    speed = next(g for g in sources[1]["games"] if g["secret"] == "speed")
    assert (speed["id"], speed["part"], speed["result"], speed["turns_used"]) == (3, "test", "won", 2)
    turns = [(turn["guess"], turn["marks"], turn["regret"]) for turn in speed["turns"]]
    assert turns == [("lymph", "XXXYX", 0.25), ("speed", "GGGGG", 0.25)]
    assert [g["step"] for g in sources[2]["games"]] == [3, 2, 1]
    [turn] = sources[2]["games"][0]["turns"]
    assert (turn["guess"], turn["reward"], turn["components"]) == ("crane", 0.5, {"win": 1.0})


def test_no_two_elements_of_the_page_have_one_id(run_dir: Path) -> None:
    html = write_report(run_dir).read_text()
    names = re.findall(r' id="([^"]+)"', html)
    assert len(names) > 50
    assert len(set(names)) == len(names)
    assert {*re.findall(r'(?:url\(#|href="#)([^)"]+)', html)} <= {*names}, "references lead to them"


def test_a_limit_on_guesses_in_training_alone_is_told(run_dir: Path) -> None:
    config = json.loads((run_dir / "config.json").read_text())
    assert "listed words" not in read_run(run_dir).limit_note
    (run_dir / "config.json").write_text(json.dumps(config | {"grpo": {"constrain": "words"}}))
    told = read_run(run_dir).limit_note
    assert "GRPO" in told
    assert told in read_page(run_dir).text


def test_a_failed_game_is_shown_as_an_error(run_dir: Path) -> None:
    failed = GameRecord("crane", (), stop_reason=StopReason.REQUEST_FAILED, error="timeout")
    evaluation("grpo", [failed]).save(run_dir / "eval" / "grpo.json")
    [shown] = games_payload(read_run(run_dir))["sources"][1]["games"]
    assert (shown["result"], shown["error"], shown["turns"]) == ("error", "timeout", [])


def test_two_full_evaluations_with_long_replies_stay_small(run_dir: Path) -> None:
    long_reply = "<think>" + "é" * 1500 + "</think>\n<guess>lymph</guess>"
    long_game = game("speed", *["lymph"] * 4, "speed", reply=long_reply)
    for name in ("sft", "grpo"):
        evaluation(name, [long_game] * 2734).save(run_dir / "eval" / f"{name}.json")
    write_lines(run_dir / "games.jsonl", [training_game(step) for step in range(MAX_SAMPLE_GAMES + 500)])
    page = read_page(run_dir)
    assert (run_dir / "report.html").stat().st_size < 8_000_000
    sources = page.games["sources"]
    assert [len(source["games"]) for source in sources] == [2734, 2734, MAX_SAMPLE_GAMES]
    assert sources[2]["games"][0]["step"] == MAX_SAMPLE_GAMES + 499
    replies = [turn["reply"] for source in sources for g in source["games"] for turn in g["turns"] if "reply" in turn]
    assert 0.9 * MAX_REPLY_CHARACTERS < sum(map(len, replies)) < 1.1 * MAX_REPLY_CHARACTERS


LINES = ("metrics.jsonl", "games.jsonl")


@pytest.mark.parametrize("part", ["results.json", "manifest.json", "config.json", *LINES, "eval/sft.json"])
def test_a_missing_part_is_named_and_the_rest_is_shown(run_dir: Path, part: str) -> None:
    assert part not in read_page(run_dir).text
    (run_dir / part).unlink()
    assert part in read_page(run_dir).text


@pytest.mark.parametrize("part", LINES)
@pytest.mark.parametrize("line", ["{", "[]", '{"stage": 3}'])
def test_a_damaged_line_is_named_with_its_number(run_dir: Path, part: str, line: str) -> None:
    path = run_dir / part
    sound = path.read_text()
    path.write_text(sound + line + "\n")
    with pytest.raises((RunError, ReportError), match=rf"{re.escape(part)}:{sound.count(chr(10)) + 1} "):
        write_report(run_dir)
    assert not (run_dir / "report.html").exists()


def test_a_step_logged_again_after_a_resume_counts_once(run_dir: Path) -> None:
    write_lines(run_dir / "metrics.jsonl", [metric_row(3), metric_row(1), metric_row(2), metric_row(2, loss=5.0)])
    rows = read_run(run_dir).metrics["grpo"]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[1]["loss"] == 5.0


def test_values_that_are_no_numbers_leave_a_gap(run_dir: Path) -> None:
    values = (0.5, None, float("nan"), 0.25)
    write_lines(run_dir / "metrics.jsonl", [metric_row(step, entropy=value) for step, value in enumerate(values, 1)])
    html = write_report(run_dir).read_text()
    assert "policy 0.5 → 0.25 from step 1 to 4" in html
    assert "nan" not in html.split("<script", 1)[0].lower()


def chart(*values: float, **how: object) -> ElementTree.Element:
    steps = np.arange(float(len(values)))
    return ElementTree.fromstring(line_chart("t", [Series("a", steps, np.array(values))], **how))


def curves(svg: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """Points of each curve, in the order in which they were drawn."""
    found = []
    for path in svg.iter():
        points = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path.get("d", ""))
        if "stroke-width: 2" in path.get("style", "") and points:
            found.append([(float(x), float(y)) for x, y in points])
    return found


def test_a_curve_is_drawn_where_its_values_are() -> None:
    [[(left, bottom), (middle, top), (right, half)]] = curves(chart(0.0, 1.0, 0.5))
    assert left < middle < right
    assert middle == pytest.approx((left + right) / 2, abs=0.01)
    assert top < half < bottom
    assert half == pytest.approx((top + bottom) / 2, abs=0.01)


def test_every_series_of_a_chart_looks_different_and_the_label_is_text() -> None:
    series = [Series(str(place), np.arange(3.0), np.arange(3.0) * place) for place in range(len(COLORS))]
    for drawn in (line_chart("a <b>", series), bar_chart("a <b>", ["1", "2"], {"x": [0.5, 0.5], "y": [0.1, 0.9]})):
        assert ElementTree.fromstring(drawn).get("aria-label") == "a <b>"
    assert all(f"var(--c{place})" in line_chart("all", series) for place in range(len(COLORS)))
    assert len(set(DASHES)) == len(COLORS) == len(DASHES)


def test_a_metric_that_nobody_knows_is_drawn_and_one_that_never_changes_is_named() -> None:
    rows = [
        {"step": step, "mystery": float(step), "learning_rate": 0.5, "grad_norm": 2.0, "reward/win": 0.1 * step}
        for step in (1, 2)
    ]
    found = stage_curves({"dpo": rows}, "dpo")
    assert [each.title for each in found.charts] == ["Reward components", "Mystery"]
    assert [name for name, *_ in found.charts[0].legend] == ["win"]
    assert found.numbers == [("learning rate", "0.5"), ("Gradient norm", "2")]


def test_weights_on_the_way_are_drawn_between_its_ends() -> None:
    validation = [{"step": step, "greedy_cost": cost} for step, cost in ((0, 4.0), (20, 3.5), (40, 3.8))]
    blend = [{"step": 30, "greedy_cost": 3.6}]
    [cost] = stage_curves({"grpo/validation": validation, "grpo/blend": blend}, "grpo/blend").charts
    [[(start, top), (way, low), (end, middle)]] = curves(ElementTree.fromstring(cost.svg))
    assert way - start == pytest.approx(0.3 * (end - start), abs=0.01), "0, 30 and 100 percent of the way"
    assert top < middle < low, "costs 4.0, 3.6 and 3.8"


def wins_row(step: int, wins: int, rates: tuple[float, ...]) -> dict[str, float]:
    return {"step": step, "cumulative_wins": wins, **{f"win_rate_by_turn/{k}": r for k, r in enumerate(rates, 1)}}


LOGGED = [{"step": 10, "loss": 2.0, "note": "x"}, {"step": 20, "loss": 1.0, "wins": 3}, {"step": 30, "wins": 9}]
FILES = {
    "ours.jsonl": "".join(json.dumps(row) + "\n" for row in LOGGED),
    "theirs.csv": "Step,loss,wins,note\n10,2.0,,x\n20,1.5,3,\n20,1.0,3,\n30,,9,\n",
    "trainer_state.json": json.dumps({"global_step": 30, "log_history": [*LOGGED, {"step": 30, "train_loss": 1.5}]}),
}


@pytest.mark.parametrize("name", FILES)
def test_columns_of_any_file_are_drawn_over_its_steps(name: str, cli, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    code, _, err = cli("report", tmp_path / name, "--plot", tmp_path / "curves.svg")
    assert code == 0, err
    loss, wins = curves(ElementTree.parse(tmp_path / "curves.svg").getroot())
    assert loss[1][0] > loss[0][0]
    assert loss[1][1] > loss[0][1], "the loss falls"
    assert wins[1][1] < wins[0][1], "wins rise"


METRICS = {"sft": [{"step": 1, "loss": 2.0}], "grpo": [wins_row(1, 3, (0.0, 0.25)), wins_row(2, 8, (0.1, 0.5))]}


def test_wins_and_wins_by_turn_are_drawn_from_what_was_counted(cli, tmp_path: Path) -> None:
    rows = [{"stage": stage, **row} for stage, of_stage in METRICS.items() for row in of_stage]
    write_jsonl(tmp_path / "metrics.jsonl", rows)
    code, _, err = cli("report", tmp_path / "metrics.jsonl", "--wins", tmp_path / "wins.svg")
    assert code == 0, err
    total, *by_turn = curves(ElementTree.parse(tmp_path / "wins.svg").getroot())
    assert len([points for points in by_turn if len(points) == 2]) >= 2
    (x1, y1), (x2, y2) = total
    assert x2 > x1
    assert y2 < y1, "later wins stand higher"
    with pytest.raises(ReportError):
        wins_plot({"sft": METRICS["sft"]}, "run")
