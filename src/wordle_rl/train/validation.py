"""Validation during GRPO: play validation secrets and some training secrets with the current weights.

Test secrets are never played, so results on them stay unbiased.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import Transcript
from wordle_rl.reward import RewardBreakdown, with_candidates
from wordle_rl.rollout import InitialState, play
from wordle_rl.runs import RunError
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.trackers import GameLog
from wordle_rl.solver.boards import turn_regret
from wordle_rl.train.games import GameSetup
from wordle_rl.train.groups import OpenPolicy

_TRAIN_PER_VALIDATION = 4
_GAMES_PER_SECRET = 4
"""Sampled games per validation secret; one alone would be mostly luck."""


@dataclass(frozen=True)
class Validated:
    """Results of a validation.

    Attributes:
        figures: Win rates, 0 to 1, and costs. A cost is the mean number of guesses, with a loss as one more than the
            game allows: `cost` of sampled play on validation secrets, `validation_cost` of greedy play on them,
            `greedy_cost` of greedy play on validation and training secrets.
        won: Whether greedy play won, for each validation and training secret.
    """

    figures: Mapping[str, float]
    won: tuple[bool, ...]


class Validation:
    """Play the validation secrets with the current weights: greedily, and sampled as in training.

    Training secrets are played greedily as well: four for each validation secret, always the same ones.

    Args:
        setup: Words, prompts, and secrets.
        sampling: Sampling as in training; the random stream is the same each time.
        open_policy: Opens a sampler over the current weights.
        log: Takes sample games of greedy play, on other secrets at every validation. None: log none.
        sample_games: Number of sample games per validation.
        reward_of: Scores sample games. None: log them without rewards.

    Raises:
        ConfigError: If there are no validation secrets.
    """

    def __init__(
        self,
        setup: GameSetup,
        sampling: SamplingSettings,
        open_policy: OpenPolicy,
        log: GameLog | None = None,
        sample_games: int = 0,
        reward_of: Callable[[Transcript], RewardBreakdown] | None = None,
    ) -> None:
        if not setup.validation:
            raise ConfigError("there are no validation secrets to select checkpoints by; set validate_every_steps to 0")
        self._setup, self._sampling = setup, sampling
        self._log, self._sample_games = log, sample_games
        self._open_policy = open_policy
        self._reward_of = reward_of
        known = [*setup.rehearsal, *setup.secrets]
        count = min(len(known), _TRAIN_PER_VALIDATION * len(setup.validation))
        self._train = random.Random(0).sample(known, count)
        self._shown = random.Random(0).sample(range(len(setup.validation)), len(setup.validation))

    def __call__(self, step: int, alpha: float = 1.0, number: int = 0) -> Validated:
        """Play all games.

        Args:
            step: The training step.
            alpha: The weights that play are start + alpha x (step - start); logged with each game.
            number: Number of the validation, from 0; it decides which games are logged.
        """
        everything = self._play([*self._setup.validation, *self._train], self._sampling.greedy())
        greedy, trained = everything[: len(self._setup.validation)], everything[len(self._setup.validation) :]
        often = [secret for secret in self._setup.validation for _ in range(_GAMES_PER_SECRET)]
        sampled = self._play(often, self._sampling)
        if self._log is not None and is_first():
            # The next secrets of a fixed order, round and round.
            total = len(self._shown)
            count = min(self._sample_games, total)
            places = (self._shown[place % total] for place in range(number * count, (number + 1) * count))
            shown = [greedy[place] for place in places]
            reward_of = self._reward_of
            games = ((game, reward_of(game) if reward_of is not None else None) for game in shown)
            self._log.add("validation", step, ({"alpha": alpha, **GameRecord.of(*game).to_row()} for game in games))
        figures = {
            "greedy_win_rate": statistics.fmean(transcript.won for transcript in greedy),
            "sampled_win_rate": statistics.fmean(transcript.won for transcript in sampled),
            **({"train_win_rate": statistics.fmean(transcript.won for transcript in trained)} if trained else {}),
            "regret_per_turn": statistics.fmean(  # expected guesses given away, see `turn_regret`
                turn_regret(turn, candidates, self._setup.solver.regret)
                for game in greedy
                for turn, candidates in with_candidates(game, self._setup.solver)
            ),
            "cost": self._cost(sampled),
            "validation_cost": self._cost(greedy),
            "greedy_cost": self._cost(everything),
        }
        return Validated(figures, tuple(transcript.won for transcript in everything))

    def _cost(self, games: Sequence[Transcript]) -> float:
        lost = self._setup.prompter.rules.max_turns + 1
        return statistics.fmean(game.turns_used if game.won else lost for game in games)

    def _play(self, secrets: Sequence[str], sampling: SamplingSettings) -> list[Transcript]:
        starts = [InitialState(secret) for secret in secrets]
        words, prompter = self._setup.words, self._setup.prompter
        with self._open_policy(sampling, 0) as (sampler, budget):
            games = play(starts, words, prompter, sampler, max_prompt_tokens=budget)
        failed = next((game.error for game in games if game.error is not None), None)
        if failed is not None:  # dropping a game would compare weights by different games
            raise RunError(f"a validation game could not be played: {failed}; run again to resume before it")
        return [game.transcript for game in games]
