"""Commands that are killed again and again until they end, and what they leave, compared with an unbroken run's."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fork_server import Ended, ForkServer
from training_fixtures import begun, write_config

from wordle_rl.config.files import load_config
from wordle_rl.words import load_words

MOST_IN_A_ROW = 4
"""Kills of one command before it is left to come to its end."""

_TIMES = {"seconds", "step_time", "resident_memory_gib", "peak_memory_gib", "memory"}
_LOOKED_AT = {"report.html", "README.md"}
"""Files that hold times among their text, of which only the presence is compared."""
_LEFT_OUT = {"timings.json"}
"""Times alone: those of a killed call are lost, and a call that finds its stage done writes none."""


@dataclass(frozen=True)
class Case:
    """A command to kill.

    Attributes:
        name: Of the case.
        arguments: As on the command line; it runs in a directory of its own.
        prepare: Fills that directory.
        unordered: Files whose lines may come in any order, since games are played side by side.
    """

    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    unordered: frozenset[str] = field(default=frozenset())

    def begun_in(self, directory: Path) -> Path:
        """Make the directory in which the command runs, if it is not there, and fill it."""
        directory.mkdir(exist_ok=True)
        self.prepare(directory)
        return directory

    def run(self, server: ForkServer, directory: Path, **how: Any) -> Ended:
        """Run the command there; see `ForkServer.run`."""
        return server.run(list(self.arguments), directory, **how)


@dataclass(frozen=True)
class Unbroken:
    """An unbroken run: how it ended, what it left, and how many bytes."""

    ended: Ended
    files: dict[str, str]
    num_bytes: int


def run_unbroken(server: ForkServer, case: Case, directory: Path) -> Unbroken:
    """Run a command once from its beginning to its end."""
    case.begun_in(directory)
    ended = case.run(server, directory)
    assert ended.code == 0, ended.log
    num_bytes = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return Unbroken(ended, snapshot(directory, case.unordered), num_bytes)


def kill_until_done(
    server: ForkServer, case: Case, directory: Path, unbroken: Unbroken, seed: str, most: int
) -> tuple[int, Ended]:
    """Kill a command at random moments, each time starting it again, until it ends.

    Half of the moments are uniform over the time of the unbroken run, half over its writes; the latter come again with
    the same seed.

    Returns:
        The number of kills, at most `most`, and how the command ended.
    """
    case.begun_in(directory)
    rng, kills = random.Random(seed), 0
    while kills < most:
        if rng.random() < 0.5:
            ended = case.run(server, directory, kill_at_write=rng.randint(1, unbroken.ended.num_writes))
        else:
            ended = case.run(server, directory, kill_after_s=rng.uniform(0, unbroken.ended.seconds))
        if ended.code is not None:
            assert ended.code == 0, ended.log
            return kills, ended
        kills += 1
    ended = case.run(server, directory)
    assert ended.code == 0, ended.log
    return kills, ended


def run_kills(server: ForkServer, case: Case, place: Path, unbroken: Unbroken, seed: int, wanted: int) -> int:
    """Run trials until there have been `wanted` kills, comparing what each leaves, and return how many it took."""
    done = trial = 0
    while done < wanted:
        name = f"{seed}:{case.name}:{trial}"
        directory = place / f"{case.name}-{trial}"
        kills, _ = kill_until_done(server, case, directory, unbroken, name, min(MOST_IN_A_ROW, wanted - done))
        check_same(unbroken.files, snapshot(directory, case.unordered), f"seed {name}, {kills} kills")
        shutil.rmtree(directory)
        done += kills
        trial += 1
        assert trial < 10 * wanted + 10, f"{case.name} ends before it can be killed"
    return trial


def check_ends(server: ForkServer, case: Case, directory: Path, unbroken: Unbroken, what: str) -> None:
    """Started again, the command ends and leaves the files of the unbroken run."""
    ended = case.run(server, directory)
    assert ended.code == 0, ended.log
    check_same(unbroken.files, snapshot(directory, case.unordered), what)


def check_same(expected: dict[str, str], found: dict[str, str], what: str) -> None:
    """Fail with the names of files that are missing, too many, or different."""
    missing, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    different = sorted(name for name in expected.keys() & found.keys() if expected[name] != found[name])
    differs = any((missing, more, different))
    assert not differs, f"{what}: missing {missing}, too many {more}, different {different}"


def snapshot(directory: Path, unordered: frozenset[str] = frozenset()) -> dict[str, str]:
    """SHA-256 of every file below a directory, less times; of some files only that they are there."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name not in _LEFT_OUT:
            name = path.relative_to(directory).as_posix()
            found[name] = _digest(path, ordered=path.name not in unordered)
    return found


