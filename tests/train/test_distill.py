"""Laws of distillation: every board the policy comes to gets what the teacher says there, whatever the secret."""

import re
from itertools import pairwise

import pytest
from distill_settings import PURE, Stumbling, change, games_of, labelled, train
from round_training import StopAtNote, fitted, same_bits
from scripted import say
from training_fixtures import compact, rows, small_model, weights_of

from wordle_rl.config import TeacherSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.game import score_guess, violates_clues
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.teachers.games import solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.distill import examples_of
from wordle_rl.train.scored_games import boards_of
from wordle_rl.words import WordListError


@pytest.fixture(scope="session")
def teacher(solver) -> SolverTeacher:
    return SolverTeacher(solver)


@pytest.fixture(scope="session")
def as_teacher(teacher):
    """A script that says what the teacher says."""
    return lambda _game_id, turns: say(teacher.advise(turns, PURE.teacher).guess)


@pytest.mark.parametrize("shape", Shape)
def test_every_board_is_labelled_by_its_scored_turns_broken_rules_or_not(shape, sixty, codec, teacher) -> None:
    stumbling, prompter = Stumbling(sixty), compact(shape)
    [game] = games_of(sixty, codec, [sixty.answers[40]], stumbling, prompter)
    texts, _, _, numbers = labelled(sixty, codec, [game], prompter)
    boards = [board for board, _, _ in boards_of(game)]
    assert [len(board.turns) for board in boards] == [0, 1, 2, 3, 4, 5]
    assert list(texts) == [board.prompt_ids for board in boards]
    said = list(texts.values())
    marks = score_guess(sixty.answers[40], stumbling.first)
    fitting = [say(word) for word in sixty.answers if score_guess(word, stumbling.first) == marks]
    assert said[1] == said[2] == said[3] in fitting
    assert said[4] == said[5] in fitting
    assert said[4] != say(stumbling.last)
    assert said == [say(teacher.advise(board.turns, PURE.teacher).guess) for board in boards]
    assert numbers == {"boards": 6.0, "labels": 6.0, "agreement_rate": 0.0}


def test_games_with_the_same_board_and_different_secrets_get_the_same_label(sixty, codec) -> None:
    opener, prompter = sixty.answers[0], compact(max_turns=2)
    alike: dict[str, list[str]] = {}
    for word in sixty.guesses[1:]:
        alike.setdefault(score_guess(word, opener), []).append(word)
    shared = [secrets for secrets in alike.values() if len(secrets) > 1]
    assert len(shared) > 5
    for secrets in shared:
        games = games_of(sixty, codec, secrets, lambda *_: say(opener), prompter)
        first, *others = [labelled(sixty, codec, [game], prompter)[0] for game in games]
        assert all(labels == first for labels in others)


def test_a_board_that_fits_no_answer_gets_no_label(sixty, codec, as_teacher) -> None:
    outside = [word for word in sixty.guesses if word not in sixty.answer_index]

    def script(game_id: int, turns: tuple) -> str:
        fits = [a for a in sixty.answers if not violates_clues(a, turns)]
        return as_teacher(game_id, turns) if fits else say(sixty.answers[0])

    games = games_of(sixty, codec, outside, script)
    texts, _, _, numbers = labelled(sixty, codec, games)
    assert 0 < numbers["labels"] < numbers["boards"]
    for game in games:
        for board, _, _ in boards_of(game):
            fits = [a for a in sixty.answers if not violates_clues(a, board.turns)]
            assert (board.prompt_ids in texts) == bool(fits)


def test_the_same_board_is_labelled_once_and_counts_towards_agreement_each_time(sixty, codec, as_teacher) -> None:
    secret = sixty.answers[40]
    games = games_of(sixty, codec, [secret] * 3, lambda i, turns: as_teacher(i, turns) if i else say(sixty.answers[3]))
    texts, _, _, numbers = labelled(sixty, codec, games)
    own = len(games[1].trajectory.transcript.turns)
    assert len(texts) == numbers["labels"] == own + 5
    assert numbers["boards"] == 2 * own + 6
    assert numbers["agreement_rate"] == 2 * own / (2 * own + 6)


