"""Laws of the page in a real browser: it does what is asked of it, by keys alone too, and asks nobody else."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("openenv")

from browser import DESKTOP, PHONE, Browser, chromium, needs_chromium
from pages import parse_page
from report_runs import evaluation, game, make_run, training_game, write_lines
from wordle_server import wordle_server

from wordle_rl.config.model import WordSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import StopReason
from wordle_rl.game import Outcome, Turn, score_guess, violates_clues
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.watch.watch_page import export_run
from wordle_rl.words import load_words

pytestmark = [pytest.mark.slow, needs_chromium]

ENTER, BACKSPACE, RIGHT, LEFT = "\ue007", "\ue003", "\ue014", "\ue012"
EMPTY_BOARD = "return document.querySelectorAll('#play-board .empty').length === 30"
HOSTILE = "</pre><img src=x onerror='document.title=1'><script>document.title = 2</script>"


def grouped(number: int, reward: float, *guesses: str) -> dict:
    """A game of a group of three whose secret is crate."""
    turns = [
        {"reply": f"<think>maybe {word}</think><guess>{word}</guess>", "guess": word, "outcome": "scored"}
        | {"marks": score_guess("crate", word), "reward": reward / len(guesses), "advantage": reward - 1.0}
        for word in guesses
    ]
    row = training_game(0) | {"group": 0, "game": number, "group_size": 3, "secret": "crate", "turns": turns}
    return row | {"won": guesses[-1] == "crate", "turns_used": len(turns), "reward": reward}


GROUP = [grouped(0, 1.0, "speed", "crate"), grouped(1, 0.0, "speed", "grape"), grouped(2, 2.0, "crate")]


def made_run(directory: Path, word_directory: Path) -> Path:
    """A run with a group, a hostile reply, an unlisted word, and evaluations that differ."""
    run = make_run(directory)
    unlisted = training_game(1, HOSTILE) | {"won": False, "reward": -0.5}
    unlisted["turns"] = [unlisted["turns"][0] | {"guess": "zzzzz", "marks": None, "outcome": "unlisted"}]
    write_lines(run / "games.jsonl", [*GROUP, unlisted, training_game(2)])
    failed = GameRecord("trace", (), stop_reason=StopReason.REQUEST_FAILED, error="timeout")
    records = [game("crane", "lymph", "crane"), game("crate", *["fuzzy"] * 6), game("grape", "speed", "grape"), failed]
    evaluation("sft", records).save(run / "eval" / "sft.json")
    words = load_words(str(word_directory))
    listed = [game(secret, words.guesses[40], secret) for secret in words.answers[:3]]
    evaluation("base", listed).save(run / "eval" / "base.json")
    (run / "config.json").write_text(json.dumps({"words": {"source": str(word_directory)}}))
    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, word_directory: Path) -> Path:
    directory = tmp_path_factory.mktemp("watched")
    made_run(directory / "one", word_directory)
    made_run(directory / "two", word_directory)
    return directory


@pytest.fixture(scope="module")
def address(runs: Path, word_directory: Path) -> Iterator[str]:
    with watching(word_directory, runs) as found:
        yield found


@contextmanager
def watching(word_directory: Path, runs: Path) -> Iterator[str]:
    """The page over these runs; its address."""
    settings = ServeSettings(words=WordSettings(source=str(word_directory)), runs=runs)
    with wordle_server(settings) as running:
        yield running.address + "/watch/"


def type_word(browser: Browser, word: str) -> None:
    browser.press(*word, ENTER)
    browser.until(f"return document.getElementById('play-told').innerText.toUpperCase().includes('{word.upper()}')")


def play_by_keys(browser: Browser, words) -> str:
    """Play any answer that fits, reading the marks from what a screen reader says; what the page says at the end."""
    said = {"right place": "G", "elsewhere": "Y", "no copy left": "X"}
    board: list[Turn] = []
    for _ in range(6):
        guess = next(word for word in words.answers if not violates_clues(word, board))
        type_word(browser, guess)
        told = browser.text("#play-told")
        if "found in" in told or "Not found" in told:
            return told
        places = told.split(": ", 1)[1].split(", ")
        board.append(Turn(guess, "".join(said[place[2:]] for place in places), Outcome.SCORED))
    raise AssertionError("six turns and no end")


def test_a_win_and_a_loss_by_keys_alone(browser: Browser, address: str, word_directory: Path) -> None:
    words = load_words(str(word_directory))
    browser.open(address + "#view=play")
    browser.until(EMPTY_BOARD)
    ends = []
    for _ in range(8):
        ends.append(play_by_keys(browser, words))
        if "found in" in ends[-1]:
            break
        browser.click("#play-new")
        browser.until(EMPTY_BOARD)
    assert "found in" in ends[-1]
    browser.until("return document.querySelector('#play-board .review')")
    assert "bits" in browser.text("#play-board .review")
    browser.click("#play-new")
    browser.until(EMPTY_BOARD)
    wrong = [word for word in words.guesses if word not in words.answer_index][:6]  # no secret is one of these
    for word in wrong[:5]:
        type_word(browser, word)
    browser.press(*wrong[5], ENTER)
    browser.until("return document.getElementById('play-told').innerText.startsWith('Not found: the word was ')")
    assert browser.complaints() == []


def test_an_unlisted_word_is_refused_or_costs_the_turn(browser: Browser, address: str) -> None:
    browser.open(address + "#view=play")
    browser.until(EMPTY_BOARD)
    type_word(browser, "zzzzz")
    assert browser.text("#play-told") == "ZZZZZ is not in the word list."
    assert browser.run("return document.querySelectorAll('#play-board li').length") == 6
    assert browser.run("return document.querySelectorAll('#play-board .typed').length") == 5
    browser.press(*[BACKSPACE] * 5)
    assert browser.run("return document.querySelectorAll('#play-board .typed').length") == 0
    browser.click("#play-strict")
    browser.click("#play-new")
    browser.until(EMPTY_BOARD)
    type_word(browser, "zzzzz")
    assert "costs the turn" in browser.text("#play-told")
    assert browser.run("return document.querySelectorAll('#play-board .empty').length") == 25


def test_keys_on_the_screen_play_too(browser: Browser, address: str, word_directory: Path) -> None:
    guess = load_words(str(word_directory)).guesses[0]
    browser.open(address + "#view=play", PHONE)
    browser.until(EMPTY_BOARD)
    for key in (*guess, "Enter"):
        browser.click(f"#keys [data-key={key}]")
    browser.until("return document.querySelector('#play-board .tile.g, #play-board .tile.y, #play-board .tile.x')")
    assert browser.run("return document.querySelector('#keys .g, #keys .y, #keys .x').getAttribute('aria-label')")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_link_opens_a_game_at_a_turn_and_keys_move_through_it(browser: Browser, address: str) -> None:
    browser.open(address + "#run=one&source=eval/sft&game=0&turn=1")
    browser.until("return document.querySelector('#viewer h3')?.innerText.startsWith('CRANE')")
    assert "turn 1 of 2" in browser.text("#viewer")
    browser.press(RIGHT)
    browser.until("return document.getElementById('viewer').innerText.includes('turn 2 of 2')")
    assert "turn=2" in browser.run("return location.hash")
    browser.press(LEFT)
    browser.until("return document.getElementById('viewer').innerText.includes('turn 1 of 2')")
    browser.press("j")
    browser.until("return document.querySelector('#viewer h3')?.innerText.startsWith('CRATE')")
    assert "game=1" in browser.run("return location.hash")


def test_filters_and_bars_choose_games(browser: Browser, address: str) -> None:
    browser.open(address + "#view=replay&run=one&source=games")
    browser.until("return document.querySelectorAll('#games li').length === 5")
    browser.choose("select[name=fault]", "unlisted")
    browser.until("return document.querySelectorAll('#games li').length === 1")
    assert browser.text("#games-count").startswith("1 of 5")
    browser.choose("select[name=fault]", "")
    browser.choose("select[name=result]", "won")
    browser.until("return document.querySelectorAll('#games li').length === 3")
    browser.choose("select[name=result]", "")
    browser.until("return document.querySelectorAll('#games li').length === 5")
    bars = "return [...document.querySelectorAll('.histogram button')].map((bar) => bar.getAttribute('aria-label'))"
    sizes = [int(label.split(": ")[1].split()[0]) for label in browser.run(bars)]
    assert sum(sizes) == 5
    chosen = sizes.index(max(sizes))
    browser.run("document.querySelectorAll('.histogram button')[arguments[0]].click()", chosen)
    browser.until(f"return document.querySelectorAll('#games li').length === {max(sizes)}")
    pressed = "return document.querySelectorAll('.histogram button')[arguments[0]].getAttribute('aria-pressed')"
    assert browser.run(pressed, chosen) == "true"
    browser.choose("input[name=word]", "nothing")
    browser.until("return document.getElementById('viewer').innerText.includes('No game passes')")


def test_a_hostile_reply_is_text(browser: Browser, address: str) -> None:
    browser.open(address + "#view=replay&run=one&source=games&fault=unlisted&turn=1")
    browser.until("return document.querySelector('#viewer pre')")
    assert browser.text("#viewer pre") == HOSTILE
    assert browser.run("return document.querySelectorAll('#viewer img, #viewer script').length") == 0
    assert browser.complaints() == []


def test_a_group_stands_side_by_side_with_rewards_and_advantages(browser: Browser, address: str) -> None:
    browser.open(address + "#view=groups&run=one&source=games")
    browser.until("return document.querySelectorAll('#group-games article').length === 3")
    assert browser.text("#group-games h3") == "CRATE"
    first = browser.texts("#group-games article")[0]
    assert "won in 2" in first
    assert "advantage" in first
    gauges = browser.texts("#group-games article:nth-child(2) .gauge b")
    assert gauges == ["0.000", "−1.000", "0.000", "−1.000"]
    browser.click("#group-games article:nth-child(3) h4 a")
    browser.until("return document.querySelector('#viewer h3')?.innerText.startsWith('CRATE')")
    assert "advantage +1.00" in browser.text("#viewer")


def test_two_runs_are_compared_on_the_same_secrets(browser: Browser, address: str) -> None:
    browser.open(address + "#view=compare&run=one&source=eval/sft&run2=two&source2=eval/grpo")
    browser.until("return document.querySelectorAll('#pairs li').length === 3")
    counts = dict(zip(browser.texts("#pairs-count th"), browser.texts("#pairs-count td"), strict=True))
    assert (counts["all"], counts["won by both"], counts["won by the second alone"]) == ("3", "2", "1")
    browser.choose("#kind", "second")
    browser.until("return document.querySelectorAll('#pairs li').length === 1")
    assert [text.split("\n")[0] for text in browser.texts("#pair article")] == ["one eval/sft", "two eval/grpo"]


def watch_a_game(browser: Browser, player: str) -> list[str]:
    """Have a player play; the texts of its turns."""
    browser.until("return document.querySelector('select[name=player]').options.length > 2")
    browser.choose("select[name=player]", player)
    browser.click("#watch-form .main")
    browser.until("return document.querySelector('#watch-turns .end')")
    return browser.texts("#watch-turns .card")


def test_a_word_is_followed_through_the_run(browser: Browser, address: str) -> None:
    browser.open(address + "#run=one&source=eval/sft&game=1")
    browser.until("return document.querySelector('#viewer h3')?.innerText.startsWith('CRATE')")
    browser.run("[...document.querySelectorAll('#viewer button')].find((b) => b.innerText.includes('round')).click()")
    browser.until("return document.querySelectorAll('#viewer .list li').length > 3")
    told = [text.split("\n")[0] for text in browser.texts("#viewer .list li")]
    assert [text.rsplit(" ", 1)[0] for text in told[:3]] == [
        f"grpo, step 0 {won}" for won in ("✓ won in", "✗", "✓ won in")
    ]
    assert "sft, evaluated ✗ lost" in told
    assert browser.complaints() == []


def test_groups_are_offered_only_where_a_stage_plays_groups(browser: Browser, word_directory: Path, tmp_path) -> None:
    run = made_run(tmp_path / "alone", word_directory)
    for size, hidden in ((1, True), (8, False)):
        config = {"stages": ["grpo"], "grpo": {"group_size": size}, "words": {"source": str(word_directory)}}
        (run / "config.json").write_text(json.dumps(config))
        with watching(word_directory, run) as found:
            browser.open(found + "#view=replay")
            browser.until("return document.querySelectorAll('#games li').length > 0")
            assert browser.run("return document.querySelector('[data-view=groups]').hidden") is hidden


def test_a_visitor_sees_a_game_before_choosing_a_player(browser: Browser, address: str) -> None:
    browser.open(address + "#view=watch&player=solver")
    browser.until("return document.querySelector('#watch-turns .end')")
    widths = browser.run("return [...document.querySelectorAll('.bars .meter')].map((each) => each.clientWidth)")
    assert len(set(widths)) == 1, "equal values have bars of equal length"


def test_a_player_is_watched_turn_by_turn(browser: Browser, address: str) -> None:
    browser.open(address + "#view=watch")
    turns = watch_a_game(browser, "solver")
    assert turns
    assert all("candidate" in text for text in turns)
    assert browser.text("#watch-turns .end").startswith("Found")
    assert browser.complaints() == []


def test_a_model_is_watched_with_its_probabilities(browser: Browser, finished_run: Path, word_directory: Path) -> None:
    from worded_models import teach_run

    first, second = load_words(str(word_directory)).answers[10:12]
    teach_run(finished_run, {first: 0.6, second: 0.4})
    with watching(word_directory, finished_run) as found:
        browser.open(found + "#view=watch")
        turns = watch_a_game(browser, f"{finished_run.name}/grpo")
        assert "likeliest guesses" in turns[0]
        assert turns[0].index(first) < turns[0].index(second) < turns[0].index("all else")
        assert browser.complaints() == []


def test_a_run_is_followed_as_it_grows(browser: Browser, address: str, runs: Path, word_directory: Path) -> None:
    live = made_run(runs / "live", word_directory)
    browser.open(address + "#view=replay&run=live&source=games&order=newest")
    browser.until("return document.querySelectorAll('#games li').length === 5")
    browser.click("#follow")
    browser.requests()
    with (live / "games.jsonl").open("a") as file:
        file.write(json.dumps(training_game(77)) + "\n")
    with (live / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "grpo", "step": 77, "win_rate": 0.5}\n')
    browser.until("return document.querySelectorAll('#games li').length === 6")
    browser.until("return document.getElementById('viewer').innerText.includes('step 77')")
    browser.until("return document.getElementById('live').innerText.includes('step 77')")
    assert len(browser.requests()) < 60
    shutil.rmtree(live)


def test_an_export_works_from_a_file_and_asks_nobody(browser: Browser, word_directory: Path, tmp_path: Path) -> None:
    run = made_run(tmp_path / "one", word_directory)
    page = export_run(run, tmp_path / "page.html")
    browser.requests()
    browser.open(f"file://{page}#view=replay&source=games&game=0&turn=1")
    browser.until("return document.querySelector('#viewer .review')")
    assert browser.run("return [...document.querySelectorAll('#views a')].filter((link) => !link.hidden).length") == 4
    browser.run("location.hash = 'view=play'")
    browser.until(EMPTY_BOARD)
    end = play_by_keys(browser, load_words(str(word_directory)))
    assert "found in" in end or end.startswith("Not found: the word was ")
    assert {address.partition(":")[0] for address in browser.requests()} <= {"file", "data", "about", "blob"}
    assert browser.complaints() == []
    assert parse_page(page.read_text(encoding="utf-8")).scripts


def test_the_rules_of_an_exported_page_are_ours(browser: Browser, address: str, word_directory: Path) -> None:
    words = load_words(str(word_directory))
    pairs = [(secret, guess) for secret in words.answers for guess in (*words.guesses, "eerie", "geese", "abbey")]
    browser.open(address + "#view=play")
    found = browser.run("return arguments[0].map(([secret, guess]) => scoreGuess(secret, guess))", pairs)
    assert found == [score_guess(secret, guess) for secret, guess in pairs]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_every_view_is_accessible_and_fits(browser: Browser, address: str, size: tuple[int, int], dark: bool) -> None:
    waits = {
        "#view=replay&run=one&source=games": "#viewer .turns",
        "#view=groups&run=one&source=games": "#group-games article",
        "#view=compare&run=one&source=eval/sft&run2=two&source2=eval/grpo": "#pair article",
        "#view=play": "#play-board .empty",
        "#view=watch": "select[name=player] option",
    }
    for fragment, selector in waits.items():
        browser.open(address + fragment, size, dark)
        browser.until(f"return document.querySelector('{selector}')")
        assert browser.violations() == [], fragment
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), fragment
    hosts = {request.split("/")[2] for request in browser.requests() if request.startswith("http")}
    assert hosts <= {address.split("/")[2]}


def test_colours_for_colour_blindness_are_kept(browser: Browser, address: str) -> None:
    browser.open(address + "#view=play")
    plain = browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--g')")
    browser.click("#contrast")
    browser.open(address + "#view=replay&run=one&source=games")
    browser.until("return document.querySelector('#viewer .turns')")
    assert browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--g')") != plain
    assert browser.violations() == []
    browser.click("#contrast")
