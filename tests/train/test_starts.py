"""Laws of where groups begin: by priority, a share on given boards, the same again by seed."""

import json
import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from contexts import context_for
from hypothesis import given as drawn
from hypothesis import strategies as st

from wordle_rl.config import (
    ConfigError,
    DistillTraining,
    DPOTraining,
    ExpertIterationTraining,
    GRPOTraining,
    StartSettings,
)
from wordle_rl.data.dataset import DatasetLimits, write_dataset
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Dictionary, Outcome, Rules, Turn, hard_mode_fault, score_guess, violates_clues
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.train.starts import GameSetup, GroupStarts, PrefixGuesses, SecretPicker, with_outside
from wordle_rl.train.starts_file import StartBoards, read_start_boards
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

SHARE = 0.4


@pytest.fixture
def starts(small_words):
    """Starts of the small words; the given boards have secrets that are not among those to choose from, too."""
    given = tuple(
        InitialState(secret, ("crane",)) for secret in (*small_words.answers, *small_words.outside) if secret > "d"
    )

    context = context_for(small_words, Prompter(), Solver(small_words))

    def make(**changes) -> GroupStarts:
        setup = GameSetup(
            context, small_words.answers[:12], **({"given_starts": given, "starts_fraction": SHARE} | changes)
        )
        settings = StartSettings(max_prefix_guesses=2)
        return GroupStarts(setup, settings, 3, outside_rate=0.2, prioritized_fraction=0.5)

    return make


def test_the_share_comes_from_the_file_and_the_others_are_drawn_as_without_it(starts) -> None:
    mixed, plain = starts(), starts(given_starts=())
    given = {*mixed._setup.given_starts}
    taken = 0
    for step in range(50):
        for before, after in zip(plain.draw(8, step), mixed.draw(8, step), strict=True):
            assert after == before or after in given
            taken += after in given
    assert 0.3 < taken / 400 < 0.5
    assert {*starts(starts_fraction=1.0).draw(8, 0)} <= given
    same = starts(starts_fraction=1.0, given_starts=()).draw(8, 0)
    assert same == plain.draw(8, 0), "a share of no boards is no group"


def test_the_same_seed_step_process_and_refill_draw_the_same_and_others_do_not(starts) -> None:
    whole = starts(starts_fraction=1.0)
    seen = [whole.draw(6, *numbers) for numbers in ((0,), (1,), (0, 1), (0, 0, 1), (1, 1, 1))]
    assert seen == [starts(starts_fraction=1.0).draw(6, *n) for n in ((0,), (1,), (0, 1), (0, 0, 1), (1, 1, 1))]
    assert len({tuple(drawn) for drawn in seen}) == 5


def test_boards_do_not_repeat_in_a_draw_while_there_are_enough(starts) -> None:
    whole = starts(starts_fraction=1.0)
    given = whole._setup.given_starts
    count = len(given)
    assert sorted(whole.draw(count, 0), key=str) == sorted(given, key=str)
    assert len(whole.draw(count + 1, 0)) == count + 1


def ended(start: InitialState, words):
    """The record of a game that was broken off where it began."""
    env = WordleEnv(start.secret, words, Prompter(), start.prefix_guesses)
    env.truncate(StopReason.TOKEN_BUDGET)
    return env.transcript()


def test_groups_from_a_board_leave_the_record_of_their_secret_alone(starts, small_words) -> None:
    mixed = starts(
        given_starts=(
            InitialState("crane", ("speed",)),
            InitialState("drape"),
            InitialState("zonal"),
            InitialState("qajaq", ("speed",)),
        )
    )
    for start in (InitialState("crane", ("speed",)), InitialState("qajaq", ("speed",)), InitialState("zonal")):
        mixed.note(ended(start, small_words), 0.7)
    assert mixed.picker.state() == {}
    mixed.note(ended(InitialState("crane"), small_words), 0.5)
    mixed.note(ended(InitialState("crate", ("speed",)), small_words), 0.25)
    mixed.note(ended(InitialState("drape"), small_words), 0.125)  # an empty board is the start of any game
    assert json.loads(json.dumps(mixed.picker.state())) == {"crane": 0.5, "crate": 0.25, "drape": 0.125}


# --- priorities ---

SECRETS = [f"word{i}" for i in range(8)]
STDS = st.dictionaries(st.sampled_from(SECRETS), st.floats(0, 3), max_size=8)


def weight(picker: SecretPicker, secret: str) -> float:
    return float(picker.weights()[SECRETS.index(secret)])


def test_constant_groups_are_drawn_less_than_mixed_ones() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    for secret in SECRETS:
        picker.update(secret, 0.0 if secret in SECRETS[:4] else 1.0)
    found = Counter(secret for step in range(400) for secret in picker.pick(2, step))
    assert max(found[s] for s in SECRETS[:4]) * 4 < min(found[s] for s in SECRETS[4:])
    assert all(found[s] > 0 for s in SECRETS[:4]), "a constant secret must come back now and then"


