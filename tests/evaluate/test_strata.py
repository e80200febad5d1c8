"""Laws of strata: by the decisive board as the learner saw it, whoever is evaluated and however the game ended."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from report_runs import game
from scripted_evaluations import WORDS

from wordle_rl.config import GameSettings, TeacherSettings, stored_config
from wordle_rl.config.context import GameContext
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.strata import (
    Strata,
    audit_shown,
    decisive_boards,
    shown_in,
    strata_of,
    strata_of_run,
)
from wordle_rl.game import score_guess
from wordle_rl.runs import write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words.split import split_secrets

HELD_OUT = ("crane", "grape", "speed")


def row(secret: str, *guesses: str, **first: object) -> dict:
    turns = [{"guess": guess, "marks": score_guess(secret, guess), "taught": True} for guess in guesses]
    turns[0] |= first
    return {"secret": secret, "turns": turns}


def board(secret: str, *guesses: str) -> tuple[tuple[str, str], ...]:
    return tuple((guess, score_guess(secret, guess)) for guess in guesses)


def test_a_word_is_shown_on_its_decisive_board_alone() -> None:
    boards = {"crane": board("crane", "trace"), "grape": board("grape", "trace"), "speed": board("speed", "abide")}
    games = [row("crate", "trace", "crane"), row("graze", "fuzzy", "grape"), row("abide", "trace")]
    assert board("crate", "trace") != board("crane", "trace")
    strata = strata_of(HELD_OUT, shown_in(games, HELD_OUT), boards)
    assert strata == Strata(frozenset(), frozenset({"crane", "grape"}), frozenset({"speed"}))
    games.append(row("crane", "trace", "crane") | {"secret": "drape"})  # as a word outside gives the same marks
    shown = strata_of(HELD_OUT, shown_in(games, HELD_OUT), boards)
    assert shown == Strata(frozenset({"crane"}), frozenset({"grape"}), frozenset({"speed"}))


def test_a_turn_that_is_not_taught_names_a_word_and_is_no_label() -> None:
    boards = {"crane": ()}
    for given in ({"taught": False}, {"taught": True, "given": True}):
        turn = {"guess": "crane", "marks": "XXXXX"} | given
        expected = given["taught"]
        shown = shown_in([{"secret": "trace", "turns": [turn]}], HELD_OUT)
        assert shown.named == {"crane"}
        assert bool(shown.labels) is expected
        assert strata_of(["crane"], shown, boards).board_shown == ({"crane"} if expected else frozenset())


def test_a_thought_names_a_word_as_well() -> None:
    games = [row("abide", "trace", thinking="CRANE or Grape?"), row("abide", "trace", reply="<guess>trace</guess>")]
    assert shown_in(games, HELD_OUT).named == {"crane", "grape"}
    turn = {"guess": "trace", "marks": None, "taught": True, "others": ["crane", "abide"]}  # words of a soft label
    shown = shown_in([{"secret": "drape", "turns": [*row("drape", "abide")["turns"], turn]}], HELD_OUT)
    assert shown.labels == {(board("drape", "abide"), "crane")}


def test_a_refused_guess_is_on_the_board_as_the_learner_saw_it() -> None:
    slip = {"guess": "zzzzz", "marks": None, "taught": False}
    games = [{"secret": "drape", "turns": [slip, {"guess": "crane", "marks": None, "taught": True}]}]
    assert shown_in(games, HELD_OUT).labels == {((("zzzzz", ""),), "crane")}


def test_the_decisive_board_is_where_the_teacher_without_noise_names_the_word() -> None:
    context = GameContext(WORDS, split_secrets(WORDS), GameSettings().prompter(5), Solver(WORDS))
    teacher = SolverTeacher(context.solver)
    wild = TeacherSettings(opener="trace", noise_rate=0.9, random_opener_rate=1.0)
    boards = decisive_boards(WORDS.answers, teacher, wild, GameSettings(), context)
    assert boards["trace"] == ()
    assert set(boards) == set(WORDS.answers), "twelve words are all found in six turns"
    for secret, turns in boards.items():
        assert all(marks == score_guess(secret, guess) for guess, marks in turns)
        assert not turns or turns[0][0] == "trace"
        solo = teacher.advise(_turns(turns), wild)
        assert solo is not None
        assert solo.guess == secret
    late = decisive_boards(WORDS.answers, teacher, wild, GameSettings(max_turns=1), context)
    assert late == {"trace": ()}, "a word that is not found in time has no such board"


def _turns(board: tuple[tuple[str, str], ...]):
    from wordle_rl.game import Outcome, Turn

    return [Turn(guess, marks, Outcome.SCORED) for guess, marks in board]


def test_strata_of_a_run_are_those_counted_from_its_games_by_hand(finished_run, sixty) -> None:
    test = split_secrets(sixty).test
    config = stored_config(finished_run / "config.json")
    context = GameContext.of(config)
    teacher = SolverTeacher(context.solver)
    text = (finished_run / "traces.jsonl").read_text()
    strata = strata_of_run(finished_run)
    assert strata.board_shown | strata.board_not_shown | strata.never_said == set(test)
    boards = decisive_boards(test, teacher, config.traces.teacher, config.game, context)
    for secret in test:
        labels = []
        for line in text.splitlines():
            turns = json.loads(line)["turns"]
            labels += [
                place
                for place, turn in enumerate(turns)
                if turn["guess"] == secret and turn.get("taught", True)
                and [(t["guess"], t["marks"]) for t in turns[:place]] == list(boards.get(secret, ("none",)))
            ]  # fmt: skip
        assert (secret in strata.board_shown) == bool(labels)
        assert (secret in strata.never_said) == (f'"{secret}"' not in text)
    assert json.loads((finished_run / "strata.json").read_text()) == strata.to_row()


def test_a_run_from_another_runs_model_counts_what_that_was_shown(finished_run, tmp_path: Path) -> None:
    config = stored_config(finished_run / "config.json")
    later = config.model_copy(update={"model": config.model.model_copy(update={"path": str(finished_run / "sft")})})
    directory = tmp_path / "later"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(later.stored()))
    write_jsonl(directory / "traces.jsonl", [])
    assert strata_of_run(directory) == strata_of_run(finished_run)
    alone = Path(shutil.copytree(finished_run / "sft", tmp_path / "model"))
    moved = later.model_copy(update={"model": later.model.model_copy(update={"path": str(alone)})})
    (directory / "config.json").write_text(json.dumps(moved.stored()))
    found = strata_of_run(directory)
    assert not found.complete, "what the model learnt before is not on record"
    assert len(found.never_said) == len(GameContext.of(config).split.test)


def test_the_audit_counts_won_games_that_training_shows_turn_for_turn(finished_run, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    test = GameContext.of(stored_config(run / "config.json")).split.test
    evaluation = Evaluation.load(run / "eval" / "sft.json")
    shown, other = game(test[0], test[1], test[0]), game(test[0], test[2], test[0])
    replace(evaluation, records=(shown, other, game(test[1], *[test[2]] * 6))).save(run / "eval" / "sft.json")
    with (run / "traces.jsonl").open("a") as file:
        file.write(json.dumps(row(test[0], test[1], test[0])) + "\n")
    found = audit_shown(run)
    assert sum(found.num_secrets.values()) == len(test)
    assert found.own_games["sft"] == (1, 2)
    assert set(found.own_games) == {"sft", "grpo"}
