"""The list of checks before a training: `run` stops at exactly what `preflight` reports as a problem.

A check takes a `Plan` and yields findings; a `UserError` that it raises counts as a problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from wordle_rl.chat.codec import ChatCodec, longest_game, longest_reply
from wordle_rl.config.context import GameContext
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.refusals import check_launch, refused_settings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import kind_of
from wordle_rl.config.training import OptimizerSettings
from wordle_rl.data.dataset import TracesFromFile
from wordle_rl.data.game_record import GameRecord
from wordle_rl.errors import UserError
from wordle_rl.policy.base import find_backend
from wordle_rl.policy.directory import game_of
from wordle_rl.policy.sizes import ModelNumbers
from wordle_rl.policy.vllm import check_vllm
from wordle_rl.preflight import Finding, note, problem, warning
from wordle_rl.preflight.memory import MemoryEstimate, check_memory, device_for, memory_of_stages
from wordle_rl.preflight.template import check_stops, check_template, check_wording, sample_game, texts_of
from wordle_rl.prompt import Shape, Style
from wordle_rl.reward import TERMINAL_COMPONENTS
from wordle_rl.runs.distributed import launch
from wordle_rl.runs.progress import in_percent
from wordle_rl.runs.run import Tracking
from wordle_rl.runs.trackers import check_trackers
from wordle_rl.teachers.games import draw_secrets, own_teacher, own_teacher_traces, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.starts_file import start_boards_of


class LookedUp(NamedTuple):
    """What can be read of a model without its weights, and what went wrong."""

    numbers: ModelNumbers | None
    codec: ChatCodec | None
    fault: str = ""


@dataclass(frozen=True)
class Plan:
    """A run, or the part of it that is still ahead.

    Attributes:
        ahead: What is to be done: `traces`, names of stages, `eval`.
        begins: The model that the first of these trainings starts from.
        boards: The files of initial states, by stage.
        memory_gib: Memory of the GPU or Mac that will train. None: this machine.
    """

    config: RunConfig
    context: GameContext
    ahead: Collection[str]
    begins: ModelSettings
    boards: Mapping[str, Path] = field(default_factory=dict)
    memory_gib: float | None = None

    @classmethod
    def whole(cls, config: RunConfig, context: GameContext, memory_gib: float | None = None) -> Plan:
        """Plan a run of which nothing is done yet."""
        boards = {stage: own.starts.file for stage, own in config.stages_of() if own.starts.file is not None}
        ahead = {*config.chain, "eval"} - {"report"}
        return cls(config, context, ahead, config.model, boards, memory_gib)

    @property
    def stages(self) -> list[str]:
        """Trainings that are ahead, in order."""
        return [stage for stage in self.config.stages if stage in self.ahead]

    @property
    def teaches(self) -> bool:
        """True if SFT is ahead."""
        return any(kind_of(stage) == "sft" for stage in self.stages)

    @property
    def begins_here(self) -> bool:
        """True if the first training starts from `model.path`, not from a model that this run trained."""
        return self.config.stages[0] in self.ahead

    @cached_property
    def model(self) -> LookedUp:
        """The model of `model.path`."""
        from wordle_rl.policy.loading import load_codec, load_numbers

        numbers = None
        try:
            numbers = load_numbers(self.config.model)
            codec = load_codec(self.config.model)
        except UserError as error:
            return LookedUp(numbers, None, str(error))
        return LookedUp(numbers, codec)

    @cached_property
    def taught(self) -> list[Example]:
        """A few teacher games as sequences; empty if there is nothing to teach, or no tokenizer."""
        if "traces" not in self.ahead or not self.stages or self.model.codec is None or [*_opener(self)]:
            return []
        return teacher_examples(self.config, self.context, self.model.codec)

    @cached_property
    def teacher_length(self) -> int | None:
        """Tokens of the longest of these games; None if there is none."""
        return max((len(example.token_ids) for example in self.taught), default=None)

    @cached_property
    def game_length(self) -> int | None:
        """Tokens of the longest game that a policy can play; None without a tokenizer."""
        context, codec = self.context, self.model.codec
        if codec is None:
            return None
        return longest_game(context.words, context.prompter, codec, self.config.max_completion_tokens)

    @cached_property
    def memory(self) -> dict[str, MemoryEstimate]:
        """Memory of each stage that is ahead."""
        from wordle_rl.policy.loading import load_numbers

        numbers, elsewhere = load_numbers(self.begins), self.memory_gib is not None
        lengths = self.teacher_length, self.game_length
        found = memory_of_stages(self.config, numbers, *lengths, elsewhere=elsewhere)
        return {stage: needed for stage, needed in found.items() if stage in self.ahead}


def _settings(plan: Plan) -> Iterator[Finding]:
    # `load_config` refuses these too; a config that was built in code has not been checked.
    yield from (problem(sentence) for sentence in refused_settings(plan.config))


def _backend(plan: Plan) -> None:
    if plan.config.backend != "torch":
        find_backend(plan.config.backend).check_settings(plan.config)


def _strict_words(plan: Plan) -> Iterator[Finding]:
    context, own_prompt = plan.context, plan.config.game.system_prompt
    if not context.split.strict or not {*plan.ahead} - {"eval"}:  # what is trained may be evaluated by any prompt
        return
    said = texts_of(context.for_training.words, context.prompter)
    for setting, texts, fix in (("system_prompt", [own_prompt], "reword it"), ("style", said, "choose another")):
        if named := sorted(context.split.strict_words_in(*texts)):
            yield problem(
                f"game.{setting} contains {named[0]!r}, a strict word (words.strict_fraction), which training must "
                f"never name; {fix}"
            )
            return


def _opener(plan: Plan) -> Iterator[Finding]:
    config, words = plan.config, plan.context.for_training.solver.words
    opener, is_asked = config.traces.teacher.opener, any(kind_of(stage) == "distill" for stage in plan.stages)
    if opener is None or config.traces.file is not None or not ("traces" in plan.ahead or is_asked):
        return
    if opener in plan.context.split.strict:
        yield problem(
            f"traces.teacher.opener {opener!r} is a strict word (words.strict_fraction), which training never names; "
            "give another opener"
        )
    elif opener not in words:
        yield problem(
            f"traces.teacher.opener {opener!r} is not in word list {words.name!r}; give a listed word, or let the "
            "teacher choose (no opener in a config file, None on the command line)"
        )


def _given_games(plan: Plan) -> None:
    config, context = plan.config, plan.context
    if config.traces.file is not None and "traces" in plan.ahead:
        next(iter(TracesFromFile(context.words, context.split, config.traces, config.game)))  # raises if none is usable


def _given_starts(plan: Plan) -> Iterator[Finding]:
    for stage, path in plan.boards.items():
        if stage in plan.ahead:
            yield note(start_boards_of(plan.config, stage, plan.context, path).counted())


def _launch(plan: Plan) -> None:
    check_launch(plan.config, plan.stages, launch())


def _packages(plan: Plan) -> None:
    from wordle_rl.policy.device import check_bf16
    from wordle_rl.policy.loading import check_packages

    config = plan.config
    if plan.stages:
        check_trackers(config.trackers, Tracking.named(Path(), config.report_project, config.trackio_space))
        check_packages(config.model)
        if config.model.precision == "bf16":
            check_bf16('model.precision "bf16"')


def _engines(plan: Plan) -> None:
    if not plan.begins_here:
        return
    asked = {stage: own.engine for stage, own in plan.config.stages_of("grpo") if own.plays_by_vllm}
    if plan.config.eval.engine == "vllm":
        asked["eval"] = plan.config.eval.engine
    if asked:
        check_vllm(" and ".join(f'{name}.engine "{engine}"' for name, engine in asked.items()))


def _model(plan: Plan) -> Iterator[Finding]:
    if not plan.begins_here:
        return
    numbers, codec, fault = plan.model
    if numbers is None or codec is None:
        yield problem(fault)
        return
    prompter = plan.context.prompter
    game = sample_game(plan.context.words, prompter)
    yield from check_template(codec, game, prompter.thinking)
    yield from check_wording(prompter)
    yield from check_stops(codec, game, numbers.vocab_size)
    yield from _check_lengths(plan, codec, numbers.context)
    yield from check_updates(plan.config, numbers)
    yield from check_pretrained(plan.config, numbers)


def _teacher(plan: Plan) -> Iterator[Finding]:
    config, taught, traces = plan.config, plan.taught, plan.config.traces
    if taught and plan.teaches:
        yield from check_teacher([len(example.token_ids) for example in taught], config.model.max_length)
    # Without thinking, a reply of the solver is only a guess; unchecked rows need hold none that could be cut off.
    if taught and traces.checked and (traces.narrate or traces.file is not None or traces.teacher.is_own):
        runs = (run for example in taught for run in groupby(example.loss_mask))
        lengths = [len([*run]) for learnt, run in runs if learnt]  # of replies, closing tokens included
        yield from check_teacher_replies(lengths, config.max_completion_tokens)


def _room(plan: Plan) -> Iterator[Finding]:
    if not {*plan.ahead} - {"traces"} or (plan.begins_here and plan.model.numbers is None):
        return
    known = plan.game_length is not None and (plan.teacher_length is not None or not plan.teaches)
    device = device_for(plan.config, plan.memory_gib)
    yield from check_memory(plan.config, plan.memory, device, lengths_known=known)


CHECKS: tuple[Callable[[Plan], Iterable[Finding] | None], ...] = (
    _settings,
    _backend,
    lambda plan: check_sparse_rewards(plan.config),
    lambda plan: check_probes(plan.config),
    _strict_words,
    _opener,
    _given_games,
    _given_starts,
    _launch,
    _packages,
    _engines,
    _model,
    _teacher,
    _room,
)
"""All checks that need neither weights nor games of the model, in the order of the report."""


def findings_of(plan: Plan) -> list[Finding]:
    """Return the findings of all checks, each message once."""
    found: dict[str, Finding] = {}
    for check in CHECKS:
        # An error of one check must not hide what the others find, or you would mend one line a call.
        try:
            for finding in check(plan) or ():
                found.setdefault(finding.message, finding)
        except UserError as error:
            found.setdefault(str(error), problem(str(error)))
    return [*found.values()]


_SMALL_RATE = 1e-4
"""A step of AdamW is about its rate; in bfloat16 a weight of 0.02 to 0.05 moves by 1e-4 to 2e-4 or not at all."""


def check_updates(config: RunConfig, numbers: ModelNumbers) -> Iterator[Finding]:
    """Check that the weights can represent the steps of AdamW; in 16 bits, small ones are lost."""
    for stage in config.stages:
        settings: OptimizerSettings = config.settings_of(stage).optimizer
        if (numbers.trainable_bytes or numbers.weight_bytes) <= 2 and settings.learning_rate < _SMALL_RATE:
            yield warning(
                f"{stage}.optimizer.learning_rate {settings.learning_rate:g} is too small for many 16-bit weights, "
                'which cannot represent such a change; set model.dtype to "float32" (model.precision still sets the '
                "arithmetic), or model.lora.rank"
            )


_HIGH_SHARE = 0.25
"""Largest share of SFT's rate at which wins alone were learnt from below temperature 1 without a fall: docs/grpo.md."""


