"""Laws of evaluations in this process that are broken off: the same command goes on, and comes to the same games."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

from scripted import planned

from wordle_rl.evaluate.play import Journal, evaluate, journal_of, num_kept
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.base import Completion, Request
from wordle_rl.policy.scripted import SolverSampler
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver

SETTINGS = {"player": "solver"}


class Stopping(SolverSampler):
    """The solver, who is pressed Ctrl-C on instead of its turn `stop_at`, and counts the games it is asked about."""

    def __init__(self, solver: Solver, stop_at: int | None = None) -> None:
        super().__init__(solver, Prompter())
        self.stop_at, self.num_turns, self.num_games = stop_at, 0, 0

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        if self.num_turns == self.stop_at:
            raise KeyboardInterrupt
        self.num_turns += 1
        self.num_games += sum(not request.turns for request in requests)
        return super().sample(requests)


@pytest.mark.parametrize("stop_at", [0, 3, 9])
def test_what_was_broken_off_goes_on_to_the_same_games(stop_at: int, small_words, tmp_path: Path) -> None:
    solver = Solver(small_words)
    secrets = [*small_words.answers, *small_words.answers[:3]]

    def play(sampler: SolverSampler, journal: Journal | None) -> Evaluation:
        header = planned(small_words, Prompter())
        return evaluate(
            header, secrets, small_words, Prompter(), sampler, solver=solver, batch_size=10, journal=journal
        )

    whole = play(SolverSampler(solver, Prompter()), None)
    path = tmp_path / "new" / "m.games.jsonl"
    stopped = Journal(path, SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        play(Stopping(solver, stop_at), stopped)
    stopped.close()
    journal, sampler = Journal(path, SETTINGS), Stopping(solver)
    kept = len(journal.games)
    assert kept == num_kept(path)
    assert (kept > 0) == (stop_at > 1)
    assert play(sampler, journal) == whole
    assert sampler.num_games == len(secrets) - kept
    assert len(journal.games) == len(secrets)
    journal.discard()
    assert not path.exists()


@pytest.mark.parametrize(("stop_at", "kept"), [(2, 0), (4, 10)])
def test_drawn_games_are_kept_a_whole_batch_at_a_time(stop_at: int, kept: int, small_words, tmp_path: Path) -> None:
    """The quick wins of a batch alone would flatter the player."""
    journal = Journal(tmp_path / "m.games.jsonl", SETTINGS)
    sampler = Stopping(Solver(small_words), stop_at)
    with pytest.raises(KeyboardInterrupt):
        evaluate(
            planned(small_words, Prompter()),
            small_words.answers,
            small_words,
            Prompter(),
            sampler,
            batch_size=10,
            journal=journal,
            drawn=True,
        )
    assert len(journal.games) == kept
    assert {secret for secret, _ in journal.games} == {*small_words.answers[:kept]}


def stop_after(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C on a model after so many turns."""
    sample, left = TransformersSampler.sample, [turns]

    def stopping(self: TransformersSampler, requests: Sequence[Request]) -> list[Completion]:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return sample(self, requests)

    monkeypatch.setattr(TransformersSampler, "sample", stopping)


@pytest.mark.parametrize(("temperature", "batch_size", "turns"), [(0, 1, 60), (1, 8, 15)])
def test_the_same_command_goes_on_with_a_model(
    temperature: int,
    batch_size: int,
    turns: int,
    cli: Callable,
    finished_run: Path,
    word_directory,
    tmp_path: Path,
    monkeypatch,
) -> None:
    shutil.copytree(finished_run / "sft", tmp_path / "model")
    command = ["eval", "--player", tmp_path / "model", "--words", word_directory, "--split", "train"]
    command += ["--max-batch-size", batch_size, "--max-completion-tokens", 12]
    command += ["--no-regret", "--temperature", temperature]
    assert cli(*command, "--out", tmp_path / "whole.json")[0] == 0
    assert not list(tmp_path.glob("*.games.jsonl")), "nothing is missing, so nothing is kept"
    with monkeypatch.context() as patch:
        stop_after(turns, patch)
        code, out, err = cli(*command, "--out", tmp_path / "m.json")
    assert (code, out) == (130, "")
    assert "the same command resumes" in err
    kept = num_kept(tmp_path / "m.games.jsonl")
    whole = Evaluation.load(tmp_path / "whole.json").records
    assert 8 <= kept < len(whole)
    weights = tmp_path / "model" / "model.safetensors"
    weights.touch()
    code, _, err = cli(*command, "--out", tmp_path / "m.json")
    assert code == 2
    assert 'm.games.jsonl holds games with weights "' in err
    shutil.copystat(finished_run / "sft" / "model.safetensors", weights)
    code, _, err = cli(*command, "--out", tmp_path / "m.json")
    assert code == 0
    assert f"{kept} of {len(whole)} games" in err
    records = Evaluation.load(tmp_path / "m.json").records
    assert [record.secret for record in records] == [record.secret for record in whole]
    assert records[:8] == whole[:8]
    assert temperature or records == whole
    assert not list(tmp_path.glob("*.games.jsonl"))


def test_games_of_weights_that_are_gone_are_forgotten_in_a_run(tmp_path: Path, small_words) -> None:
    path = tmp_path / "sft.games.jsonl"
    held = journal_of(path, {"weights": "old"})
    solver = Stopping(Solver(small_words))
    evaluate(planned(small_words, Prompter()), ["crane"], small_words, Prompter(), solver, journal=held)
    held.close()
    again = journal_of(path, {"weights": "old"})
    assert len(again.games) == 1
    again.close()
    assert not journal_of(path, {"weights": "new"}).games
