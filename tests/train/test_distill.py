"""Laws of distillation: every board the policy comes to gets what the teacher says there, whatever the secret."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from algorithm_settings import DISTILL, PURE, train_by
from round_training import games_of, gradient_norm, learner_of, playing, setup_for, token_logprobs
from sampled_games import padded_model
from scripted import say
from training_fixtures import compact, fast, make_run, rows, small_model

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import DistillSettings
from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.game import Rules, violates_clues
from wordle_rl.policy.loading import save_model
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.runs.lineage import Lineage, lineage_of
from wordle_rl.teachers.distribution import SolverDistribution, SolverGuess
from wordle_rl.teachers.games import solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.distill import (
    Label,
    Labeller,
    ModelTeacher,
    directory_of,
    examples_of,
    next_token_targets,
    rows_up_to,
)
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.logprobs import Scorer, Scores
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.train.micro_batches import Batch
from wordle_rl.train.scored_games import boards_of
from wordle_rl.words import WordListError


def change(**changes: object) -> DistillSettings:
    return DISTILL.model_copy(update=changes)


def stumbling(words):
    """A listed word, then a reply that cannot be read, an unlisted word, and another listed word ever after."""
    first, last = map(say, words.answers[3:5])
    return lambda _game_id, turns: [first, "zz", say("zzzzz"), last, last, last][len(turns)]


def labelled(words, codec, games, prompter=None, traces=PURE, limit=500, seed=0, **changes):
    """What is to be said at the boards of these games, by prompt, the labels, their record, and the numbers to log."""
    sampling = SamplingSettings(max_completion_tokens=limit)
    setup = replace(setup_for(words, prompter or compact()), sampling=sampling)
    labels, record, numbers = Labeller(codec, setup, change(**changes), traces).label(games, seed)
    return {prompt: codec.text_of(label.reply_ids) for prompt, label in labels.items()}, labels, record, numbers


def train(model, codec, words, directory, settings=DISTILL, *, traces=PURE):
    """Train on the games of a policy that stumbles."""
    setup = setup_for(words, compact())
    player = playing(stumbling(words), codec)
    train_by(settings, learner_of(model, codec), setup, make_run(directory, words), traces=traces, open_policy=player)
    return model


@pytest.fixture(scope="session")
def teacher(solver) -> SolverTeacher:
    return SolverTeacher(solver)


@pytest.fixture(scope="session")
def as_teacher(teacher):
    """A script that says what the teacher says."""
    return lambda _game_id, turns: say(teacher.advise(turns, PURE.teacher).guess)


@pytest.mark.parametrize("shape", Shape)
def test_every_board_is_labelled_by_its_scored_turns_broken_rules_or_not(shape, sixty, codec, teacher) -> None:
    prompter = compact(shape)
    [game] = games_of(sixty, codec, [sixty.answers[40]], stumbling(sixty), prompter)
    texts, _, _, numbers = labelled(sixty, codec, [game], prompter)
    boards = [board for board, _, _ in boards_of(game.trajectory)]
    assert [len(board.turns) for board in boards] == [0, 1, 2, 3, 4, 5]
    assert list(texts) == [board.prompt_ids for board in boards]
    said = list(texts.values())
    assert said == [say(teacher.advise(board.turns, PURE.teacher).guess) for board in boards]
    assert said[1] == said[2] == said[3], "a turn that is not scored changes nothing"
    assert numbers == {"boards": 6.0, "labels": 6.0, "agreement_rate": 0.0}


def test_a_board_that_fits_no_answer_gets_no_label(sixty, codec, as_teacher) -> None:
    outside = [word for word in sixty.guesses if word not in sixty.answer_index]

    def script(game_id: int, turns: tuple) -> str:
        fits = [a for a in sixty.answers if not violates_clues(a, turns)]
        return as_teacher(game_id, turns) if fits else say(sixty.answers[0])

    games = games_of(sixty, codec, outside, script, compact())
    texts, _, _, numbers = labelled(sixty, codec, games)
    assert 0 < numbers["labels"] < numbers["boards"]
    for game in games:
        for board, _, _ in boards_of(game.trajectory):
            fits = [a for a in sixty.answers if not violates_clues(a, board.turns)]
            assert (board.prompt_ids in texts) == bool(fits)


@pytest.mark.parametrize("shape", Shape)
def test_a_game_played_as_the_teacher_plays_is_learnt_as_the_teacher_game_is(shape, sixty, codec, teacher) -> None:
    prompter = compact(shape)
    traces = list(solver_traces(sixty.answers, teacher, PURE, 0))
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
    elif shape is Shape.STATE:  # in spoken shape turns without thinking are beginnings of later ones, too
        assert all(example in taught for example in learnt)


def test_thinking_is_the_teachers_also_after_broken_rules(sixty, solver, codec) -> None:
    prompter = Prompter(Style.ENGLISH, Shape.TRANSCRIPT, Thinking.REQUIRED)
    aloud = PURE.model_copy(update={"narrate": True, "teacher": PURE.teacher.model_copy(update={"plan": "probes"})})
    replies = [f"<think>a</think>{say(word)}" for word in (sixty.answers[3], "zzzzz", sixty.answers[4])]
    script = lambda _, turns: [*replies, "hm", "hm", "hm"][len(turns)]  # noqa: E731
    games = games_of(sixty, codec, sixty.answers[::7], script, prompter)
    texts, *_ = labelled(sixty, codec, games, prompter, aloud)
    teacher = SolverGuess(solver, aloud, prompter)
    told = [board for game in games for board, _, _ in boards_of(game.trajectory) if board.prompt_ids in texts]
    assert len(told) > 20
    for board in told:
        said, expected = prompter.parse(texts[board.prompt_ids]), teacher(board.turns)
        assert (said.word, said.thinking) == (expected.words[0], expected.thinking.strip())
        fits = [a for a in sixty.answers if not violates_clues(a, board.turns)]
        assert len(fits) > 1 or fits[0] in said.thinking
    silent, *_ = labelled(sixty, codec, games, Prompter(Style.ENGLISH, thinking=Thinking.OFF), aloud)
    assert not any("think" in text for text in silent.values())


def test_a_label_too_long_to_be_said_is_left_out_and_counted(sixty, codec, as_teacher) -> None:
    games = games_of(sixty, codec, sixty.answers[:1], as_teacher, compact())
    texts, _, _, numbers = labelled(sixty, codec, games, limit=7)
    assert not texts
    assert numbers["labels"] == 0.0
    assert numbers["overlong_labels"] == numbers["boards"]
    assert len(labelled(sixty, codec, games, limit=8)[0]) == numbers["boards"]


def taught(items) -> set[tuple[int, ...]]:
    """The sequences of a round."""
    return {tuple(example.token_ids) for item in items for example in item}


def test_the_boards_of_the_last_round_are_learnt_again(sixty, codec, tokenizer, tmp_path, seen) -> None:
    train(small_model(tokenizer), codec, sixty, tmp_path, change(rounds=3))
    first, second, third = map(taught, seen)
    assert first < second
    assert second - first
    assert third - second
    assert not first <= third, "the last round alone"
    assert all(len(examples) == len(taught(examples)) for examples in seen)
    new = [row["labels"] - row["new_boards"] for row in rows(tmp_path / "metrics.jsonl")]
    assert [more > 0 for more in new] == [False, True, True]


def test_teacher_games_make_up_their_share_of_all_games(sixty, codec, tokenizer, plain_traces, tmp_path, seen) -> None:
    make_run(tmp_path, sixty)
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() for trace in plain_traces])
    train(small_model(tokenizer), codec, sixty, tmp_path, change(rounds=3, replay_fraction=0.5))
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


# --- soft targets ---


def test_on_average_over_drawn_words_the_gradient_is_that_of_the_cross_entropy_over_words(codec, tokenizer) -> None:
    """Every word is drawn once and counts by its chance; the other side knows neither trie nor soft targets."""
    model, prompt = small_model(tokenizer), (5, 6, 7)
    words, chances = ("crane", "crate", "slate", "think"), (0.4, 0.3, 0.2, 0.1)
    replies = [codec.reply_ids(say(word)) for word in words]
    scorer, weights = Scorer(model), [*model.parameters()]

    mean, whole = 0.0, 0.0
    for drawn, (chance, reply) in enumerate(zip(chances, replies, strict=True)):
        label = Label(prompt, tuple(reply), next_token_targets(replies, chances, drawn))
        batch = Batch.of(examples_of([label]), [1.0], codec.pad_id)
        mean = mean + chance * CrossEntropy()(Scores(*scorer(batch)), batch)[0]
        whole = whole - chance * token_logprobs(model, prompt, reply).sum()
    assert mean.item() == pytest.approx(whole.item(), rel=1e-5)
    by_words = torch.autograd.grad(whole, weights)
    for one, other in zip(torch.autograd.grad(mean, weights), by_words, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert max(float(gradient.abs().max()) for gradient in by_words) > 1e-2


def test_rows_with_distributions_and_rows_without_share_a_batch(codec, tokenizer) -> None:
    model, learner = small_model(tokenizer), learner_of(small_model(tokenizer), codec)
    hard = Example([5, 6, 7, 8], [0, 1, 0, 1])
    soft = Example([5, 9, 10], [0, 1, 1], soft_targets=[[(9, 0.25), (11, 0.75)], [(10, 1.0)]])
    scores = model(input_ids=torch.tensor([[5, 6, 7, 8], [5, 9, 10, 0]])).logits.log_softmax(-1)
    tokens = [scores[0, 0, 6], scores[0, 2, 8], 0.25 * scores[1, 0, 9] + 0.75 * scores[1, 0, 11], scores[1, 1, 10]]
    loss = -torch.stack(tokens).mean()
    norm = gradient_norm(model, loss)
    learner.start(fast(), 1)
    done = learner.update([[hard, soft]], CrossEntropy(), 1)
    assert done.loss == pytest.approx(loss.item(), rel=1e-5)
    assert done.grad_norm == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize("shape", Shape)
def test_each_label_is_learnt_once_with_its_own_distributions(shape, sixty, codec) -> None:
    prompter = compact(shape)
    script = lambda game_id, turns: say(sixty.answers[(7 * game_id + 11 * len(turns)) % 60])  # noqa: E731
    games = games_of(sixty, codec, sixty.answers[:30], script, prompter)
    _, labels, *_ = labelled(sixty, codec, games, prompter, targets="distribution")
    learnt, expected = [], []
    for example in examples_of([*labels.values()]):
        places = [place for place, m in enumerate(example.loss_mask, start=1) if m]
        learnt += [(tuple(example.token_ids[:p]), t) for p, t in zip(places, example.soft_targets, strict=True)]
    for label in labels.values():
        places = range(len(label.prompt_ids) + 1, len(label.token_ids) + 1)
        expected += [(label.token_ids[:p], t) for p, t in zip(places, label.targets, strict=True)]
    assert sorted(learnt) == sorted(expected)


def test_words_are_drawn_by_their_chances_from_seed_and_board_alone(sixty, codec, solver) -> None:
    game = games_of(sixty, codec, sixty.answers[40:41], stumbling(sixty), compact())
    others = games_of(sixty, codec, sixty.answers[41:42], stumbling(sixty), compact())
    said: Counter[str] = Counter()
    for seed in range(100):
        texts, *_ = labelled(sixty, codec, game, targets="distribution", teacher_temperature=0.3, seed=seed)
        opening = next(iter(texts))
        said[texts[opening]] += 1
        if seed < 5:
            again, *_ = labelled(sixty, codec, others, targets="distribution", teacher_temperature=0.3, seed=seed)
            assert again[opening] == texts[opening], "whatever the secret"
    expected = SolverDistribution(solver, 0.3, Rules())([])
    for word, chance in sorted(zip(expected.words, expected.chances, strict=True), key=lambda pair: -pair[1])[:3]:
        assert said[say(word)] / 100 == pytest.approx(chance, abs=3 * math.sqrt(chance / 100))


def test_agreement_entropy_and_record_are_those_of_the_distribution(sixty, codec, solver) -> None:
    ask = SolverDistribution(solver, 0.1, Rules())

    def script(game_id: int, turns: tuple) -> str:
        said = ask(turns)
        likeliest = said.words[said.chances.index(max(said.chances))]
        return say(sixty.answers[30 + game_id] if len(turns) == 1 else likeliest)

    games = games_of(sixty, codec, sixty.answers[:10], script, compact())
    _, labels, record, numbers = labelled(sixty, codec, games, targets="distribution")
    boards = [board for game in games for board, _, _ in boards_of(game.trajectory)]
    guesses = [turn.turn.guess for game in games for turn in game.trajectory.transcript.turns]
    agreed = [ask(board.turns).is_likeliest(guess) for board, guess in zip(boards, guesses, strict=True)]
    assert 0.3 < numbers["agreement_rate"] < 1
    assert numbers["agreement_rate"] == pytest.approx(sum(agreed) / len(agreed))
    different = {board.prompt_ids: board for board in boards}
    entropies = [ask(board.turns).entropy for board in different.values()]
    assert numbers["teacher_entropy"] == pytest.approx(sum(entropies) / len(entropies))
    for row, board, label in zip(record, different.values(), labels.values(), strict=True):
        named = row["turns"][-1]
        assert say(named["guess"]) == codec.text_of(label.reply_ids)
        assert sorted([named["guess"], *named.get("others", ())]) == sorted(ask(board.turns).words)


# --- another model as the teacher ---


def test_a_teachers_targets_are_its_own_next_tokens_at_every_token_of_the_replies(sixty, codec, tokenizer, tmp_path):
    teacher = small_model(tokenizer, seed=5)
    save_model(teacher, codec, tmp_path / "teacher")
    [game] = games_of(sixty, codec, [sixty.answers[7]], stumbling(sixty), compact())
    rows = [row for row in rows_up_to(game, 2) if any(row.loss_mask)]
    [taught], agreement = ModelTeacher(tmp_path / "teacher", codec)(rows)
    ids = torch.tensor([taught.token_ids])
    wanted = teacher.eval()(input_ids=ids).logits[0].softmax(-1)
    places = [place for place, trained in enumerate(taught.loss_mask) if trained]
    assert len(taught.soft_targets) == len(places)
    for place, pairs in zip(places, taught.soft_targets, strict=True):
        kept = [token for token, _ in pairs]
        exact = wanted[place - 1, kept] / wanted[place - 1, kept].sum()
        torch.testing.assert_close(torch.tensor([chance for _, chance in pairs]), exact, atol=1e-5, rtol=1e-4)
        assert kept[0] == int(wanted[place - 1].argmax())
    learnt = [taught.token_ids[place] for place in places]
    likeliest = [pairs[0][0] for pairs in taught.soft_targets]
    assert agreement == sum(a == b for a, b in zip(learnt, likeliest, strict=True)) / len(places)
    assert learnt == [*codec.reply_ids(say(sixty.answers[3])), *codec.reply_ids("zz")], "the first two replies"


def test_a_teacher_says_no_id_that_its_pupil_does_not_have(sixty, codec, tokenizer, tmp_path) -> None:
    """Models of one tokenizer pad their vocabularies differently."""
    save_model(padded_model(tokenizer), codec, tmp_path / "teacher")
    [game] = games_of(sixty, codec, [sixty.answers[7]], stumbling(sixty), compact())
    row = next(row for row in rows_up_to(game, 1) if any(row.loss_mask))
    [taught], _ = ModelTeacher(tmp_path / "teacher", codec)([row])
    assert {token for pairs in taught.soft_targets for token, _ in pairs} <= {*tokenizer.get_vocab().values()}
    pupil = Scorer(small_model(tokenizer))
    assert bool(pupil(Batch.of([taught], [1.0], 0))[0].isfinite().all())


def test_a_policy_comes_to_play_as_its_teacher_model(sixty, codec, tokenizer, tmp_path) -> None:
    settings = change(rounds=6, groups_per_round=32, targets="bundled", batch_size=16, optimizer=fast())
    learner = learner_of(small_model(tokenizer), codec)
    train_by(settings, learner, setup_for(sixty, compact()), make_run(tmp_path, sixty), traces=PURE)
    found = rows(tmp_path / "metrics.jsonl")
    assert found[-1]["loss"] < found[0]["loss"] - 1, "nats a token, on replies of its own each time"
    assert found[-1]["agreement_rate"] > 2 * found[0]["agreement_rate"]


def test_a_teacher_model_is_refused_if_it_is_not_there_or_has_other_tokens(tmp_path, codec, tokenizer) -> None:
    with pytest.raises(ValueError, match="targets"):
        DistillSettings(targets=str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"distill\.targets"):
        ModelTeacher(tmp_path, codec)
    other = ChatCodec(make_tokenizer())
    other.tokenizer.add_tokens(["crane"])
    save_model(small_model(other.tokenizer), other, tmp_path / "other")
    with pytest.raises(ConfigError, match=r"distill\.targets"):
        ModelTeacher(tmp_path / "other", codec)


def test_what_a_teacher_model_has_met_counts_as_met_by_its_pupil() -> None:
    bundled = directory_of(Path("bundled"))
    known = lineage_of(bundled)
    own = Lineage(game=known.game, lessons=(known.lessons[0].model_copy(update={"split_seed": 9}),))
    assert own.taught_by(bundled).lessons == (*known.lessons, *own.lessons)