def check_sparse_rewards(config: RunConfig) -> Iterator[Finding]:
    """Check that a policy gradient by wins alone, below temperature 1, is not followed as fast as SFT's gradient."""
    for stage, own in config.stages_of("grpo"):
        tables = [weights for _, weights in own.reward.schedule().phases]
        by_wins = any({name for name, weight in each.items() if weight} <= TERMINAL_COMPONENTS for each in tables)
        if own.temperature >= 1 or own.belief_weight or not by_wins:
            continue
        taught, rate = config.sft.optimizer.learning_rate, own.optimizer.learning_rate
        if stage in config.stages and rate > _HIGH_SHARE * taught:
            yield warning(
                f"{stage}.optimizer.learning_rate {rate:g} is above a quarter of SFT's {taught:g}, and {stage}.reward "
                f"pays wins alone at temperature {own.temperature:g}: such a gradient is nearly all noise, and greedy "
                "play falls; set the temperature to 1, lower the rate, or reward every guess (consistency, valid_word)"
            )


def check_probes(config: RunConfig) -> Iterator[Finding]:
    """Check that play does not unlearn what the teacher's games show: words named to tell many answers apart."""
    teacher = config.traces.teacher
    if teacher.is_own or teacher.plan == "classes" or teacher.noise_rate == 1:
        return
    for stage, own in config.stages_of("expert_iteration"):
        if stage in config.stages and own.labels == "mistakes":
            yield warning(
                f"{stage}.labels mistakes corrects each word that the marks rule out, and a teacher with "
                f"traces.teacher.plan {teacher.plan!r} names such words on purpose; play would unlearn them; set "
                f"{stage}.labels to refused"
            )


