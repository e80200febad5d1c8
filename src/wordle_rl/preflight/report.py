"""`preflight`: run all checks, load the model, and let it play a few games."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.chat.lengths import longest_game, longest_reply
from wordle_rl.chat.templates import changes_of
from wordle_rl.config import ConfigError, GRPOTraining, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.policy.base import Sampler, find_backend
from wordle_rl.policy.numbers import Device, ModelNumbers
from wordle_rl.preflight import Finding
from wordle_rl.preflight.checks import Plan, findings_of
from wordle_rl.preflight.memory import (
    MemoryEstimate,
    MemoryStage,
    check_memory,
    check_unified,
    engine_beside,
    shares_memory,
    stage_memory,
    unified_memory,
    unified_works,
)
from wordle_rl.preflight.template import sample_game, token_text
from wordle_rl.reward import format_compliance
from wordle_rl.rollout import InitialState, groups_of, play
from wordle_rl.runs import RunError
from wordle_rl.runs.distributed import sharding
from wordle_rl.runs.progress import in_percent
from wordle_rl.train.advantages import find_credit, is_constant
from wordle_rl.train.starts import GameSetup, GroupStarts
from wordle_rl.train.starts_file import ValidationFile, start_boards_of


@dataclass(frozen=True, slots=True)
class Played:
    """Metrics of a few groups of games; fractions are 0 to 1."""

    num_games: int
    win_rate: float
    format_compliance: float
    overlong_share: float
    zero_variance_share: float
    mean_reply_tokens: float


@dataclass(frozen=True)
class Preflight:
    """All results of a preflight. What could not be checked is None or empty; lengths are in tokens."""

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
    """Check whether a few games leave something to learn; `limit` is the token limit of a reply."""
    findings = []
    if played.overlong_share > 0.1:
        message = (
            f"{in_percent(played.overlong_share, 0)}% of the replies were cut at {limit} tokens; raise "
            "max_completion_tokens or let the model think less"
        )
        findings.append(Finding("warning", message))
    if played.format_compliance < 0.5:
        share = in_percent(played.format_compliance, 0)
        message = f"only {share}% of the replies contain a listed word; train SFT first"
        findings.append(Finding("warning", message))
    if played.zero_variance_share > 0.5:
        fix = "raise rl.temperature or rl.group_size" if played.win_rate else "train SFT first, or longer"
        share = in_percent(played.zero_variance_share, 0)
        message = f"in {share}% of the groups all games earn the same, so there is nothing to learn; {fix}"
        findings.append(Finding("warning", message))
    return findings


def play_groups(
    config: RunConfig,
    context: GameContext,
    sampler: Sampler,
    starts: Sequence[InitialState],
    max_prompt_tokens: int | None = None,
) -> Played:
    """Play groups of games like a step of the chosen algorithm and measure them.

    Args:
        config: Rewards and credit.
        context: Words, prompts and solver.
        sampler: The model.
        starts: The start of each group, repeated `group_size` times.
        max_prompt_tokens: Longest prompt of the model. None: no limit.
    """
    settings = config.training
    trajectories = play(starts, context.words, context.prompter, sampler, max_prompt_tokens=max_prompt_tokens)
    rubric = settings.reward.schedule().rubric()
    credit = find_credit(settings.credit if isinstance(settings, GRPOTraining) else "game")
    constant = [
        is_constant(credit([rubric.score(trajectory.transcript, context.solver).turn_rewards for trajectory in group]))
        for group in groups_of(trajectories, settings.group_size)
        if len(group) > 1  # a single game has nothing to be compared with
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
    """Run all checks on a config and let the model play a few games.

    Args:
        config: All settings.
        num_groups: Groups of games to play; 0: none, so that no weights are needed.
        memory_gib: Memory of the machine to check for, with backend mlx or with torch on a Mac. None: this machine.

    Raises:
        ConfigError: If torch or the word list is missing, or `memory_gib` does not apply.
    """
    try:
        from wordle_rl.policy.device import device_memory
    except ModuleNotFoundError as error:
        raise ConfigError(f'preflight needs {error.name}: pip install "wordle-rl[train]"') from None
    unified = shares_memory(config)
    if memory_gib is not None and not unified:
        raise ConfigError('--memory-gib applies only to backend "mlx" and to torch on a Mac; leave it out')
    planned = _Planned(Plan.whole(config, ValidationFile.of(config).context))
    numbers, codec, _ = planned.plan.model
    report = Preflight(tuple(findings_of(planned.plan)), numbers)
    if numbers is None:
        return report
    report = replace(report, device=unified_memory(memory_gib) if unified else device_memory())
    if codec is not None:
        report = _with_texts(report, codec, planned)
    report = _with_memory(report, numbers, planned)
    return _with_play(report, planned, num_groups) if codec is not None else report


@dataclass(frozen=True)
class _Planned:
    plan: Plan

    @property
    def config(self) -> RunConfig:
        return self.plan.config

    @property
    def context(self) -> GameContext:
        return self.plan.context

    def starts(self, num_groups: int) -> list[InitialState]:
        # The first groups of training, but without secrets outside the answers, which nobody can find.
        config, path = self.config, self.plan.boards
        _, secrets = self.context.split.shared(config.traces.rl_only_fraction)
        given = start_boards_of(config, self.context, path) if path is not None else None
        setup = GameSetup(
            self.context.for_training,
            secrets[: config.rl.max_secrets or None],
            given_starts=given.starts if given is not None else (),
            starts_fraction=given.fraction() if given is not None else 0.0,
        )
        drawn = GroupStarts(setup, config.rl.starts, config.seed)
        return drawn.draw(num_groups, step=0)


def _with_texts(report: Preflight, codec: ChatCodec, planned: _Planned) -> Preflight:
    config, words, prompter = planned.config, planned.context.words, planned.context.prompter
    try:
        lengths = [len(example.token_ids) for example in planned.plan.taught]
    except (ConfigError, RunError):  # reported as a finding already
        lengths = []
    return replace(
        report,
        template_changes=changes_of(str(codec.tokenizer.chat_template)),
        turn_end=codec.frame.turn_end,
        stop_tokens=tuple(token_text(codec, token) for token in sorted(codec.stop_ids)),
        longest_reply=longest_reply(words, prompter, codec),
        longest_game=longest_game(words, prompter, codec, config.max_completion_tokens),
        longest_teacher_game=max(lengths, default=None),
        picture=mask_picture(codec, *codec.encode_game(sample_game(words, prompter))),
    )


def _with_memory(report: Preflight, numbers: ModelNumbers, planned: _Planned) -> Preflight:
    config, split = planned.config, planned.context.split
    most = config.eval.max_games or len(planned.context.words.answers)
    num_secrets = sum(min(len(part), most) for part in (split.train, split.val, split.test))
    lengths = (report.longest_teacher_game, report.longest_game)
    assert report.device is not None
    if config.backend == "mlx":
        memory = unified_works(config, numbers, *lengths, num_secrets)
        found = check_unified(memory, report.device)
    else:
        try:
            memory = stage_memory(config, numbers, *lengths, num_secrets)
        except ConfigError:  # a missing package or kernel, reported as a finding already
            return report
        if shares_memory(config):
            found = check_unified(memory, report.device)
        else:
            found = check_memory(memory, report.device, engine_beside(config), sharding())
    known = {finding.message for finding in report.findings if finding.level == "problem"}
    more = [finding for finding in found if finding.message not in known]
    return replace(report, findings=(*report.findings, *more), memory=memory)


def _with_play(report: Preflight, planned: _Planned, num_groups: int) -> Preflight:
    config = planned.config
    if not num_groups:
        return report
    played, found = None, []
    if config.model.path == "tiny":
        found = [Finding("note", "the embedded model is untrained and plays no games here; name one with model.path")]
    elif not any(finding.level == "problem" for finding in report.findings):
        try:
            played = _play_model(planned, num_groups)
        except ConfigError as error:
            found = [Finding("problem", str(error))]
        else:
            found = check_play(played, config.max_completion_tokens)
    return replace(report, findings=(*report.findings, *found), played=played)


def _play_model(planned: _Planned, num_groups: int) -> Played:
    from wordle_rl.policy.loading import context_budget, load_model
    from wordle_rl.policy.transformers import TransformersSampler

    config = planned.config
    settings = config.training
    sampler: Sampler
    if config.backend == "torch":
        model, codec = load_model(config.model, config.seed)
        sampler = TransformersSampler(model, codec, settings.sampling, config.seed)
    else:
        backend = find_backend(config.backend)
        model = backend.load_learner(config.model, config.seed, gradient_checkpointing=False, temperature=1.0).model
        sampler = backend.make_sampler(config.model, settings.sampling, config.seed, lambda _: None)
    starts = [start for start in planned.starts(num_groups) for _ in range(settings.group_size)]
    budget = context_budget(model, settings.sampling)
    return play_groups(config, planned.context, sampler, starts, budget)
