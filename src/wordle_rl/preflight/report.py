"""`preflight`: run all checks, load the model, and let it play a few games."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import longest_reply
from wordle_rl.chat.masks import encode_game, mask_picture
from wordle_rl.chat.templates import changes_of
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings, LearningByPlay, kind_of
from wordle_rl.errors import UserError
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.play import OpenPlayer, evaluate
from wordle_rl.evaluate.players import open_player
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.sizes import Device, ModelNumbers
from wordle_rl.preflight import Finding, note, problem, warning
from wordle_rl.preflight.checks import Plan, findings_of
from wordle_rl.preflight.memory import MemoryEstimate, device_for
from wordle_rl.preflight.template import sample_game, token_text
from wordle_rl.prompt import Shape
from wordle_rl.reward import format_compliance
from wordle_rl.rollout import groups_of
from wordle_rl.runs.progress import in_percent, in_words
from wordle_rl.train.advantages import find_credit, is_constant
from wordle_rl.train.starts import GameSetup, GroupStarts
from wordle_rl.train.starts_file import ValidationFile, start_boards_of


@dataclass(frozen=True, slots=True)
class Played:
    """Metrics of a few groups of games; fractions are 0 to 1, and seconds are those of play alone."""

    num_games: int
    win_rate: float
    format_compliance: float
    cut_off_rate: float
    constant_group_rate: float
    mean_reply_tokens: float
    seconds: float = 0.0


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
    memory: dict[str, MemoryEstimate] = field(default_factory=dict)
    played: Played | None = None


def preflight(config: RunConfig, num_groups: int, memory_gib: float | None = None) -> Preflight:
    """Run all checks on a config and let the model play `num_groups` groups of games; 0 needs no weights.

    `memory_gib` is the memory of the GPU or Mac to check for; None: this machine.
    """
    device = device_for(config, memory_gib)
    plan = Plan.whole(config, ValidationFile.of(config).context, memory_gib)
    numbers, codec, _ = plan.model
    report = Preflight(tuple(findings_of(plan)), numbers)
    if numbers is None:
        return report
    report = replace(report, device=device)
    if codec is not None:
        words, prompter = plan.context.words, plan.context.prompter
        report = replace(
            report,
            template_changes=changes_of(str(codec.tokenizer.chat_template)),
            turn_end=codec.frame.turn_end,
            stop_tokens=tuple(token_text(codec, token) for token in sorted(codec.stop_ids)),
            longest_reply=longest_reply(words, prompter, codec),
            longest_game=plan.game_length,
            picture=mask_picture(
                codec,
                *encode_game(codec, sample_game(words, prompter), only_last=prompter.shape is not Shape.TRANSCRIPT),
            ),
        )
    try:
        report = replace(report, memory=plan.memory, longest_teacher_game=plan.teacher_length)
    except UserError:  # unusable teacher games, a missing package: a finding already
        return report
    return report if codec is None else _with_play(report, plan, num_groups)


def _with_play(report: Preflight, plan: Plan, num_groups: int) -> Preflight:
    config = plan.config
    if num_groups and config.model.path == "tiny":
        untrained = note("the embedded model is untrained and plays no games here; name one with model.path")
        return replace(report, findings=(*report.findings, untrained))
    if not num_groups or any(finding.level == "problem" for finding in report.findings):
        return report
    settings = first_play(config)
    player = PlayerSpec(
        name=config.model.path,
        model=config.model,
        engine="mlx" if config.backend == "mlx" else "transformers",
        sampling=config.sampling.model_copy(update={"temperature": settings.temperature}),
        seed=config.seed,
        constrain=settings.constrain if isinstance(settings, GRPOSettings) else "none",
    )
    try:
        starts = [start for start in _starts(plan, num_groups) for _ in range(settings.group_size)]
        asked = Asked(plan.context, starts, player)
        played = play_groups(config, asked, partial(open_player, asked))
    except UserError as error:
        return replace(report, findings=(*report.findings, problem(str(error))))
    # A model that SFT will teach first has nothing to show yet.
    first = config.stages[0]
    found = [] if kind_of(first) == "sft" else [*check_play(played, config.max_completion_tokens, first)]
    if plan.memory_gib is None:
        found += time_of_play(config, played)
    return replace(report, findings=(*report.findings, *found), played=played)


def time_of_play(config: RunConfig, played: Played) -> Iterator[Finding]:
    """Forecast the time of play of each stage from that of a few games here."""
    for stage, _ in config.stages_of():
        own = config.settings_of(stage)
        if isinstance(own, GRPOSettings) and own.plays_by_vllm:
            continue
        games = own.groups_to_play * own.group_size
        each = played.seconds / played.num_games * games
        unit = "step" if isinstance(own, GRPOSettings) else "round"
        yield note(
            f"{stage} plays {games:,} games a {unit}: by these {played.num_games} about {in_words(each)}, and "
            f"{in_words(each * own.num_rounds)} in all; better play is shorter, many games at once are faster on a "
            "GPU, and learning comes on top"
        )


def first_play(config: RunConfig) -> LearningByPlay:
    """Return the settings of the first stage that plays; if none does, those of GRPO by default."""
    settings: LearningByPlay = next((own for _, own in config.stages_of()), GRPOSettings())  # type: ignore[assignment]
    return settings


def _starts(plan: Plan, num_groups: int) -> list[InitialState]:
    # The first groups of training, but without secrets outside the answers, which nobody can find.
    config, context = plan.config, plan.context
    _, secrets = context.split.shared(config.traces.rl_only_fraction)
    settings, given = first_play(config), None
    for stage, own in config.stages_of()[:1]:
        given = start_boards_of(config, stage, context, plan.boards[stage]) if own.starts.file is not None else None
    setup = GameSetup(
        context.for_training,
        secrets[: settings.max_secrets or None],
        given_starts=given.starts if given is not None else (),
        starts_fraction=given.fraction() if given is not None else 0.0,
    )
    return GroupStarts(setup, settings.starts, config.seed).draw(num_groups, step=0)


def play_groups(config: RunConfig, asked: Asked, open_player: OpenPlayer) -> Played:
    """Play groups of games like a round of the first stage that plays, and measure them.

    `asked.starts` holds the start of each group, repeated `group_size` times.
    """
    settings, solver = first_play(config), asked.context.solver
    seconds = 0.0

    @contextmanager
    def timed(seed: int) -> Iterator[tuple[Sampler, int | None]]:
        nonlocal seconds
        with open_player(seed) as opened:  # loads the model
            started = time.perf_counter()
            yield opened
            seconds += time.perf_counter() - started

    trajectories = evaluate(asked, timed, lambda game: game)
    grpo = settings if isinstance(settings, GRPOSettings) else GRPOSettings(credit="game")
    rubric = grpo.reward.schedule().rubric()
    credit = find_credit(grpo.credit)
    constant = [
        is_constant(credit([rubric.score(trajectory.transcript, solver).turn_rewards for trajectory in group]))
        for group in groups_of(trajectories, settings.group_size)
        if len(group) > 1  # a single game has nothing to be compared with
    ]
    transcripts = [trajectory.transcript for trajectory in trajectories]
    replies = [turn for transcript in transcripts for turn in transcript.own_turns]
    return Played(
        num_games=len(transcripts),
        win_rate=statistics.fmean(transcript.won for transcript in transcripts),
        format_compliance=format_compliance(transcripts),
        cut_off_rate=statistics.fmean(turn.overlong for turn in replies),
        constant_group_rate=statistics.fmean(constant) if constant else 0.0,
        mean_reply_tokens=statistics.fmean(turn.num_tokens or 0 for turn in replies),
        seconds=seconds,
    )


def check_play(played: Played, limit: int, stage: str) -> Iterator[Finding]:
    """Check whether a few games leave something to learn from in a stage; `limit` is the token limit of a reply."""
    if played.cut_off_rate > 0.1:
        yield warning(
            f"{in_percent(played.cut_off_rate, 0)}% of the replies were cut at {limit} tokens; raise "
            "max_completion_tokens or let the model think less"
        )
    if played.format_compliance < 0.5:
        share = in_percent(played.format_compliance, 0)
        yield warning(f"only {share}% of the replies contain a listed word; train SFT first")
    if played.constant_group_rate > 0.5:
        raise_either = f"raise {stage}.temperature or {stage}.group_size"
        fix = raise_either if played.win_rate else "train SFT first, or longer"
        share = in_percent(played.constant_group_rate, 0)
        yield warning(f"in {share}% of the groups all games earn the same, so there is nothing to learn; {fix}")
