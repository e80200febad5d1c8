"""Will this run work? Asked before anything is trained: template, stop tokens, budgets, memory, a few games.

The checks themselves are in the other files of this room; here the model is looked up, loaded and asked to play.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.chat.lengths import longest_game, longest_reply
from wordle_rl.chat.templates import changes_of
from wordle_rl.config import ConfigError, GRPOTraining, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.models.backends import find_backend
from wordle_rl.models.numbers import Device, ModelNumbers
from wordle_rl.preflight.checks import Plan, findings_of
from wordle_rl.preflight.device import check_memory, engine_beside, shares_memory, stage_memory
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.memory import MemoryEstimate, MemoryStage
from wordle_rl.preflight.template import sample_game, token_text
from wordle_rl.preflight.unified_memory import check_unified, unified_memory, unified_works
from wordle_rl.reward import format_compliance
from wordle_rl.rollout import InitialState, groups_of, play
from wordle_rl.runs import RunError
from wordle_rl.runs.distributed import sharding
from wordle_rl.runs.progress import in_percent
from wordle_rl.samplers.base import Sampler
from wordle_rl.train.advantages import find_credit, is_constant
from wordle_rl.train.initial_states import GroupStarts
from wordle_rl.train.prefix_guesses import PrefixGuesses
from wordle_rl.train.starts_file import ValidationFile, start_boards_of


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
        fix = "raise rl.temperature or rl.group_size" if played.win_rate else "train SFT first, or longer"
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
    credit = find_credit(settings.credit if isinstance(settings, GRPOTraining) else "game")
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
        memory_gib: With backend mlx, and with torch on a Mac: memory of the machine that is meant; None: this one's.

    Raises:
        ConfigError: If there is no way to look, because torch is missing or the words are.
    """
    try:
        from wordle_rl.models.device import device_memory
    except ModuleNotFoundError as error:
        raise ConfigError(f'preflight needs {error.name}: pip install "wordle-rl[train]"') from None
    unified = shares_memory(config)
    if memory_gib is not None and not unified:
        raise ConfigError('--memory-gib is for backend "mlx", and for torch on a Mac; leave it out')
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
    """A run that is looked at."""

    plan: Plan

    @property
    def config(self) -> RunConfig:
        return self.plan.config

    @property
    def context(self) -> GameContext:
        return self.plan.context

    def starts(self, num_groups: int) -> list[InitialState]:
        """Initial states of the first groups of training, without secrets that nobody can find."""
        config, path = self.config, self.plan.boards
        _, secrets = self.context.split.shared(config.traces.rl_only_fraction)
        given = start_boards_of(config, self.context, path) if path is not None else None
        drawn = GroupStarts(
            self.context.words,
            self.context.prompter,
            secrets[: config.rl.max_secrets or None],
            config.seed,
            prefixes=PrefixGuesses(
                self.context.words,
                self.context.for_training.solver,
                config.rl.starts,
                hard_mode=config.game.hard_mode,
            ),
            given_starts=given.starts if given is not None else (),
            starts_fraction=given.fraction() if given is not None else 0.0,
        )
        return drawn.draw(num_groups, step=0)


def _with_texts(report: Preflight, codec: ChatCodec, planned: _Planned) -> Preflight:
    """Lengths in tokens of prompts, games and teacher games."""
    config, words, prompter = planned.config, planned.context.words, planned.context.prompter
    try:
        lengths = [len(example.token_ids) for example in planned.plan.taught]
    except (ConfigError, RunError):  # a finding already
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
        try:
            memory = stage_memory(config, numbers, *lengths, num_secrets)
        except ConfigError:  # of a package or a kernel, a finding already
            return report
        if shares_memory(config):
            found = check_unified(memory, report.device)
        else:
            found = check_memory(memory, report.device, engine_beside(config), sharding())
    known = {finding.message for finding in report.findings if finding.level == "problem"}
    more = [finding for finding in found if finding.message not in known]
    return replace(report, findings=(*report.findings, *more), memory=memory)


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
    from wordle_rl.models.loading import context_budget, load_model
    from wordle_rl.samplers.transformers import TransformersSampler

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
