"""Laws of training by rounds: what is played, learnt and replayed, and what is on record of it."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from algorithm_settings import DISTILL, DPO, EXPERT_ITERATION, train_by
from round_training import learner_of, playing, setup_for
from scripted import REASON, fail, say
from training_fixtures import compact, fast, make_run, rows, same_bits, small_model, training_of, weights_of

from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.stages import ExpertIterationSettings, RoundSettings
from wordle_rl.config.training import RLOptimizerSettings, SamplingSettings
from wordle_rl.evaluate.strata import shown_in
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.runs.trackers import GameLog
from wordle_rl.solver import Solver
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.expert_iteration import expert_iteration
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import PlayedGames, Stage, learn_by_play
from wordle_rl.train.round_method import RoundMethod
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.teacher_replay import Replay, draw_games
from wordle_rl.words.split import split_secrets, words_of_text

SETTINGS = RoundSettings(rounds=3, groups_per_round=3, group_size=2, optimizer=fast(), sample_games=2)


class Teaching:
    """Makes a method that finds nothing to learn but what it is made with, and remembers what was played."""

    def __init__(self, *items: list[Example]) -> None:
        self.items, self.played = items, []

    def __call__(self, stage: Stage, settings: RoundSettings) -> RoundMethod:
        teaching = self

        class Method(RoundMethod):
            def choose(self, played):
                return teaching.choose(played)

        return Method(stage, settings)

    def choose(self, played):
        self.played.append(played)
        return [*self.items], {}


@pytest.fixture
def train(tokenizer, codec, sixty, tmp_path):
    """Trains by rounds; its learner."""

    def run(method: Teaching, settings=SETTINGS, tokens: int = 6, directory: str = "") -> TorchLearner:
        learner = learner_of(small_model(tokenizer), codec)
        sampling = SamplingSettings(max_completion_tokens=tokens)
        setup = replace(setup_for(sixty, compact(max_turns=3)), sampling=sampling)
        learn_by_play(method, training_of(learner, make_run(tmp_path / directory, sixty), "practice"), setup, settings)
        return learner

    return run


def test_a_round_plays_the_groups_it_was_asked_for_and_learns_what_was_chosen(train, seen, tmp_path) -> None:
    method = Teaching([Example([1, 2], [0, 1])])
    train(method, SETTINGS.model_copy(update={"temperature": 0.7}))
    secrets = [row["secrets"] for row in rows(tmp_path / "secrets.jsonl")]
    for played, drawn in zip(method.played, secrets, strict=True):
        games = [[game.trajectory.transcript.secret for game in group] for group in played.groups]
        assert games == [[secret] * 2 for secret in drawn]
    assert len({played.seed for played in method.played}) == 3
    assert {played.sampler.settings.temperature for played in method.played} == {0.7}
    assert seen == [[*method.items]] * 3


def test_a_rate_of_the_secrets_are_listed_words_that_are_no_answers(train, sixty, tmp_path) -> None:
    method = Teaching([Example([1, 2], [0, 1])])
    some = ExpertIterationSettings(
        **SETTINGS.model_dump(exclude_unset=True) | {"outside_rate": 0.5, "labels": "mistakes"}
    )
    train(method, some)
    drawn = [secret for row in rows(tmp_path / "secrets.jsonl") for secret in row["secrets"]]
    assert {secret in sixty for secret in drawn} == {True}
    assert {secret in sixty.answer_index for secret in drawn} == {True, False}
    assert [game.trajectory.transcript.secret for played in method.played for game in played.games][::2] == drawn


def test_a_rate_of_the_secrets_are_invented_words_and_every_label_of_theirs_is_the_secret(
    codec, tokenizer, sixty, tmp_path
) -> None:
    some = ExpertIterationSettings(
        **SETTINGS.model_dump(exclude_unset=True) | {"invented_rate": 0.5, "outside_rate": 0.5, "replay_fraction": 0.0},
        labels="secret",
    )  # fmt: skip
    learner = learner_of(small_model(tokenizer), codec)
    training = training_of(learner, make_run(tmp_path, sixty), "practice")
    learn_by_play(expert_iteration, training, setup_for(sixty, compact(max_turns=3)), some)
    drawn = [secret for row in rows(tmp_path / "secrets.jsonl") for secret in row["secrets"]]
    assert {(secret in sixty, secret in sixty.answer_index) for secret in drawn} == {(False, False), (True, False)}
    labels = [row for row in rows(tmp_path / "labels.jsonl") if row["secret"] not in sixty]
    assert labels
    assert {row["secret"] for row in labels} <= {*drawn}
    assert [1, 2] in [row["boards_taught"] for row in labels]


@pytest.mark.parametrize("labels", ["mistakes", "refused", "secret"])
def test_only_labels_that_a_lost_game_has_take_secrets_that_are_no_answers(labels) -> None:
    assert ExpertIterationSettings(labels=labels, outside_rate=0.5).learns_without_wins
    with pytest.raises(ValueError, match="outside_rate needs labels that a lost game has"):
        ExpertIterationSettings(labels="wins", outside_rate=0.5)
    assert ExpertIterationSettings(labels=labels, outside_rate=0.5, invented_rate=0.5)
    with pytest.raises(ValueError, match="invented_rate needs labels"):
        ExpertIterationSettings(labels="wins", invented_rate=0.5)
    with pytest.raises(ValueError, match="add up to more than 1"):
        ExpertIterationSettings(labels=labels, outside_rate=0.75, invented_rate=0.5)


def test_a_round_that_teaches_nothing_changes_nothing(train, tokenizer, tmp_path) -> None:
    assert same_bits(weights_of(train(Teaching()).model), weights_of(small_model(tokenizer)))
    assert ["loss" in row for row in rows(tmp_path / "metrics.jsonl")] == [False] * 3


def test_what_cannot_work_is_refused(train, tmp_path, monkeypatch) -> None:
    with pytest.raises(ConfigError, match="max_completion_tokens"):
        train(Teaching(), tokens=5000)
    assert not (tmp_path / "secrets.jsonl").exists()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="practice"):
        train(Teaching())


def test_ctrl_c_does_not_wait_for_the_end_of_a_game(train, tmp_path, monkeypatch) -> None:
    def first_turn(*_args, **_more):
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it went on playing")

    monkeypatch.setattr("wordle_rl.train.round_method.play", first_turn)
    with pytest.raises(KeyboardInterrupt):
        train(Teaching())
    assert not (tmp_path / "metrics.jsonl").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_game_that_its_player_fails_in_is_no_sample(train, tmp_path, monkeypatch) -> None:
    assert fail(monkeypatch, lambda request: request.game_id in (0, 2, 3)) == []
    method = Teaching()
    train(method)
    for played in method.played:
        assert [len(group) for group in played.groups] == [1, 0, 2]
        assert all(game.trajectory.error is None for group in played.groups for game in group)
    assert [row["failed_games"] for row in rows(tmp_path / "metrics.jsonl")] == [3.0, 3.0, 3.0]
    assert [row["stop_reason"] for row in rows(tmp_path / "games.jsonl")].count("request_failed") == 0


def test_a_round_without_a_game_is_an_error_and_no_round(train, tmp_path, monkeypatch) -> None:
    fail(monkeypatch, lambda _: True)
    with pytest.raises(RunError, match=REASON):
        train(Teaching())
    assert not (tmp_path / "metrics.jsonl").exists()


def test_one_schedule_of_the_rate_spans_all_rounds(train, tmp_path, monkeypatch) -> None:
    falling = RLOptimizerSettings(learning_rate=1e-3, warmup=0.0, schedule="linear")
    rates, learnt, update = [], [], TorchLearner.update

    def listen(learner, micro_batches, *more):
        done = update(learner, micro_batches, *more)
        rates.append(done.learning_rate)
        learnt.append([row.token_ids for batch in micro_batches for row in batch])
        return done

    monkeypatch.setattr(TorchLearner, "update", listen)
    items = [Example([5, 6, 7], [0, 1, 1])], [Example([5, 8, 9, 10], [0, 0, 1, 1])]
    train(Teaching(*items), SETTINGS.model_copy(update={"batch_size": 1, "rounds": 2, "optimizer": falling}))
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])
    rates.clear()
    learnt.clear()
    twice = {"batch_size": 1, "rounds": 1, "optimizer": falling, "updates_per_batch": 2}
    train(Teaching(*items), SETTINGS.model_copy(update=twice), directory="twice")
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])
    assert learnt[0] == learnt[1] != learnt[2] == learnt[3], "a batch is learnt from twice before the next one is"


@pytest.mark.parametrize(("most", "passes"), [(12, [10, 10, 10]), (4, [5] * 6), (0, [30])])
def test_every_row_counts_in_a_pass_and_the_rows_of_an_item_stay_together(
    most, passes, tokenizer, codec, sixty, tmp_path
) -> None:
    learner = TorchLearner(small_model(tokenizer), codec, precision="fp32", micro_batch_size=most)
    run = make_run(tmp_path, sixty)
    stage = Stage(training_of(learner, run, "practice"), setup_for(sixty, compact()), GameLog(run), learner.policy)
    method = Teaching()(stage, SETTINGS.model_copy(update={"batch_size": 6}))
    [batch] = method.batches(PlayedGames([[Example([1, 2], [0, 1])] * 5] * 6, {}), 1)
    assert [len(rows) for rows in batch] == passes


def test_rounds_of_the_same_items_are_shuffled_apart_and_alike_in_a_resumed_training(
    tokenizer, codec, sixty, tmp_path
) -> None:
    learner, run = learner_of(small_model(tokenizer), codec), make_run(tmp_path, sixty)
    stage = Stage(training_of(learner, run, "practice"), setup_for(sixty, compact()), GameLog(run), learner.policy)
    games = PlayedGames([[Example([1, token], [0, 1])] for token in range(40)], {})
    method, again = (Teaching()(stage, SETTINGS.model_copy(update={"batch_size": 8})) for _ in range(2))
    first, second = method.batches(games, 1), method.batches(games, 2)
    assert first != second
    assert first == again.batches(games, 1)
    drawn = [row.token_ids[1] for batch in first for part in batch for row in part]
    assert sorted(drawn) == list(range(40)) != drawn


# --- replay ---


@pytest.fixture
def replay(tokenizer, codec, sixty, plain_traces, tmp_path):
    """Makes the replay of two rounds of at most 12 games, and the games drawn for both; a quarter is a teacher's."""

    def make(model=None, plain_text=0.0) -> tuple[Replay, list]:
        run = make_run(tmp_path / "run", sixty)
        write_jsonl(run.directory / "traces.jsonl", (trace.to_row() for trace in plain_traces))
        learner = learner_of(model or small_model(tokenizer), codec)
        training = training_of(learner, run, "practice", seed=3)
        settings = ExpertIterationSettings(replay_fraction=0.25, rounds=2, plain_text_fraction=plain_text)
        made = Replay(Stage(training, setup_for(sixty, compact()), GameLog(run), learner.policy), settings, 12)
        drawn = draw_games(run.directory / "traces.jsonl", 8, 3)
        return made, [encode_traces(games, compact(), codec, 1024).examples for games in (drawn[:4], drawn[4:])]

    return make