def test_an_untried_secret_counts_as_the_widest() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    picker.update("word0", 0.2)
    picker.update("word1", 0.7)
    assert weight(picker, "word5") == pytest.approx(weight(picker, "word1"))
    assert weight(picker, "word5") > weight(picker, "word0")


@drawn(STDS, st.floats(0, 1))
def test_weights_are_chances(stds, prioritized_fraction) -> None:
    picker = SecretPicker(SECRETS, prioritized_fraction, 0)
    for secret, std in stds.items():
        picker.update(secret, std)
    weights = picker.weights()
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()


def test_recent_groups_count_more_than_old_ones() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    picker.update("word0", 1.0)
    for _ in range(5):
        picker.update("word0", 0.0)
    assert picker.state()["word0"] == pytest.approx(0.5**5)
    picker.update("word1", 1.0)
    picker.update("word1", 1.0)
    assert picker.state()["word1"] == 1.0, "the same again is nothing new"


def test_words_from_outside_the_answers_take_places_at_their_rate(small_words) -> None:
    secrets = list(small_words.answers) * 20
    assert with_outside(secrets, small_words, 0.0, random.Random(0)) == secrets
    mixed = with_outside(secrets, small_words, 0.25, random.Random(0))
    changed = [(before, after) for before, after in zip(secrets, mixed, strict=True) if before != after]
    assert len(mixed) == len(secrets)
    assert 80 < len(changed) < 160
    assert {after for _, after in changed} == set(small_words.guesses) - set(small_words.answers)
    only = WordList("only", small_words.answers, small_words.answers)
    assert with_outside(secrets, only, 1.0, random.Random(0)) == secrets


# --- prefix guesses: by a player, even in number, never the secret ---


MOST = 4
PLAYERS = ("random:5", "consistent", "consistent:5", "teacher:5")


@pytest.fixture(scope="module")
def solver(default_words) -> Solver:
    """Enough words for games of four guesses, few enough for the teacher's matrix."""
    answers = default_words.answers[::4]
    return Solver(WordList("some", answers, (*answers, *default_words.outside[::8])))


@cache
def prefixes_of(solver: Solver, player: str, hard_mode: bool) -> PrefixGuesses:
    """One player for all tests, since the teacher's matrix takes seconds."""
    settings = StartSettings(max_prefix_guesses=MOST, player=player)
    return PrefixGuesses(solver.words, solver, settings, hard_mode=hard_mode)


def drawn_prefixes(
    solver: Solver, player: str, count: int, hard_mode: bool = False
) -> list[tuple[str, tuple[str, ...]]]:
    """Secrets with the prefix guesses drawn for them."""
    prefixes = prefixes_of(solver, player, hard_mode)
    rng = random.Random(7)
    secrets = rng.choices(solver.words.answers, k=count)
    return [(secret, prefixes(secret, rng)) for secret in secrets]


def boards(secret: str, guesses: tuple[str, ...]) -> list[tuple[str, list[Turn]]]:
    """Each guess with the turns before it."""
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    return [(guess, turns[:place]) for place, guess in enumerate(guesses)]


@pytest.mark.parametrize("player", PLAYERS)
def test_no_prefix_guess_is_the_secret_and_none_repeats(player: str, solver: Solver) -> None:
    for secret, guesses in drawn_prefixes(solver, player, 60):
        assert secret not in guesses
        assert len({*guesses}) == len(guesses) <= MOST
        assert all(guess in solver.words for guess in guesses)


@pytest.mark.parametrize("player", ["consistent", "consistent:5", "teacher:5"])
def test_a_consistent_player_or_teacher_never_contradicts_the_board(player: str, solver: Solver) -> None:
    for secret, guesses in drawn_prefixes(solver, player, 60):
        for guess, before in boards(secret, guesses):
            assert not violates_clues(guess, before)
            assert hard_mode_fault(guess, before) is None


@pytest.mark.parametrize("player", ["random:5", "consistent:5", "teacher:5"])
def test_the_first_guess_is_one_of_the_best_openers(player: str, solver: Solver) -> None:
    best = {scored.guess for scored in solver.best_openers(5)}
    assert {guesses[0] for _, guesses in drawn_prefixes(solver, player, 80) if guesses} == best


@pytest.mark.parametrize(("player", "count"), [("consistent:5", 400), ("random:5", 400), ("teacher:5", 250)])
def test_every_number_of_guesses_is_about_as_frequent(player: str, count: int, solver: Solver) -> None:
    found = Counter(len(guesses) for _, guesses in drawn_prefixes(solver, player, count))
    assert sorted(found) == [*range(MOST + 1)]
    even = count / (MOST + 1)
    assert all(abs(found[number] - even) < 5 * even**0.5 for number in found), found


