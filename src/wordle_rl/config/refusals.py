"""Combinations that cannot work, each as a condition and the sentence that refuses it.

A rule within one section stands in that section's `check`. Every rule that needs two sections, or a section and the way
a run is launched, stands here, so `run`, `preflight` and the verl launcher refuse the same things:

    RUN       rules across the sections of a run
    STAGE     rules between a stage and the rest of the run, by the kind of the stage
    LAUNCH    rules between a stage and the processes that were launched
    MLX       what only torch follows
    VERL      what verl would ignore

`{stage}` stands for the name of the section, such as `grpo_2`; other braces are filled in from the run: `{run.seed}`,
`{own.temperature}`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import CREDIT_NAMES, Kind, kind_of
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Shape, Thinking

if TYPE_CHECKING:
    from wordle_rl.config.run import RunConfig

PLAYS: frozenset[Kind] = frozenset({"grpo", "expert_iteration", "dpo", "distill"})
"""Kinds of stages that learn by play."""
ROUNDS = PLAYS - {"grpo"}


class Launch(NamedTuple):
    """How the processes of a run were launched."""

    processes: int = 1
    sharded: bool = False
    """FSDP shards the model."""
    deepspeed: bool = False


class Case(NamedTuple):
    """A stage of a run, to be judged. `own` is its section."""

    run: RunConfig
    stage: str
    own: Any
    launch: Launch = Launch()


RunRule = tuple[Callable[["RunConfig"], object], str]
StageRule = tuple[Collection[Kind], Callable[[Case], object], str]


def _narrates(run: RunConfig) -> bool:
    return run.traces.narrate and run.game.thinking is not Thinking.OFF


def _solver_lacks_thinking(at: Case) -> bool:
    # A model as teacher thinks in its own way, and a distribution has a rule of its own.
    required = at.run.game.thinking is Thinking.REQUIRED
    return required and at.own.targets == "guess" and not at.run.traces.narrate


def _is_uneven(at: Case) -> bool:
    # Every step has the same number of backward passes, so that steps compare and processes never wait for each other.
    games = at.own.groups_per_step * at.own.group_size
    micro = at.run.model.micro_batch_size
    return bool(micro and games % min(micro, games))


RUN: tuple[RunRule, ...] = (
    (
        # Probes and the tree's guesses leave out hints; hard mode demands every hint in every guess.
        lambda run: run.game.hard_mode and run.traces.teacher.plan != "classes",
        'game.hard_mode forbids guesses of the teacher\'s plan; set traces.teacher.plan to "classes"',
    ),
    (
        # Strings that are no words cost a turn in these games: misspelt, or tried before an invented one.
        lambda run: (run.traces.slip_rate or run.traces.invented_rate) and run.game.dictionary is not Dictionary.STRICT,
        "traces.slip_rate and traces.invented_rate are for the strict dictionary, not {run.game.dictionary}; set them "
        "to 0",
    ),
    (
        # Random weights hardly ever spell a word, so no game would hold anything to learn from.
        lambda run: kind_of(run.stages[0]) != "sft" and run.model.path == "tiny",
        "stages begins with {run.stages[0]}, but model.path 'tiny' is untrained, so it would never win; name a trained "
        "model, or begin with sft",
    ),
    (
        # The games would be read and checked, and then ignored without a word.
        lambda run: run.traces.file is not None and not run.needs_traces,
        "no stage learns from traces.file; add sft to stages, or remove traces.file",
    ),
    (
        # The secrets leave the training part of the split, which all stages share.
        lambda run: len({own.validation_file for _, own in run.stages_of("grpo")}) > 1,
        "the validation_file of each GRPO stage decides which secrets the whole run never trains on, so all must name "
        "the same",
    ),
    (
        # vLLM loads models from directories, and the embedded model is made in memory.
        lambda run: run.eval.engine == "vllm" and "base" in run.evaluated and run.model.path == "tiny",
        'eval.engine "vllm" loads models from directories, but model.path "tiny" is not one; leave base out of '
        "eval.also",
    ),
)

STAGE: tuple[StageRule, ...] = (
    (
        {"distill"},
        # Labels are asked for at boards of the policy's own; a teacher of games may have no answer there.
        lambda at: at.run.traces.teacher.is_own and at.own.teacher_model is None,
        "{stage} learns the solver's guesses; remove traces.teacher.name, or name a model as {stage}.targets",
    ),
    (
        {"distill"},
        # Thoughts would differ with each word that is drawn; the trie of replies needs one form for all.
        lambda at: (
            at.own.targets == "distribution" and (at.run.game.thinking is Thinking.REQUIRED or _narrates(at.run))
        ),
        "{stage}.targets 'distribution' labels guesses without thinking; set game.thinking to \"off\", or "
        '{stage}.targets to "guess"',
    ),
    (
        {"distill"},
        _solver_lacks_thinking,
        "{stage} with game.thinking required needs the teacher's thinking; set traces.narrate",
    ),
    (
        {"expert_iteration"},
        # The label is a bare guess, so after some rounds nothing would be left of the thinking.
        lambda at: at.own.labels != "wins" and at.run.game.thinking is not Thinking.OFF,
        "{stage}.labels {own.labels!r} are guesses without thinking, so the model would forget to think; set "
        'game.thinking to "off"',
    ),
    (
        {"grpo"},
        # The belief is that of naming the secret at once.
        lambda at: at.own.belief_weight and at.run.game.thinking is not Thinking.OFF,
        '{stage}.belief_weight asks how likely the secret is as a reply without thinking; set game.thinking to "off"',
    ),
    (
        PLAYS,
        # A board that is full before the policy's first turn is no game.
        lambda at: at.own.starts.max_prefix_guesses >= at.run.game.max_turns,
        "{stage}.starts.max_prefix_guesses {own.starts.max_prefix_guesses} leaves no turn of {run.game.max_turns} to "
        "play; lower it",
    ),
    (
        PLAYS,
        # A row has no words of its own for what follows the first guess.
        lambda at: at.own.starts.own_prompt and getattr(at.own, "guesses", 0) != 1,
        "{stage}.starts.own_prompt is for single next guesses; use it in a stage of GRPO with guesses = 1",
    ),
    (
        {"grpo"},
        _is_uneven,
        "model.micro_batch_size {run.model.micro_batch_size} must divide the games of a step of {stage} "
        "({own.groups_per_step} x {own.group_size})",
    ),
)

ONE_PROCESS = "{stage} trains in one process; launch one, or leave it out of stages"
_SHARDED = "the launch file shards the model (FSDP): "
LAUNCH: tuple[StageRule, ...] = (
    (
        PLAYS | {"sft"},
        # Its optimizer keeps the weights in partitions of its own, which checkpoints here do not know.
        lambda at: at.launch.deepspeed,
        "a launch under DeepSpeed is not supported; use scripts/launch/ddp.yaml, or fsdp2.yaml to shard",
    ),
    (
        ROUNDS,
        # What a round chose is stored and shuffled as a whole, by one process.
        lambda at: at.launch.processes > 1 or at.launch.sharded,
        ONE_PROCESS,
    ),
    (
        {"grpo"},
        # transformers generates with whole layers; gathering them for every token would take hours.
        lambda at: at.launch.sharded and not at.own.plays_by_vllm,
        _SHARDED + "GRPO plays with the whole model on every process; use scripts/launch/ddp.yaml, with model.lora if "
        'memory is short, or set {stage}.engine to "vllm"',
    ),
    (
        {"grpo"},
        # An engine is sent merged weights, and merging needs the base and both factors in one place.
        lambda at: at.launch.sharded and at.run.model.lora.rank,
        _SHARDED + "GRPO with adapters needs the whole model; use scripts/launch/ddp.yaml",
    ),
    (
        {"grpo"},
        # The penalty needs the start's weights in place of the shards, layer by layer.
        lambda at: at.launch.sharded and at.own.beta,
        _SHARDED + "{stage}.beta compares with the whole start; set it to 0",
    ),
    (
        {"grpo"},
        # The best weights so far are one file, written by the first process.
        lambda at: at.launch.sharded and at.own.validate_every_steps,
        _SHARDED + "{stage}.validate_every_steps stores the whole model; set it to 0",
    ),
    (
        {"grpo"},
        # Processes ask for beliefs at different times, and sharded weights are gathered by all of them together.
        lambda at: at.launch.sharded and at.own.belief_weight,
        _SHARDED + "{stage}.belief_weight asks the whole model; set it to 0",
    ),
    (
        {"sft"},
        # transformers generates with whole layers, as above.
        lambda at: at.launch.sharded and at.own.plain_text_fraction,
        _SHARDED + "{stage}.plain_text_fraction has the whole model write; use scripts/launch/ddp.yaml, or set it to 0",
    ),
    (
        # Muon orthogonalises whole matrices; a shard of one has no meaningful orthogonalisation.
        {"sft", "grpo"},
        lambda at: at.launch.sharded and at.own.optimizer.muon_learning_rate is not None,
        "{stage}.optimizer.muon_learning_rate: Muon needs whole matrices, but the launch file shards them; leave out "
        "this setting",
    ),
)

MLX: tuple[RunRule, ...] = (
    (
        # MLX computes in the type of the weights; it has no autocast.
        lambda run: run.model.precision == "bf16" and run.model.dtype == "float32",
        'model.precision: leave it out, or set model.dtype to "bfloat16"',
    ),
    # mlx-lm brings its own attention.
    (lambda run: run.model.attn_implementation is not None, "model.attn_implementation: leave it out"),
    # MLX compiles what it evaluates by itself.
    (lambda run: run.model.compile, "model.compile: leave it out"),
    (lambda run: run.eval.engine == "vllm", "eval.engine: leave it out"),
    (
        lambda run: any(own.plays_by_vllm for _, own in run.stages_of("grpo")),
        "grpo.engine: leave it out",
    ),
    (lambda run: any(own.constrain != "none" for _, own in run.stages_of("grpo")), "grpo.constrain: leave it out"),
)

VERL: tuple[RunRule, ...] = (
    # What is played.
    (
        lambda run: run.game.shape is not Shape.TRANSCRIPT,
        'game.shape: a game is one growing row; set it to "transcript"',
    ),
    (lambda run: run.grpo.turn_candidates > 1, "grpo.turn_candidates: a turn is sampled once; set it to 1"),
    (lambda run: run.grpo.guesses, "grpo.guesses: games are played to their end; set it to 0"),
    (lambda run: run.grpo.updates_per_batch > 1, "grpo.updates_per_batch: --mini-batch-size says so; set it to 1"),
    (lambda run: run.grpo.outside_rate, "grpo.outside_rate: secrets are answers; set it to 0"),
    (
        lambda run: run.traces.rl_only_fraction,
        "traces.rl_only_fraction: all training secrets are played; set it to 0",
    ),
    (
        lambda run: not run.grpo.is_default("prioritized_fraction") and run.grpo.prioritized_fraction,
        "grpo.prioritized_fraction: secrets take turns; leave it out",
    ),
    (lambda run: run.grpo.probe_every_steps, "grpo.probe_every_steps: secrets take turns; set it to 0"),
    (
        lambda run: not run.grpo.is_default("max_refills") and run.grpo.max_refills,
        "grpo.max_refills: no group is replayed; leave it out",
    ),
    (lambda run: run.grpo.belief_weight, "grpo.belief_weight: rewards are of the game alone; set it to 0"),
    (lambda run: run.grpo.constrain != "none", 'grpo.constrain: the server samples freely; set it to "none"'),
    (lambda run: run.backend != "torch", 'backend: verl trains with torch; set it to "torch"'),
    (lambda run: run.model.compile, "model.compile: verl compiles nothing here; set it to false"),
    (lambda run: run.trackio_space, "report_to: trackio has no Space here; give trackio alone"),
    (lambda run: run.grpo.gradient_noise_every, "grpo.gradient_noise_every: verl keeps its gradients; set it to 0"),
    (
        lambda run: len(run.grpo.reward.schedule().phases) > 1,
        "grpo.reward: weights never change here; give one table of weights, or a preset that is no curriculum",
    ),
    (
        lambda run: not run.is_default("max_batch_size"),
        "max_batch_size: the server chooses its batches; leave it out",
    ),
    # How it is trained on.
    (
        lambda run: run.grpo.credit not in CREDIT_NAMES,
        "grpo.credit: a function of your own is not known here; give turn, guess or game",
    ),
    (
        lambda run: run.grpo.validate_every_steps,
        "grpo.validate_every_steps: weights are not chosen by validation; set it to 0 and --validate-every-steps",
    ),
    (lambda run: not run.grpo.is_default("engine"), "grpo.engine: --rollout says what plays; leave it out"),
    (
        lambda run: not run.grpo.is_default("gpu_memory_utilization"),
        "grpo.gpu_memory_utilization: --memory-fraction says so; leave it out",
    ),
    (
        lambda run: run.grpo.optimizer.muon_learning_rate is not None,
        "grpo.optimizer.muon_learning_rate: AdamW alone trains here; leave it out",
    ),
    (
        lambda run: run.grpo.optimizer.schedule not in ("constant", "cosine"),
        'grpo.optimizer.schedule: use "constant" or "cosine"',
    ),
    (
        lambda run: run.model.chat_template is not None,
        "model.chat_template: the model's own is rendered here; save yours with the model",
    ),
    (
        lambda run: run.model.load_in_4bit,
        "model.load_in_4bit: weights are held in 16 or 32 bits; set it to false",
    ),
    (lambda run: run.model.lora.rank, "model.lora: whole models are trained here; set model.lora.rank to 0"),
)


def refused_settings(run: RunConfig) -> Iterator[str]:
    """Yield a sentence for every rule of `RUN` and `STAGE` that a run breaks."""
    yield from (sentence.format(run=run) for applies, sentence in RUN if applies(run))
    for stage in run.stages:
        yield from _broken(STAGE, Case(run, stage, run.settings_of(stage)))


def check_launch(run: RunConfig, stages: Collection[str], launch: Launch) -> None:
    """Check that stages can work with the processes that were launched."""
    for stage in stages:
        for sentence in _broken(LAUNCH, Case(run, stage, run.settings_of(stage), launch)):
            raise ConfigError(sentence)


def _broken(rules: Sequence[StageRule], case: Case) -> Iterator[str]:
    for kinds, is_broken, sentence in rules:
        if kind_of(case.stage) in kinds and is_broken(case):
            yield sentence.format(**case._asdict())