@pytest.mark.parametrize("shape", Shape)
def test_a_game_played_as_the_teacher_plays_is_learnt_as_the_teacher_game_is(shape, sixty, codec, teacher) -> None:
    prompter = compact(shape)
    traces = list(solver_traces(sixty, sixty.answers, teacher, PURE, 0))
    lines = [[say(turn.guess) for turn in trace.turns] for trace in traces]
    games = games_of(sixty, codec, sixty.answers, lambda i, turns: lines[i][len(turns)], prompter)
    _, labels, _, numbers = labelled(sixty, codec, games, prompter)
    assert numbers["agreement_rate"] == 1.0
    learnt, taught = examples_of([*labels.values()]), encode_traces(traces, prompter, codec, 10**6).examples
    whole = sorted({tuple(e.token_ids) for e in taught})  # a game won early is the beginning of another
    goes_on = {one for one, other in pairwise(whole) if other[: len(one)] == one}
    assert {tuple(e.token_ids) for e in learnt} == set(whole) - goes_on
    if shape is Shape.TRANSCRIPT:  # the teacher's games share their opening, which is learnt once
        assert sum(sum(e.loss_mask) for e in learnt) < sum(sum(e.loss_mask) for e in taught)
        assert max(learnt, key=lambda e: sum(e.loss_mask)) in taught
    else:
        assert all(example in taught for example in learnt)


def test_each_label_is_learnt_in_one_sequence_after_the_very_prompt_it_was_made_for(sixty, codec, as_teacher) -> None:
    def script(game_id: int, turns: tuple) -> str:
        return as_teacher(game_id, turns) if len(turns) % 2 == game_id % 2 else say(sixty.answers[game_id])

    _, labels, _, _ = labelled(sixty, codec, games_of(sixty, codec, sixty.answers[20:40], script))
    examples = examples_of([*labels.values()])
    assert len(examples) < len(labels)
    found = []
    for example in examples:
        starts = [i for i, m in enumerate(example.loss_mask) if m and not example.loss_mask[i - 1]]
        for start in starts:
            stop = next((i for i in range(start, len(example.loss_mask)) if not example.loss_mask[i]), None)
            found.append((tuple(example.token_ids[:start]), tuple(example.token_ids[start:stop])))
    assert sorted(found) == sorted((label.prompt_ids, label.reply_ids) for label in labels.values())


def test_thinking_is_narrated_and_true_also_after_broken_rules(sixty, codec) -> None:
    prompter = Prompter(Style.ENGLISH, Shape.TRANSCRIPT, Thinking.REQUIRED)
    aloud = PURE.model_copy(update={"narrate": True})
    aloud = aloud.model_copy(update={"teacher": PURE.teacher.model_copy(update={"plan": "probes"})})
    replies = [f"<think>a</think><guess>{word}</guess>" for word in (sixty.answers[3], "zzzzz", sixty.answers[4])]
    games = games_of(
        sixty, codec, sixty.answers[::7], lambda _, turns: [*replies, "hm", "hm", "hm"][len(turns)], prompter
    )
    texts, *_ = labelled(sixty, codec, games, prompter, aloud)
    counted = 0
    for game in games:
        for board, _, _ in boards_of(game):
            if board.prompt_ids not in texts:
                continue
            said = prompter.parse(texts[board.prompt_ids])
            fits = [a for a in sixty.answers if not violates_clues(a, board.turns)]
            assert len(fits) > 1 or said.thinking.endswith(f"Only {fits[0]} fits.")
            assert not re.search(r"\d+ (word|group|answer)", said.thinking), "no count that a player cannot know"
            assert (said.word in fits) or f"{said.word} is none of them" in said.thinking
            counted += 1
    assert counted > 20
    silent, *_ = labelled(sixty, codec, games, Prompter(Style.ENGLISH, thinking=Thinking.OFF), aloud)
    assert not any("think" in text for text in silent.values())


def test_a_label_too_long_to_be_said_is_left_out_and_counted(sixty, codec, as_teacher) -> None:
    games = games_of(sixty, codec, sixty.answers[:1], as_teacher)
    texts, _, _, numbers = labelled(sixty, codec, games, limit=7)
    assert not texts
    assert numbers["labels"] == 0.0
    assert numbers["overlong_labels"] == numbers["boards"]
    assert len(labelled(sixty, codec, games, limit=8)[0]) == numbers["boards"]