_PRETRAINED = 20_000_000
"""Number of parameters from which a model counts as pretrained; the embedded one has 0.8 M."""
_LARGE = 600_000_000
_HIGHEST_RATES = {"small": (2e-3, 2e-4), "large": (5e-4, 5e-5)}
"""Highest rates of AdamW for full fine-tuning, below and from `_LARGE` on: for SFT-like losses, and for GRPO or DPO.

Published fine-tunings use half of these or less: SmolLM-135M-Instruct 3e-4 (model card) and 1e-3 (v2), Qwen2.5 and
Qwen3 from 0.5 to 4 B 1e-5 to 2e-4; RL 1e-6 to 3e-5. Five steps of Muon at 0.02 with AdamW at 3e-3, which suit the
embedded model, take the loss of SmolLM2 on English from 3.19 to 4.43 nats per token.
"""
_HIGHEST_MUON_RATE = 5e-3
_FOR_ADAPTERS = 10
"""Adapters need about ten times the rate of full fine-tuning (Thinking Machines, "LoRA Without Regret", 2025)."""


def check_pretrained(config: RunConfig, numbers: ModelNumbers) -> Iterator[Finding]:
    """Check that a pretrained model is not trained like the embedded one: at ruinous rates, on coded prompts."""
    trained_so = game_of(Path(config.model.path))
    was_made_here = config.model.path == "tiny" or (trained_so is not None and trained_so.style is Style.COMPACT)
    if was_made_here or numbers.num_parameters < _PRETRAINED:
        return
    unfit = ['game.style "compact"'] if config.game.style is Style.COMPACT else []
    adapts = _FOR_ADAPTERS if numbers.num_trainable < numbers.num_parameters else 1
    by_labels, by_reward = _HIGHEST_RATES["large" if numbers.num_parameters >= _LARGE else "small"]
    for stage in config.stages:
        optimizer: OptimizerSettings = config.settings_of(stage).optimizer
        highest = by_reward if kind_of(stage) in ("grpo", "dpo") else by_labels
        rates = {"learning_rate": (optimizer.learning_rate, highest * adapts)}
        if optimizer.muon_learning_rate is not None:
            rates["muon_learning_rate"] = (optimizer.muon_learning_rate, _HIGHEST_MUON_RATE)
        for name, (rate, most) in rates.items():
            if rate > most:
                unfit.append(f"{stage}.optimizer.{name} {rate:g} (at most {most:g})")
    if unfit:
        yield problem(
            f"{', '.join(unfit)}: this suits the embedded model but ruins a pretrained one, which a model with "
            f"{numbers.num_parameters / 1e6:,.0f} M parameters is assumed to be; begin with "
            f"`wordle-rl run {_recipe_for(config, numbers)}`"
        )


