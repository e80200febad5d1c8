import re
from dataclasses import asdict, replace
from pathlib import Path

from report_runs import ANSWERS, GRPO, SFT, SPLIT, evaluation, game, make_run, read_page, training_game, write_lines

from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.records import CONSTRAINED_PART
from wordle_rl.report import read_run, write_report
from wordle_rl.report.page import MAX_REPLY_CHARACTERS, MAX_SAMPLE_GAMES, _boards, games_payload

# --- what is on the page ---------------------------------------------------------------------------------------------


def test_the_page_shows_the_figures_of_the_run(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "my-run"))
    for wanted in (
        "my-run",
        "wordle-rl train",
        "model tiny",
        "seed 7",
        "held-out secrets",
        "100.0 %",
        "2.000",
        "7.000",
    ):
        assert wanted in page.text
    charts = [attrs["aria-label"] or "" for tag, attrs in page.tags if tag == "svg" and "aria-label" in attrs]
    assert "Wins in training: won 10.0 % → 80.0 % from step 1 to 8" in charts
    assert any(label.startswith("Loss: training ") for label in charts)
    assert "Not in this run" not in page.text


def test_what_is_played_comes_first_and_before_stands_beside_now(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run")).read_text()
    places = [html.index(f'<section id="{name}">') for name in ("plays", "training", "results", "more")]
    assert places == sorted(places)
    boards = _boards(read_run(tmp_path / "run"), ["sft", "grpo"])
    assert boards["counts"] == [("grpo", 2)]
    assert [secret for secret, _ in boards["secrets"]] == ["grape", "speed"], "held-out ones"
    (before, now) = boards["secrets"][0][1]
    assert (before["player"], before["won"], len(before["rows"])) == ("sft", False, 6)
    assert (now["player"], now["won"]) == ("grpo", True)
    assert now["rows"][-1] == [(letter, "g") for letter in "GRAPE"]


def test_no_table_and_no_list_of_the_page_is_empty(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    for name in ("results.json", "games.jsonl", "eval/grpo.json", "eval/sft.json"):
        html = write_report(run_dir).read_text()
        assert not re.search(r"<tbody>\s*</tbody>|<ul[^>]*>\s*</ul>|<div class=\"grid\">\s*</div>", html)
        (run_dir / name).unlink()
    assert "Loss over training" not in html
    (run_dir / "metrics.jsonl").unlink()
    html = write_report(run_dir).read_text()
    assert "<figure" not in html
    assert 'id="results"' not in html


def test_some_words_are_nowhere_called_all(tmp_path: Path) -> None:
    run_dir, some = make_run(tmp_path / "run"), SPLIT.of_each_part(1)
    assert "all secrets" in read_page(run_dir).text
    for played in (SFT, GRPO):
        played.only(some).save(run_dir / "eval" / f"{played.name}.json")
    text = read_page(run_dir).text
    assert "held-out secrets" in text
    assert "all secrets" not in text


def test_figures_are_those_of_the_evaluations_that_are_there(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    lost = evaluation("grpo", [game(secret, *["fuzzy"] * 6) for secret in SPLIT.test])
    lost.save(run_dir / "eval" / "grpo.json")
    replace(lost, name="other").save(run_dir / "eval" / "other.json")
    limited = replace(evaluation("sft", [game(secret, secret) for secret in SPLIT.test]), constrain="words")
    limited.save(run_dir / "eval" / "sft-constrained.json")
    results = read_run(run_dir).results
    assert list(results) == ["sft", "grpo", "other"]
    assert results["grpo"] == results["other"] == {"held_out": asdict(lost.figures())}
    assert results["sft"]["held_out"] == asdict(SFT.figures(SPLIT.test))
    assert results["sft"][CONSTRAINED_PART] == asdict(limited.figures())


def test_sampled_play_is_a_row_below_greedy_play(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    without = read_run(run_dir).results
    assert "T = 1" not in read_page(run_dir).text
    lost_one = [game(secret, secret) for secret in ANSWERS[1:]] + [game(ANSWERS[0], *["fuzzy"] * 6)]
    drawn = replace(evaluation("grpo-sampled", lost_one), conditions=replace(GRPO.conditions, temperature=1.0))
    drawn.save(run_dir / "eval" / "grpo-sampled.json")
    results = read_run(run_dir).results
    assert results["sft"] == without["sft"]
    assert {part: results["grpo"][part] for part in without["grpo"]} == without["grpo"]
    assert results["grpo"]["all_sampled"] == asdict(drawn.figures())
    text = read_page(run_dir).text
    assert f"T = 1: {100 * drawn.figures().win_rate:.1f} %" in text
    assert "sampled at T = 1: 100.0 %" in text, "a tile shows it too"


def test_every_game_can_be_browsed(tmp_path: Path) -> None:
    sources = read_page(make_run(tmp_path / "run")).games["sources"]
    assert [(source["id"], len(source["games"])) for source in sources] == [("sft", 5), ("grpo", 5), ("training", 3)]
    assert [source["id"] for source in sources if source["first"]] == ["grpo"], "the model trained last"
    speed = next(g for g in sources[1]["games"] if g["secret"] == "speed")
    assert (speed["id"], speed["part"], speed["result"], speed["turns_used"]) == (3, "test", "won", 2)
    assert [(turn["guess"], turn["marks"], turn["regret"]) for turn in speed["turns"]] == [
        ("lymph", "XXXYX", 0.25),
        ("speed", "GGGGG", 0.25),
    ]
    assert [g["step"] for g in sources[2]["games"]] == [3, 2, 1]
    [turn] = sources[2]["games"][0]["turns"]
    assert (turn["guess"], turn["reward"], turn["components"]) == ("crane", 0.5, {"win": 1.0})


def test_a_failed_game_is_shown_as_an_error(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    failed = GameRecord("crane", (), stop_reason=StopReason.REQUEST_FAILED, error="timeout")
    evaluation("grpo", [failed]).save(run_dir / "eval" / "grpo.json")
    [shown] = games_payload(read_run(run_dir))["sources"][1]["games"]
    assert (shown["result"], shown["error"], shown["turns"]) == ("error", "timeout", [])


# --- small enough ----------------------------------------------------------------------------------------------------


def test_two_full_evaluations_with_long_replies_stay_small(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    long_reply = "<think>" + "é" * 1500 + "</think>\n<guess>lymph</guess>"
    long_games = [
        game("speed", *["lymph"] * 4, "speed", reply=long_reply)
    ] * 2734  # one object, so that memory is small
    for name in ("sft", "grpo"):
        evaluation(name, long_games).save(run_dir / "eval" / f"{name}.json")
    write_lines(run_dir / "games.jsonl", [training_game(step) for step in range(MAX_SAMPLE_GAMES + 500)])
    page = read_page(run_dir)
    assert (run_dir / "report.html").stat().st_size < 8_000_000
    sources = page.games["sources"]
    assert [len(source["games"]) for source in sources] == [2734, 2734, MAX_SAMPLE_GAMES]
    assert sources[2]["games"][0]["step"] == MAX_SAMPLE_GAMES + 499
    assert f"The latest {MAX_SAMPLE_GAMES} of {MAX_SAMPLE_GAMES + 500}" in sources[2]["note"]
    replies = [turn["reply"] for source in sources for g in source["games"] for turn in g["turns"] if "reply" in turn]
    assert 0.9 * MAX_REPLY_CHARACTERS < sum(map(len, replies)) < 1.1 * MAX_REPLY_CHARACTERS
