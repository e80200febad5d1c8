"""The games of one GRPO step: drawn, played, scored, credited, and laid out as the rows TRL trains on."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wordle_rl.chat import ChatCodec
from wordle_rl.config import ConfigError, GRPOSettings
from wordle_rl.credit import TurnValues, game_advantages, is_constant, turn_advantages
from wordle_rl.env import random_given
from wordle_rl.focus import SecretPicker
from wordle_rl.modeling import context_length
from wordle_rl.prompt import Prompter, Shape
from wordle_rl.reward import RewardBreakdown, Schedule, format_compliance
from wordle_rl.rollout import Segment, Start, Trajectory, groups_of, play
from wordle_rl.runs import Run
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from trl import GRPOTrainer


@dataclass(frozen=True)
class Arena:
    """What the games of a training are played with."""

    words: WordList
    prompter: Prompter
    secrets: Sequence[str]
    solver: Solver | None


@dataclass(frozen=True, slots=True)
class Scored:
    """A game with its reward and the advantage of each of its own turns."""

    trajectory: Trajectory
    reward: RewardBreakdown
    advantages: TurnValues


class Roller:
    """Plays the games of each step and turns them into TRL's rows."""

    def __init__(self, arena: Arena, codec: ChatCodec, settings: GRPOSettings, run: Run, seed: int) -> None:
        self.arena, self.codec, self.settings, self.run, self.seed = arena, codec, settings, run, seed
        self.schedule: Schedule = settings.reward.schedule()
        self.picker = SecretPicker(arena.secrets, settings.focus, seed)
        self.best_compliance: float | None = None
        self.cumulative_wins = 0
        self.metrics: dict[str, float] = {}
        self._sampler: TransformersSampler | None = None

    @property
    def rows_per_game(self) -> int:
        """Rows TRL must leave for one game."""
        return self.arena.prompter.rules.max_replies if self.arena.prompter.shape is Shape.STATE else 1

    def __call__(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """TRL's `rollout_func`: play `len(prompts)` rows' worth of games; the prompts themselves only count."""
        num_groups = len(prompts) // (self.settings.group_size * self.rows_per_game)
        step, process = int(trainer.state.global_step), int(trainer.accelerator.process_index)
        started = time.perf_counter()
        starts = self._starts(num_groups, step, process)
        trajectories = self._play(trainer, starts, step, process)
        played = time.perf_counter()
        games = self._score(trajectories, step)
        self.metrics["seconds/rollout"] = played - started
        self.metrics["seconds/reward"] = time.perf_counter() - played
        if process == 0:
            for game in games[:: max(1, len(games) // max(1, self.settings.sample_games))][
                : self.settings.sample_games
            ]:
                self.run.append("games.jsonl", {"stage": "grpo", "step": step, **game_row(game)})
        return self._rows(games)

    def _starts(self, num_groups: int, step: int, process: int) -> list[Start]:
        rng = random.Random(f"{self.seed}:{step}:{process}")
        hard_mode = self.arena.prompter.rules.hard_mode
        starts = []
        secrets = self.picker.pick(num_groups, step, process)
        self.run.append("secrets.jsonl", {"stage": "grpo", "step": step, "process": process, "secrets": secrets})
        for secret in secrets:
            given = random_given(self.arena.words, secret, rng, self.settings.max_given, hard_mode=hard_mode)
            starts += [Start(secret, given)] * self.settings.group_size
        return starts

    def _play(self, trainer: GRPOTrainer, starts: list[Start], step: int, process: int) -> list[Trajectory]:
        if self._sampler is None:
            model = trainer.accelerator.unwrap_model(trainer.model)
            seed = hash((self.seed, step, process)) & 0x7FFFFFFF
            self._sampler = TransformersSampler(model, self.codec, self.settings.sampling, seed)
        return play(
            starts,
            self.arena.words,
            self.arena.prompter,
            self._sampler,
            max_prompt_tokens=prompt_budget(self._sampler.model, self.settings),
        )

    def _score(self, trajectories: list[Trajectory], step: int) -> list[Scored]:
        rubric = self.schedule.rubric_at(step, self.best_compliance)
        credit = turn_advantages if self.settings.credit == "turn" else game_advantages
        games: list[Scored] = []
        constant = 0
        groups = groups_of(trajectories, self.settings.group_size)
        for group in groups:
            rewards = [rubric.score(trajectory.transcript, self.arena.solver) for trajectory in group]
            advantages = credit([reward.turn_rewards for reward in rewards], scale=self.settings.scale_advantages)
            constant += is_constant(advantages)
            self.picker.update(group[0].transcript.secret, statistics.pstdev(reward.total for reward in rewards))
            games += [Scored(t, r, a) for t, r, a in zip(group, rewards, advantages, strict=True)]
        self._measure(games, constant / len(groups))
        return games

    def _measure(self, games: list[Scored], zero_variance_share: float) -> None:
        transcripts = [game.trajectory.transcript for game in games]
        wins = [transcript.turns_used for transcript in transcripts if transcript.won]
        self.cumulative_wins += len(wins)
        compliance = format_compliance(transcripts)
        self.best_compliance = max(compliance, self.best_compliance or 0.0)
        components: Counter[str] = Counter()
        for game in games:
            components.update(game.reward.values)
        self.metrics = {
            "win_rate": len(wins) / len(games),
            "format_compliance": compliance,
            "zero_variance_share": zero_variance_share,
            "cumulative_wins": float(self.cumulative_wins),
            **{f"reward/{name}": total / len(games) for name, total in components.items()},
        }
        if wins:
            self.metrics["mean_guesses"] = statistics.fmean(wins)

    def _rows(self, games: list[Scored]) -> dict[str, list[Any]]:
        blank = Segment((self.codec.pad_id,), (self.codec.turn_end_ids[0],), (0,), (0.0,), ())
        rows: dict[str, list[Any]] = {
            name: []
            for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "token_advantages", "game_reward")
        }
        for game in games:
            segments = game.trajectory.segments
            for segment in [*segments, *[blank] * (self.rows_per_game - len(segments))]:
                rows["prompt_ids"].append(list(segment.prompt_ids))
                rows["completion_ids"].append(list(segment.token_ids))
                rows["logprobs"].append(list(segment.sampler_logprobs))
                rows["env_mask"].append(list(segment.loss_mask))
                rows["token_advantages"].append(token_advantages(segment, game.advantages))
                rows["game_reward"].append(game.reward.total)
        return rows


def token_advantages(segment: Segment, advantages: TurnValues) -> list[float]:
    """Spread each turn's advantage over its sampled tokens; 0.0 on all others."""
    spread = [0.0] * len(segment.token_ids)
    for turn, start, stop in segment.spans:
        spread[start:stop] = [advantages[turn]] * (stop - start)
    return spread


def game_row(game: Scored) -> dict[str, Any]:
    """A game as games.jsonl holds it."""
    transcript = game.trajectory.transcript
    own = 0
    turns = []
    for played in transcript.turns:
        row: dict[str, Any] = {
            "reply": played.reply,
            "guess": played.turn.guess,
            "marks": played.turn.marks,
            "outcome": played.turn.outcome.value,
            "given": played.given,
        }
        if not played.given:
            row["reward"] = round(game.reward.turn_rewards[own], 4)
            row["components"] = {name: round(s[own], 4) for name, s in game.reward.components.items()}
            own += 1
        turns.append(row)
    return {
        "secret": transcript.secret,
        "won": transcript.won,
        "reward": round(game.reward.total, 4),
        "stop_reason": transcript.stop_reason.value,
        "turns": turns,
    }


def prompt_budget(model: PreTrainedModel, settings: GRPOSettings) -> int | None:
    """The longest prompt that leaves room for a reply in the model's context.

    Raises:
        ConfigError: If the context holds no reply of the wanted length.
    """
    context = context_length(model)
    if context is None:
        return None
    budget = context - settings.sampling.max_completion_tokens
    if budget < 1:
        raise ConfigError(
            f"grpo.sampling.max_completion_tokens {settings.sampling.max_completion_tokens} leaves no room for "
            f"a prompt in the model's context of {context} tokens; lower it"
        )
    return budget
