"""Will this run work? Asked before anything is trained: template, stop tokens, budgets, memory, a few games.

The checks themselves are in the other files of this room; here the model is looked up, loaded and asked to play.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.chat.lengths import longest_game, longest_reply
from wordle_rl.chat.templates import ChatTemplateError, changes_of
from wordle_rl.config import ConfigError, GRPOTraining, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import Example
from wordle_rl.models.backends import find_backend
from wordle_rl.models.numbers import Device, ModelNumbers
from wordle_rl.preflight.before_run import check_backend
from wordle_rl.preflight.device import check_memory, engine_beside, stage_memory
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.memory import MemoryEstimate, MemoryStage
from wordle_rl.preflight.model_fit import (
    check_engines,
    check_model,
    check_on_policy,
    check_teacher,
    check_teacher_replies,
)
from wordle_rl.preflight.teacher_sample import reply_lengths, teacher_examples
from wordle_rl.preflight.template import sample_game, token_text
from wordle_rl.preflight.unified_memory import check_unified, unified_memory, unified_works
from wordle_rl.reward import format_compliance
from wordle_rl.rl.advantages import CREDITS, is_constant
from wordle_rl.rl.initial_states import GroupStarts
from wordle_rl.rl.starts_file import StartBoards, start_boards_of
from wordle_rl.rollout import InitialState, groups_of, play
from wordle_rl.runs import RunError
from wordle_rl.runs.distributed import check_processes, sharding
from wordle_rl.runs.progress import in_percent
from wordle_rl.samplers.base import Sampler


@dataclass(frozen=True, slots=True)
class Played:
    """Figures of a few groups of games. Fractions are 0 to 1; a reply is overlong if it was cut at its limit."""

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
    memory: dict[MemoryStage, MemoryEstimate] = field(default_factory=dict)
    played: Played | None = None


def check_play(played: Played, limit: int) -> list[Finding]:
    """Findings from a few games about how much there is to learn from.

    Args:
        played: What they came to.
        limit: The budget of a reply in tokens.
    """
    findings = []
    if played.overlong_share > 0.1:
        message = (
            f"{in_percent(played.overlong_share, 0)}% of the replies are cut at {limit} tokens; raise "
            "max_completion_tokens or let the model think less"
        )
        findings.append(Finding("warning", message))
    if played.format_compliance < 0.5:
        share = in_percent(played.format_compliance, 0)
        message = f"only {share}% of the replies hold a listed word; have SFT teach that first"
        findings.append(Finding("warning", message))
    if played.zero_variance_share > 0.5:
        fix = "raise rl.sampling.temperature or rl.group_size" if played.win_rate else "train SFT first, or longer"
        share = in_percent(played.zero_variance_share, 0)
        message = f"{share}% of the groups teach nothing, since all their games earn the same; {fix}"
        findings.append(Finding("warning", message))
    return findings


def play_groups(
    config: RunConfig,
    context: GameContext,
    sampler: Sampler,
    starts: Sequence[InitialState],
    max_prompt_tokens: int | None = None,
) -> Played:
    """Play groups of games as a step of the chosen algorithm would and measure them.

    Args:
        config: Rewards and credit.
        context: Words, prompts and solver.
        sampler: The model.
        starts: As many equal starts for each group as the algorithm's `group_size`.
        max_prompt_tokens: The longest prompt the model takes; None: no bound.
    """
    settings = config.training
    trajectories = play(starts, context.words, context.prompter, sampler, max_prompt_tokens=max_prompt_tokens)
    rubric = settings.reward.schedule().rubric()
    credit = CREDITS[settings.credit if isinstance(settings, GRPOTraining) else "game"]
    constant = [
        is_constant(credit([rubric.score(trajectory.transcript, context.solver).turn_rewards for trajectory in group]))
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


def preflight(config: RunConfig, num_groups: int, memory_gib: float | None = None) -> Preflight:
    """Look at a run from all sides.

    Args:
        config: Every setting.
        num_groups: Groups of games the model plays; 0: none, so that its weights are not needed.
        memory_gib: With backend mlx: memory of the machine that is meant; None: this one's.

    Raises:
        ConfigError: If there is no way to look, because torch is missing or the words are.
    """
    try:
        from wordle_rl.models.adapters import is_adapter
        from wordle_rl.models.loading import device_memory
    except ModuleNotFoundError as error:
        raise ConfigError(f'preflight needs {error.name}: pip install "wordle-rl[train]"') from None
    planned = _Planned(config, GameContext.of(config))
    numbers, codec, unreadable = _look_up(config)
    engines = check_engines(config, adapts=is_adapter(config.model.path))
    findings = (
        *check_on_policy(config),
        *_check_backend(config),
        *_check_launch(config),
        *_check_starts(planned),
        *engines,
        *unreadable,
    )
    if numbers is None:
        return Preflight(findings)
    device = unified_memory(memory_gib) if config.backend == "mlx" else device_memory()
    report = Preflight(findings, numbers, device=device)
    if codec is None:
        return _with_memory(report, numbers, planned)
    report = _with_texts(report, numbers, codec, planned)
    report = _with_memory(report, numbers, planned)
    return _with_play(report, planned, num_groups)


@dataclass(frozen=True)
class _Planned:
    """A run that is looked at."""

    config: RunConfig
    context: GameContext

    def given(self) -> StartBoards | None:
        """The boards of rl.starts.file, if groups start from any.

        Raises:
            ConfigError: If no board can be used.
            RunError: If there is no such file, or a line is no board.
        """
        path = self.config.rl.starts.file
        return start_boards_of(self.config, self.context, path) if path is not None else None

    def starts(self, num_groups: int) -> list[InitialState]:
        """Initial states of the first groups of training, without secrets that nobody can find."""
        config = self.config
        _, secrets = self.context.split.shared(config.traces.rl_only_fraction)
        given = self.given()
        drawn = GroupStarts(
            self.context.words,
            self.context.prompter,
            secrets,
            config.seed,
            max_prefix_guesses=config.rl.starts.max_prefix_guesses,
            given_starts=given.starts if given else (),
            starts_fraction=config.rl.starts.fraction,
        )
        return drawn.draw(num_groups, step=0)


def _check_backend(config: RunConfig) -> list[Finding]:
    try:
        check_backend(config)
    except ConfigError as error:
        return [Finding("problem", str(error))]
    return []


def _check_launch(config: RunConfig) -> list[Finding]:
    try:
        check_processes(config, config.trained)
    except ConfigError as error:
        return [Finding("problem", str(error))]
    return []


def _check_starts(planned: _Planned) -> list[Finding]:
    try:
        given = planned.given()
    except (ConfigError, RunError) as error:
        return [Finding("problem", str(error))]
    return [Finding("note", given.counted())] if given else []


def _look_up(config: RunConfig) -> tuple[ModelNumbers | None, ChatCodec | None, list[Finding]]:
    """The model's numbers and its codec, None where they cannot be read, and why they cannot."""
    from wordle_rl.models.loading import load_codec, load_numbers

    numbers = codec = None
    try:
        numbers = load_numbers(config.model)
        codec, _ = load_codec(config.model)
    except (ConfigError, ChatTemplateError) as error:
        return numbers, codec, [Finding("problem", str(error))]
    return numbers, codec, []


