"""Laws of teaching from a file of games: only sound games of secrets that may be taught, each other counted."""

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.dataset import TracesFromFile
from wordle_rl.data.game_record import UNKNOWN_TEACHER, GameNotes, GameRecord, TurnRecord
from wordle_rl.game import Dictionary, Outcome, Turn, hard_mode_fault, score_guess
from wordle_rl.prompt import Thinking
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.words.split import split_secrets


def game(secret: str, *guesses: str, teacher: str = "some/model", thinking: str = "") -> GameRecord:
    turns = tuple(TurnRecord(guess, score_guess(secret, guess), thinking=thinking) for guess in guesses)
    return GameRecord(secret, turns, notes=GameNotes(teacher))


@pytest.fixture
def given(sixty, tmp_path):
    def make(*traces: GameRecord, rules: GameSettings | None = None, **settings) -> TracesFromFile:
        path = tmp_path / "games.jsonl"
        write_jsonl(path, (trace.to_row() for trace in traces))
        taught = TraceSettings(file=path, **settings)
        return TracesFromFile(sixty, split_secrets(sixty), taught, rules or GameSettings())

    return make


def test_games_of_secrets_not_to_be_taught_are_left_out(given, sixty) -> None:
    split = split_secrets(sixty)
    outside = sixty.outside[0]
    games = given(*(game(secret, secret) for secret in (*sixty.answers, outside)), rl_only_fraction=0.25)
    taught, kept = split.shared(0.25)
    assert {trace.secret for trace in games} == {*taught, outside}
    counts = {"rl_only_secret": len(kept), "val_secret": len(split.val), "test_secret": len(split.test)}
    assert games.rejected == counts
    assert games.left_out() == ", ".join(f"{counts[name]} {name}" for name in sorted(counts))


def test_a_language_models_games_are_checked_and_the_solvers_probes_are_kept(given, sixty) -> None:
    secret, other = split_secrets(sixty).train[:2]
    lost, probing = game(secret, other), game(secret, other, other, secret)
    mismarked = GameRecord(secret, (TurnRecord(other, "GGGGG"), TurnRecord(secret, "GGGGG")), notes=GameNotes("solver"))
    sound = game(secret, secret)
    solvers = game(secret, other, other, secret, teacher="solver")
    games = given(lost, probing, mismarked, sound, solvers)
    assert list(games) == [sound, solvers]
    assert games.rejected == {"not_won": 1, "violates_clues": 1, "wrong_marks": 1}


def test_sound_games_of_validation_secrets_are_kept_apart_wherever_they_stand(given, sixty) -> None:
    split = split_secrets(sixty)
    taught, (first, second, *_) = split.train[0], split.val
    learnt, lost = game(taught, taught), game(first, taught)
    apart = [game(second, taught, second), game(first, first), game(first, taught, first)]
    games = given(learnt, lost, apart[0], game(split.test[0], split.test[0]), *apart[1:], num_games=2)
    assert games.of_validation() == apart[:2]
    assert list(games) == [learnt]
    assert games.rejected == {"val_secret": 4, "test_secret": 1}


def test_a_file_without_a_usable_game_is_refused_with_the_reasons(given, sixty, tmp_path: Path) -> None:
    secret = split_secrets(sixty).test[0]
    with pytest.raises(ConfigError, match="1 test_secret"):
        list(given(game(secret, secret)))
    with pytest.raises(ConfigError, match=r"games\.jsonl"):
        list(given())
    settings = TraceSettings(file=tmp_path / "nothing.jsonl")
    with pytest.raises(RunError, match=r"nothing\.jsonl"):
        list(TracesFromFile(sixty, split_secrets(sixty), settings, GameSettings()))


def test_thinking_is_looked_at_only_where_it_is_learnt(given, sixty) -> None:
    secret = split_secrets(sixty).train[0]
    leaking, silent = game(secret, secret, thinking="so <guess>"), game(secret, secret)
    long = game(secret, secret, thinking="many words " * 3000)
    kept = {
        Thinking.OFF: ([leaking, silent, long], {}),
        Thinking.OPTIONAL: ([silent, long], {"tags_in_thinking": 1}),
        Thinking.REQUIRED: ([long], {"tags_in_thinking": 1, "no_thinking": 1}),
    }
    for thinking, (sound, rejected) in kept.items():
        games = given(leaking, silent, long, rules=GameSettings(thinking=thinking))
        assert (list(games), games.rejected) == (sound, rejected)


def strays(secret: str, first: str, second: str) -> bool:
    board = [Turn(first, score_guess(secret, first), Outcome.SCORED)]
    return secret not in (first, second) and hard_mode_fault(second, board) is not None


def test_a_game_is_learnt_only_if_the_rules_of_the_run_make_it_come_out_as_told(given, sixty) -> None:
    secret = split_secrets(sixty).train[0]
    first, second = next(pair for pair in permutations(sixty.guesses, 2) if strays(secret, *pair))
    refused = TurnRecord("zzzzz", None, taught=False, outcome=Outcome.UNLISTED)
    won = game(secret, secret, teacher="solver")
    slip = replace(won, turns=(refused, *won.turns))
    free = replace(won, turns=(replace(refused, costs_turn=False), *won.turns))
    probing = game(secret, first, second, secret, teacher="solver")
    for rules, sound in (
        (GameSettings(), [won, slip, probing]),
        (GameSettings(dictionary=Dictionary.APP), [won, free, probing]),
        (GameSettings(dictionary=Dictionary.LENIENT), [won, probing]),
        (GameSettings(hard_mode=True), [won, slip]),
    ):
        games = given(won, slip, free, probing, rules=rules)
        assert (list(games), games.rejected) == (sound, {"wrong_rules": 4 - len(sound)})


def test_the_solvers_name_is_no_pass(given, sixty) -> None:
    secret, other = split_secrets(sixty).train[:2]
    sound, two = game(secret, secret, teacher="solver"), game(secret, other, secret, teacher="solver")
    first = {
        "unlisted_guess": TurnRecord("zzzzz", "XXXXX"),
        "wrong_marks": TurnRecord(other, None),
        "wrong_rules": TurnRecord(other, None, outcome=Outcome.UNLISTED),
    }
    odd = [replace(two, turns=(turn, two.turns[1])) for turn in (*first.values(), TurnRecord("letters", "XXXXXXX"))]
    games = given(
        *odd, replace(two, error="down"), replace(sound, turns=()), replace(sound, turns=sound.turns * 7), sound
    )
    assert list(games) == [sound]
    counts = dict.fromkeys((*first, "error", "no_turns", "plays_on_after_win"), 1)
    assert games.rejected == counts | {"unlisted_guess": 2}


def test_a_game_that_names_no_teacher_is_not_taken_for_the_solvers(given, sixty) -> None:
    secret, other = split_secrets(sixty).train[:2]
    games = given(game(secret, secret), game(secret, other, other, secret))
    rows = [json.loads(line) for line in games.path.read_text().splitlines()]
    write_jsonl(games.path, ({name: value for name, value in row.items() if name != "teacher"} for row in rows))
    assert [trace.notes.teacher for trace in games] == [UNKNOWN_TEACHER]
    assert games.rejected == {"violates_clues": 1}
