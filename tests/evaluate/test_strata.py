"""Laws of strata: by the decisive board as the learner saw it, whoever is evaluated and however the game ended."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from report_runs import game
from scripted import WORDS

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.strata import Strata, audit_shown, decisive_boards, shown_in, strata_of, strata_of_run
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.runs import append_jsonl, write_jsonl
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
    for shown in (set(), {"crane"}):
        found = strata_of(HELD_OUT, shown_in(games, HELD_OUT), boards)
        assert found == Strata(frozenset(shown), frozenset({"crane", "grape"} - shown), frozenset({"speed"}))
        games.append(row("crane", "trace", "crane") | {"secret": "drape"})  # as a word outside gives the same marks


SHOWN = [
    ([row("abide", "trace", thinking="CRANE or Grape?")], {"crane", "grape"}, set()),
    ([row("abide", "trace", reply="<guess>trace</guess>")], set(), set()),
    ([row("trace", "crane", taught=False)], {"crane"}, set()),
    ([row("trace", "crane", given=True)], {"crane"}, {((), "crane")}),
    ([{"secret": "trace", "turns": [{"guess": "crane", "given": True}]}], {"crane"}, set()),  # named, but not taught
    ([{"secret": "trace", "turns": [{"guess": "crane"}]}], {"crane"}, {((), "crane")}),
    ([row("trace", "abide", others=["crane", "fuzzy"])], {"crane"}, {((), "crane")}),  # words of a soft label
    ([row("drape", "zzzzz", "crane", marks=None, taught=False)], {"crane"}, {((("zzzzz", ""),), "crane")}),
]
"""Games, the held-out words they name, and the held-out words they teach, each with its board as the learner saw it."""


@pytest.mark.parametrize(("games", "named", "labels"), SHOWN)
def test_what_games_name_and_what_they_teach_are_told_apart(games: list[dict], named: set, labels: set) -> None:
    shown = shown_in(games, HELD_OUT)
    assert shown.named == named
    assert shown.labels == labels


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
        played = [Turn(guess, marks, Outcome.SCORED) for guess, marks in turns]
        assert teacher.advise(played, wild).guess == secret
    late = decisive_boards(WORDS.answers, teacher, wild, GameSettings(max_turns=1), context)
    assert late == {"trace": ()}, "a word that is not found in time has no such board"


def test_strata_of_a_run_are_those_counted_from_its_games_by_hand(finished_run, sixty) -> None:
    test = split_secrets(sixty).test
    config = stored_config(finished_run / "config.json")
    context = GameContext.of(config)
    text = (finished_run / "traces.jsonl").read_text()
    taught = set()
    for line in text.splitlines():
        turns = json.loads(line)["turns"]
        seen = [(turn["guess"], turn["marks"]) for turn in turns]
        taught |= {(turn["guess"], *seen[:at]) for at, turn in enumerate(turns) if turn.get("taught", True)}
    strata = strata_of_run(finished_run)
    assert strata.board_shown | strata.board_not_shown | strata.never_said == set(test)
    boards = decisive_boards(test, SolverTeacher(context.solver), config.traces.teacher, config.game, context)
    for secret in test:
        assert (secret in strata.board_shown) == (secret in boards and (secret, *boards[secret]) in taught)
        assert (secret in strata.never_said) == (f'"{secret}"' not in text)
    assert json.loads((finished_run / "strata.json").read_text()) == strata.to_row()


def test_a_run_from_another_runs_model_counts_what_that_was_shown(finished_run, tmp_path: Path) -> None:
    directory = tmp_path / "later"
    directory.mkdir()
    write_jsonl(directory / "traces.jsonl", [])
    config = stored_config(finished_run / "config.json")

    def strata_from(model: Path) -> Strata:
        later = config.model_copy(update={"model": config.model.model_copy(update={"path": str(model)})})
        (directory / "config.json").write_text(json.dumps(later.stored()))
        return strata_of_run(directory)

    assert strata_from(finished_run / "sft") == strata_of_run(finished_run)
    found = strata_from(Path(shutil.copytree(finished_run / "sft", tmp_path / "model")))
    assert not found.complete, "what the model learnt before is not on record"
    assert len(found.never_said) == len(GameContext.of(config).split.test)


def test_the_audit_counts_won_games_that_training_shows_turn_for_turn(finished_run, split, tmp_path: Path) -> None:
    run, test = Path(shutil.copytree(finished_run, tmp_path / "run")), split.test
    evaluation = Evaluation.load(run / "eval" / "sft.json")
    shown, other = game(test[0], test[1], test[0]), game(test[0], test[2], test[0])
    replace(evaluation, records=(shown, other, game(test[1], *[test[2]] * 6))).save(run / "eval" / "sft.json")
    append_jsonl(run / "traces.jsonl", row(test[0], test[1], test[0]))
    found = audit_shown(run)
    assert sum(found.num_secrets.values()) == len(test)
    assert found.own_games["sft"] == (1, 2)
    assert set(found.own_games) == {"sft", "grpo"}