def test_in_hard_mode_random_guesses_keep_to_the_hints_after_an_opener(solver: Solver) -> None:
    for secret, guesses in drawn_prefixes(solver, "random:5", 20, hard_mode=True):
        assert all(hard_mode_fault(guess, before) is None for guess, before in boards(secret, guesses))


# --- boards from a file: only those on which a training game may go on, each other row counted ---


@pytest.fixture
def split(small_words):
    return split_secrets(small_words)


@pytest.fixture
def read(small_words, split, tmp_path: Path):
    """Read rows through a file."""

    def run(*rows: dict, rules: Rules | None = None, outside: bool = True) -> StartBoards:
        write_jsonl(tmp_path / "starts.jsonl", rows)
        return read_start_boards(tmp_path / "starts.jsonl", small_words, split, rules or Rules(), outside=outside)

    return run


def board(secret: str, *guesses: str) -> dict[str, object]:
    return {"word": secret, "turns": [{"guess": guess} for guess in guesses]}


def test_boards_written_as_rows_are_read(small_words, split, tmp_path: Path) -> None:
    a, b = split.train[:2]
    data = tmp_path / "data.jsonl"
    write_jsonl(data, [{"secret": a, "past_guess_history": [[b, score_guess(a, b)]]}])
    first = read_start_boards(data, small_words, split, Rules(), outside=True)
    write_jsonl(tmp_path / "starts.jsonl", first.rows())
    found = read_start_boards(tmp_path / "starts.jsonl", small_words, split, Rules(), outside=True)
    assert (found.starts, found.rejected) == ((InitialState(a, (b,)),), {})


def test_the_start_states_of_a_data_set_are_read(small_words, split, tmp_path: Path) -> None:
    a, b, c = split.train[:3]
    game = GameRecord(a, tuple(TurnRecord(word, score_guess(a, word)) for word in (b, c, a)))
    limits = DatasetLimits(consistent_only=False)
    write_dataset([game], small_words, split, Prompter(), limits, tmp_path / "data")
    found = read_start_boards(tmp_path / "data_rl_start_states.jsonl", small_words, split, Rules(), outside=True)
    assert (found.starts, found.rejected) == ((InitialState(a, (b, c)),), {})
    found = read_start_boards(tmp_path / "data_rl_train.jsonl", small_words, split, Rules(), outside=True)
    assert (found.secrets, found.names_secrets) == (split.train, True)
    with pytest.raises(RunError, match=r"data_sft_train\.jsonl:1 "):
        read_start_boards(tmp_path / "data_sft_train.jsonl", small_words, split, Rules(), outside=True)


LISTED = {
    "prompts.jsonl": lambda words: "\n".join(json.dumps({"prompt": "play", "answer": word}) for word in words),
    "words.jsonl": lambda words: "\n".join(json.dumps({"word": word}) for word in words),
    "words.txt": "\n".join,
    "words.json": json.dumps,
    "words.csv": lambda words: "\n".join(["prompt,answer", *(f"play,{word.upper()}" for word in words)]),
    "histories.jsonl": lambda words: "\n".join(
        json.dumps({"prompt": "p", "secret": word, "past_guess_history": "[]"}) for word in words
    ),
}


@pytest.mark.parametrize("name", LISTED)
def test_secrets_are_read_however_they_are_listed(name: str, small_words, split, tmp_path: Path) -> None:
    (tmp_path / name).write_text(LISTED[name]((*split.train[:5], split.train[0], split.test[0])))
    found = read_start_boards(tmp_path / name, small_words, split, Rules(), outside=True)
    assert (found.secrets, found.names_secrets, found.rejected) == (split.train[:5], True, {"test_secret": 1})
    assert (found.fraction(), found.limited(2).secrets) == (1.0, split.train[:2])
    first = read_start_boards(Path(f"{tmp_path / name}[:3]"), small_words, split, Rules(), outside=True)
    assert first.secrets == split.train[:3]


def test_a_game_that_is_over_names_its_secret_and_one_that_is_not_is_a_board(read, split) -> None:
    a, b, c = split.train[:3]
    found = read(board(a, b, a), board(b, a), board(c, *[a, b] * 3))
    assert found.starts == (InitialState(a), InitialState(b, (a,)), InitialState(c))
    assert list(found.notes.values()) == [2]
    assert all(note in found.counted() for note in (str(found.path), ": 3;", *found.notes))
    assert (found.names_secrets, found.fraction()) == (False, 0.5)
    assert found.limited(2).starts == (InitialState(a), InitialState(b, (a,)))


