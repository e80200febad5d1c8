"""Laws of play at temperature 1 in a run: every secret once, figures beside the greedy ones, no game drawn twice."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import NUM_ANSWERS

from wordle_rl.config import load_config
from wordle_rl.evaluate.play import num_kept
from wordle_rl.evaluate.records import Evaluation, figures_by_split, is_sampled_part, sampled_part
from wordle_rl.evaluate.stats import wilson_interval
from wordle_rl.pipeline import Pipeline, evaluation
from wordle_rl.report.run_record import read_run
from wordle_rl.runs import read_object
from wordle_rl.words.split import split_secrets

QUIET = Console(quiet=True)


@pytest.fixture
def sampled_run(finished_run, tmp_path: Path) -> Path:
    """A finished run whose settings now ask for sampled play too."""
    directory = tmp_path / "sampled"
    shutil.copytree(finished_run, directory)
    settings = json.loads((directory / "config.json").read_text())
    settings["eval"]["also"], settings["max_batch_size"] = ["sampled"], 20
    (directory / "config.json").write_text(json.dumps(settings))
    return directory


def run(directory: Path) -> dict:
    return Pipeline(load_config(directory / "config.json"), directory, QUIET)()


def test_every_secret_is_played_once_more_at_temperature_1(sampled_run, finished_run, sixty) -> None:
    before = read_object(finished_run / "results.json")
    results, split = run(sampled_run), split_secrets(sixty)
    for name in ("sft", "grpo"):
        stored = Evaluation.load(sampled_run / "eval" / f"{name}-sampled.json")
        assert (stored.conditions.temperature, stored.conditions.seed, stored.constrain) == (1.0, 0, "none")
        assert sorted(record.secret for record in stored.records) == list(sixty.answers)
        greedy = {part: figures for part, figures in results[name].items() if not is_sampled_part(part)}
        assert greedy == before[name]
        assert results[name].keys() == {*greedy, *map(sampled_part, greedy)}
        for part, figures in figures_by_split(stored, split).items():
            found, wins = results[name][sampled_part(part)], round(figures.win_rate * figures.num_games)
            assert (found["win_rate"], found["num_games"]) == (figures.win_rate, figures.num_games)
            low, high = wilson_interval(wins, figures.num_games)
            assert (found["win_rate_low"], found["win_rate_high"]) == pytest.approx((low, high))
    (sampled_run / "results.json").unlink()
    read = read_run(sampled_run).results
    assert {name: set(parts) for name, parts in read.items()} == {name: set(results[name]) for name in ("sft", "grpo")}
    assert read["sft"]["all_sampled"] == results["sft"]["all_sampled"]


def test_stopped_sampled_play_resumes_after_whole_batches_with_fresh_draws(sampled_run, monkeypatch) -> None:
    seeds, finished = [], []
    make_sampler, make_counter = evaluation.model_sampler, evaluation.game_counter

    def noting_sampler(model, words, prompter, sampling, seed, engine, **more):
        if sampling.temperature:
            seeds.append(seed)
        return make_sampler(model, words, prompter, sampling, seed, engine, **more)

    def stopping_counter(*arguments):
        count = make_counter(*arguments)

        def stop(record) -> None:
            count(record)
            finished.append(record)
            if len(finished) == 25:
                raise KeyboardInterrupt

        return stop

    monkeypatch.setattr(evaluation, "model_sampler", noting_sampler)
    monkeypatch.setattr(evaluation, "game_counter", stopping_counter)
    with pytest.raises(KeyboardInterrupt):
        run(sampled_run)
    journal = evaluation.journal_path(sampled_run / "eval" / "sft-sampled.json")
    assert num_kept(journal) == 20
    kept = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert all(row.pop("occurrence") == 0 for row in kept)
    run(sampled_run)
    assert seeds == [0, 20, 0]
    stored = json.loads((sampled_run / "eval" / "sft-sampled.json").read_text())["records"]
    assert len(stored) == NUM_ANSWERS
    assert stored[:20] == kept
    assert not journal.exists()
