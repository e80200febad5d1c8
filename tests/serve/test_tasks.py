"""Laws of the tasks: same place, same secret; ids and lists tell none."""

import hashlib
import hmac
import json

import pytest

from wordle_rl.config.context import GameContext
from wordle_rl.prompt import Prompter
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.tasks import WordTasks, difficulty_of
from wordle_rl.solver import Solver
from wordle_rl.trainers.games import BoardTask
from wordle_rl.words.split import split_secrets


@pytest.fixture(scope="module")
def tasks_of(small_words):
    context = GameContext(small_words, split_secrets(small_words), Prompter(), Solver(small_words))
    return lambda key=b"key", allowed=(): WordTasks(context, key, allowed)


def test_a_seed_is_the_same_task_in_every_process_and_seeds_differ(tasks_of) -> None:
    drawn = [tasks_of().pick("train", None, seed) for seed in range(300)]
    assert drawn == [tasks_of(b"another key").pick("train", None, seed) for seed in range(300)]
    assert {task.index for task in drawn} == set(range(tasks_of().num_tasks("train")))


def test_lists_hold_no_secret_and_only_the_key_makes_their_ids(small_words, tasks_of) -> None:
    tasks = tasks_of(allowed=("val", "test"))
    listed = tasks.tasks("train")
    text = json.dumps([tasks.list_splits(), listed, tasks.tasks("val"), tasks.tasks("test")]).lower()
    for word in small_words.answers:
        assert word not in text
        for digest in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            assert digest(word.encode()).hexdigest()[:16] not in text
    assert len({task["id"] for task in listed}) == len(listed)
    assert tasks_of().tasks("train") == listed
    assert not {task["id"] for task in tasks_of(b"another key").tasks("train")} & {task["id"] for task in listed}
    place = f"{small_words.fingerprint}:0:train:0".encode()
    assert listed[0]["id"] == hmac.new(b"key", place, hashlib.sha256).hexdigest()[:32]


@pytest.mark.parametrize(
    ("split", "index", "reason"),
    [("val", 0, Reason.HELD_OUT), ("test", None, Reason.HELD_OUT), ("dev", 0, Reason.UNKNOWN_TASK),
     ("train", -1, Reason.UNKNOWN_TASK), ("train", 10**6, Reason.UNKNOWN_TASK)],
)  # fmt: skip
def test_what_is_held_out_or_not_there_is_refused(tasks_of, split, index, reason) -> None:
    tasks = tasks_of()
    with pytest.raises(Refusal) as refused:
        tasks.pick(split, index, 7)
    assert refused.value.reason is reason
    if reason is Reason.HELD_OUT:
        assert tasks.num_tasks(split) >= 1
        with pytest.raises(Refusal):
            tasks.tasks(split, 0, 1)
        tasks_of(allowed=(split,)).pick(split, 0, 0)


def test_difficulty_is_the_length_of_the_trees_path(tasks_of) -> None:
    tasks = tasks_of()
    tree = tasks.context.solver.tree()
    for row in tasks.tasks("train"):
        secret = tasks.secret(BoardTask(split="train", index=row["index"]))
        assert row["difficulty"] == difficulty_of(len(tree.paths[secret]))
    assert [difficulty_of(count) for count in (1, 3, 4, 5, 7)] == ["easy", "easy", "medium", "hard", "hard"]