def _recipe_for(config: RunConfig, numbers: ModelNumbers) -> str:
    if config.model.load_in_4bit:
        return "qwen2.5-3b-qlora"
    if numbers.num_parameters < 300e6:
        return "smollm2"
    if numbers.num_trainable < numbers.num_parameters or numbers.num_parameters < 1e9:
        return "qwen2.5-1.5b-lora"
    return f"qwen3-{'1.7b' if numbers.num_parameters < 3e9 else '4b'}"


def _check_lengths(plan: Plan, codec: ChatCodec, model_length: int | None) -> Iterator[Finding]:
    words, prompter, budget = plan.context.words, plan.context.prompter, plan.config.max_completion_tokens
    guess, game = longest_reply(words, prompter, codec), plan.game_length
    if budget < guess:
        yield problem(f"max_completion_tokens {budget} is too small; a guess needs up to {guess} tokens, so raise it")
    if model_length is not None and game is not None and game > model_length:
        shorter = ", shorten game.system_prompt" if prompter.system_prompt else ""
        shape = "" if prompter.shape is Shape.STATE else 'game.shape to "state" or '
        yield problem(
            f"a game can need {game} tokens with max_completion_tokens {budget}, but the model takes {model_length}; "
            f'lower it{shorter}, set {shape}game.style to "compact", or raise the context (model.max_length)'
        )


