import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Page, parse_page

from wordle_rl.env import StopReason
from wordle_rl.evaluate import (
    CONSTRAINED_PART,
    Evaluation,
    EvaluationError,
    GameRecord,
    TurnRecord,
    figures_by_split,
)
from wordle_rl.game import Outcome, Rules, score_guess
from wordle_rl.report import ReportError, read_run, write_report
from wordle_rl.report.games import MAX_REPLY_BYTES, MAX_SAMPLE_GAMES, games_payload, json_for_script
from wordle_rl.report.page import fill
from wordle_rl.runs import RunError
from wordle_rl.split import Split

HOSTILE = "</script><script>document.title='x'</script><img src=x onerror=alert(1)><!--<script> {{script}} & \u2028"
SPLIT = Split(train=("crane", "crate"), val=("trace",), test=("grape", "speed"), seed=0, fingerprint="f" * 64)
ANSWERS = SPLIT.named("all")


def game(secret: str, *guesses: str, reply: str | None = None) -> GameRecord:
    turns = tuple(
        TurnRecord(reply or f"<guess>{g}</guess>", g, score_guess(secret, g), Outcome.SCORED, False, False, 0.25)
        for g in guesses
    )
    won = guesses[-1] == secret
    return GameRecord(secret, won, len(turns), StopReason.SOLVED if won else StopReason.OUT_OF_TURNS, turns)


def evaluation(name: str, records: list[GameRecord]) -> Evaluation:
    return Evaluation(name, f"runs/x/{name}", ("all",), Rules(), SPLIT.fingerprint, tuple(records))


SFT = evaluation("sft", [game(secret, *["fuzzy"] * 6) for secret in ANSWERS])
GRPO = evaluation("grpo", [game(secret, "lymph", secret) for secret in ANSWERS])


def metric_row(step: int, **values: float) -> dict[str, Any]:
    return {"stage": "grpo", "step": step, "win_rate": 0.1 * step, "reward/win": 0.1, "seconds/rollout": 1.5, **values}


def training_game(step: int, reply: str = "<guess>crane</guess>") -> dict[str, Any]:
    turn = {"reply": reply, "guess": "crane", "marks": "GGGGG", "outcome": "scored", "given": False}
    rewards = {"reward": 0.5, "components": {"win": 1.0, "speed": 0.0}}
    return {"step": step, "secret": "crane", "won": True, "reward": 0.5, "turns": [turn | rewards], "stage": "grpo"}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_run(run_dir: Path) -> Path:
    run_dir.mkdir(parents=True)
    results = {e.name: {part: asdict(f) for part, f in figures_by_split(e, SPLIT).items()} for e in (SFT, GRPO)}
    (run_dir / "results.json").write_text(json.dumps(results | {"seconds": {"sft": 3.0, "grpo": 9.0, "total": 12.0}}))
    split = {"train": SPLIT.train, "val": SPLIT.val, "test": SPLIT.test}
    (run_dir / "manifest.json").write_text(json.dumps({"command": "wordle-rl train", "seed": 7, "split": split}))
    (run_dir / "config.json").write_text(json.dumps({"model": {"path": "tiny"}}))
    sft_rows = [{"stage": "sft", "step": step, "loss": 3.0 / step} for step in range(1, 50)]
    write_lines(run_dir / "metrics.jsonl", sft_rows + [metric_row(step) for step in range(1, 9)])
    write_lines(run_dir / "games.jsonl", [training_game(step) for step in (1, 2, 3)])
    SFT.save(run_dir / "eval" / "sft.json")
    GRPO.save(run_dir / "eval" / "grpo.json")
    return run_dir


def read_page(run_dir: Path) -> Page:
    return parse_page(write_report(run_dir).read_text(encoding="utf-8"))


# --- what is on the page ----------------------------------------------------------------------------------------------


def test_the_page_shows_the_figures_of_the_run(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "my-run"))
    for wanted in ("my-run", "wordle-rl train", "model tiny", "seed 7", "held-out words", "100.0 %", "2.000", "7.000"):
        assert wanted in page.text
    charts = [attrs["aria-label"] or "" for tag, attrs in page.tags if tag == "svg" and "aria-label" in attrs]
    assert "Win rate: win_rate from 10.0 % at step 1 to 80.0 % at step 8" in charts
    assert any(label.startswith("Reward components: win from") for label in charts)
    assert any(label.startswith("Loss: loss from 3 at step 1") for label in charts)
    assert "rollout1.5 s100.0 %" in page.text
    assert "grpo9 s75.0 %sft3 s25.0 %" in page.text
    assert "Not in this run" not in page.text


