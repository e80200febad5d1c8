"""Laws of the free teacher: it sees the board only, and names what may still be the secret."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from wordle_rl.config import TeacherSettings
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.solver import Solver, encode_marks
from wordle_rl.teachers.solver import Advice, SolverTeacher, TeacherGames
from wordle_rl.words import WordList

PURE = TeacherSettings(random_opener_rate=0, noise_rate=0)
WILD = TeacherSettings(random_opener_rate=0.5, noise_rate=0.3)


@pytest.fixture(scope="module")
def teacher(small_words: WordList) -> SolverTeacher:
    return SolverTeacher(Solver(small_words))


@pytest.fixture(scope="module")
def big_teacher(default_words: WordList) -> SolverTeacher:
    return SolverTeacher(Solver(default_words))


def num_turns(games: TeacherGames) -> np.ndarray:
    """Turns played per game, shape (num_games,)."""
    return (games.guesses >= 0).sum(axis=1)


def won(games: TeacherGames) -> np.ndarray:
    """Whether each game found its secret, shape (num_games,)."""
    return (games.codes == encode_marks("GGGGG")).any(axis=1)


def turns_of(games: TeacherGames, game: int) -> list[int]:
    """The turns of a game, as numbers."""
    return list(range(int(num_turns(games)[game])))


def fitting(words: WordList, board: list[tuple[str, int]]) -> list[str]:
    """The answers that would have been marked as the board was, by the rules alone."""
    possible: Sequence[str] = words.answers
    for guess, code in board:
        possible = narrowed(possible, guess, code)
    return list(possible)


def narrowed(possible: Sequence[str], guess: str, code: int) -> list[str]:
    """The words that would have been marked as the turn was, by the rules alone."""
    return [word for word in possible if encode_marks(score_guess(word, guess)) == code]


def check_game(words: WordList, games: TeacherGames, game: int) -> None:
    """Replay one game by the rules."""
    secret = games.secrets[game]
    board: list[tuple[str, int]] = []
    possible: Sequence[str] = words.answers
    for turn in turns_of(games, game):
        guess, code = words.guesses[games.guesses[game, turn]], int(games.codes[game, turn])
        assert code == encode_marks(score_guess(secret, guess))
        assert games.remaining[game, turn] == len(possible) > 0
        if games.taught[game, turn]:
            assert guess in possible
        if games.classes[game, turn]:
            assert games.taught[game, turn]
            assert games.classes[game, turn] == len({score_guess(word, guess) for word in possible})
        assert secret not in [earlier for earlier, _ in board]
        board.append((guess, code))
        possible = narrowed(possible, guess, code)
    is_won = bool(board) and board[-1][0] == secret
    unplayed = slice(len(board), None)
    assert (games.guesses[game, unplayed] == -1).all()
    assert (games.codes[game, unplayed] == -1).all()
    assert not games.taught[game, unplayed].any()
    if not is_won:
        assert len(board) == games.guesses.shape[1] or not possible


def test_a_teacher_with_a_tree_plays_it_and_off_it_as_without(big_teacher: SolverTeacher) -> None:
    words, follows = big_teacher.words, PURE.model_copy(update={"opener": "salet", "plan": "tree"})
    tree = Solver(words).tree("salet")
    secrets = words.answers[::20]
    games = big_teacher.play(secrets, follows, seed=0)
    for game, secret in enumerate(secrets):
        assert tuple(words.guesses[guess] for guess in games.guesses[game] if guess >= 0) == tree.paths[secret]
    boards = [
        [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in path[:-1]]
        for secret, path in ((secret, tree.paths[secret]) for secret in secrets)
    ]
    advised = [big_teacher.advise(board, follows) for board in boards]
    assert [advice and advice.guess for advice in advised] == list(secrets)
    for advice, board in zip(advised, boards, strict=True):
        assert advice is not None
        possible = fitting(words, [(turn.guess or "", encode_marks(turn.marks or "")) for turn in board])
        assert advice.remaining == len(possible)
        assert advice.classes == len({score_guess(word, advice.guess) for word in possible})
    off = [Turn("fuzzy", score_guess("crane", "fuzzy"), Outcome.SCORED)]
    assert big_teacher.advise(off, follows) == big_teacher.advise(off, follows.model_copy(update={"plan": "classes"}))


def test_every_game_follows_the_rules_and_teaches_only_what_may_be_the_secret(teacher: SolverTeacher) -> None:
    words = teacher.words
    games = teacher.play(words.guesses * 10, WILD, seed=0)
    for game in range(len(games.secrets)):
        check_game(words, games, game)
    assert (games.taught == (games.guesses >= 0)).all()


def test_secrets_that_are_marked_alike_are_played_alike(big_teacher: SolverTeacher) -> None:
    """With one game and one seed, two secrets part ways only after a guess that marks them differently."""
    shared = 0
    for seed in range(4):
        games = [big_teacher.play([secret], WILD, seed) for secret in big_teacher.words.answers[:60]]
        for one, other in combinations(games, 2):
            for turn in range(6):
                if one.guesses[0, turn] < 0 or other.guesses[0, turn] < 0:
                    break
                assert one.guesses[0, turn] == other.guesses[0, turn]
                if one.codes[0, turn] != other.codes[0, turn]:
                    break
                shared += turn > 0
    assert shared > 100


def test_the_choice_splits_into_the_most_classes(teacher: SolverTeacher) -> None:
    words = teacher.words
    games = teacher.play(words.answers, PURE, seed=0)
    for game in range(len(games.secrets)):
        board: list[tuple[str, int]] = []
        for turn in turns_of(games, game):
            possible = fitting(words, board)
            if turn:
                most = max(len({score_guess(word, guess) for word in possible}) for guess in possible)
                assert games.classes[game, turn] == most
            board.append((words.guesses[games.guesses[game, turn]], int(games.codes[game, turn])))


def test_a_probe_makes_so_many_classes_more_than_any_possible_word() -> None:
    answers = ("batch", "catch", "hatch", "latch", "match", "patch", "watch")
    words = WordList("rhymes", answers, (*answers, "clamp", "zzzzz"))
    settings = PURE.model_copy(update={"plan": "probes"})
    games = SolverTeacher(Solver(words)).play(words.answers, settings, seed=0)
    probes = 0
    for game in range(len(games.secrets)):
        board: list[tuple[str, int]] = []
        for turn in turns_of(games, game):
            possible, guess = fitting(words, board), words.guesses[games.guesses[game, turn]]
            classes = {word: len({score_guess(secret, word) for secret in possible}) for word in words.guesses}
            best_possible = max(classes[word] for word in possible)
            if turn and guess in possible:
                assert max(classes.values()) < best_possible + 2
            elif turn:
                probes += 1
                assert classes[guess] == max(classes.values()) >= best_possible + 2
            board.append((guess, int(games.codes[game, turn])))
    assert probes


def test_pure_games_of_known_secrets_are_won_and_teach_every_turn(big_teacher: SolverTeacher) -> None:
    words = big_teacher.words
    games = big_teacher.play(words.answers[::3], PURE, seed=0)
    assert won(games).mean() > 0.97
    assert 3.3 < num_turns(games)[won(games)].mean() < 3.9
    assert np.array_equal(games.taught, games.guesses >= 0)


def test_the_rates_are_what_they_are_called(big_teacher: SolverTeacher) -> None:
    words = big_teacher.words
    games = big_teacher.play(words.answers[:1500], WILD, seed=2)
    later = games.guesses[:, 1:] >= 0
    chosen = (games.classes[:, 1:] > 0).sum() / later.sum()
    assert chosen == pytest.approx(0.7, abs=0.03)
    opener = np.bincount(games.guesses[:, 0]).max() / len(games.secrets)
    assert opener == pytest.approx(0.5, abs=0.05)


def test_the_opener_is_the_most_telling_answer_or_the_one_asked_for(
    teacher: SolverTeacher, small_words: WordList
) -> None:
    [opener] = {small_words.guesses[i] for i in teacher.play(small_words.answers, PURE, seed=0).guesses[:, 0]}
    solver = Solver(small_words)
    everything = solver.candidates([])
    best = max(solver.information_of(answer, everything) for answer in small_words.answers)
    assert opener in small_words.answers
    assert solver.information_of(opener, everything) == pytest.approx(best)
    asked = teacher.play(["crane"], PURE.model_copy(update={"opener": "qajaq"}), seed=0)
    assert small_words.guesses[asked.guesses[0, 0]] == "qajaq"


def test_letters_that_are_no_word_are_marked_by_the_rules_and_never_named(big_teacher: SolverTeacher) -> None:
    secrets = ["crane", "qzxjv", "aaaaa", "slate", "crono"] * 5
    games = big_teacher.play(secrets, WILD, seed=4)
    assert games.secrets == tuple(secrets)
    for game, secret in enumerate(secrets):
        for guess, code in zip(games.guesses[game], games.codes[game], strict=True):
            if guess >= 0:
                assert code == encode_marks(score_guess(secret, big_teacher.words.guesses[guess]))
    assert [bool(found) for found in won(games)] == [secret in ("crane", "slate") for secret in secrets]


def scored(secret: str, *guesses: str) -> list[Turn]:
    """A board."""
    return [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]


@pytest.mark.parametrize("plan", ["classes", "probes"])
def test_advice_is_what_the_teacher_plays_without_its_noise(big_teacher: SolverTeacher, plan: str) -> None:
    words = big_teacher.words
    settings = PURE.model_copy(update={"plan": plan})
    games = big_teacher.play(words.answers[::40], settings, seed=0)
    boards, played = [], []
    for game in range(len(games.secrets)):
        guesses = [words.guesses[games.guesses[game, turn]] for turn in turns_of(games, game)]
        for turn in turns_of(games, game)[:5]:  # on the last one the teacher may still probe
            boards.append(scored(games.secrets[game], *guesses[:turn]))
            played.append(Advice(guesses[turn], int(games.remaining[game, turn]), int(games.classes[game, turn])))
    assert [big_teacher.advise(board, settings) for board in boards] == played
    assert len(boards) > 200


def test_unscored_turns_rule_nothing_out_and_unlisted_words_that_were_scored_do(teacher: SolverTeacher) -> None:
    board = scored("trace", "crane")
    broken = [Turn(None, None, Outcome.MALFORMED), *board, Turn("qqqqq", None, Outcome.UNLISTED)]
    assert teacher.advise(broken, PURE) == teacher.advise(board, PURE)
    assert teacher.advise(broken[:1], PURE) == teacher.advise([], PURE)
    lenient = scored("trace", "crane", "ttrrr")
    advice = teacher.advise(lenient, PURE)
    fits = fitting(teacher.words, [(turn.guess or "", encode_marks(turn.marks or "")) for turn in lenient])
    assert "ttrrr" not in teacher.words
    assert advice is not None
    assert (advice.guess in fits, advice.remaining) == (True, len(fits))


def test_a_probe_is_advised_only_while_a_guess_is_left_to_make_use_of_it() -> None:
    answers = ("batch", "catch", "hatch", "latch", "match", "patch", "watch")
    words = WordList("rhymes", answers, (*answers, "clamp", "zzzzz"))
    settings = PURE.model_copy(update={"plan": "probes"})
    wasted = Turn(None, None, Outcome.MALFORMED)
    refused = Turn("qqqqq", None, Outcome.UNLISTED, costs_turn=False)
    board = scored("watch", "zzzzz")
    boards = [[*board, wasted], [*board, wasted, refused], [*board, wasted, wasted], [*board, wasted, wasted, refused]]
    teacher = SolverTeacher(Solver(words))
    advised = [teacher.advise(board, settings, max_turns=4) for board in boards]
    assert [advice is not None and advice.guess for advice in advised] == ["clamp", "clamp", "batch", "batch"]
