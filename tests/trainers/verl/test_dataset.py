"""Laws of verl's data files: fixed splits, no secret in a prompt, many words at every validation."""

import json

import pytest

pytest.importorskip("verl")

from datasets import Dataset
from training_fixtures import write_config

from wordle_rl.config import RunConfig, load_config
from wordle_rl.config.context import GameContext
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.rollout import InitialState
from wordle_rl.runs import write_jsonl
from wordle_rl.trainers.verl.launch import given_boards, rows_of, write_data
from wordle_rl.trainers.verl.settings import data_file
from wordle_rl.trainers.verl.trainer import WordleTrainer, compose


def loaders(run, *overrides: str) -> WordleTrainer:
    """verl's trainer as far as its data: what it would train and validate on."""
    trainer = object.__new__(WordleTrainer)
    tokenizer = make_tokenizer()
    files = (f"data.train_files={data_file(run, 'train')}", f"data.val_files={data_file(run, 'val')}")
    lengths = ("data.train_batch_size=16", "data.max_prompt_length=1024", "trainer.total_epochs=1")
    trainer.config = compose([*files, *lengths, "data.dataloader_num_workers=0", *overrides])
    trainer.tokenizer, trainer.processor, trainer.trainer_mode, trainer.parameter_sync_step = tokenizer, None, "sync", 1
    trainer._init_dataloader()
    return trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run directory with the files of the embedded list, and the context."""
    run = tmp_path_factory.mktemp("data")
    config = RunConfig()
    context = GameContext.of(config)
    write_data(config, context, run)
    return run, context


@pytest.mark.parametrize("batch_size", ["null", "1", "16"])
def test_validation_shows_all_its_secrets_whatever_the_batch_size(whole, batch_size) -> None:
    run, context = whole
    trainer = loaders(run, f"data.val_batch_size={batch_size}")
    shown = [str(secret) for batch in trainer.val_dataloader for secret in batch["secret"]]
    assert sorted(shown) == sorted(context.split.val)
    assert len(set(shown)) >= 50


def test_training_shows_every_training_secret_once_an_epoch_and_no_other(whole) -> None:
    run, context = whole
    trainer = loaders(run)
    shown = [str(secret) for batch in trainer.train_dataloader for secret in batch["secret"]]
    assert len(shown) == len(set(shown)) == len(context.split.train) // 16 * 16
    assert set(shown) <= set(context.split.train)


def test_the_files_are_the_same_every_time_and_follow_the_seed(tmp_path, word_directory) -> None:
    def secrets(seed: int, name: str) -> list[str]:
        config = load_config(write_config(tmp_path / "mini.toml", word_directory)).model_copy(update={"seed": seed})
        write_data(config, GameContext.of(config), tmp_path / name)
        trainer = loaders(tmp_path / name, "data.shuffle=false", "data.train_batch_size=1")
        return [str(secret) for batch in trainer.train_dataloader for secret in batch["secret"]]

    assert secrets(1, "a") == secrets(1, "b")
    assert sorted(secrets(1, "a")) == sorted(secrets(2, "c"))
    assert secrets(1, "a") != secrets(2, "c")


def shown_by(loader) -> list[tuple[str, str]]:
    return [pair for batch in loader for pair in zip(batch["secret"], batch["prefix_guesses"], strict=True)]


def test_secrets_of_a_file_are_what_is_trained_on(tmp_path, word_directory) -> None:
    split = GameContext.of(load_config(write_config(tmp_path / "mini.toml", word_directory))).split
    path, wanted = tmp_path / "train.parquet", split.train[:5]
    rows = [{"prompt": "p", "reward_model": {"ground_truth": word}} for word in (*wanted, split.test[0], split.val[0])]
    Dataset.from_list(rows).to_parquet(path)
    config = load_config(tmp_path / "mini.toml", {("rl", "starts", "file"): path, ("rl", "max_secrets"): 4})
    context = GameContext.of(config)
    write_data(config, context, tmp_path / "run", given_boards(config, context, tmp_path / "run"), split.train[-2:])
    trainer = loaders(tmp_path / "run", "data.train_batch_size=1")
    assert sorted(shown_by(trainer.train_dataloader)) == sorted((secret, "") for secret in wanted[:4])
    assert sorted(shown_by(trainer.val_dataloader)) == sorted((secret, "") for secret in split.train[-2:])


def test_half_of_the_rows_are_boards_of_a_file_that_has_any(tmp_path, word_directory) -> None:
    split = GameContext.of(load_config(write_config(tmp_path / "mini.toml", word_directory))).split
    one, two, other = split.train[:3]
    boards = [(one, [other]), (two, [other, one])]
    rows = [{"secret": secret, "turns": [{"guess": guess} for guess in guesses]} for secret, guesses in boards]
    write_jsonl(tmp_path / "boards.jsonl", rows)
    config = load_config(tmp_path / "mini.toml", {("rl", "starts", "file"): tmp_path / "boards.jsonl"})
    context = GameContext.of(config)
    write_data(config, context, tmp_path / "run", given_boards(config, context, tmp_path / "run"))
    shown = shown_by(loaders(tmp_path / "run", "data.train_batch_size=1").train_dataloader)
    assert sorted(pair for pair in shown if pair[1]) == sorted((secret, " ".join(said)) for secret, said in boards)
    assert len(shown) == 4
    assert {secret for secret, said in shown if not said} <= set(split.train)


def test_no_prompt_holds_its_secret(whole) -> None:
    _, context = whole
    rows = rows_of(context, [InitialState(secret) for secret in context.split.val], "val")
    prompt = json.dumps(rows[0]["prompt"])
    assert all(row["prompt"] == rows[0]["prompt"] for row in rows)
    assert sum(row["secret"] in prompt for row in rows) <= 2  # words of the wording itself, the same for every secret