def _digest(path: Path, *, ordered: bool) -> str:
    if path.name in _LOOKED_AT:
        return "there"
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        lines = [json.dumps(_timeless(json.loads(line)), sort_keys=True) for line in content.decode().splitlines()]
        content = "\n".join(lines if ordered else sorted(lines)).encode()
    elif path.name == "results.json":
        content = json.dumps(_timeless(json.loads(content)), sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def _timeless(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in _TIMES and not name.startswith("seconds/")}


# --- the commands: each a few seconds long, and with every kind of file that it may write ---

BEGINS_WINNING = {"model__path": '"bundled"'}
"""A start for what learns from the policy's own wins or better guesses; the SFT of the miniature has none."""
LEARNT = {"expert_iteration": "own_examples", "dpo": "pairs"}
"""The metric of a round that counts what it learns from the policy's own games."""

TRAININGS: dict[str, dict[str, str]] = {
    "sft": {
        "sft__epochs": "2.0",
        "sft__save_steps": "3",
        "sft__save_each_epoch": "true",
        "sft__validations_per_epoch": "2",
    },
    "grpo": {
        "grpo__steps": "7",
        "grpo__save_steps": "2",
        "grpo__validate_every_steps": "3",
        "grpo__interpolation_alphas": "[0.5, 1.0]",
        "grpo__probe_every_steps": "4",
        "grpo__prioritized_fraction": "0.5",
        "grpo.reward__preset": '"shaped_curriculum"',
    },
    "expert_iteration": {
        **BEGINS_WINNING,
        "stages": '["expert_iteration"]',
        "expert_iteration__rounds": "3",
        "expert_iteration__groups_per_round": "8",
    },
    "dpo": {
        **BEGINS_WINNING,
        "stages": '["dpo"]',
        "dpo__rounds": "3",
        "dpo__groups_per_round": "8",
    },
    "distill": {
        "stages": '["sft", "distill"]',
        "distill__rounds": "3",
        "distill__groups_per_round": "16",
    },
}
"""Settings of each training that differ from those of `write_config`."""

KILLS = {
    "traces": 12,
    "traces-openai": 10,
    "sft": 12,
    "grpo": 14,
    "expert_iteration": 10,
    "dpo": 10,
    "distill": 10,
    "eval": 6,
    "eval-openai": 8,
    "run": 8,
}
"""Of a hundred kills in all, how many are of each command; those of the server are counted in its own test."""


def make_case(name: str, words: Path, taught: Path, address: str) -> Case:
    """A command to kill.

    Args:
        name: One of `KILLS`.
        words: Directory of a small word list.
        taught: A run that is finished up to SFT, whose games and model the others begin with, unless `BEGINS_WINNING`.
        address: Of an endpoint that plays.
    """
    listed = ("--words", str(words))
    asked = (*listed, "--base-url", address)
    many = ("--num-games", "12300", "--outside-rate", "0.2", "--pseudo-rate", "0.3")
    many = (*many, "--teacher.opener", "None")
    arguments = {
        "traces": ("traces", "--out", "games.jsonl", *listed, *many),
        "traces-openai": (*("traces", "--teacher", "openai", "--model", "m", "--out", "llm.jsonl"), *asked),
        "eval": ("eval", "--player", "solver", "--out", "solver.json", "--split", "all", *listed),
        "eval-openai": ("eval", "--player", "openai:m", "--out", "llm.json", "--split", "all", *asked),
        "run": ("run", "config.toml", "--out", "run"),
    }
    command = arguments.get(name, ("run", "config.toml", "--out", "run", "--until", name))
    return Case(name, command, partial(_prepare, name, words, taught), frozenset({"llm.jsonl", "llm.games.jsonl"}))


def _prepare(name: str, words: Path, taught: Path, directory: Path) -> None:
    """Write what a command begins with into its directory."""
    if name == "run":
        write_config(directory / "config.toml", words, **{**TRAININGS["grpo"], "grpo__steps": "1"})
    elif name in LEARNT:
        # The model guesses words of its own list, so all of them can be guessed.
        (directory / "words").mkdir()
        shutil.copy(words / "answers.txt", directory / "words")
        (directory / "words" / "guesses.txt").write_text("\n".join(load_words().guesses) + "\n")
        write_config(directory / "config.toml", Path("words"), **TRAININGS[name])
    elif name in TRAININGS:
        write_config(directory / "config.toml", words, **TRAININGS[name])
    if name in TRAININGS and name not in ("sft", *LEARNT):
        begun(load_config(directory / "config.toml"), directory / "run", taught)


EXACT = {
    "sft": (
        # the run directory: a manifest without its config
        "wordle_rl.runs.run:write_json:after:1",
        # a validation is taken, not yet logged; logged, without the checkpoint of its step
        "wordle_rl.train.learner:TorchLearner.evaluate:after:2",
        "wordle_rl.train.training_loop:complete_checkpoint:before:3",
        # an epoch ends; its own model is not there yet, then it is
        "wordle_rl.train.learner:TorchLearner.save_model:before:1",
        "wordle_rl.train.learner:TorchLearner.save_model:after:1",
        # the weights of a checkpoint are written, its mark is not; then its mark, not yet the removal of older ones
        "wordle_rl.train.training_loop:complete_checkpoint:before:2",
        "wordle_rl.train.checkpoints:write_record:after:2",
        # a line of metrics is there, the checkpoint of its step is not
        "wordle_rl.runs.run:append_jsonl:after:6",
        # the model is saved, the checkpoints are still there; the model is finished, the checkpoints are still there
        "wordle_rl.pipeline.stages:finish_model:before:1",
        "wordle_rl.train.training_loop:drop_checkpoints:before:1",
    ),
    "grpo": (
        "wordle_rl.train.training_loop:complete_checkpoint:before:1",
        "wordle_rl.train.training_loop:complete_checkpoint:after:1",
        # the reward switches with the fifth step's compliance, which the next step reads
        "wordle_rl.train.grpo_rollouts:GroupRollouts.note_compliance:after:1",
        "wordle_rl.train.grpo_rollouts:GroupRollouts.note_compliance:after:5",
        # the choice of weights: between validation and record, among the blends, before and after they are taken
        "wordle_rl.train.checkpoint_selection:BestWeights._keep:before:3",
        "wordle_rl.train.learner:save_file:after:3",
        "wordle_rl.train.learner:TorchLearner.interpolate:before:1",
        "wordle_rl.train.checkpoint_selection:BestWeights.end:after:1",
        "wordle_rl.train.training_loop:drop_checkpoints:before:1",
        "wordle_rl.train.training_loop:drop_checkpoints:after:1",
    ),
    "distill": (
        # a round is played and labelled, not yet stored; stored, not yet sealed; sealed, not yet trained; trained; the
        # weights saved, without their record; with it
        "wordle_rl.train.play_loop:write_jsonl:before:2",
        "wordle_rl.train.play_loop:write_jsonl:after:2",
        "wordle_rl.train.play_loop:write_record:after:2",
        "wordle_rl.train.learner:TorchLearner.save_model:before:2",
        "wordle_rl.train.learner:TorchLearner.save_model:after:2",
        "wordle_rl.train.training_loop:complete_checkpoint:before:2",
        "wordle_rl.train.training_loop:complete_checkpoint:after:2",
        "wordle_rl.pipeline.stages:finish_model:after:1",
    ),
}
"""Places at which a command is killed: a checkpoint, its mark, an epoch's end, a switch, the choice of weights; see
`ForkServer.run`."""