def test_validation_games_are_labelled_as_such(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    validated = {"stage": "validation", "step": 9, "secret": "trace", "won": False, "turns": [], "stop_reason": "lost"}
    write_lines(run_dir / "games.jsonl", [training_game(1), validated])
    sampled = read_page(run_dir).games["sources"][2:]
    assert [(source["label"], len(source["games"])) for source in sampled] == [
        ("training samples", 1), ("validation samples", 1),
    ]  # fmt: skip
    assert (sampled[1]["games"][0]["s"], sampled[1]["games"][0]["k"]) == ("trace", 9)


@pytest.mark.parametrize("results", [True, False])
def test_some_words_are_nowhere_called_all(results: bool, tmp_path: Path) -> None:
    run_dir, some = make_run(tmp_path / "run"), SPLIT.of_each_part(1)
    assert "all words" in read_page(run_dir).text
    for played in (SFT, GRPO):
        played.only(some).save(run_dir / "eval" / f"{played.name}.json")
    cut = {e.name: {part: asdict(f) for part, f in figures_by_split(e.only(some), SPLIT).items()} for e in (SFT, GRPO)}
    (run_dir / "results.json").write_text(json.dumps(cut))
    if not results:
        (run_dir / "results.json").unlink()
    text = read_page(run_dir).text
    assert "held-out words" in text
    assert "all words" not in text


def test_an_evaluation_put_into_a_run_is_among_its_results(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    held_out = evaluation("base", [game(secret, "fuzzy", "lymph", secret) for secret in SPLIT.test])
    held_out.save(run_dir / "eval" / "base.json")
    results = read_run(run_dir).results
    assert list(results) == ["sft", "grpo", "base"]
    assert results["base"] == {"held_out": asdict(held_out.figures())}
    assert "grpo on words it never trained on" in read_page(run_dir).text
    (run_dir / "eval" / "grpo.json").unlink()
    (run_dir / "results.json").unlink()
    assert "sft on words it never trained on" in read_page(run_dir).text


def test_figures_are_those_of_the_evaluation_that_is_there(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    before = read_run(run_dir).results
    lost = evaluation("grpo", [game(secret, *["fuzzy"] * 6) for secret in SPLIT.test])
    lost.save(run_dir / "eval" / "grpo.json")
    results = read_run(run_dir).results
    assert results["grpo"] == {"held_out": asdict(lost.figures())}
    assert results["sft"] == before["sft"]
    section = write_report(run_dir).read_text().partition("word by word")[2].partition("</section>")[0]
    assert "held-out words" in section
    assert "all words" not in section
    stored = json.loads((run_dir / "results.json").read_text())
    (run_dir / "eval" / "sft.json").unlink()
    assert read_run(run_dir).results["sft"] == stored["sft"], "there is nothing else to go by"


def test_limited_play_is_kept_beside_free_play(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    stored = json.loads((run_dir / "results.json").read_text())
    stored["sft"][CONSTRAINED_PART] = stored["sft"]["held_out"]
    (run_dir / "results.json").write_text(json.dumps(stored))
    assert read_run(run_dir).results["sft"][CONSTRAINED_PART] == stored["sft"]["held_out"]
    limited = replace(evaluation("sft", [game(secret, secret) for secret in SPLIT.test]), constrain="words")
    limited.save(run_dir / "eval" / "sft-constrained.json")
    assert read_run(run_dir).results["sft"][CONSTRAINED_PART] == asdict(limited.figures())


def test_games_left_out_of_any_part_are_told(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    failed = GameRecord("crane", False, 0, StopReason.REQUEST_FAILED, (), "timeout")
    some = [game(secret, secret) for secret in ANSWERS if secret not in ("crane", "grape")]
    evaluation("grpo", [failed, *some]).save(run_dir / "eval" / "grpo.json")
    text = read_page(run_dir).text
    left_out = "games left out, since at least one side could not be played to its end: 1"
    assert f"training words: {left_out}" in text
    assert "held-out words: games without a counterpart, since not all played the word as often: 1" in text
    evaluation("grpo", [failed, *some, game("grape", "grape")]).save(run_dir / "eval" / "grpo.json")
    assert f"training words, all words: {left_out}" in read_page(run_dir).text


@pytest.mark.parametrize("algorithm", ["grpo", "expert_iteration", "dpo", "dagger"])
def test_the_page_opens_on_the_games_of_the_model_trained_last(algorithm: str, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    (run_dir / "eval" / "grpo.json").unlink()
    replace(GRPO, name=algorithm).save(run_dir / "eval" / f"{algorithm}.json")
    replace(GRPO, name="base").save(run_dir / "eval" / "base.json")

    def first() -> list[str]:
        return [source["id"] for source in read_page(run_dir).games["sources"] if source.get("first")]

    assert first() == [algorithm]
    (run_dir / "eval" / f"{algorithm}.json").unlink()
    assert first() == ["sft"]
    assert "sources.find((source) => source.first)" in write_report(run_dir).read_text()


def test_the_comparison_counts_words_only_one_player_found(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run")).read_text()
    row = re.search(r"<th scope='row'>held-out words</th>(.*?)</tr>", html)
    assert row is not None
    assert re.findall(r"<td>(\d+)</td>", row[1])[:4] == ["0", "0", "2", "0"]


def test_every_game_can_be_browsed(tmp_path: Path) -> None:
    sources = read_page(make_run(tmp_path / "run")).games["sources"]
    assert [(source["id"], len(source["games"])) for source in sources] == [("sft", 5), ("grpo", 5), ("training", 3)]
    speed = next(g for g in sources[1]["games"] if g["s"] == "speed")
    lymph = {"g": "lymph", "m": "XXXYX", "r": 0.25}
    assert speed == {"s": "speed", "p": "test", "w": 1, "n": 2, "t": [lymph, {"g": "speed", "m": "GGGGG", "r": 0.25}]}
    assert [g["k"] for g in sources[2]["games"]] == [3, 2, 1]
    assert sources[2]["games"][0]["t"] == [{"g": "crane", "m": "GGGGG", "x": 0.5, "c": {"win": 1.0}}]


def test_a_sample_game_is_as_long_as_the_turns_it_spent(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    refused = {"reply": "", "guess": "zzzzz", "marks": None, "outcome": "unlisted", "given": False}
    row = training_game(1)
    write_lines(run_dir / "games.jsonl", [row, {**row, "turns": [refused, *row["turns"]], "turns_used": 1}])
    assert [game["n"] for game in games_payload(read_run(run_dir))["sources"][-1]["games"]] == [1, 1]


def test_a_failed_game_is_shown_as_an_error(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    failed = GameRecord("crane", False, 0, StopReason.REQUEST_FAILED, (), "timeout")
    evaluation("grpo", [failed]).save(run_dir / "eval" / "grpo.json")
    payload = games_payload(read_run(run_dir))
    assert payload["sources"][1]["games"] == [{"s": "crane", "p": "train", "w": -1, "n": 0, "t": [], "e": "timeout"}]


# --- safe and self-contained ------------------------------------------------------------------------------------------


def test_nothing_a_model_wrote_becomes_markup(tmp_path: Path) -> None:
    calm = make_run(tmp_path / "run")
    expected = [tag for tag, _ in read_page(calm).tags]
    hostile = make_run(tmp_path / "hostile" / "run")
    evaluation("grpo", [game(secret, "lymph", secret, reply=HOSTILE) for secret in ANSWERS]).save(
        hostile / "eval" / "grpo.json"
    )
    write_lines(hostile / "games.jsonl", [training_game(step, HOSTILE) for step in (1, 2, 3)])
    page = read_page(hostile)
    assert [tag for tag, _ in page.tags] == expected
    assert page.games["sources"][1]["games"][0]["t"][0]["q"] == HOSTILE
    assert page.games["sources"][2]["games"][0]["t"][0]["q"] == HOSTILE


def named_run(run_dir: Path, name: str) -> Path:
    """A run that says `name` wherever a run may say something of its own."""
    make_run(run_dir)
    manifest = {"command": name, "words": name, "git_commit": name, "hardware": {"processor": name}, "python": name}
    (run_dir / "manifest.json").write_text(json.dumps(manifest))
    (run_dir / "config.json").write_text(json.dumps({"model": {"path": name}}))
    metrics = {name: 1.0, f"reward/{name}": 2.0, f"reward/b{name}": 2.0, f"seconds/{name}": 3.0, "stage": name}
    write_lines(run_dir / "metrics.jsonl", [{**metrics, "step": step} for step in (1, 2)])
    results = json.loads((run_dir / "results.json").read_text())
    results["sft"]["held_out"]["guess_distribution"] = {name: 1, "loss": 1}
    (run_dir / "results.json").write_text(json.dumps(results | {name: results["sft"], "seconds": {name: 1.0}}))
    evaluation(name, list(GRPO.records)).save(run_dir / "eval" / "grpo.json")
    return run_dir


def structure(page: Page) -> list[tuple[str, list[str]]]:
    return [(tag, list(attrs)) for tag, attrs in page.tags]


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "<script>document.title='x'</script>",
        "<img src=x onerror=alert(1)>",
        "<!-- ",
        "</pre></title></style></section>",
        '" onmouseover="alert(1)',
        "' onmouseover='alert(1)",
        "&lt;b&gt;",
    ],
)
def test_names_and_settings_become_text(tmp_path: Path, name: str) -> None:
    calm = read_page(named_run(tmp_path / "calm", "calm"))
    page = read_page(named_run(tmp_path / "run", name))
    assert structure(page) == structure(calm)
    assert page.text.count("calm") == 0
    assert page.text.count(name) >= 8


def test_the_name_of_the_directory_becomes_text(tmp_path: Path) -> None:
    calm = read_page(make_run(tmp_path / "calm"))
    page = read_page(make_run(tmp_path / "<img src=x onerror='alert(1)'>"))
    assert structure(page) == structure(calm)


def test_the_script_never_builds_markup_from_strings() -> None:
    script = (Path(__file__).parents[1] / "src/wordle_rl/report/page.js").read_text()
    assert "textContent" in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|setHTML", script)


def test_only_the_pages_own_script_may_run(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "run"))
    assert len(page.scripts) == 2
    policy = next(attrs["content"] or "" for _, attrs in page.tags if "http-equiv" in attrs)
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_the_page_asks_the_network_for_nothing(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "run"))
    loading = {"src", "href", "srcset", "action", "data", "poster", "background"}
    assert not [attrs for _, attrs in page.tags if loading & attrs.keys()]
    assert not [tag for tag, _ in page.tags if tag in {"link", "img", "iframe", "object", "embed", "base"}]
    html = (tmp_path / "run" / "report.html").read_text()
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", html)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_in_a_script_element_says_the_same_and_cannot_end_it(value: Any) -> None:
    text = json_for_script(value)
    assert json.loads(text) == value
    assert "<" not in text


def test_values_are_never_read_as_templates() -> None:
    assert fill("{{a}}-{{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}}-{{a}}"


def test_a_report_needs_no_torch() -> None:
    code = "import sys; sys.modules.update(torch=None, trl=None, transformers=None); import wordle_rl.report"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- small enough -----------------------------------------------------------------------------------------------------


def test_two_full_evaluations_with_long_replies_stay_below_five_megabytes(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    long_reply = "<think>" + "é" * 1500 + "</think>\n<guess>lymph</guess>"
    long_games = [
        game("speed", *["lymph"] * 4, "speed", reply=long_reply)
    ] * 2734  # one object, so that memory is small
    for name in ("sft", "grpo"):
        evaluation(name, long_games).save(run_dir / "eval" / f"{name}.json")
    write_lines(run_dir / "games.jsonl", [training_game(step) for step in range(MAX_SAMPLE_GAMES + 500)])
    page = read_page(run_dir)
    assert (run_dir / "report.html").stat().st_size < 5_000_000
    sources = page.games["sources"]
    assert [len(source["games"]) for source in sources] == [2734, 2734, MAX_SAMPLE_GAMES]
    assert sources[2]["games"][0]["k"] == MAX_SAMPLE_GAMES + 499
    assert f"The latest {MAX_SAMPLE_GAMES} of {MAX_SAMPLE_GAMES + 500}" in sources[2]["note"]
    replies = [turn["q"] for source in sources for g in source["games"] for turn in g["t"] if "q" in turn]
    assert 0.9 * MAX_REPLY_BYTES < sum(len(json_for_script(reply).encode()) for reply in replies) <= MAX_REPLY_BYTES


def test_replies_of_held_out_words_are_cut_last(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    played = [game(secret, "lymph", secret, reply="x" * 2000) for secret in ANSWERS]
    evaluation("grpo", played * 200).save(run_dir / "eval" / "grpo.json")
    grpo = games_payload(read_run(run_dir))["sources"][1]
    kept = {g["s"]: {len(turn["q"].removesuffix("…")) for turn in g["t"]} for g in grpo["games"]}
    assert kept["grape"] == kept["speed"] == {2000}
    assert kept["crane"] == kept["trace"] != {2000}
    (limit,) = kept["crane"]
    assert f"whole for held-out words and samples, cut after {limit:,} characters for other words" in grpo["note"]


# --- whatever is missing or damaged -----------------------------------------------------------------------------------

PARTS = (
    "results.json",
    "manifest.json",
    "config.json",
    "metrics.jsonl",
    "games.jsonl",
    "eval/sft.json",
    "eval/grpo.json",
)


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_part_is_named_and_the_rest_is_shown(tmp_path: Path, part: str) -> None:
    run_dir = make_run(tmp_path / "run")
    (run_dir / part).unlink()
    text = read_page(run_dir).text
    assert f"Not in this run, so not on this page: {part}." in text


@pytest.mark.parametrize("part", PARTS)
def test_any_single_part_makes_a_page(tmp_path: Path, part: str) -> None:
    whole = make_run(tmp_path / "whole")
    alone = tmp_path / "alone"
    (alone / part).parent.mkdir(parents=True)
    (alone / part).write_bytes((whole / part).read_bytes())
    assert "Not in this run" in read_page(alone).text


def test_without_results_the_figures_come_from_the_games(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    stored = read_run(run_dir).results
    (run_dir / "results.json").unlink()
    assert read_run(run_dir).results == stored


@pytest.mark.parametrize("part", ["metrics.jsonl", "games.jsonl"])
@pytest.mark.parametrize("line", ["{", "[]", '{"stage": 3}'])
def test_a_damaged_line_is_named_with_its_number(tmp_path: Path, part: str, line: str) -> None:
    run_dir = make_run(tmp_path / "run")
    path = run_dir / part
    sound = path.read_text()
    path.write_text(sound + line + "\n")
    with pytest.raises((RunError, ReportError), match=rf"{re.escape(part)}:{sound.count(chr(10)) + 1} "):
        write_report(run_dir)
    assert not (run_dir / "report.html").exists()


@pytest.mark.parametrize("part", ["results.json", "manifest.json", "config.json"])
@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_file_is_named(tmp_path: Path, part: str, content: str) -> None:
    run_dir = make_run(tmp_path / "run")
    (run_dir / part).write_text(content)
    with pytest.raises(ReportError, match=re.escape(part)):
        write_report(run_dir)


def test_damaged_games_are_named(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    (run_dir / "eval" / "sft.json").write_text("{}")
    with pytest.raises(EvaluationError, match=r"sft\.json"):
        write_report(run_dir)


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no run directory"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(ReportError, match="no part of a run"):
        write_report(tmp_path)


def test_a_step_logged_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    write_lines(run_dir / "metrics.jsonl", [metric_row(3), metric_row(1), metric_row(2), metric_row(2, loss=5.0)])
    rows = read_run(run_dir).metrics["grpo"]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[1]["loss"] == 5.0


def test_values_that_are_no_numbers_leave_a_gap(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    rows = [
        metric_row(step) | {"entropy": value} for step, value in enumerate((0.5, None, float("nan"), 0.25), start=1)
    ]
    write_lines(run_dir / "metrics.jsonl", rows)
    html = write_report(run_dir).read_text()
    assert "entropy from 0.5 at step 1 to 0.25 at step 4" in html
    assert "nan" not in html.split("<script", 1)[0].lower()
