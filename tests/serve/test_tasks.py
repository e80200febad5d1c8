"""Laws of the tasks: same place, same secret; ids and lists tell none."""

import hashlib
import hmac
import json
from collections import Counter

import pytest

from wordle_rl.config.context import GameContext
from wordle_rl.prompt import Prompter
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.tasks import Difficulty, WordTasks
from wordle_rl.trainers.games import BoardTask
from wordle_rl.words.split import split_secrets


def tasks_of(words, solver, key: bytes = b"key", allowed=()) -> WordTasks:
    return WordTasks(GameContext(words, split_secrets(words), Prompter(), solver), key, allowed)


def test_a_seed_is_the_same_task_in_every_process_and_seeds_differ(small_words, small_solver) -> None:
    one, other = tasks_of(small_words, small_solver), tasks_of(small_words, small_solver, b"another key")
    drawn = [one.pick("train", None, seed) for seed in range(300)]
    assert drawn == [other.pick("train", None, seed) for seed in range(300)]
    assert {task.index for task in drawn} == set(range(one.num_tasks("train")))


def test_lists_hold_no_secret_and_no_hash_of_one(small_words, small_solver) -> None:
    tasks = tasks_of(small_words, small_solver, allowed=("val", "test"))
    listed = json.dumps([tasks.list_splits(), *(tasks.list_tasks(name) for name in ("train", "val", "test"))])
    for word in small_words.answers:
        assert word not in listed.lower()
        for digest in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            assert digest(word.encode()).hexdigest()[:16] not in listed


def test_ids_are_distinct_and_only_the_key_makes_them(small_words, small_solver) -> None:
    listed = tasks_of(small_words, small_solver).list_tasks("train")
    assert len({task["id"] for task in listed}) == len(listed)
    assert tasks_of(small_words, small_solver).list_tasks("train") == listed
    others = tasks_of(small_words, small_solver, b"another key").list_tasks("train")
    assert not {task["id"] for task in others} & {task["id"] for task in listed}
    place = f"{small_words.fingerprint}:0:train:0".encode()
    assert listed[0]["id"] == hmac.new(b"key", place, hashlib.sha256).hexdigest()[:32]


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_held_out_split_is_told_by_its_number_alone(small_words, small_solver, split) -> None:
    tasks = tasks_of(small_words, small_solver)
    assert tasks.num_tasks(split) >= 1
    for ask in (
        lambda: tasks.list_tasks(split),
        lambda: tasks.get_task(split, 0),
        lambda: tasks.get_task_range(split, 0, 1),
        lambda: tasks.pick(split, None, 7),
    ):
        with pytest.raises(Refusal) as refused:
            ask()
        assert refused.value.reason is Reason.HELD_OUT
    assert [row["playable"] for row in tasks.list_splits()] == [True, False, False]
    tasks_of(small_words, small_solver, allowed=(split,)).pick(split, 0, 0)


def test_what_there_is_not_is_refused(small_words, small_solver) -> None:
    tasks = tasks_of(small_words, small_solver)
    for ask in (
        lambda: tasks.get_task("train", tasks.num_tasks("train")),
        lambda: tasks.get_task("train", -1),
        lambda: tasks.num_tasks("dev"),
        lambda: tasks.pick("all", None, 0),
    ):
        with pytest.raises(Refusal) as refused:
            ask()
        assert refused.value.reason is Reason.UNKNOWN_TASK


def test_difficulty_is_the_length_of_the_trees_path(small_words, small_solver) -> None:
    tasks, tree = tasks_of(small_words, small_solver), small_solver.tree()
    for row in tasks.list_tasks("train"):
        secret = tasks.secret(BoardTask(split="train", index=row["index"]))
        assert row["difficulty"] == Difficulty.of(len(tree.path(secret)))
    assert [Difficulty.of(count).value for count in (1, 3, 4, 5, 7)] == ["easy", "easy", "medium", "hard", "hard"]
    assert Counter(row["difficulty"] for row in tasks.list_tasks("train"))["easy"] > 0