def test_games_are_drawn_from_the_whole_file(plain_traces, tmp_path) -> None:
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() | {"seed": i} for i, trace in enumerate(plain_traces)])
    drawn = draw_games(tmp_path / "traces.jsonl", 20, 0)
    places = sorted(trace.notes.seed for trace in drawn)
    assert len(set(places)) == 20
    assert places[-1] > 40
    assert drawn == draw_games(tmp_path / "traces.jsonl", 20, 0) != draw_games(tmp_path / "traces.jsonl", 20, 1)
    everything = [trace.notes.seed for trace in draw_games(tmp_path / "traces.jsonl", 1000, 0)]
    assert sorted(everything) == list(range(len(plain_traces))) != everything, "a file of few games is shuffled, too"


def test_a_round_replays_its_share_and_the_next_one_other_games(replay) -> None:
    made, (first, second) = replay()
    own = [[Example([1, 2], [0, 1])]]
    items, numbers = made.add(own, 12, 1)
    assert items == [*own, *([example] for example in first)], "4 of 16 games are a quarter"
    assert numbers == {"own_examples": 1.0, "all_examples": 5.0}
    assert made.add([], 12, 2)[0] == [[example] for example in second]
    assert made.add([], 6, 1)[0] == [[example] for example in first[:2]], "fewer beside fewer games of its own"
    assert made.add([], 0, 1)[0] == []


