"""The games of one GRPO step: drawn, played, scored, credited, and laid out as the rows TRL trains on."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOSettings
from wordle_rl.env import Transcript
from wordle_rl.game import Turn
from wordle_rl.prompt import Shape
from wordle_rl.reward import RewardBreakdown, Schedule, with_candidates
from wordle_rl.rl.advantages import CREDITS, TurnValues, is_constant, token_advantages
from wordle_rl.rl.grpo.branching import BranchedGame, play_branching, regret_judge
from wordle_rl.rl.grpo.vllm import colocated_player
from wordle_rl.rl.setup import GameSetup, Scored, game_row, measured, prompt_budget
from wordle_rl.rl.starts import GroupStarts, record_secrets
from wordle_rl.rollout import Segment, Start, Trajectory, groups_of, mask_without_overlong, play
from wordle_rl.runs import Run
from wordle_rl.runs.trackers import SampleGames
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.solver.boards import fitting_answers

if TYPE_CHECKING:
    from trl import GRPOTrainer


@dataclass(frozen=True, slots=True)
class Group:
    """The games that share a secret and a start; `is_constant` if every advantage is zero."""

    games: list[Scored]
    is_constant: bool


class GroupRollouts:
    """Plays the games of each step and turns them into TRL's rows."""

    def __init__(self, setup: GameSetup, codec: ChatCodec, settings: GRPOSettings, run: Run, seed: int) -> None:
        self.setup, self.codec, self.settings, self.run, self.seed = setup, codec, settings, run, seed
        self.book = SampleGames(run)
        self.schedule: Schedule = settings.reward.schedule()
        self.starts = GroupStarts(
            setup.words,
            setup.prompter,
            setup.secrets,
            seed,
            focus=settings.focus,
            outside_rate=settings.outside_rate,
            max_given=settings.max_given,
            given_starts=setup.given_starts,
            starts_share=setup.starts_share,
        )
        self._fitting = fitting_answers(setup.solver)
        self.best_compliance: float | None = None
        self.cumulative_wins = 0
        self.metrics: dict[str, float] = {}
        self.denominators: dict[str, int] = {}
        self.filled_share = 1.0
        """Share of the rows of a step that are not blank padding."""

    @property
    def rows_per_game(self) -> int:
        """Rows TRL must leave for each of the `group_size` places of a group."""
        row_per_turn = self.setup.prompter.shape is Shape.STATE or self.settings.turn_candidates > 1
        return self.setup.prompter.rules.max_replies if row_per_turn else 1

    def __call__(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """TRL's `rollout_func`: play games for `len(prompts)` rows; what the prompts say is not used."""
        num_groups = len(prompts) // (self.settings.group_size * self.rows_per_game)
        step, process = int(trainer.state.global_step), int(trainer.accelerator.process_index)
        self.metrics = {"seconds/rollout": 0.0, "seconds/reward": 0.0}
        if self.settings.scout_every_steps and step % self.settings.scout_every_steps == 0:
            self._scout(trainer, step, process)
        with self._player(trainer, step, process) as (sampler, budget):
            games = self._play(sampler, budget, num_groups, step, process)
        self._measure(games)
        if process == 0:
            every = max(1, len(games) // max(1, self.settings.sample_games))
            self.book.add("grpo", step, map(game_row, games[::every][: self.settings.sample_games]))
        return self._rows(games)

    def reward_of(self, transcript: Transcript, step: int) -> RewardBreakdown:
        """What a finished game earns at a step."""
        return self.schedule.rubric_at(step, self.best_compliance).score(transcript, self.setup.solver)

    def _scout(self, trainer: GRPOTrainer, step: int, process: int) -> None:
        """Play every secret greedily, a share of them per process; its worth is the best reward minus its own."""
        started = time.perf_counter()
        num_processes = int(trainer.accelerator.num_processes)
        secrets = list(self.setup.secrets[process::num_processes])
        record_secrets(self.run, "scout", step, process, secrets)
        with self._player(trainer, step, process, greedy=True) as (sampler, budget):
            starts = [Start(secret) for secret in secrets]
            games = play(starts, self.setup.words, self.setup.prompter, sampler, max_prompt_tokens=budget)
        played = [game.transcript for game in games]
        found = [(game.secret, self.reward_of(game, step).total, game.won) for game in played]
        found = gather_object(found) if num_processes > 1 else found
        best = max(reward for _, reward, _ in found)
        self.starts.picker.restart({secret: best - reward for secret, reward, _ in found})
        self.metrics["scouted_win_rate"] = statistics.fmean(won for *_, won in found)
        self.metrics["seconds/rollout"] += time.perf_counter() - started

    def _play(self, sampler: Sampler, budget: int | None, num_groups: int, step: int, process: int) -> list[Scored]:
        """All games of a step; constant groups are replaced by new ones, up to `max_refills` times."""
        groups = self._round(sampler, budget, num_groups, step, process, 0)
        first = [group for group in groups if group.is_constant]
        refilled = 0
        for refill in range(1, self.settings.max_refills + 1):
            places = [place for place, group in enumerate(groups) if group.is_constant]
            if not places:
                break
            anew = self._round(sampler, budget, len(places), step, process, refill)
            for place, fresh in zip(places, anew, strict=True):
                groups[place] = fresh
                refilled += not fresh.is_constant
        self.metrics["zero_variance_share"] = len(first) / num_groups
        self.metrics["refilled_groups"] = float(refilled)
        self.metrics["skipped_groups"] = float(sum(group.is_constant for group in groups))
        return [game for group in groups for game in group.games]

    def _round(
        self, sampler: Sampler, budget: int | None, num_groups: int, step: int, process: int, refill: int
    ) -> list[Group]:
        """Draw, play and score so many groups; their seconds are added to those of the step."""
        started = time.perf_counter()
        drawn = self.starts.draw(num_groups, step, process, refill)
        record_secrets(self.run, "grpo", step, process, [start.secret for start in drawn])
        starts = [start for start in drawn for _ in range(self.settings.group_size // self.settings.turn_candidates)]
        words, prompter = self.setup.words, self.setup.prompter
        if (num_candidates := self.settings.turn_candidates) > 1:
            judge = regret_judge(self.setup.solver)
            branched = play_branching(starts, words, prompter, sampler, num_candidates, judge, max_prompt_tokens=budget)
            played = time.perf_counter()
            groups = self._score_branched(branched, step)
        else:
            settled = self._is_settled
            trajectories = play(starts, words, prompter, sampler, max_prompt_tokens=budget, is_settled=settled)
            played = time.perf_counter()
            groups = self._score(trajectories, step)
        self.metrics["seconds/rollout"] += played - started
        self.metrics["seconds/reward"] += time.perf_counter() - played
        return groups

    def _is_settled(self, secret: str, board: Sequence[Turn]) -> bool:
        """No answer fits the board any more; later guesses are not trained on. Only for secrets outside the answers."""
        outside = secret not in self.setup.words.answer_index
        return outside and not len(self._fitting(board))

    @contextmanager
    def _player(
        self, trainer: GRPOTrainer, step: int, process: int, *, greedy: bool = False
    ) -> Iterator[tuple[Sampler, int | None]]:
        """Who plays the games of a step, and the longest prompt it takes.

        Its random stream begins anew with each step, so that a training that was stopped goes on as it would have.
        """
        sampling = self.settings.sampling.greedy() if greedy else self.settings.sampling
        seed = random.Random(f"{self.seed}:{step}:{process}:sampler").getrandbits(31)
        if self.settings.engine == "vllm":
            with colocated_player(trainer, self.codec, sampling, seed) as player:
                yield player
            return
        model = trainer.accelerator.unwrap_model(trainer.model)
        yield TransformersSampler(model, self.codec, sampling, seed), prompt_budget(model, self.settings)

    def _score(self, trajectories: list[Trajectory], step: int) -> list[Group]:
        rubric = self.schedule.rubric_at(step, self.best_compliance)
        credit = CREDITS[self.settings.credit]
        groups: list[Group] = []
        for group in groups_of(trajectories, self.settings.group_size):
            rewards = [rubric.score(trajectory.transcript, self.setup.solver) for trajectory in group]
            turn_rewards = [
                reward.turn_rewards[: self._num_live_turns(trajectory.transcript)]
                for trajectory, reward in zip(group, rewards, strict=True)
            ]
            advantages = credit(turn_rewards, scale=self.settings.scale_advantages)
            self.starts.note(group[0].transcript, statistics.pstdev(reward.total for reward in rewards))
            games = [
                Scored(t, r, a + (0.0,) * (len(r.turn_rewards) - len(a)))
                for t, r, a in zip(group, rewards, advantages, strict=True)
            ]
            groups.append(Group(games, is_constant(advantages)))
        return groups

    def _score_branched(self, branched: list[BranchedGame], step: int) -> list[Group]:
        """Groups of games in which each candidate's advantage is its value minus the mean value of its turn."""
        rubric = self.schedule.rubric_at(step, self.best_compliance)
        per_group = self.settings.group_size // self.settings.turn_candidates
        groups: list[Group] = []
        for first in range(0, len(branched), per_group):
            games: list[Scored] = []
            group = branched[first : first + per_group]
            for game in group:
                reward = rubric.score(game.transcript, self.setup.solver)
                above = [_above_mean(values) for values in game.values]
                segments = tuple(segment for turn in game.candidates for segment in turn)
                games.append(Scored(Trajectory(game.transcript, segments), reward, sum(above, ())))
            spread = statistics.fmean(statistics.pstdev(values) for game in group for values in game.values)
            self.starts.note(games[0].trajectory.transcript, spread)
            groups.append(Group(games, is_constant([game.advantages for game in games])))
        return groups

    def _num_live_turns(self, transcript: Transcript) -> int:
        """Own turns to train on, at least 1: all of them, or of an outside secret those with some answer possible."""
        own = len(transcript.own_turns)
        if transcript.secret in self.setup.words.answer_index:
            return own
        return max(1, sum(len(candidates) > 0 for _, candidates in with_candidates(transcript, self.setup.solver)))

    def _measure(self, games: list[Scored]) -> None:
        found = measured(games, self.setup.words)
        self.denominators = found.denominators
        self.cumulative_wins += found.num_wins
        self.best_compliance = max(found.means["format_compliance"], self.best_compliance or 0.0)
        self.metrics |= found.means | {"cumulative_wins": float(self.cumulative_wins)}

    def _rows(self, games: list[Scored]) -> dict[str, list[Any]]:
        blank = Segment((self.codec.pad_id,), (self.codec.turn_end_ids[0],), (0,), (0.0,), ())
        rows: dict[str, list[Any]] = {
            name: []
            for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "token_advantages", "game_reward")
        }
        rows_of_a_game = self.rows_per_game * self.settings.turn_candidates
        for game in games:
            segments = game.trajectory.segments
            for segment in [*segments, *[blank] * (rows_of_a_game - len(segments))]:
                rows["prompt_ids"].append(list(segment.prompt_ids))
                rows["completion_ids"].append(list(segment.token_ids))
                rows["logprobs"].append(list(segment.sampler_logprobs))
                rows["env_mask"].append(self._learnt(segment))
                rows["token_advantages"].append(token_advantages(segment, game.advantages))
                rows["game_reward"].append(game.reward.total)
        num_filled = sum(len(game.trajectory.segments) for game in games)
        self.filled_share = num_filled / len(rows["prompt_ids"])
        return rows

    def _learnt(self, segment: Segment) -> list[int]:
        """1 on the tokens that are trained on."""
        if self.settings.mask_overlong:
            return mask_without_overlong(segment, self.codec.stop_ids)
        return list(segment.loss_mask)


def _above_mean(values: TurnValues) -> TurnValues:
    mean = statistics.fmean(values)
    return tuple(value - mean for value in values)
