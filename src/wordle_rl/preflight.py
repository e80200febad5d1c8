"""Will this run work? Asked before anything is trained: template, stop tokens, budgets, memory, a few games.

The checks themselves are in `checks`; here the model is looked up, loaded and asked to play.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from wordle_rl.chat import ChatCodec, mask_picture
from wordle_rl.checks.budgets import longest_game, longest_reply
from wordle_rl.checks.device import check_memory
from wordle_rl.checks.findings import Finding
from wordle_rl.checks.memory import Device, MemoryEstimate, ModelNumbers, Stage, estimate, stage_works
from wordle_rl.checks.settings import budgets_of, check_engines, check_model, check_teacher, check_teacher_replies
from wordle_rl.checks.template import sample_game, token_text
from wordle_rl.config import ConfigError, GRPOSettings, ModelSettings, RunConfig, VLLMSettings
from wordle_rl.processes import check_processes, sharding
from wordle_rl.prompt import Prompter
from wordle_rl.reward import format_compliance
from wordle_rl.rl.credit import CREDITS, is_constant
from wordle_rl.rollout import Start, groups_of, play
from wordle_rl.samplers.base import Sampler
from wordle_rl.solver import Solver
from wordle_rl.split import Split, split_secrets
from wordle_rl.teaching.dataset import Example, encode_traces
from wordle_rl.teaching.given_traces import GivenTraces
from wordle_rl.teaching.teacher import SolverTeacher
from wordle_rl.teaching.traces import Trace, draw_secrets, solver_traces
from wordle_rl.templates import ChatTemplateError, changes_of
from wordle_rl.words import WordList, load_words

_TEACHER_GAMES = 256


@dataclass(frozen=True, slots=True)
class Played:
    """How a model played a few groups of games. Shares are 0 to 1; a reply is overlong if it was cut at its limit."""

    num_games: int
    win_rate: float
    format_compliance: float
    overlong_share: float
    zero_variance_share: float
    mean_reply_tokens: float


@dataclass(frozen=True)
class Preflight:
    """All that was found. What could not be looked at is None or empty; lengths are in tokens."""

    findings: tuple[Finding, ...]
    numbers: ModelNumbers | None = None
    template_changes: tuple[str, ...] = ()
    turn_end: str = ""
    stop_tokens: tuple[str, ...] = ()
    longest_reply: int | None = None
    longest_game: int | None = None
    longest_teacher_game: int | None = None
    picture: str = ""
    device: Device | None = None
    memory: dict[Stage, MemoryEstimate] = field(default_factory=dict)
    played: Played | None = None


def check_play(played: Played, limit: int, section: str = "grpo") -> list[Finding]:
    """What a few games say about how much there is to learn from.

    Args:
        played: What they came to.
        limit: The budget of a reply in tokens.
        section: Of the settings they were played by.
    """
    findings = []
    if played.overlong_share > 0.1:
        message = (
            f"{played.overlong_share:.0%} of the replies are cut at {limit} tokens; raise "
            f"{section}.sampling.max_completion_tokens or let the model think less"
        )
        findings.append(Finding("warning", message))
    if played.format_compliance < 0.5:
        message = f"only {played.format_compliance:.0%} of the replies hold a listed word; have SFT teach that first"
        findings.append(Finding("warning", message))
    if played.zero_variance_share > 0.5:
        more = f"raise {section}.sampling.temperature or {section}.group_size"
        mend = more if played.win_rate else "train SFT first, or longer"
        message = (
            f"{played.zero_variance_share:.0%} of the groups teach nothing, since all their games earn the same; {mend}"
        )
        findings.append(Finding("warning", message))
    return findings


def play_groups(
    config: RunConfig,
    words: WordList,
    prompter: Prompter,
    sampler: Sampler,
    starts: Sequence[Start],
    solver: Solver,
    max_prompt_tokens: int | None = None,
) -> Played:
    """Play groups of games as a step of the chosen algorithm would and measure them.

    Args:
        config: Rewards and credit.
        words: The word list.
        prompter: Wording, shape and rules.
        sampler: The model.
        starts: As many equal starts for each group as the algorithm's `group_size`.
        solver: For rewards that ask it.
        max_prompt_tokens: The longest prompt the model takes; None: no bound.
    """
    settings = config.play_settings
    trajectories = play(starts, words, prompter, sampler, max_prompt_tokens=max_prompt_tokens)
    rubric = settings.reward.schedule().rubric_at(0)
    credit = CREDITS[settings.credit if isinstance(settings, GRPOSettings) else "game"]
    constant = [
        is_constant(credit([rubric.score(trajectory.transcript, solver).turn_rewards for trajectory in group]))
        for group in groups_of(trajectories, settings.group_size)
        if len(group) > 1  # else nothing is compared
    ]
    transcripts = [trajectory.transcript for trajectory in trajectories]
    replies = [turn for transcript in transcripts for turn in transcript.own_turns]
    return Played(
        num_games=len(transcripts),
        win_rate=statistics.fmean(transcript.won for transcript in transcripts),
        format_compliance=format_compliance(transcripts),
        overlong_share=statistics.fmean(turn.overlong for turn in replies),
        zero_variance_share=statistics.fmean(constant) if constant else 0.0,
        mean_reply_tokens=statistics.fmean(turn.num_tokens or 0 for turn in replies),
    )


def preflight(config: RunConfig, num_groups: int) -> Preflight:
    """Look at a run from all sides.

    Args:
        config: Every setting.
        num_groups: Groups of games the model plays; 0: none, so that its weights are not needed.

    Raises:
        ConfigError: If there is no way to look, because torch is missing or the words are.
    """
    try:
        from wordle_rl.models.loading import device_memory, load_codec, load_numbers
    except ModuleNotFoundError as error:
        raise ConfigError(f'preflight needs {error.name}: pip install "wordle-rl[train]"') from None
    words = load_words(config.words.source)
    split, prompter = split_secrets(words, config.words.split_seed), config.game.prompter(words.word_length)
    findings: list[Finding] = [*_check_launch(config), *check_engines(config)]
    engine = _engine_of(config)
    codec = numbers = None
    try:
        numbers = load_numbers(config.model)
        codec, _ = load_codec(config.model)
    except (ConfigError, ChatTemplateError) as error:
        findings.append(Finding("problem", str(error)))
    if numbers is None:
        return Preflight(tuple(findings))
    device = device_memory()
    most = config.eval.max_games or len(words.answers)
    num_secrets = sum(min(len(part), most) for part in (split.train, split.val, split.test))
    if codec is None:
        memory = _memory(config, numbers, None, None, num_secrets)
        findings += check_memory(memory, device, engine, sharding())
        return Preflight(tuple(findings), numbers, device=device, memory=memory)
    solver = Solver(words)
    taught = teacher_examples(config, words, split, prompter, codec, solver)
    lengths = [len(example.token_ids) for example in taught]
    longest = max(longest_game(words, prompter, codec, budget) for budget in budgets_of(config).values())
    memory = _memory(config, numbers, max(lengths), longest, num_secrets)
    findings += check_model(config, words, prompter, codec, numbers)
    findings += [*check_teacher(lengths, config.sft.max_length), *_check_replies(config, taught)]
    findings += check_memory(memory, device, engine, sharding())
    played = None
    if num_groups and config.model.path == "tiny":
        findings.append(
            Finding("note", "the embedded model starts untrained and plays no games here; name one with model.path")
        )
    elif num_groups and not any(finding.level == "problem" for finding in findings):
        try:
            played = _play_model(config, words, prompter, split, solver, num_groups)
        except ConfigError as error:
            findings.append(Finding("problem", str(error)))
        else:
            findings += check_play(played, config.play_settings.sampling.max_completion_tokens, config.algorithm)
    return Preflight(
        findings=tuple(findings),
        numbers=numbers,
        template_changes=changes_of(str(codec.tokenizer.chat_template)),
        turn_end=codec.frame.turn_end,
        stop_tokens=tuple(token_text(codec, token) for token in sorted(codec.stop_ids)),
        longest_reply=longest_reply(words, prompter, codec),
        longest_game=longest,
        longest_teacher_game=max(lengths),
        picture=mask_picture(codec, *codec.encode_game(sample_game(words, prompter))),
        device=device,
        memory=memory,
        played=played,
    )


def check_room(config: RunConfig, model: ModelSettings, stages: Collection[str]) -> list[Finding]:
    """Whether these stages have room, from the model's config.json alone; nothing is loaded, no game is played.

    Args:
        config: Every setting.
        model: Where the stages begin: the base model, or what SFT made of it.
        stages: `sft`, the name of the algorithm, `eval`; others are not counted.
    """
    from wordle_rl.models.loading import device_memory, load_numbers

    memory = _memory(config, load_numbers(model), None, None, num_secrets=1)
    ahead: dict[Stage, MemoryEstimate] = {stage: needed for stage, needed in memory.items() if stage in stages}
    return check_memory(ahead, device_memory(), _engine_of(config), sharding())


def _check_launch(config: RunConfig) -> list[Finding]:
    try:
        check_processes(config, ("sft", config.algorithm))
    except ConfigError as error:
        return [Finding("problem", str(error))]
    return []


def _engine_of(config: RunConfig) -> VLLMSettings | None:
    return config.grpo.vllm if config.grpo.engine == "vllm" else None


def teacher_examples(
    config: RunConfig, words: WordList, split: Split, prompter: Prompter, codec: ChatCodec, solver: Solver
) -> list[Example]:
    """The sequences that a few teacher games make."""
    settings = config.traces.model_copy(update={"num_games": _TEACHER_GAMES})
    traces: Iterable[Trace]
    if settings.file is not None:
        traces = GivenTraces(words, split, settings, config.game)
    else:
        secrets = draw_secrets(words, split, settings, config.seed)
        traces = solver_traces(words, secrets, SolverTeacher(solver), settings, config.seed)
    return encode_traces(traces, prompter, codec, max_length=10**9).examples


def _check_replies(config: RunConfig, taught: Iterable[Example]) -> list[Finding]:
    thinks = config.traces.narrate or config.traces.file is not None  # others say nothing but the guess
    return check_teacher_replies(reply_lengths(taught), budgets_of(config)) if thinks else []


def reply_lengths(examples: Iterable[Example]) -> list[int]:
    """Tokens of every reply that is learnt, its closing token included."""
    runs = (groupby(example.loss_mask) for example in examples)
    return [len(list(run)) for found in runs for learnt, run in found if learnt]


def _memory(
    config: RunConfig, numbers: ModelNumbers, teacher_length: int | None, game_length: int | None, num_secrets: int
) -> dict[Stage, MemoryEstimate]:
    """What each stage takes; lengths that are not known are taken to be the longest allowed."""
    from wordle_rl.models.loading import SMALL_VOCABULARY, attention_of
    from wordle_rl.training.optimizer import wants_bf16

    longest = min(config.sft.max_length, numbers.context or config.sft.max_length)
    works = stage_works(
        config,
        teacher_length=teacher_length or longest,
        game_length=min(game_length or longest, numbers.context or game_length or longest),
        num_secrets=num_secrets,
        bf16={
            "sft": wants_bf16(config.sft.precision),
            config.algorithm: wants_bf16(config.play_settings.precision),
        },
        eager_attention=attention_of(config.model) == "eager",
        tiled_sft=numbers.vocab_size > SMALL_VOCABULARY,
    )
    return {stage: estimate(numbers, work) for stage, work in works.items()}


def _play_model(
    config: RunConfig, words: WordList, prompter: Prompter, split: Split, solver: Solver, num_groups: int
) -> Played:
    """Load the model and have it play groups of training secrets."""
    from wordle_rl.models.loading import load_model
    from wordle_rl.rl.games import prompt_budget
    from wordle_rl.samplers.transformers import TransformersSampler

    settings = config.play_settings
    model, codec = load_model(config.model, config.seed)
    sampler = TransformersSampler(model, codec, settings.sampling, config.seed)
    secrets = random.Random(config.seed).sample(split.train, min(num_groups, len(split.train)))
    starts = [Start(secret) for secret in secrets for _ in range(settings.group_size)]
    budget = prompt_budget(model, settings, config.algorithm)
    return play_groups(config, words, prompter, sampler, starts, solver, budget)