def test_plain_texts_are_their_fraction_of_all_rows_and_others_in_each_round(replay, tmp_path) -> None:
    made, (first, second) = replay(plain_text=0.2)
    texts = [[1, 2, number] for number in range(7)]
    write_jsonl(tmp_path / "run/plain_text.jsonl", ({"token_ids": ids} for ids in texts))
    rows = [[Example(ids, [0, 1, 1])] for ids in texts]
    items, numbers = made.add([], 12, 1)
    assert items == [*([example] for example in first), *rows[:4]], "4 of 20 rows are a fifth"
    assert numbers["all_examples"] == 8
    later = made.add([], 12, 2)[0]
    assert later == [*([example] for example in second), *rows[4:], rows[0]], "after the last text comes the first"
    assert made.add([], 0, 1)[0] == []


def test_games_that_no_context_holds_are_left_out(replay, tokenizer) -> None:
    model = small_model(tokenizer)
    model.config.max_position_embeddings = 8
    made, _ = replay(model)
    assert made.add([], 12, 1)[0] == []


# --- labels on record: what a round trains on, and none of it names a strict word ---


class Scene:
    """One round of an algorithm over games for one secret, with what it is given to train on.

    Some games say a strict word first, others a word of training; all then find the secret.
    """

    def __init__(self, words, codec, tokenizer, directory: Path, seen: list, fraction: float) -> None:
        split = split_secrets(words, strict_fraction=fraction)
        context = GameContext(words, split, compact(), Solver(words)).for_training
        self.setup, self.seen, self.codec = GameSetup(context, split.train[:1]), seen, codec
        self.secret, *others = split.train
        self.strict = split_secrets(words, strict_fraction=0.05).strict[0]
        solver = self.setup.solver
        self.other = max(others, key=lambda word: solver.regret(word, solver.candidates([])))
        self.learner, self.run = learner_of(small_model(tokenizer), codec), make_run(directory, words)

    def says(self, game_id: int, turns: tuple) -> str:
        if turns and self.varies:  # or no board but the empty one has a pair
            return say([self.secret, self.other][game_id % 2])
        return say(self.secret if turns else [self.strict, self.other, self.secret][game_id % 3])

    def words(self) -> set[str]:
        seen = [example.token_ids for items in self.seen for item in items for example in item]
        texts = [self.codec.tokenizer.decode(ids, skip_special_tokens=False) for ids in seen]
        return {word for text in texts for word in words_of_text(text)}

    def train(self, algorithm: str) -> list[dict]:
        """The record of the labels."""
        settings, changes = ALGORITHMS[algorithm]
        self.varies = algorithm == "dpo"
        settings = settings.model_copy(update={"group_size": 6, "groups_per_round": 1, **changes})
        train_by(settings, self.learner, self.setup, self.run, open_policy=playing(self.says, self.codec))
        return rows(self.run.directory / "labels.jsonl")