@pytest.fixture
def seen(monkeypatch) -> list:
    """The items of each round, which are not trained on."""
    return fitted(monkeypatch)


def taught(items) -> set[tuple[int, ...]]:
    """The sequences of a round."""
    return {tuple(example.token_ids) for item in items for example in item}


def test_the_boards_of_the_last_round_are_learnt_again(sixty, codec, tokenizer, tmp_path, seen) -> None:
    train(small_model(tokenizer), codec, sixty, tmp_path, change(rounds=3), says=Stumbling(sixty))
    first, second, third = map(taught, seen)
    alone = second - first, third - second
    assert first < second
    assert all(alone)
    assert not first <= third, "the last round alone"
    assert all(len(examples) == len(taught(examples)) for examples in seen)
    new = [row["labels"] - row["new_boards"] for row in rows(tmp_path / "metrics.jsonl")]
    assert [more > 0 for more in new] == [False, True, True]


def test_teacher_games_make_up_their_share_of_all_games(sixty, codec, tokenizer, plain_traces, tmp_path, seen) -> None:
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() for trace in plain_traces])
    train(
        small_model(tokenizer),
        codec,
        sixty,
        tmp_path,
        change(rounds=3, replay_fraction=0.5),
        says=Stumbling(sixty),
    )
    found = rows(tmp_path / "metrics.jsonl")
    assert [row["all_examples"] - row["own_examples"] for row in found] == [6.0, 12.0, 12.0]
    teacher_games = taught([encode_traces(plain_traces, compact(), codec, 10**6).examples])
    assert all(taught(items[-6:]) <= teacher_games for items in seen)


def test_what_cannot_work_is_refused_before_a_game_is_played(sixty, codec, tokenizer, tmp_path) -> None:
    with pytest.raises(RunError, match=r"no file .*traces\.jsonl"):
        train(small_model(tokenizer), codec, sixty, tmp_path, change(replay_fraction=0.5))
    strange = PURE.model_copy(update={"teacher": TeacherSettings(opener="qqqqq")})
    with pytest.raises(WordListError, match="qqqqq"):
        train(small_model(tokenizer), codec, sixty, tmp_path, traces=strange)
    assert not (tmp_path / "secrets.jsonl").exists()


RESUMED = {targets: change(rounds=2, groups_per_round=4, targets=targets) for targets in ("guess", "distribution")}


@pytest.fixture(scope="module", params=RESUMED)
def whole(request, sixty, codec, tokenizer, tmp_path_factory):
    """The settings of a training that nobody interrupted, its weights and what it logged."""
    directory, settings = tmp_path_factory.mktemp("whole"), RESUMED[request.param]
    model = train(small_model(tokenizer), codec, sixty, directory, settings, says=Stumbling(sixty))
    return settings, weights_of(model), rows(directory / "metrics.jsonl")


@pytest.mark.parametrize("moment", ["round 2: playing", "round 2: step 1"])
def test_interrupted_and_resumed_equals_uninterrupted(moment, whole, sixty, codec, tokenizer, tmp_path) -> None:
    """While a round is played that goes back to the one before, and between two of its steps."""
    settings, weights, logged = whole
    says, stopping = Stumbling(sixty), StopAtNote(moment)
    with pytest.raises(KeyboardInterrupt):
        train(small_model(tokenizer), codec, sixty, tmp_path, settings, progress=stopping, says=says)
    assert not (tmp_path / "distill" / "model.safetensors").exists()

    # every weight must come from a checkpoint, every board of the first round from its file
    resumed = train(small_model(tokenizer, seed=5), codec, sixty, tmp_path, settings, says=says)
    assert same_bits(weights, weights_of(resumed))
    found = rows(tmp_path / "metrics.jsonl")
    for before, after in zip(logged, found, strict=True):
        names = ("step", "labels", "new_boards", "all_examples")
        assert [before[name] for name in names] == [after[name] for name in names]
