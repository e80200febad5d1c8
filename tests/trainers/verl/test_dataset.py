"""Laws of verl's data files: fixed splits, no secret in a prompt, many words at every validation."""

import json

import pytest

pytest.importorskip("verl")

from datasets import Dataset
from training_fixtures import write_config

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.runs import write_jsonl
from wordle_rl.trainers.verl.launch import given_boards, write_data
from wordle_rl.trainers.verl.settings import data_file
from wordle_rl.trainers.verl.trainer import WordleTrainer, compose


def loaders(run, *overrides: str) -> WordleTrainer:
    """verl's trainer as far as its data: what it would train and validate on."""
    trainer = object.__new__(WordleTrainer)
    files = (f"data.train_files={data_file(run, 'train')}", f"data.val_files={data_file(run, 'val')}")
    lengths = ("data.train_batch_size=16", "data.max_prompt_length=1024", "trainer.total_epochs=1")
    trainer.config = compose([*files, *lengths, "data.dataloader_num_workers=0", *overrides])
    trainer.tokenizer, trainer.processor = make_tokenizer(), None
    trainer.trainer_mode, trainer.parameter_sync_step = "sync", 1
    trainer._init_dataloader()
    return trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run directory with the files of the embedded list, and the context."""
    run, config = tmp_path_factory.mktemp("data"), RunConfig()
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


def test_the_files_hold_each_secret_once_in_an_order_of_the_seed(tmp_path, word_directory) -> None:
    def secrets(seed: int, split: str = "train") -> list[str]:
        config = load_config(write_config(tmp_path / "mini.toml", word_directory)).model_copy(update={"seed": seed})
        context = GameContext.of(config)
        write_data(config, context, tmp_path)
        found = Dataset.from_parquet(str(data_file(tmp_path, split)))
        assert len({json.dumps(prompt) for prompt in found["prompt"]}) == 1, "no prompt tells its secret"
        assert sorted(found["secret"]) == sorted(context.split.named(split))
        return list(found["secret"])

    assert secrets(1) == secrets(1)
    assert secrets(1) != secrets(2)
    assert secrets(1, "val") == secrets(2, "val")


def loaders_of(directory, settings: dict, *validation: tuple[str, ...]) -> WordleTrainer:
    config, run = load_config(directory / "mini.toml", settings), directory / "run"
    context = GameContext.of(config)
    write_data(config, context, run, given_boards(config, context, run), *validation)
    return loaders(run, "data.train_batch_size=1")


def shown_by(loader) -> list[tuple[str, str]]:
    return [pair for batch in loader for pair in zip(batch["secret"], batch["prefix_guesses"], strict=True)]


def test_secrets_of_a_file_are_what_is_trained_on(tmp_path, word_directory) -> None:
    split = GameContext.of(load_config(write_config(tmp_path / "mini.toml", word_directory))).split
    path, wanted = tmp_path / "train.parquet", split.train[:5]
    rows = [{"prompt": "p", "reward_model": {"ground_truth": word}} for word in (*wanted, split.test[0], split.val[0])]
    Dataset.from_list(rows).to_parquet(path)
    settings = {("grpo", "starts", "file"): path, ("grpo", "max_secrets"): 4}
    trainer = loaders_of(tmp_path, settings, split.train[-2:])
    assert sorted(shown_by(trainer.train_dataloader)) == sorted((secret, "") for secret in wanted[:4])
    assert sorted(shown_by(trainer.val_dataloader)) == sorted((secret, "") for secret in split.train[-2:])


def test_half_of_the_rows_are_boards_of_a_file_that_has_any(tmp_path, word_directory) -> None:
    split = GameContext.of(load_config(write_config(tmp_path / "mini.toml", word_directory))).split
    one, two, other = split.train[:3]
    boards = [(one, [other]), (two, [other, one])]
    rows = [{"secret": secret, "turns": [{"guess": guess} for guess in guesses]} for secret, guesses in boards]
    write_jsonl(tmp_path / "boards.jsonl", rows)
    trainer = loaders_of(tmp_path, {("grpo", "starts", "file"): tmp_path / "boards.jsonl"})
    shown = shown_by(trainer.train_dataloader)
    assert sorted(pair for pair in shown if pair[1]) == sorted((secret, " ".join(said)) for secret, said in boards)
    assert len(shown) == 4
    assert {secret for secret, said in shown if not said} <= set(split.train)