def _with_texts(report: Preflight, numbers: ModelNumbers, codec: ChatCodec, planned: _Planned) -> Preflight:
    """Lengths in tokens of prompts, games and teacher games, and findings about them."""
    config, words, prompter = planned.config, planned.context.words, planned.context.prompter
    taught, unusable = _taught(planned, codec)
    lengths = [len(example.token_ids) for example in taught]
    return replace(
        report,
        findings=(
            *report.findings,
            *check_model(config, planned.context, codec, numbers),
            *unusable,
            *(check_teacher(lengths, config.sft.max_length) if taught and "sft" in config.trained else ()),
            *(_check_replies(config, taught) if taught else ()),
        ),
        template_changes=changes_of(str(codec.tokenizer.chat_template)),
        turn_end=codec.frame.turn_end,
        stop_tokens=tuple(token_text(codec, token) for token in sorted(codec.stop_ids)),
        longest_reply=longest_reply(words, prompter, codec),
        longest_game=longest_game(words, prompter, codec, config.max_completion_tokens),
        longest_teacher_game=max(lengths, default=None),
        picture=mask_picture(codec, *codec.encode_game(sample_game(words, prompter))),
    )


def _taught(planned: _Planned, codec: ChatCodec) -> tuple[list[Example], list[Finding]]:
    """A few teacher games as sequences, if there are to be any, and why there can be none."""
    config = planned.config
    if "traces" not in config.chain:
        return [], []
    try:
        found = teacher_examples(config, planned.context, codec)
    except (ConfigError, RunError) as error:
        return [], [Finding("problem", str(error))]
    return found, []