def test_histories_of_other_projects_are_boards(read, split) -> None:
    a, b = split.train[:2]
    found = read({"secret": a, "prompt": "p", "past_guess_history": repr([[b.upper(), "whatever"]])})
    assert found.starts == (InitialState(a, (b,)),)
    with pytest.raises(RunError, match=r"starts\.jsonl:1 "):
        read({"secret": a, "past_guess_history": "[["})


def test_marks_in_a_file_count_for_nothing(read, split) -> None:
    a, b = split.train[:2]
    found = read({"word": a.upper(), "turns": [{"guess": b.upper(), "feedback": "GGGGG"}], "more": 1})
    assert found.starts == (InitialState(a, (b,)),)
    assert list(found.rows()) == [{"secret": a, "turns": [{"guess": b, "marks": score_guess(a, b), "given": True}]}]


def test_boards_on_which_no_training_game_may_go_on_are_counted_by_reason(read, split) -> None:
    a, b, c = split.train[:3]
    odd = {
        "unlisted_secret": [board("zzzzz"), board("word"), board("")],
        "val_secret": [board(split.val[0]), board(split.val[0], a)],
        "test_secret": [board(split.test[0], a)],
        "already_won": [board(a, a, b, a), board(a, a, b), board(a, *[b] * 6, a)],
        "too_many_turns": [board(a, *[b, c] * 3, b), board(a, *[b, c] * 4)],
        "unlisted_guess": [board(a, "zzzzz")],
        "wrong_length_guess": [board(a, "word"), board(a, "letters")],
        "malformed_guess": [board(a, "<gu>x"), board(a, ""), board(a, "crène")],
    }
    sound = board(a, *[b, c] * 2, c)
    found = read(*(row for rows in odd.values() for row in rows), sound)
    assert found.starts == (InitialState(a, (b, c, b, c, c)),)
    assert found.rejected == {reason: len(rows) for reason, rows in odd.items()}
    assert "starts.jsonl: 1; left out: 3 already_won, 3 malformed_guess, 1 test_secret, " in found.counted()


def test_the_rules_of_the_run_say_which_guesses_may_have_been_played(read, split) -> None:
    a = split.train[0]
    hint = next(word for word in split.train[1:] if "G" in score_guess(a, word) or "Y" in score_guess(a, word))
    ignoring = next(word for word in ("fuzzy", "lymph", "civic", "mamma", "vivid") if not {*word} & {*hint, *a})
    made_up, stray = board(a, "zzzzz"), board(a, hint, ignoring)
    for rules, sound in (
        (Rules(), [stray]),
        (Rules(dictionary=Dictionary.LENIENT), [made_up, stray]),
        (Rules(dictionary=Dictionary.APP), [stray]),
        (Rules(hard_mode=True), []),
        (Rules(max_turns=2), [stray]),  # which is over, and so names its secret
    ):
        found = read(made_up, stray, board(a), rules=rules)
        assert list(map(len, (found.starts, found.rejected.values()))) == [len(sound) + 1, 2 - len(sound)]


def test_a_secret_that_is_no_answer_is_used_only_where_something_is_learnt_without_a_win(read, small_words, split):
    rows = [board(small_words.outside[0]), board(split.train[0])]
    assert len(read(*rows, outside=True).starts) == 2
    assert read(*rows, outside=False).rejected == {"outside_secret": 1}
    regret = {"reward": {"weights": {"quick_regret": -6.0}}}
    learns = [GRPOTraining.model_validate(regret), DistillTraining(), DPOTraining()]
    asks = [GRPOTraining(), ExpertIterationTraining()]
    assert [settings.learns_without_wins for settings in (*learns, *asks)] == [True] * 3 + [False] * 2


def test_a_file_without_a_usable_row_is_refused_with_its_first_line(read, split) -> None:
    with pytest.raises(ConfigError, match="test_secret") as caught:
        read(board(split.test[0]), board("zzzzz"), board(split.test[0]))
    assert str(caught.value).endswith("in all 2 test_secret, 1 unlisted_secret")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"starts\.jsonl"):
        read()


@pytest.mark.parametrize(
    "row",
    [
        "{", "[1]", json.dumps({"name": "crane"}), json.dumps({"word": 3, "turns": []}),
        json.dumps({"word": "crane", "turns": "crate"}), json.dumps({"word": "crane", "turns": ["crate"]}),
        json.dumps({"word": "crane", "turns": [{"guess": None}]}),
    ],
)  # fmt: skip
def test_a_line_that_is_no_board_is_refused_by_its_number(row, small_words: WordList, split, tmp_path: Path) -> None:
    path = tmp_path / "starts.jsonl"
    path.write_text(json.dumps(board(split.train[0])) + f"\n{row}\n")
    with pytest.raises(RunError, match=r"starts\.jsonl:2 ") as caught:
        read_start_boards(path, small_words, split, Rules(), outside=True)
    assert "\n" not in str(caught.value)
