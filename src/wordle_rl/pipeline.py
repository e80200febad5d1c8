"""The whole chain: words -> solver -> traces -> SFT -> GRPO, expert iteration, DPO or DAgger -> evaluation -> report.

Every stage leaves its product in the run directory and is skipped when that is already there, so an interrupted
run continues with the same command. Of several processes the first one plays teacher games, evaluates and writes; the
others wait for it and train with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from wordle_rl.before_run import check_before_run, is_trained
from wordle_rl.chat import ChatCodec
from wordle_rl.config import (
    ALGORITHM_NAMES,
    ConfigError,
    LoraSettings,
    ModelSettings,
    RunConfig,
    RunStage,
    SamplingSettings,
)
from wordle_rl.display import game_counter
from wordle_rl.evaluate import Conditions, Evaluation, evaluate, figures_by_split, journal_of, journal_path
from wordle_rl.players import model_sampler, weights_mark
from wordle_rl.processes import is_first, leave_process_group, wait_for_all
from wordle_rl.progress import ProgressCallback, show_progress
from wordle_rl.prompt import Prompter
from wordle_rl.report import write_report
from wordle_rl.rollout import Start
from wordle_rl.runs import LOCK_FILE, Run, exclusive_lock, is_run, read_object, start_anew, write_json, write_jsonl
from wordle_rl.runs.lineage import Lineage, leak_warning, lesson_of, save_lineage, trained_further
from wordle_rl.runs.provenance import peak_memory_gib
from wordle_rl.runs.run import BOARDS_FILE
from wordle_rl.samplers.base import Closable
from wordle_rl.sharing.card import CARD_FILE, write_cards
from wordle_rl.solver import Solver
from wordle_rl.split import Split, split_secrets
from wordle_rl.teaching.dataset import Example, encode_traces
from wordle_rl.teaching.given_starts import read_starts
from wordle_rl.teaching.given_traces import GivenTraces
from wordle_rl.teaching.traces import read_traces, write_solver_traces
from wordle_rl.words import WordList, load_words


class Pipeline:
    """One run of the chain.

    Args:
        config: Every setting.
        directory: The run directory; it is created, or continued if it holds a run with the same settings.
        console: Where progress is shown.
        anew: Remove an earlier run in that directory first, after everything that can be checked beforehand has passed.

    Raises:
        ConfigError: If settings do not fit each other.
        RunError: If the directory holds a different run.
    """

    def __init__(self, config: RunConfig, directory: Path, console: Console, *, anew: bool = False) -> None:
        self.config, self.console = config, console if is_first() else Console(quiet=True)
        self.words: WordList = load_words(config.words.source)
        self.split: Split = split_secrets(self.words, config.words.split_seed)
        self._lesson = lesson_of(config.words, self.split)
        self.prompter: Prompter = config.game.prompter(self.words.word_length)
        self.solver = Solver(self.words)
        self.run = Run(directory)
        self._anew = anew
        self._timings = directory / "timings.json"
        self._peak_memory_gib = 0.0

    def __call__(self, until: RunStage = "report") -> dict[str, Any] | None:
        """Run all stages up to and including `until`. Returns the results if that is the report, in the first process.

        Raises:
            ConfigError: If the chain has no such stage.
        """
        started = time.perf_counter()
        chain = self.config.chain
        if until not in chain:
            fix = f"set algorithm to {until}" if until in ALGORITHM_NAMES else "set sft.epochs above 0"
            raise ConfigError(f"this run goes through {', '.join(chain)}, not {until}; {fix}")
        chain = chain[: chain.index(until) + 1]
        directory = self.run.directory
        todo = check_before_run(self.config, self.words, self.split, directory, chain, anew=self._anew)
        wait_for_all()  # no process still looks at what the first one is about to change
        with ExitStack() as held:
            if is_first():
                if self._anew:
                    start_anew(directory)
                held.enter_context(exclusive_lock(directory / LOCK_FILE))
                self._tell_what_is_taken_over()
                self.run = Run.create(directory, self.config, self.split, adds=bool(todo))
            wait_for_all()
            self._anew = False  # what is there now belongs to this run
            if self._timings.is_file():
                spent = read_object(self._timings)
                self.run.seconds, self._peak_memory_gib = spent["seconds"], spent["peak_memory_gib"]
            if todo.traces or todo.sft:
                self.run.seconds["setup"] = self.run.seconds.get("setup", 0.0) + time.perf_counter() - started
            return self._go_through(chain)

    def _tell_what_is_taken_over(self) -> None:
        """Say which finished stages a new run finds in its directory, and which secrets its base model may know."""
        if is_run(self.run.directory):
            return
        taken = ["traces.jsonl", "sft"] if self.config.start == "sft" else []
        taken += [BOARDS_FILE] if self.config.starts_file is not None else []
        found = [name for name in taken if (self.run.directory / name).exists()]
        if found:
            holds = " and ".join(found)
            self.console.print(f"{self.run.directory} holds {holds} already: taken as they are", markup=False)
        if doubt := leak_warning(Path(self.config.model.path), self.split):
            self.console.print(f"model.path {doubt}", markup=False)

    def _go_through(self, chain: Sequence[RunStage]) -> dict[str, Any] | None:
        stages: dict[RunStage, Callable[[], None]] = {
            "traces": self._traces,
            "sft": self._sft,
            self.config.algorithm: self._learn_by_play,
        }
        for stage in chain:
            if stage in stages:
                stages[stage]()
                wait_for_all()
        leave_process_group()
        return self._report() if "report" in chain and is_first() else None

    def _traces(self) -> None:
        path, validation = (self.run.directory / name for name in ("traces.jsonl", "validation_traces.jsonl"))
        if path.is_file() or not is_first():
            return
        settings = self.config.traces
        if settings.file is not None:
            given = GivenTraces(self.words, self.split, settings, self.config.game)
            with self.run.stage("traces"):
                write_jsonl(validation, (trace.to_row() for trace in given.of_validation()))
                count = write_jsonl(path, (trace.to_row() for trace in given))
            left_out = f"; left out: {text}" if (text := given.left_out()) else ""
            self.console.print(f"{count:,} teacher games of {settings.file}{left_out}", markup=False, highlight=False)
            return
        with self._stage("traces", "Teacher games", settings.num_games) as advance:
            write_solver_traces(
                path,
                self.split,
                self.solver,
                settings,
                self.config.seed,
                lambda done: advance(done, settings.num_games, ""),
                validation,
            )

    def _sft(self) -> None:
        from wordle_rl.models.loading import context_length, load_model
        from wordle_rl.training.sft import train_sft

        if is_trained(self.run.directory / "sft"):
            return
        with self.run.stage("setup"):
            model, codec = load_model(self.config.model, self.config.seed)
        limit = min(self.config.sft.max_length, context_length(model) or self.config.sft.max_length)
        path = self.run.directory / "traces.jsonl"
        with path.open("rb") as lines:
            num_games = sum(1 for _ in lines)
        with self._stage("encode", "Encoding games", num_games) as advance:
            encoded = encode_traces(
                read_traces(path),
                self.prompter,
                codec,
                limit,
                lambda done: advance(done, num_games, ""),
            )
        if encoded.rejected:
            left_out = ", ".join(f"{count} {reason}" for reason, count in encoded.rejected.items())
            self.console.print(f"left out: {left_out}")
        validation = self._validation_examples(codec, limit)
        with self._stage("sft", "SFT", 0) as advance:
            directory = train_sft(
                model,
                codec,
                encoded.examples,
                self.config.sft,
                self.run,
                validation=validation,
                seed=self.config.seed,
                report_to=self.config.report_to,
                progress=advance,
            )
        if is_first():
            finish_model(directory, trained_further(Path(self.config.model.path), self.config.game, self._lesson))

    def _validation_examples(self, codec: ChatCodec, limit: int) -> list[Example]:
        """The run's teacher games of validation secrets as token sequences of at most `limit` tokens."""
        path = self.run.directory / "validation_traces.jsonl"
        if not self.config.sft.validations_per_epoch:
            return []
        traces = read_traces(path) if path.is_file() else ()
        held_out = (trace for trace in traces if self.split.part_of(trace.secret) == "val")
        examples = encode_traces(held_out, self.prompter, codec, limit).examples
        if not examples:
            self.console.print("no validation loss: there are no teacher games of validation secrets")
        return examples

    def _learn_by_play(self) -> None:
        name, settings = self.config.algorithm, self.config.play_settings
        if settings.is_skipped or is_trained(self.run.directory / name):
            return
        from wordle_rl.models.loading import load_model
        from wordle_rl.rl.games import GameSetup

        with self.run.stage("setup"):
            start = self.config.start_settings(self.run.directory)
            model, codec = load_model(start, self.config.seed)
        taught, secrets = self.split.shared(self.config.traces.rl_only_share)
        rehearsal = taught if taught != secrets else ()
        boards, share = self._given_starts(), self.config.starts_share
        setup = GameSetup(self.words, self.prompter, secrets, self.solver, self.split.val, rehearsal, boards, share)
        title = ALGORITHM_NAMES[name]
        with self._stage(name, title[0].upper() + title[1:], 0) as advance:
            directory = _training_of(self.config)(
                model,
                codec,
                setup,
                settings,
                self.run,
                seed=self.config.seed,
                report_to=self.config.report_to,
                progress=advance,
            )
        if is_first():
            finish_model(directory, trained_further(Path(start.path), self.config.game, self._lesson))

    def _given_starts(self) -> tuple[Start, ...]:
        """The boards of starts_file, kept in the run, so that a training that goes on draws from the same."""
        if self.config.starts_file is None:
            return ()
        outside = self.config.play_settings.learns_without_wins
        read = partial(read_starts, words=self.words, split=self.split, rules=self.prompter.rules, outside=outside)
        kept = self.run.directory / BOARDS_FILE
        if is_first() and not kept.is_file():
            given = read(self.config.starts_file)
            write_jsonl(kept, given.rows())
            self.console.print(given.counted(), markup=False, highlight=False)
        wait_for_all()
        return read(kept).starts

    def _report(self) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for name in self.config.evaluated:
            evaluations = [self._evaluate(name)]
            if self.config.eval.constrained:
                evaluations.append(self._evaluate(name, constrained=True))
            results[name] = {
                part: asdict(figures)
                for evaluation in evaluations
                for part, figures in figures_by_split(evaluation, self.split).items()
            }
        results["seconds"] = {stage: round(seconds, 1) for stage, seconds in self.run.seconds.items()}
        results["seconds"]["total"] = round(sum(self.run.seconds.values()), 1)
        results["peak_memory_gib"] = round(self._peak_memory_gib, 2)
        write_json(self.run.directory / "results.json", results)
        write_report(self.run.directory)
        write_cards(self.run.directory, anew=False)
        return results

    def _evaluate(self, name: str, *, constrained: bool = False) -> Evaluation:
        label = f"{name}-constrained" if constrained else name
        path = self.run.directory / "eval" / f"{label}.json"
        if path.is_file():
            return Evaluation.load(path)
        secrets = self.split.of_each_part(self.config.eval.max_games)
        if constrained:
            held_out = frozenset(self.split.test)
            secrets = [secret for secret in secrets if secret in held_out]
        sampling = SamplingSettings(
            temperature=0.0,
            max_completion_tokens=self.config.eval.max_completion_tokens,
            max_batch_size=self.config.eval.max_batch_size,
        )
        model = self._player(name)
        played_with = {
            "weights": weights_mark(Path(model.path)),
            "words": self.words.fingerprint,
            **self.config.eval.model_dump(mode="json", exclude={"constrained", "max_batch_size"}),
        }
        with ExitStack() as held:
            journal = held.enter_context(closing(journal_of(journal_path(path), played_with)))
            before = journal.kept(secrets)
            tell = held.enter_context(self._stage("eval", f"Evaluating {label}", len(secrets), len(before)))
            engine, seed = self.config.eval.engine, self.config.seed
            sampler = model_sampler(model, self.words, self.prompter, sampling, seed, engine, constrained=constrained)
            planned = Evaluation(
                name=name,
                player=model.path,
                parts=(),
                rules=self.prompter.rules,
                fingerprint=self.words.fingerprint,
                records=(),
                conditions=Conditions.of(self.prompter, sampler),
                constrain="words" if constrained else "none",
            )
            evaluation = evaluate(
                planned,
                secrets,
                self.words,
                self.prompter,
                sampler,
                solver=self.solver if self.config.eval.regret else None,
                batch_size=self.config.eval.max_batch_size,
                journal=journal,
                on_finished=game_counter(tell, len(secrets), before),
            )
            evaluation.save(path)
            journal.discard()
            if isinstance(sampler, Closable):
                sampler.close()
        return evaluation

    def _player(self, name: str) -> ModelSettings:
        """Where the model of an evaluation is; the base plays without the adapters that training would add."""
        if name == "base":
            return self.config.model.model_copy(update={"lora": LoraSettings()})
        return self.config.model_at(self.run.directory / name)

    @contextmanager
    def _stage(self, name: str, title: str, total: int, done: int = 0) -> Iterator[ProgressCallback]:
        """Time a stage and show how far it is."""
        try:
            with show_progress(self.console, title, total, done=done) as tell, self.run.stage(name):
                yield tell
        finally:
            self._peak_memory_gib = max(self._peak_memory_gib, peak_memory_gib())
            if is_first():
                spent = {"seconds": self.run.seconds, "peak_memory_gib": self._peak_memory_gib}
                write_json(self._timings, spent)


def _training_of(config: RunConfig) -> Callable[..., Path]:
    """The training function of the chosen algorithm; all take the same arguments, except for their settings."""
    name = config.algorithm
    if name == "expert_iteration":
        from wordle_rl.rl.expert_iteration import train_expert_iteration

        return train_expert_iteration
    if name == "dpo":
        from wordle_rl.rl.dpo import train_dpo

        return train_dpo
    if name == "dagger":
        from wordle_rl.rl.dagger import train_dagger

        return partial(train_dagger, traces=config.traces)
    from wordle_rl.rl.grpo import train_grpo

    return train_grpo


def finish_model(directory: Path, lineage: Lineage) -> None:
    """Store the lineage of a run's model beside it; remove the card and the evaluations of an earlier model."""
    (directory / CARD_FILE).unlink(missing_ok=True)  # peft leaves an empty form
    for epoch in (directory / "epochs").glob("epoch-*"):
        save_lineage(epoch, lineage)
    for label in (directory.name, f"{directory.name}-constrained"):
        evaluated = directory.parent / "eval" / f"{label}.json"
        evaluated.unlink(missing_ok=True)
        journal_path(evaluated).unlink(missing_ok=True)
    save_lineage(directory, lineage)
