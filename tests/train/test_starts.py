"""Laws of where groups begin: a share on given boards, prefix guesses by a player, the same again by seed."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from training_fixtures import context_for

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import DistillSettings, DPOSettings, ExpertIterationSettings, GRPOSettings, StartSettings
from wordle_rl.data.dataset import DatasetLimits, write_dataset
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Dictionary, Outcome, Rules, Turn, hard_mode_fault, score_guess, violates_clues
from wordle_rl.prompt import Prompter
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.train.starts import GameSetup, GroupStarts, PrefixGuesses
from wordle_rl.train.starts_file import StartBoards, read_start_boards
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

SHARE = 0.4


@pytest.fixture
def starts(small_words):
    """Starts of the small words; the given boards have secrets that are not among those to choose from, too."""
    secrets = [secret for secret in (*small_words.answers, *small_words.outside) if secret > "d"]
    given = {"given_starts": tuple(InitialState(secret, ("crane",)) for secret in secrets), "starts_fraction": SHARE}
    context = context_for(small_words, Prompter(), Solver(small_words))

    def make(**changes) -> GroupStarts:
        setup = GameSetup(context, small_words.answers[:12], **given | changes)
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


def test_rates_of_made_up_secrets_are_of_all_groups(small_words) -> None:
    setup = GameSetup(context_for(small_words, Prompter(), Solver(small_words)), small_words.answers)
    rates = {"outside_rate": 0.5, "invented_rate": 0.3}
    drawn = GroupStarts(setup, StartSettings(), 3, prioritized_fraction=0.0, **rates).draw(4000, 0)
    assert [start.invented for start in drawn] == [start.secret not in small_words for start in drawn]
    kinds = Counter((start.invented, start.secret in small_words.answer_index) for start in drawn)
    shares = [kinds[kind] / 4000 for kind in ((True, False), (False, False), (False, True))]
    assert shares == pytest.approx([0.3, 0.5, 0.2], abs=0.03)
    assert all(start.invented for start in GroupStarts(setup, StartSettings(), 3, invented_rate=1.0).draw(50, 0))


def test_the_same_seed_step_process_and_refill_draw_the_same_and_others_do_not(starts) -> None:
    places = ((0,), (1,), (0, 1), (0, 0, 1), (1, 1, 1))
    first, again = starts(starts_fraction=1.0), starts(starts_fraction=1.0)
    seen = [first.draw(6, *numbers) for numbers in places]
    assert [again.draw(6, *numbers) for numbers in reversed(places)] == seen[::-1]
    assert len({tuple(drawn) for drawn in seen}) == 5


def test_boards_do_not_repeat_in_a_draw_while_there_are_enough(starts) -> None:
    whole = starts(starts_fraction=1.0)
    given = whole._setup.given_starts
    assert sorted(whole.draw(len(given), 0), key=str) == sorted(given, key=str)
    assert len(whole.draw(len(given) + 1, 0)) == len(given) + 1


def ended(start: InitialState, words):
    """The record of a game that was broken off where it began."""
    env = WordleEnv(start.secret, words, Prompter(), start.prefix_guesses)
    env.truncate(StopReason.TOKEN_BUDGET)
    return env.transcript()


def test_groups_from_a_board_leave_the_record_of_their_secret_alone(starts, small_words) -> None:
    boards = [InitialState("crane", ("speed",)), InitialState("qajaq", ("speed",)), InitialState("zonal")]
    mixed = starts(given_starts=(*boards, InitialState("drape")))
    for start in boards:
        mixed.note(ended(start, small_words), 0.7)
    assert mixed.picker.state() == {}
    mixed.note(ended(InitialState("crane"), small_words), 0.5)
    mixed.note(ended(InitialState("crate", ("speed",)), small_words), 0.25)
    mixed.note(ended(InitialState("drape"), small_words), 0.125)  # an empty board is the start of any game
    assert json.loads(json.dumps(mixed.picker.state())) == {"crane": 0.5, "crate": 0.25, "drape": 0.125}


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


def boards(drawn: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[str, list[Turn]]]:
    """Each guess with the turns before it."""
    for secret, guesses in drawn:
        turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
        yield from ((guess, turns[:place]) for place, guess in enumerate(guesses))


@pytest.mark.parametrize(("player", "hard_mode"), [*((player, False) for player in PLAYERS), ("random:5", True)])
def test_no_prefix_guess_is_the_secret_or_repeats_and_only_free_random_ones_contradict_the_board(
    player, hard_mode, solver
) -> None:
    found = drawn_prefixes(solver, player, 60, hard_mode)
    for secret, guesses in found:
        assert secret not in guesses
        assert len({*guesses}) == len(guesses) <= MOST
        assert all(guess in solver.words for guess in guesses)
    of_hints = [hard_mode_fault(guess, before) for guess, before in boards(found)]
    assert any(of_hints) == (player == "random:5" and not hard_mode)
    assert player == "random:5" or not any(violates_clues(guess, before) for guess, before in boards(found))


@pytest.mark.parametrize(("player", "count"), [("consistent:5", 400), ("random:5", 400), ("teacher:5", 250)])
def test_every_number_of_guesses_is_about_as_frequent_and_the_first_is_one_of_the_best_openers(
    player: str, count: int, solver: Solver
) -> None:
    drawn = [guesses for _, guesses in drawn_prefixes(solver, player, count)]
    assert {guesses[0] for guesses in drawn if guesses} == {scored.guess for scored in solver.best_openers(5)}
    found, even = Counter(map(len, drawn)), count / (MOST + 1)
    assert sorted(found) == [*range(MOST + 1)]
    assert all(abs(number - even) < 5 * even**0.5 for number in found.values()), found


# --- boards from a file: only those on which a training game may go on, each other row counted ---


@pytest.fixture
def split(small_words):
    return split_secrets(small_words)


@pytest.fixture
def read(small_words, split, tmp_path: Path):
    """Read a file, or rows through one."""

    def run(*given: dict | Path, rules: Rules | None = None, outside: bool = True, **more: bool) -> StartBoards:
        path = given[0] if given and isinstance(given[0], Path) else tmp_path / "starts.jsonl"
        if path not in given:
            write_jsonl(path, given)
        return read_start_boards(path, small_words, split, rules or Rules(), outside=outside, **more)

    return run


def board(secret: str, *guesses: str) -> dict[str, object]:
    return {"word": secret, "turns": [{"guess": guess} for guess in guesses]}


BOARDS = {
    "a history": lambda a, b: {"secret": a, "past_guess_history": [[b, score_guess(a, b)]]},
    "in other projects": lambda a, b: {"secret": a, "prompt": "p", "past_guess_history": f"[['{b.upper()}', 'any']]"},
    "marks that are wrong": lambda a, b: {"word": a.upper(), "turns": [{"guess": b.upper(), "feedback": "GGGGG"}]},
}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_read_however_it_is_written(name: str, read, split) -> None:
    a, b = split.train[:2]
    found = read(BOARDS[name](a, b))
    assert found.starts == (InitialState(a, (b,)),)
    rows = [*found.rows()]
    assert rows == [{"secret": a, "turns": [{"guess": b, "marks": score_guess(a, b), "given": True}]}]
    again = read(*rows)
    assert (again.starts, again.rejected) == (found.starts, {})


CHAT = [{"role": "system", "content": "rules"}, {"role": "user", "content": "play"}]
PROMPTS = {
    "play": CHAT[1:],
    "<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nplay<|im_end|>\n<|im_start|>assistant\n<think>": CHAT,
    json.dumps(CHAT): CHAT,
}


@pytest.mark.parametrize("given", PROMPTS)
def test_a_row_s_own_prompt_is_kept_on_request_and_rows_without_are_left_out(given, read, split) -> None:
    a, b = split.train[:2]
    prompt = json.loads(given) if given.startswith("[") else given
    secret, history = {"prompt": prompt, "answer": a}, {"prompt": prompt, "secret": a, "past_guess_history": [[b, ""]]}
    found = read(secret, history, {"answer": b}, {"prompt": [{"role": "user"}], "answer": b}, own_prompt=True)
    own = PROMPTS[given]
    assert [(start.prefix_guesses, [*start.prompt]) for start in found.starts] == [((), own), ((b,), own)]
    assert found.rejected == {"no_prompt": 1, "unreadable_messages": 1}
    assert found.fraction() == 1
    again = read(*found.rows(), own_prompt=True)
    assert [start.prompt for start in again.starts] == [start.prompt for start in found.starts]
    assert not any(start.prompt for start in read(secret, history).starts)


def test_the_start_states_of_a_data_set_are_read(read, small_words, split, tmp_path: Path) -> None:
    a, b, c = split.train[:3]
    game = GameRecord(a, tuple(TurnRecord(word, score_guess(a, word)) for word in (b, c, a)))
    limits = DatasetLimits(consistent_only=False)
    write_dataset([game], small_words, split, Prompter(), limits, tmp_path / "data")
    found = read(tmp_path / "data_rl_start_states.jsonl")
    assert (found.starts, found.rejected) == ((InitialState(a, (b, c)),), {})
    found = read(tmp_path / "data_rl_train.jsonl")
    assert (found.secrets, found.names_secrets) == (split.train, True)
    with pytest.raises(RunError, match=r"data_sft_train\.jsonl:1 "):
        read(tmp_path / "data_sft_train.jsonl")


LISTED = {
    "prompts.jsonl": lambda words: "\n".join(json.dumps({"prompt": "play", "answer": word}) for word in words),
    "words.jsonl": lambda words: "\n".join(json.dumps({"word": word}) for word in words),
    "words.txt": "\n".join,
    "words.json": json.dumps,
    "words.csv": lambda words: "\n".join(["prompt,answer", *(f"play,{word.upper()}" for word in words)]),
    "histories.jsonl": lambda words: "\n".join(
        json.dumps({"secret": word, "past_guess_history": "[]"}) for word in words
    ),
}


@pytest.mark.parametrize("name", LISTED)
def test_secrets_are_read_however_they_are_listed(name: str, read, split, tmp_path: Path) -> None:
    (tmp_path / name).write_text(LISTED[name]((*split.train[:5], split.train[0], split.test[0])))
    found = read(tmp_path / name)
    assert (found.secrets, found.names_secrets, found.rejected) == (split.train[:5], True, {"test_secret": 1})
    assert (found.fraction(), found.limited(2).secrets) == (1.0, split.train[:2])
    assert read(Path(f"{tmp_path / name}[:3]")).secrets == split.train[:3]


def test_a_game_that_is_over_names_its_secret_and_one_that_is_not_is_a_board(read, split) -> None:
    a, b, c = split.train[:3]
    found = read(board(a, b, a), board(b, a), board(c, *[a, b] * 3))
    assert found.starts == (InitialState(a), InitialState(b, (a,)), InitialState(c))
    assert list(found.notes.values()) == [2]
    assert (found.names_secrets, found.fraction()) == (False, 0.5)
    assert found.limited(2).starts == (InitialState(a), InitialState(b, (a,)))


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
    assert all(f"{count} {reason}" in found.counted() for reason, count in found.rejected.items())


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
    kinds = (DistillSettings, DPOSettings, ExpertIterationSettings, GRPOSettings)
    learns = [kind().learns_without_wins for kind in kinds]
    assert learns == [True, True, False, False]
    assert GRPOSettings.model_validate({"reward": {"weights": {"quick_regret": -6.0}}}).learns_without_wins


def test_a_file_without_a_usable_row_is_refused_with_its_first_line(read, split) -> None:
    with pytest.raises(ConfigError, match=r"starts\.file.*2 test_secret, 1 unlisted_secret$"):
        read(board(split.test[0]), board("zzzzz"), board(split.test[0]))
    with pytest.raises(ConfigError, match=r"starts\.file"):
        read()


@pytest.mark.parametrize(
    "row",
    [
        '{"word": "crane", "turns": "crate"}', '{"word": "crane", "turns": ["crate"]}',
        '{"word": "crane", "turns": [{"guess": null}]}', '{"secret": "crane", "past_guess_history": "[["}',
        '{"secret": "crane", "past_guess_history": NaN}', '{"secret": "crane", "past_guess_history": "nan"}',
    ],
)  # fmt: skip
def test_a_board_that_cannot_be_read_is_counted(row: str, read, split, tmp_path: Path) -> None:
    path = tmp_path / "given.jsonl"
    path.write_text(json.dumps(board(split.train[0])) + f"\n{row}\n")
    found = read(path)
    assert len(found.starts) == 1
    [(reason, number)] = found.rejected.items()
    assert (reason.startswith("unreadable_"), number) == (True, 1)


@pytest.mark.parametrize("row", ["{", "[1]", '{"name": "crane"}', '{"word": 3, "prompt": "p"}'])
def test_a_line_that_is_no_board_is_refused_by_its_number(row: str, read, split, tmp_path: Path) -> None:
    path = tmp_path / "given.jsonl"
    path.write_text(json.dumps(board(split.train[0])) + f"\n{row}\n")
    with pytest.raises(RunError, match=r"^[^\n]*given\.jsonl:2 [^\n]*$"):
        read(path)


def test_a_history_is_read_as_pandas_writes_it(read, split) -> None:
    a, b = split.train[:2]
    for guesses in ([b], [b, b]):
        pairs = "\n ".join(f"['{guess.upper()}' 'C(x) R(-)']" for guess in guesses)
        [start] = read({"secret": a, "past_guess_history": f"[{pairs}]"}).starts
        assert start.prefix_guesses == tuple(guesses)