def _check_replies(config: RunConfig, taught: Iterable[Example]) -> list[Finding]:
    thinks = config.traces.narrate or config.traces.file is not None  # others hold only the guess
    return check_teacher_replies(reply_lengths(taught), config.max_completion_tokens) if thinks else []


def _with_memory(report: Preflight, numbers: ModelNumbers, planned: _Planned) -> Preflight:
    """Memory of each stage, with the lengths in the report as far as they are known."""
    config, split = planned.config, planned.context.split
    most = config.eval.max_games or len(planned.context.words.answers)
    num_secrets = sum(min(len(part), most) for part in (split.train, split.val, split.test))
    lengths = (report.longest_teacher_game, report.longest_game)
    assert report.device is not None
    if config.backend == "mlx":
        memory = unified_works(config, numbers, *lengths, num_secrets)
        found = check_unified(memory, report.device)
    else:
        memory = stage_memory(config, numbers, *lengths, num_secrets)
        found = check_memory(memory, report.device, engine_beside(config), sharding())
    return replace(report, findings=(*report.findings, *found), memory=memory)


def _with_play(report: Preflight, planned: _Planned, num_groups: int) -> Preflight:
    """Games of the model, if it is trained already and there is no problem."""
    config = planned.config
    if not num_groups:
        return report
    played, found = None, []
    if config.model.path == "tiny":
        found = [
            Finding("note", "the embedded model starts untrained and plays no games here; name one with model.path")
        ]
    elif not any(finding.level == "problem" for finding in report.findings):
        try:
            played = _play_model(planned, num_groups)
        except ConfigError as error:
            found = [Finding("problem", str(error))]
        else:
            found = check_play(played, config.max_completion_tokens)
    return replace(report, findings=(*report.findings, *found), played=played)


def _play_model(planned: _Planned, num_groups: int) -> Played:
    """Load the model and have it play groups as the first ones of training would."""
    from wordle_rl.models.loading import load_model
    from wordle_rl.rl.setup import prompt_budget
    from wordle_rl.samplers.transformers import TransformersSampler

    config = planned.config
    settings = config.training
    sampler: Sampler
    if config.backend == "torch":
        model, codec = load_model(config.model, config.seed)
        sampler = TransformersSampler(model, codec, settings.sampling, config.seed)
    else:
        backend = find_backend(config.backend)
        model, _ = backend.load_model(config.model, config.seed)
        sampler = backend.make_sampler(config.model, settings.sampling, config.seed, lambda _: None)
    starts = [start for start in planned.starts(num_groups) for _ in range(settings.group_size)]
    budget = prompt_budget(model, settings.sampling)
    return play_groups(config, planned.context, sampler, starts, budget)