_MANY_CUT, _MOST_CUT = 0.05, 0.5
"""Fractions of the teacher's replies above the token budget that cause a warning, and a problem."""


def check_teacher(lengths: Sequence[int], max_length: int) -> Iterator[Finding]:
    """Check that teacher games, with these lengths in tokens, fit model.max_length."""
    left_out = sum(length > max_length for length in lengths) / len(lengths)
    if left_out:
        message = (
            f"model.max_length {max_length} leaves out {in_percent(left_out, 0)}% of the teacher's games; "
            f"raise it to {max(lengths)}"
        )
        yield problem(message) if left_out == 1 else warning(message)


def check_teacher_replies(lengths: Sequence[int], max_completion_tokens: int) -> Iterator[Finding]:
    """Check that replies as long as the teacher's, in tokens, fit the budget."""
    cut = sum(length > max_completion_tokens for length in lengths) / len(lengths)
    if cut > _MANY_CUT:
        enough = sorted(lengths)[math.ceil(0.95 * len(lengths)) - 1]
        message = (
            f"{in_percent(cut, 0)}% of the teacher's replies are longer than max_completion_tokens "
            f"{max_completion_tokens}, so completions would be cut before the guess; raise it (95 % need at most "
            f"{enough})"
        )
        yield problem(message) if cut > _MOST_CUT else warning(message)


_TEACHER_GAMES = 256
_OWN_TEACHER_GAMES = 16
"""Games of your own teacher, which can be slow or cost money."""


def teacher_examples(config: RunConfig, context: GameContext, codec: ChatCodec) -> list[Example]:
    """Encode a few teacher games as sequences to train on."""
    context = context.for_training  # a strict word is no answer to a teacher
    settings = config.traces.model_copy(update={"num_games": _TEACHER_GAMES})
    traces: Iterable[GameRecord]
    if settings.file is not None:
        traces = TracesFromFile(context.words, context.split, settings, config.game)
    elif settings.teacher.is_own:
        words = context.solver.words
        teacher = own_teacher(words, settings.teacher, config.game, config.seed)
        secrets = draw_secrets(words, context.split, settings, config.seed)[:_OWN_TEACHER_GAMES]
        traces = own_teacher_traces(words, secrets, teacher, config.seed)
    else:
        secrets = draw_secrets(context.words, context.split, settings, config.seed)
        traces = solver_traces(secrets, SolverTeacher(context.solver), settings, config.seed, config.game.max_turns)
    return encode_traces(traces, context.prompter, codec, max_length=10**9).examples
