"""Laws of labels on record: what a round trains on is written down, and none of it names a strict word."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from algorithm_settings import DISTILL, DPO, EXPERT_ITERATION, train_by
from round_training import fitted, learner_of, playing
from scripted import say
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.config.context import GameContext
from wordle_rl.evaluate.strata import shown_in
from wordle_rl.solver import Solver
from wordle_rl.train.starts import GameSetup
from wordle_rl.words.split import split_secrets, words_of_text


class Saying:
    """Games for one secret. Some say a strict word first, others a word of training; all then find the secret."""

    def __init__(self, secret: str, strict: str, other: str) -> None:
        self.secret, self.strict, self.other = secret, strict, other

    def __call__(self, game_id: int, turns: tuple) -> str:
        return say([self.strict, self.other, self.secret][game_id % 3] if not turns else self.secret)


class Scene:
    """One round of each algorithm over these games, with what it is given to train on."""

    def __init__(self, sixty, codec, tokenizer, directory: Path, monkeypatch, fraction: float) -> None:
        split = split_secrets(sixty, strict_fraction=fraction)
        whole = GameContext(sixty, split, compact(max_turns=3), Solver(sixty))
        self.strict = split_secrets(sixty, strict_fraction=0.05).strict[0]
        self.setup = GameSetup(whole.for_training, split.train[:1])
        secret, solver = split.train[0], self.setup.solver
        other = max(split.train[1:], key=lambda word: solver.regret(word, solver.candidates([])))
        self.script, self.run = Saying(secret, self.strict, other), make_run(directory, sixty)
        self.learner, self.codec = learner_of(small_model(tokenizer), codec), codec
        self.rounds = fitted(monkeypatch)

    def words(self) -> set[str]:
        seen = [example.token_ids for items in self.rounds for item in items for example in item]
        texts = [self.codec.tokenizer.decode(ids, skip_special_tokens=False) for ids in seen]
        return {word for text in texts for word in words_of_text(text)}

    def train(self, algorithm: str) -> None:
        group, choice = {"group_size": 6, "groups_per_round": 1}, algorithm.partition(" ")[2]
        if algorithm == "expert_iteration":
            settings = EXPERT_ITERATION.model_copy(update={**group, "keep_per_group": 6})
        elif algorithm.startswith("distill"):
            settings = DISTILL.model_copy(update={**group, "targets": choice})
        else:
            pairs = {"margin": 1e-6, "pairs_per_board": 9}
            settings = DPO.model_copy(update={**group, **pairs, "guesses_per_board": 6})
        train_by(settings, self.learner, self.setup, self.run, open_policy=playing(self.script, self.codec))


ALGORITHMS = ["expert_iteration", "distill guess", "distill distribution", "dpo"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_round_trains_on_a_strict_word_that_the_policy_said(
    algorithm: str, sixty, codec, tokenizer, tmp_path, monkeypatch
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, monkeypatch, 0.05)
    scene.train(algorithm)
    trained = set(scene.setup.context.split.train)
    assert trained & scene.words(), "something is trained on"
    assert scene.strict not in scene.words()
    recorded = set(words_of_text((tmp_path / "labels.jsonl").read_text()))
    assert scene.strict not in recorded
    assert trained & recorded


def test_kept_games_are_on_record_with_what_is_taught(sixty, codec, tokenizer, tmp_path, monkeypatch) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, monkeypatch, 0.0)
    scene.train("expert_iteration")
    found = rows(tmp_path / "labels.jsonl")
    assert {(row["stage"], row["step"], row["secret"]) for row in found} == {
        ("expert_iteration", 0, scene.script.secret)
    }
    said = [[turn["guess"] for turn in row["turns"]] for row in found]
    secret = scene.script.secret
    assert sorted(map(len, said)) == [1, 2, 2]
    assert [scene.strict, secret] in said
    assert all(turn.get("taught", True) for row in found for turn in row["turns"])
    assert shown_in(found, [scene.strict]).labels == {((), scene.strict)}


def test_a_board_is_on_record_with_the_word_that_is_taught_there(
    sixty, codec, tokenizer, tmp_path, monkeypatch
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, monkeypatch, 0.0)
    scene.train("distill guess")
    found = rows(tmp_path / "labels.jsonl")
    boards = [[turn["guess"] for turn in row["turns"][:-1]] for row in found]
    assert sorted(boards) == sorted([[], [scene.strict], [scene.script.other]])
    assert all(
        [turn.get("taught", True) for turn in row["turns"]] == [False] * (len(row["turns"]) - 1) + [True]
        for row in found
    )
