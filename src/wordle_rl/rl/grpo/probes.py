"""Probes: every training secret played once, greedily, to find those with something left to learn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelerate.utils import gather_object

from wordle_rl.config import SamplingSettings
from wordle_rl.env import Transcript
from wordle_rl.rl.grpo.play import OpenSampler
from wordle_rl.rl.setup import GameSetup
from wordle_rl.rollout import InitialState, play
from wordle_rl.runs import RunError


@dataclass(frozen=True, slots=True)
class Probe:
    """The probes of all processes.

    Attributes:
        priorities: By secret, the best reward of all probes minus its own; none of a game that failed.
        win_rate: Fraction of the secrets found, 0 to 1.
        seconds: Time taken by this process.
    """

    priorities: dict[str, float]
    win_rate: float
    seconds: float


def probe(
    secrets: Sequence[str],
    setup: GameSetup,
    open_sampler: OpenSampler,
    sampling: SamplingSettings,
    seed: int,
    reward_of: Callable[[Transcript], float],
    num_processes: int,
) -> Probe:
    """Play one greedy game per secret from an empty board; each process must call this with secrets of its own.

    Args:
        secrets: The secrets of this process.
        setup: Words and prompts.
        open_sampler: Opens a sampler over the policy's current weights.
        sampling: Its settings, but for the temperature, which is 0.
        seed: Its seed.
        reward_of: Total reward of a game.
        num_processes: Number of processes.
    """
    started = time.perf_counter()
    with open_sampler(sampling.greedy(), seed) as (sampler, max_prompt_tokens):
        starts = [InitialState(secret) for secret in secrets]
        games = play(starts, setup.words, setup.prompter, sampler, max_prompt_tokens=max_prompt_tokens)
    played = [game.transcript for game in games if game.error is None]
    found = [(transcript.secret, reward_of(transcript), transcript.won) for transcript in played]
    found = gather_object(found) if num_processes > 1 else found
    if not found:
        why = next((game.error for game in games if game.error is not None), "there are no secrets")
        raise RunError(f"no greedy game could be played: {why}; mend what plays them and run again")
    best = max(reward for _, reward, _ in found)
    return Probe(
        priorities={secret: best - reward for secret, reward, _ in found},
        win_rate=statistics.fmean(won for *_, won in found),
        seconds=time.perf_counter() - started,
    )
