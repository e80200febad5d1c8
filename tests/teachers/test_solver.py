"""Laws of the free teacher: it sees the board only, and names what may still be the secret."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.game import Outcome, Rules, Turn, score_guess, violates_clues
from wordle_rl.solver import Solver, encode_marks
from wordle_rl.teachers.distribution import SolverDistribution
from wordle_rl.teachers.solver import Advice, SolverTeacher, TeacherGames
from wordle_rl.words import WordList

PURE = TeacherSettings(random_opener_rate=0, noise_rate=0)
WILD = TeacherSettings(random_opener_rate=0.5, noise_rate=0.3)
PROBING = PURE.model_copy(update={"plan": "probes"})
ANSWERS = ("batch", "catch", "hatch", "latch", "match", "patch", "watch")
RHYMES = WordList("rhymes", ANSWERS, (*ANSWERS, "clamp", "zzzzz"))


@pytest.fixture(scope="module")
def teacher(small_words: WordList) -> SolverTeacher:
    return SolverTeacher(Solver(small_words))


@pytest.fixture(scope="module")
def big_teacher(default_words: WordList) -> SolverTeacher:
    return SolverTeacher(Solver(default_words))


def said(words: WordList, games: TeacherGames, game: int) -> list[str]:
    return [words.guesses[guess] for guess in games.guesses[game] if guess >= 0]


def won(games: TeacherGames) -> np.ndarray:
    """Whether each game found its secret, shape (num_games,)."""
    return (games.codes == encode_marks("GGGGG")).any(axis=1)


def scored(secret: str, *guesses: str) -> list[Turn]:
    return [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]


def fitting(words: WordList, board: list[Turn]) -> list[str]:
    return [word for word in words.answers if not violates_clues(word, board)]


def num_classes(guess: str, possible: list[str]) -> int:
    return len({score_guess(word, guess) for word in possible})


def states(words: WordList, games: TeacherGames) -> Iterator[tuple[tuple[int, int], str, list[str]]]:
    """(game, turn), guess, and the answers that the marks before it leave, by the rules alone."""
    for game, secret in enumerate(games.secrets):
        board = scored(secret, *said(words, games, game))
        for turn, played in enumerate(board):
            yield (game, turn), str(played.guess), fitting(words, board[:turn])


def test_a_teacher_with_a_tree_plays_it_and_off_it_as_without(big_teacher: SolverTeacher) -> None:
    words, follows = big_teacher.words, PURE.model_copy(update={"opener": "salet", "plan": "tree"})
    tree = Solver(words).tree("salet")
    secrets = words.answers[::20]
    games = big_teacher.play(secrets, follows, seed=0)
    assert [tuple(said(words, games, game)) for game in range(len(secrets))] == [tree.paths[s] for s in secrets]
    boards = [scored(secret, *tree.paths[secret][:-1]) for secret in secrets]
    advised = [big_teacher.advise(board, follows) for board in boards]
    assert [advice and advice.guess for advice in advised] == list(secrets)
    for advice, board in zip(advised, boards, strict=True):
        possible = fitting(words, board)
        assert (advice.remaining, advice.classes) == (len(possible), num_classes(advice.guess, possible))
    off = scored("crane", "fuzzy")
    assert big_teacher.advise(off, follows) == big_teacher.advise(off, follows.model_copy(update={"plan": "classes"}))


def test_every_game_follows_the_rules_and_teaches_only_what_may_be_the_secret(teacher: SolverTeacher) -> None:
    words = teacher.words
    games = teacher.play(words.guesses * 10, WILD, seed=0)
    assert (games.taught == (games.guesses >= 0)).all()
    assert ((games.codes < 0) == (games.guesses < 0)).all()
    for at, guess, possible in states(words, games):
        assert games.codes[at] == encode_marks(score_guess(games.secrets[at[0]], guess))
        assert games.remaining[at] == len(possible)
        assert guess in possible
        assert games.classes[at] in (0, num_classes(guess, possible))
    for game, secret in enumerate(games.secrets):
        guesses = said(words, games, game)
        assert secret not in guesses[:-1]
        ended = secret in guesses or len(guesses) == games.guesses.shape[1]
        assert ended or not fitting(words, scored(secret, *guesses))


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
    games = teacher.play(teacher.words.answers, PURE, seed=0)
    for at, _, possible in states(teacher.words, games):
        if at[1]:
            assert games.classes[at] == max(num_classes(word, possible) for word in possible)


def test_a_probe_makes_so_many_classes_more_than_any_possible_word() -> None:
    probes = 0
    games = SolverTeacher(Solver(RHYMES)).play(RHYMES.answers, PROBING, seed=0)
    for (_, turn), guess, possible in states(RHYMES, games):
        classes = {word: num_classes(word, possible) for word in RHYMES.guesses}
        best_possible = max(classes[word] for word in possible)
        if turn and guess in possible:
            assert max(classes.values()) < best_possible + 2
        elif turn:
            probes += 1
            assert classes[guess] == max(classes.values()) >= best_possible + 2
    assert probes


def test_pure_games_of_known_secrets_are_won_and_teach_every_turn(big_teacher: SolverTeacher) -> None:
    words = big_teacher.words
    games = big_teacher.play(words.answers[::3], PURE, seed=0)
    assert won(games).mean() > 0.97
    assert 3.3 < (games.guesses >= 0).sum(axis=1)[won(games)].mean() < 3.9
    assert np.array_equal(games.taught, games.guesses >= 0)


def test_the_rates_are_what_they_are_called(big_teacher: SolverTeacher) -> None:
    games = big_teacher.play(big_teacher.words.answers[:1500], WILD, seed=2)
    later = games.guesses[:, 1:] >= 0
    chosen = (games.classes[:, 1:] > 0).sum() / later.sum()
    assert chosen == pytest.approx(0.7, abs=0.03)
    opener = np.bincount(games.guesses[:, 0]).max() / len(games.secrets)
    assert opener == pytest.approx(0.5, abs=0.05)


def test_the_opener_is_the_most_telling_answer_or_the_one_asked_for(teacher: SolverTeacher, small_words) -> None:
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
        marks = [turn.marks for turn in scored(secret, *said(big_teacher.words, games, game))]
        assert [code for code in games.codes[game] if code >= 0] == [*map(encode_marks, marks)]
    assert [bool(found) for found in won(games)] == [secret in ("crane", "slate") for secret in secrets]


@pytest.mark.parametrize("plan", ["classes", "probes"])
def test_advice_is_what_the_teacher_plays_without_its_noise(big_teacher: SolverTeacher, plan: str) -> None:
    words = big_teacher.words
    settings = PURE.model_copy(update={"plan": plan})
    games = big_teacher.play(words.answers[::40], settings, seed=0)
    boards, played = [], []
    for game, secret in enumerate(games.secrets):
        board = scored(secret, *said(words, games, game))
        for turn, at in enumerate(board[:5]):  # on the last one the teacher may still probe
            boards.append(board[:turn])
            played.append(Advice(at.guess, int(games.remaining[game, turn]), int(games.classes[game, turn])))
    assert [big_teacher.advise(board, settings) for board in boards] == played
    assert len(boards) > 200


def test_unscored_turns_rule_nothing_out_and_unlisted_words_that_were_scored_do(teacher: SolverTeacher) -> None:
    board = scored("trace", "crane")
    broken = [Turn(None, None, Outcome.MALFORMED), *board, Turn("qqqqq", None, Outcome.UNLISTED)]
    assert teacher.advise(broken, PURE) == teacher.advise(board, PURE)
    assert teacher.advise(broken[:1], PURE) == teacher.advise([], PURE)
    lenient = scored("trace", "crane", "ttrrr")
    advice = teacher.advise(lenient, PURE)
    fits = fitting(teacher.words, lenient)
    assert "ttrrr" not in teacher.words
    assert (advice.guess in fits, advice.remaining) == (True, len(fits))


def test_a_probe_is_advised_only_while_a_guess_is_left_to_make_use_of_it() -> None:
    wasted = Turn(None, None, Outcome.MALFORMED)
    refused = Turn("qqqqq", None, Outcome.UNLISTED, costs_turn=False)
    board = scored("watch", "zzzzz")
    boards = [[*board, wasted], [*board, wasted, refused], [*board, wasted, wasted], [*board, wasted, wasted, refused]]
    teacher = SolverTeacher(Solver(RHYMES))
    advised = [teacher.advise(board, PROBING, max_turns=4) for board in boards]
    assert [advice.guess for advice in advised] == ["clamp", "clamp", "batch", "batch"]


def test_no_probe_is_played_on_the_last_turn() -> None:
    teacher = SolverTeacher(Solver(RHYMES))
    for turns in (2, 3, 4):
        games = teacher.play(RHYMES.answers * 3, PROBING, seed=1, max_turns=turns)
        last = games.guesses[:, turns - 1]
        assert (last >= 0).any()
        assert {RHYMES.guesses[guess] for guess in last[last >= 0]} <= {*RHYMES.answers}


def test_a_tree_is_that_of_the_turns_there_are(big_teacher: SolverTeacher, default_words: WordList) -> None:
    planned = PURE.model_copy(update={"plan": "tree", "opener": "crane"})
    games = big_teacher.play(default_words.answers, planned, seed=0, max_turns=3)
    paths = Solver(default_words).tree("crane", max_turns=3).paths
    assert won(games).sum() == sum(path[-1] == secret for secret, path in paths.items()) == 1498


def test_an_opener_that_is_no_answer_needs_a_turn_to_follow() -> None:
    teacher, opening = SolverTeacher(Solver(RHYMES)), PURE.model_copy(update={"opener": "clamp"})
    refused = Turn("qqqqq", None, Outcome.UNLISTED)
    named = [teacher.advise([refused] * count, opening).guess for count in (4, 5)]
    assert named[0] == "clamp"
    assert named[1] in ANSWERS
    assert said(RHYMES, teacher.play(["match"], opening, seed=0, max_turns=1), 0)[0] in ANSWERS
    labels = SolverDistribution(Solver(RHYMES), 0.1, Rules(), "clamp")
    assert [set(labels([refused] * count).words) for count in (4, 5)] == [{"clamp"}, {*ANSWERS}]