ALGORITHMS = {
    "expert_iteration": (EXPERT_ITERATION, {"keep_per_group": 6}),
    "expert_iteration on secrets": (EXPERT_ITERATION, {"labels": "secret"}),
    "expert_iteration on mistakes": (EXPERT_ITERATION, {"labels": "mistakes"}),
    "distill guess": (DISTILL, {"targets": "guess"}),
    "distill distribution": (DISTILL, {"targets": "distribution"}),
    "dpo": (DPO, {"margin": 1e-6, "pairs_per_board": 9, "guesses_per_board": 6}),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_round_trains_on_a_strict_word_that_the_policy_said(
    algorithm: str, sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, seen, 0.05)
    scene.train(algorithm)
    trained = set(scene.setup.context.split.train)
    recorded = set(words_of_text((tmp_path / "labels.jsonl").read_text()))
    for words in (scene.words(), recorded):
        assert trained & words, "something is trained on"
        assert scene.strict not in words


def test_kept_games_are_on_record_with_what_is_taught(sixty, codec, tokenizer, tmp_path, seen) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, seen, 0.0)
    found = scene.train("expert_iteration")
    assert {(row["stage"], row["step"], row["secret"]) for row in found} == {("expert_iteration", 0, scene.secret)}
    said = [[turn["guess"] for turn in row["turns"]] for row in found]
    assert sorted(said) == sorted([[scene.secret], [scene.strict, scene.secret], [scene.other, scene.secret]])
    assert all(turn.get("taught", True) for row in found for turn in row["turns"])
    assert shown_in(found, [scene.strict]).labels == {((), scene.strict)}


def test_a_board_is_on_record_with_the_word_that_is_taught_there(sixty, codec, tokenizer, tmp_path, seen) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, seen, 0.0)
    found = scene.train("distill guess")
    boards = [[turn["guess"] for turn in row["turns"][:-1]] for row in found]
    assert sorted(boards) == sorted([[], [scene.strict], [scene.other]])
    taught = [[turn.get("taught", True) for turn in row["turns"]] for row in found]
    assert sorted(taught) == [[False, True], [False, True], [True]], "the last word alone"
