"""The games of a GRPO step: draw, play, score, and draw again where there is nothing to learn.

    draw      starts.py           a secret and an initial state for each group
    play      rollout.py          the games of all groups in lockstep
    score     scored_games.py     rewards, and advantages within each group; then rows for the learner

A group in which every advantage is zero teaches nothing: all its games earned the same, turn by turn. It is drawn
again, up to `max_refills` times (dynamic sampling of DAPO, arXiv:2503.14476).

`PlayedAhead` lets a server play the games of later steps while the learner trains on those of step t:

    step t     send weights | play games t + 1 (thread, server) ............ |
                            | learn from games t (this process) ... | wait  |

The games come from weights at most `batches_ahead` steps old. Ratios therefore differ from 1 and the clip range matters
(`PolicyLoss.off_policy`). A step takes as long as the slower of the two sides, on average over `batches_ahead` steps.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import RewardSettings, SamplingSettings
from wordle_rl.env import Transcript
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.play import evaluate
from wordle_rl.policy.base import Sampler
from wordle_rl.reward import RewardBreakdown, Rubric, Schedule
from wordle_rl.rollout import ShouldStop, Trajectory, groups_of, pass_at, play, powers_of_two
from wordle_rl.runs import PASS_AT, RunError
from wordle_rl.runs.distributed import gather, num_processes, process_index
from wordle_rl.train.advantages import TurnValues
from wordle_rl.train.example import Example
from wordle_rl.train.scored_games import (
    Group,
    belief_rises,
    beliefs_of,
    check_some_played,
    group_rows,
    measured,
    rows_of,
    score_group,
    stop_rule,
)
from wordle_rl.train.starts import GroupStarts, record_secrets
from wordle_rl.train.turn_candidates import play_branching, regret_judge, reward_judge
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from wordle_rl.train.play_loop import OpenPolicy, Stage

WHOLE_GROUP_EVERY_STEPS = 10
"""Every this many steps, log all games of one group so that a reader can compare them."""
COMPLIANCE_STEPS = 5
"""Average format compliance over this many steps before a reward schedule sees it, so that one lucky step is not enough
to switch."""


@dataclass(frozen=True, slots=True)
class Played:
    """The scored groups of a step in one process; metrics and denominators are those of `Measured`, and more."""

    groups: Sequence[Group]
    metrics: Mapping[str, float]
    denominators: Mapping[str, int]

    def items(self, codec: ChatCodec, *, mask_overlong: bool = False) -> list[list[Example]]:
        """Convert the games to sequences to learn from, those of each group together."""
        # Tokens of constant groups have no gradient. In the denominator of the loss they would only shrink the
        # gradients of the others. If all groups of all processes are constant they stay, so that the step has rows.
        groups = [group for group in self.groups if not group.is_constant]
        if not any(gather(bool(groups))):
            groups = [*self.groups]
        return [[row for game in group.games for row in rows_of(game, codec, mask_overlong)] for group in groups]


class GroupRollouts:
    """Plays the groups of each step.

    Its state belongs into checkpoints: the priority of each secret, the best format compliance so far, and the number
    of games won.
    """

    def __init__(self, stage: Stage, settings: GRPOSettings) -> None:
        self.open_policy: OpenPolicy = stage.open_policy
        """Opens the policy for other games, such as those of a validation."""
        self._stage, self._setup, self._settings = stage, stage.setup, settings
        self._process = process_index()
        self.should_stop: ShouldStop = stop_rule(stage.setup, settings.guesses)
        self.schedule: Schedule = settings.reward.schedule()
        self.starts = GroupStarts(
            stage.setup,
            settings.starts,
            stage.seed,
            prioritized_fraction=settings.prioritized_fraction,
            outside_rate=settings.outside_rate,
        )
        self.best_compliance: float | None = None
        self._compliance: deque[float] = deque(maxlen=COMPLIANCE_STEPS)
        self.cumulative_wins = 0

    def next(self, step: int, open_policy: OpenPolicy | None = None) -> Played:
        """Draw, play and score the groups of a step; `step` counts the steps done so far."""
        open_policy = open_policy or self.open_policy
        every = self._settings.probe_every_steps
        probed = self._probe(step, open_policy) if every and step % every == 0 else {}
        seconds = {"seconds/rollout": probed.pop("seconds", 0.0), "seconds/reward": 0.0}
        draws: list[dict[int, Group]] = []  # groups by place; a draw after the first holds only the replaced places
        opening = time.perf_counter()
        with open_policy(self._sampling(), self._sampler_seed(step)) as (sampler, max_prompt_tokens):
            seconds["seconds/weights"] = time.perf_counter() - opening  # opening an engine sends it the weights
            places: Sequence[int] = range(self._settings.groups_per_step)
            for refill in range(self._settings.max_refills + 1):
                started = time.perf_counter()
                starts = self.starts.draw(len(places), step, self._process, refill)
                record_secrets(
                    self._stage.run, self._stage.name, step, self._process, [start.secret for start in starts]
                )
                rubric = self._rubric(step)
                games = self._play(starts, sampler, max_prompt_tokens, rubric)
                scoring = time.perf_counter()
                rises = self._rises([group for group, _ in games])
                groups = [
                    score_group(group, rubric, self._setup, self._settings, values, rise)
                    for (group, values), rise in zip(games, rises, strict=True)
                ]
                for group in groups:
                    if len(group.games) > 1 or not group.failed:  # one survivor tells nothing about reward spread
                        self.starts.note(group.games[0].trajectory.transcript, group.reward_std)
                seconds["seconds/rollout"] += scoring - started
                seconds["seconds/reward"] += time.perf_counter() - scoring
                draws.append(dict(zip(places, groups, strict=True)))
                places = [place for place, group in draws[-1].items() if group.is_constant]
                if not places:
                    break
        return self._summed_up(step, draws, {**seconds, **probed})

    def _play(
        self, starts: Sequence[InitialState], sampler: Sampler, max_prompt_tokens: int | None, rubric: Rubric
    ) -> list[tuple[list[Trajectory], list[list[TurnValues]]]]:
        # The games of each group, and with candidates their values.
        settings, words, prompter = self._settings, self._setup.words, self._setup.prompter
        # Each candidate is a completion to pay for, so a group plays fewer games with more candidates.
        size = settings.group_size // settings.turn_candidates
        repeated = [start for start in starts for _ in range(size)]
        if settings.turn_candidates == 1:
            trajectories = play(
                repeated,
                words,
                prompter,
                sampler,
                max_prompt_tokens=max_prompt_tokens,
                should_stop=self.should_stop,
            )
            return [(group, []) for group in groups_of(trajectories, size)]
        # The default reward values a game only at its end, so it cannot rank candidates. Regret can.
        by_reward = settings.reward != RewardSettings()
        solver = self._setup.solver
        games = play_branching(
            repeated,
            words,
            prompter,
            sampler,
            settings.turn_candidates,
            reward_judge(rubric, solver) if by_reward else regret_judge(solver),
            max_prompt_tokens=max_prompt_tokens,
            should_stop=self.should_stop,
        )
        groups = (games[first : first + size] for first in range(0, len(games), size))
        return [([game for game, _ in group], [values for _, values in group]) for group in groups]

    def _rises(self, groups: Sequence[Sequence[Trajectory]]) -> list[list[TurnValues]]:
        # The reward of each turn by belief; the policy of this step is asked once, for all games.
        if not self._settings.belief_weight:
            return [[] for _ in groups]
        games = [game for group in groups for game in group]
        beliefs = beliefs_of(games, self._stage.training.learner, self._setup.prompter)
        clip = self._settings.belief_clip
        rises = iter(
            belief_rises(belief, clip, won=game.transcript.won) if belief else ()
            for game, belief in zip(games, beliefs, strict=True)
        )
        return [[next(rises) for _ in group] for group in groups]

    def _summed_up(self, step: int, draws: Sequence[dict[int, Group]], numbers: Mapping[str, float]) -> Played:
        # constant_group_rate and pass@k are over the first draw: refills would hide how often a group teaches nothing.
        final: dict[int, Group] = {}
        for draw in draws:
            final |= draw  # the last group of each place, in the order of the first draw
        groups = list(final.values())
        games = [game for group in groups for game in group.games]
        failed = [reason for draw in draws for group in draw.values() for reason in group.failed]
        counted = check_some_played(games, failed, f"step {step + 1}")
        found = measured(games, self._setup.words)
        self.cumulative_wins += found.num_wins
        self._log_samples(step, groups)
        first, *refills = draws
        totals = [game.reward.total for game in games]
        metrics = {
            **numbers,
            "reward": statistics.fmean(totals),
            "reward_std": statistics.fmean(group.reward_std for group in groups),
            "constant_group_rate": sum(group.is_constant for group in first.values()) / len(first),
            **_pass_at(first.values(), self._setup.words),
            "refilled_groups": float(sum(not group.is_constant for draw in refills for group in draw.values())),
            "skipped_groups": float(sum(group.is_constant for group in groups)),
            **found.means,
            **counted,
            "cumulative_wins": float(self.cumulative_wins),
        }
        return Played(groups, metrics, {"reward": len(games), **found.denominators})

    def close(self) -> None:
        """See `PlayedAhead`: no games are under way between steps."""

    def _sampling(self) -> SamplingSettings:
        return self._setup.sampling_at(self._settings.temperature)

    def reward_of(self, transcript: Transcript, step: int) -> RewardBreakdown:
        """Score a finished game by the rubric of the weights after `step` steps."""
        return self._rubric(step).score(transcript, self._setup.solver)

    def _rubric(self, step: int) -> Rubric:
        last = max(1, self._settings.steps - 1)  # validations come after it, too
        return self.schedule.rubric(min(1.0, step / last), self.best_compliance)

    def note_compliance(self, format_compliance: float) -> None:
        """Record the format compliance of a step over all processes.

        Reward schedules see the best mean of `COMPLIANCE_STEPS` consecutive steps, or None before there is one.
        """
        self._compliance.append(format_compliance)
        if len(self._compliance) == COMPLIANCE_STEPS:
            self.best_compliance = max(statistics.fmean(self._compliance), self.best_compliance or 0.0)

    def own_state(self) -> dict[str, Any]:
        """Return the state of this process."""
        return {
            "priorities": self.starts.picker.state(),
            "best_compliance": self.best_compliance,
            "compliance": list(self._compliance),
            "cumulative_wins": self.cumulative_wins,
        }

    def state(self, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Merge the states of all processes for a checkpoint; every process must call this.

        Priorities of the same secret are averaged with equal weights.

        Args:
            own: What `own_state` returned earlier, to save in place of the state by now.
        """
        priorities: dict[str, list[float]] = {}
        every = gather(own or self.own_state())
        for theirs in every:
            for secret, priority in theirs["priorities"].items():
                priorities.setdefault(secret, []).append(priority)
        return {
            **every[0],
            "priorities": {secret: statistics.fmean(values) for secret, values in priorities.items()},
            "cumulative_wins": sum(theirs["cumulative_wins"] for theirs in every),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.starts.picker.load_state(state["priorities"])
        self.best_compliance = state["best_compliance"]
        self._compliance = deque(state["compliance"], maxlen=COMPLIANCE_STEPS)
        # Metrics sum this over processes, so only the first takes it over.
        self.cumulative_wins = state["cumulative_wins"] if self._process == 0 else 0

    def _probe(self, step: int, open_policy: OpenPolicy) -> dict[str, float]:
        # Play every training secret greedily and reset priorities to (best reward of all secrets) - (its reward). Each
        # process plays a part of the secrets. These games are not trained on.
        secrets = list(self._setup.secrets[self._process :: num_processes()])
        record_secrets(self._stage.run, f"{self._stage.name}/probe", step, self._process, secrets)
        started = time.perf_counter()
        player = PlayerSpec(sampling=self._sampling().greedy(), seed=self._sampler_seed(step))
        asked = Asked(self._setup.context, [InitialState(secret) for secret in secrets], player)
        games = evaluate(asked, partial(open_policy, player.sampling), lambda game: game)
        played = [game.transcript for game in games if game.error is None]
        mine = [(transcript.secret, self.reward_of(transcript, step).total, transcript.won) for transcript in played]
        found = [probe for theirs in gather(mine) for probe in theirs]
        if not found:
            why = next((game.error for game in games if game.error is not None), "there are no secrets")
            raise RunError(f"no greedy game could be played: {why}; fix the sampler and run again")
        best = max(reward for _, reward, _ in found)
        self.starts.picker.reset({secret: best - reward for secret, reward, _ in found})
        return {
            "probe_win_rate": statistics.fmean(won for *_, won in found),
            "seconds": time.perf_counter() - started,
        }

    def _sampler_seed(self, step: int) -> int:
        # Depends on step and process alone, so a resumed training samples like an uninterrupted one.
        return random.Random(f"{self._stage.seed}:{step}:{self._process}:sampler").getrandbits(31)

    def _log_samples(self, step: int, groups: Sequence[Group]) -> None:
        if self._process or not self._settings.sample_games:
            return
        places = [(number, game) for number, group in enumerate(groups) for game in range(len(group.games))]
        every = max(1, len(places) // self._settings.sample_games)
        wanted = set(places[::every][: self._settings.sample_games])  # evenly spaced over the groups
        if step % WHOLE_GROUP_EVERY_STEPS == 0:
            whole = shown_group(groups)
            wanted |= {place for place in places if place[0] == whole}
        rows = [
            row for number in sorted({group for group, _ in wanted}) for row in group_rows(number, groups[number].games)
        ]
        self._stage.log.add(self._stage.name, step, [row for row in rows if (row["group"], row["game"]) in wanted])


def shown_group(groups: Sequence[Group]) -> int:
    """Return the number of the first group with something to learn; 0 if there is none."""
    return next((number for number, group in enumerate(groups) if not group.is_constant), 0)


def _pass_at(groups: Iterable[Group], words: WordList) -> dict[str, float]:
    # Groups of secrets outside the answers are left out: they cannot be won by reasoning.
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


class PlayedAhead:
    """Wrap `GroupRollouts` so that an engine plays up to `batches_ahead` steps ahead while this process trains.

    A thread plays the steps in order. The engine takes weights between two batches, never in the middle of one. While
    the learner waits for games, every batch begins with its newest weights. While games wait for the learner, batches
    go on with the weights sent last, as long as none is learnt from more than `batches_ahead` steps after these. The
    metric `staleness` has the steps between the weights of a batch and those that learn from it.
    """

    def __init__(self, rollouts: GroupRollouts, stage: Stage, settings: GRPOSettings) -> None:
        if stage.engine is None:
            raise ValueError("batches_ahead needs an engine; pass one, or set batches_ahead to 0")
        self._rollouts, self._engine = rollouts, stage.engine
        self._ahead, self._num_steps = settings.batches_ahead, settings.steps
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="games")
        self._begun: deque[Future[tuple[Played, Mapping[str, Any]]]] = deque()  # batches that are not learnt from yet
        self._latest: Future[Any] | None = None
        # The step to begin next, none before the first is asked for, and the last one that may begin.
        self._upcoming, self._last = settings.steps, -1
        self._lock = Lock()  # over those; batches end in a thread
        self._step, self._sent = -1, 0  # the step learnt from last; how many the engine's weights have learnt from
        self._state: Mapping[str, Any] | None = None
        self._compliance: dict[int, float] = {}  # by step

    def next(self, step: int) -> Played:
        """Return the games of a step, and let those of later ones begin."""
        self._begin_until(step)  # pause after this step, so that the next one begins with new weights
        if not self._begun:  # the first step, also after a resume
            self._upcoming = step
            self._send(step)
            self._begin_until(step)
        played, self._state = self._begun.popleft().result()
        self._step = step
        # Sending is collective, and each process plays at its own pace: send if all are between two batches. Send from
        # the main thread, since threads of different processes could interleave.
        if all(gather(self._upcoming < self._num_steps and not self._under_way)):
            self._send(step)
        self._begin_until(self._sent + self._ahead)
        return played

    def _send(self, step: int) -> None:
        self._engine.send_weights()
        self._sent = step

    @property
    def _under_way(self) -> bool:
        return self._latest is not None and not self._latest.done()

    def _begin_until(self, last: int) -> None:
        with self._lock:
            self._last = min(last, self._num_steps - 1)
        self._begin()

    def _begin(self) -> None:
        # Begin the upcoming batch unless one is under way or has failed. Called again at its end.
        with self._lock:
            if self._upcoming > self._last or self._under_way or (self._latest and self._latest.exception()):
                return
            batch = self._latest = self._pool.submit(self._play, self._upcoming)
            self._begun.append(batch)
            self._upcoming += 1
        batch.add_done_callback(lambda _: self._begin())

    def _play(self, step: int) -> tuple[Played, Mapping[str, Any]]:
        # By the same compliance in every process, however far ahead it plays: that of the newest step that all know.
        compliance = self._compliance.get(step - self._ahead - 1)
        if compliance is not None:
            self._rollouts.note_compliance(compliance)
        staleness = float(step - self._sent)
        played = self._rollouts.next(step, self._engine.sampler)
        # Take the state before later games begin: after a resume those are played again.
        return replace(played, metrics={**played.metrics, "staleness": staleness}), self._rollouts.own_state()

    @contextmanager
    def open_policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int | None]]:
        """Open the policy for other games: wait until none are under way, since the engine then takes other weights."""
        last = self._last
        self._begin_until(-1)
        if self._latest is not None:
            self._latest.exception()  # waits; `next` raises the error, if there is one
        with self._engine.policy(sampling, seed) as opened:
            self._sent = self._step + 1
            yield opened
        self._begin_until(last)

    def note_compliance(self, format_compliance: float) -> None:
        """Take note of the format compliance of a step, for the games that begin `batches_ahead` + 1 steps later.

        All games of a step are then scored by the same rubric.
        """
        self._compliance[self._step] = format_compliance

    def state(self) -> Mapping[str, Any]:
        """Return the state before the games ahead, with the compliances that these have not been told."""
        held = [[step, value] for step, value in self._compliance.items() if step >= self._step - self._ahead]
        return {**self._rollouts.state(self._state), "held_compliance": held}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._rollouts.load_state(state)
        self._compliance = dict(state["held_compliance"])

    def close(self) -> None:
        """Wait for the batch under way, and begin no other."""
        self._begin_until(-1)
        self._pool.shutdown(wait=True)
