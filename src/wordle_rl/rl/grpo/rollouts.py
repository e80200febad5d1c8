"""The games of one GRPO step, in four parts that follow each other.

    draw      rl/initial_states.py   a secret and an initial state for each group
    play      play.py        the games of each group, all in lockstep
    score     score.py       rewards, and advantages within each group
    lay out   layout.py      one row per prompt, as TRL's loss takes them

A group whose games all earned the same has only zero advantages; it is drawn again, up to `max_refills` times.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining
from wordle_rl.env import Transcript
from wordle_rl.reward import RewardBreakdown, Schedule
from wordle_rl.rl.grpo.layout import Rows, lay_out, rows_per_game
from wordle_rl.rl.grpo.play import GroupPlayer, OpenSampler
from wordle_rl.rl.grpo.probes import Probe, probe
from wordle_rl.rl.grpo.score import Group, score_group
from wordle_rl.rl.initial_states import GroupStarts, record_secrets
from wordle_rl.rl.setup import GameSetup, check_some_played, group_rows, measured
from wordle_rl.rollout import pass_at, powers_of_two
from wordle_rl.runs import PASS_AT, Run
from wordle_rl.runs.logs import rewind
from wordle_rl.runs.trackers import GameLog
from wordle_rl.samplers.base import Sampler
from wordle_rl.words import WordList

WHOLE_GROUP_EVERY_STEPS = 10
"""Every this many steps all games of one group are among the sample games, so that they can be compared."""
COMPLIANCE_STEPS = 5
"""Steps over which format compliance is averaged before a reward schedule sees it: one lucky step switches nothing."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The games of a step in one process, as rows to train on and numbers to log.

    Attributes:
        rows: Columns of equal length; see `lay_out`.
        metrics: By name, over the games of this process.
        denominators: For each mean that is not over all games, the number of games or replies it is over.
        filled_share: Fraction of the rows that are not blank padding.
    """

    rows: Rows
    metrics: Mapping[str, float]
    denominators: Mapping[str, int]
    filled_share: float


class GroupRollouts:
    """Plays the groups of each step.

    From step to step it keeps what checkpoints must hold: the priority of each secret, the best format compliance so
    far, and the number of games won.

    Args:
        setup: Words, prompts, training secrets, solver.
        codec: Tokenizer and chat template.
        settings: Groups, credit, reward, sampling.
        log: Where sample games go; its run gets the secrets drawn.
        seed: Seed of secrets, initial states and sampling.
        process: This process among those that train together, from 0.
        num_processes: Their number.
    """

    def __init__(
        self,
        setup: GameSetup,
        codec: ChatCodec,
        settings: GRPOTraining,
        log: GameLog,
        seed: int,
        *,
        process: int = 0,
        num_processes: int = 1,
    ) -> None:
        self._setup, self._codec, self._settings = setup, codec, settings
        self._log, self._seed = log, seed
        self._process, self._num_processes = process, num_processes
        self._play = GroupPlayer(setup, settings)
        self.rows_per_game = rows_per_game(setup.prompter, settings)
        self.completions_per_row = 1 if self.rows_per_game > 1 else setup.prompter.rules.max_replies
        self.schedule: Schedule = settings.reward.schedule()
        self.starts = GroupStarts(
            setup.words,
            setup.prompter,
            setup.secrets,
            seed,
            prioritized_fraction=settings.prioritized_fraction,
            outside_rate=settings.outside_rate,
            prefixes=setup.prefixes_of(settings.starts),
            given_starts=setup.given_starts,
            starts_fraction=setup.starts_fraction,
        )
        self.best_compliance: float | None = None
        self._compliance: deque[float] = deque(maxlen=COMPLIANCE_STEPS)
        self.cumulative_wins = 0

    def __call__(self, step: int, open_sampler: OpenSampler) -> StepResult:
        """Play the games of a step.

        Args:
            step: Optimizer steps done so far.
            open_sampler: Opens a sampler over the policy's current weights.
        """
        probed = self._probe(step, open_sampler) if self._is_probed(step) else None
        with open_sampler(self._settings.sampling, self._sampler_seed(step)) as (sampler, max_prompt_tokens):
            draws = self._play_all(step, sampler, max_prompt_tokens)
        groups = final_groups(draws)
        games = [game for group in groups for game in group.games]
        failed = [reason for draw in draws for group in draw.groups.values() for reason in group.failed]
        told = check_some_played(games, failed, f"step {step + 1}")
        found = measured(games, self._setup.words)
        self.cumulative_wins += found.num_wins
        self._log_samples(step, groups)
        settings = self._settings
        rows = lay_out(
            games,
            self._codec,
            self.rows_per_game * settings.turn_candidates,
            mask_overlong=settings.mask_overlong,
            num_games=settings.groups_per_step * settings.group_size // settings.turn_candidates,
        )
        num_filled = sum(len(game.trajectory.segments) for game in games)
        return StepResult(
            rows=rows,
            metrics={
                **_draw_metrics(draws, probed, self._setup.words),
                **found.means,
                **told,
                "cumulative_wins": float(self.cumulative_wins),
            },
            denominators=found.denominators,
            filled_share=num_filled / len(rows["prompt_ids"]),
        )

    def reward_of(self, transcript: Transcript) -> RewardBreakdown:
        """The reward of a finished game now."""
        return self.schedule.rubric(self.best_compliance).score(transcript, self._setup.solver)

    def note_compliance(self, format_compliance: float) -> None:
        """Take in the format compliance of a step, over all processes.

        The reward schedule may depend on the best mean of `COMPLIANCE_STEPS` steps in a row; before that there is none.
        """
        self._compliance.append(format_compliance)
        if len(self._compliance) == COMPLIANCE_STEPS:
            self.best_compliance = max(statistics.fmean(self._compliance), self.best_compliance or 0.0)

    def state(self) -> dict[str, Any]:
        """The state to be stored with a checkpoint."""
        return {
            **self.starts.state(),
            "best_compliance": self.best_compliance,
            "compliance": list(self._compliance),
            "cumulative_wins": self.cumulative_wins,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state that holds the sums over all processes; the first process takes over the games won."""
        self.starts.load_state(state)
        self.best_compliance = state["best_compliance"]
        self._compliance = deque(state.get("compliance", ()), maxlen=COMPLIANCE_STEPS)  # older checkpoints have none
        self.cumulative_wins = state["cumulative_wins"] if self._process == 0 else 0

    def _play_all(self, step: int, sampler: Sampler, max_prompt_tokens: int | None) -> list[Draw]:
        """The first draw of a step and its refills, each for the groups that were still constant."""
        draws: list[Draw] = []
        places: Sequence[int] = range(self._settings.groups_per_step)
        for refill in range(self._settings.max_refills + 1):
            draws.append(self._play_draw(places, step, refill, sampler, max_prompt_tokens))
            places = [place for place, group in draws[-1].groups.items() if group.is_constant]
            if not places:
                break
        return draws

    def _play_draw(
        self, places: Sequence[int], step: int, refill: int, sampler: Sampler, max_prompt_tokens: int | None
    ) -> Draw:
        """Draw, play and score a group for each of these places."""
        started = time.perf_counter()
        starts = self.starts.draw(len(places), step, self._process, refill)
        record_secrets(self._log.run, "grpo", step, self._process, [start.secret for start in starts])
        rubric = self.schedule.rubric(self.best_compliance)
        played = self._play(starts, sampler, max_prompt_tokens, rubric)
        scoring = time.perf_counter()
        groups = [score_group(group, rubric, self._setup, self._settings) for group in played]
        for group in groups:
            if len(group.games) > 1 or not group.failed:  # else it is no evidence about its secret
                self.starts.note(group.games[0].trajectory.transcript, group.reward_std)
        ended = time.perf_counter()
        return Draw(dict(zip(places, groups, strict=True)), scoring - started, ended - scoring)

    def _is_probed(self, step: int) -> bool:
        every = self._settings.probe_every_steps
        return every > 0 and step % every == 0

    def _probe(self, step: int, open_sampler: OpenSampler) -> Probe:
        """Play every training secret greedily, a part of them in each process, and reset the priorities by it."""
        secrets = list(self._setup.secrets[self._process :: self._num_processes])
        record_secrets(self._log.run, "scout", step, self._process, secrets)
        found = probe(
            secrets,
            self._setup,
            open_sampler,
            self._settings.sampling,
            self._sampler_seed(step),
            lambda transcript: self.reward_of(transcript).total,
            self._num_processes,
        )
        self.starts.picker.reset(found.priorities)
        return found

    def _sampler_seed(self, step: int) -> int:
        """A seed of this step and process alone, so that a resumed training samples as an uninterrupted one."""
        return random.Random(f"{self._seed}:{step}:{self._process}:sampler").getrandbits(31)

    def _log_samples(self, step: int, groups: Sequence[Group]) -> None:
        """Log some games, evenly spaced over the groups, in the first process; now and then a whole group too."""
        if self._process or not self._settings.sample_games:
            return
        places = [(number, game) for number, group in enumerate(groups) for game in range(len(group.games))]
        every = max(1, len(places) // self._settings.sample_games)
        wanted = set(places[::every][: self._settings.sample_games])
        if step % WHOLE_GROUP_EVERY_STEPS == 0:
            whole = shown_group(groups)
            wanted |= {place for place in places if place[0] == whole}
        rows = [
            row for number in sorted({group for group, _ in wanted}) for row in group_rows(number, groups[number].games)
        ]
        self._log.add("grpo", step, [row for row in rows if (row["group"], row["game"]) in wanted])


def rewind_games(run: Run, step: int) -> None:
    """Remove what was logged after the checkpoint of a step, whose weights are validated after it."""
    played = {"grpo": step, "scout": step, "validation": step}
    metrics = {"grpo": step + 1, "validation": step, "blend": 0}
    rewind(run.directory, {"metrics.jsonl": metrics, "games.jsonl": played, "secrets.jsonl": played})


def shown_group(groups: Sequence[Group]) -> int:
    """Number of the first group that teaches something; 0 if none does."""
    return next((number for number, group in enumerate(groups) if not group.is_constant), 0)


@dataclass(frozen=True, slots=True)
class Draw:
    """Groups that were drawn together, by their place in the step, and the seconds they took."""

    groups: Mapping[int, Group]
    play_s: float
    score_s: float


def final_groups(draws: Sequence[Draw]) -> list[Group]:
    """The last group drawn for each place of a step, in the order of the places."""
    groups: dict[int, Group] = {}
    for draw in draws:
        groups |= draw.groups  # keeps the order of the first draw, which has all places
    return list(groups.values())


def _draw_metrics(draws: Sequence[Draw], probed: Probe | None, words: WordList) -> dict[str, float]:
    first, *refills = draws
    num_constant = sum(group.is_constant for group in first.groups.values())
    num_refilled = sum(not group.is_constant for draw in refills for group in draw.groups.values())
    return {
        "seconds/rollout": sum(draw.play_s for draw in draws) + (probed.seconds if probed else 0.0),
        "seconds/reward": sum(draw.score_s for draw in draws),
        **({"scouted_win_rate": probed.win_rate} if probed else {}),
        "zero_variance_share": num_constant / len(first.groups),
        **_pass_at(first.groups.values(), words),
        "refilled_groups": float(num_refilled),
        "skipped_groups": float(sum(group.is_constant for group in final_groups(draws))),
    }


def _pass_at(groups: Iterable[Group], words: WordList) -> dict[str, float]:
    """pass@k over the groups of secrets that can be won, for k = 2, 4 and so on up to the size of the smallest."""
    won = [
        [game.trajectory.transcript.won for game in group.games]
        for group in groups
        if group.games and group.games[0].trajectory.transcript.secret in words.answer_index
    ]
    most = min(map(len, won), default=0)
    return {
        f"{PASS_AT}{k}": statistics.fmean(pass_at(len(games), sum(games), k) for games in won)
        for k in powers_of_two(most)
        if k > 1
    }
