"""RL and its alternatives: [rl], which GRPO, expert iteration, DPO and distillation share, and the section of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Count, Section
from wordle_rl.config.engine import VLLMSettings
from wordle_rl.config.training import (
    Precision,
    RewardSettings,
    RLOptimizerSettings,
    TokenSampling,
)
from wordle_rl.import_paths import resolve

Algorithm = Literal["grpo", "expert_iteration", "dpo", "distill"]
ALGORITHM_NAMES: dict[Algorithm, str] = {
    "grpo": "GRPO",
    "expert_iteration": "expert iteration",
    "dpo": "DPO",
    "distill": "distillation",
}
"""Algorithms after SFT: name in settings, stages and models -> name in prose."""

MODEL_NAMES = ("base", "sft", *ALGORITHM_NAMES)
"""The models that a run may evaluate, in the order of their making; `base` is the one that it begins with."""
_NOT_FOLLOWED: dict[Algorithm, dict[str, str]] = {
    "grpo": {
        "epochs": "trains on each game once; set grpo.steps",
        "batch_size": "takes grpo.groups_per_step and grpo.micro_batch_size",
        "gradient_accumulation_steps": "takes grpo.micro_batch_size",
    },
    "expert_iteration": {"reward": "keeps the wins of fewest guesses"},
    "dpo": {"reward": "values guesses by the solver unless dpo.judge is 'outcome'"},
    "distill": {"reward": "learns what the teacher says"},
}
"""Algorithm -> settings of [rl] that it does not follow, and what it does instead."""
CREDIT_NAMES = ("turn", "game", "guess")
"""Built-in advantage estimators, see `rl.advantages`."""
_VLLM_IMPORTANCE_CAP = 2.0
_TEACHER_TEMPERATURE = 0.1
_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")
_START_PLAYER = re.compile(r"(random|consistent|teacher)(:[1-9]\d{0,4})?")


def not_followed(algorithm: Algorithm, judge: object) -> dict[str, str]:
    """Settings of [rl] that an algorithm does not follow, and what it does instead; `judge`: that of DPO."""
    return {} if algorithm == "dpo" and judge == "outcome" else _NOT_FOLLOWED[algorithm]


class StartSettings(Section):
    """Initial states of groups. Games of a group share secret and initial state."""

    max_prefix_guesses: int = Field(0, ge=0)
    """Prefix each group with 0 to this many guesses, each number as likely, shared by the group."""
    player: str = "random"
    """Player of the prefix guesses: `random` answers, `consistent` ones that fit all marks so far, or `teacher`, the
    solver teacher. With a number, as in `consistent:5`, the first guess is one of the 5 most informative openers."""
    file: Path | None = None
    """Secrets that groups play, or boards from which they start: rows of `prompt, answer` or of `word, turns`, a plain
    list of words (.txt), a file of `wordle-rl import --format grpo` or of `wordle-rl dataset`, or a data set of the hub
    as OWNER/NAME; `[:100]` at its end takes the first 100 rows. Left out and counted are validation and test secrets,
    boards that break the rules of the run, and, where only wins teach, secrets that are no answers."""
    fraction: float | None = Field(None, gt=0, le=1)
    """Fraction of groups that start from a row of the file, each row as likely as another; left out: all groups play
    the secrets of a file without boards, by priority, and half of them start from a board of a file that has any."""

    @property
    def num_openers(self) -> int:
        """Number of the best openers of which one is the first prefix guess; 0: the player chooses."""
        return int(self.player.partition(":")[2] or 0)

    def check(self) -> None:
        """Refuse a player that nobody knows, one that has nothing to play, and a fraction of no file."""
        if not _START_PLAYER.fullmatch(self.player):
            raise ValueError(
                f"player {self.player!r} is none of random, consistent and teacher, with a number of openers as in "
                "consistent:5 if wanted; give one of them"
            )
        if self.player != "random" and not self.max_prefix_guesses:
            raise ValueError(f"player {self.player!r} plays no prefix guess; set max_prefix_guesses")
        if self.file is None and "fraction" in self.model_fields_set:
            raise ValueError("fraction needs a file of boards; set file, or leave it out")


class SharedSettings(Section):
    """Settings of every algorithm; the reward is that of GRPO, and of DPO judged by outcome."""

    starts: StartSettings = StartSettings()
    """Initial states of groups."""
    max_secrets: int = Field(0, ge=0)
    """Play at most this many secrets: the first of the training secrets, which are shuffled, or of starts.file; 0: all.
    The teacher's games are not limited by it."""
    reward: RewardSettings = RewardSettings()
    """Reward of a game, in GRPO and in DPO judged by outcome; the other algorithms have none."""
    sampling: TokenSampling = TokenSampling()
    """Sampling of the policy's tokens."""
    optimizer: RLOptimizerSettings = RLOptimizerSettings()
    """Optimizer and schedule; by rounds, its state starts again in each, and the schedule spans them all."""
    precision: Precision = "auto"
    """`bf16` autocast in the training passes or `fp32`; `auto`: bf16 where the processor computes in it, but fp32
    on the GPU of a Mac."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    sample_games: int = Field(4, ge=0)
    """Games logged to games.jsonl, and by GRPO to the trackers of report_to, per step, validation or round."""


class RoundFit(Section):
    """Training passes over the data of a round, in expert iteration, DPO and distillation."""

    epochs: float = Field(1.0, gt=0)
    """Passes over the data of a round; not in GRPO."""
    batch_size: Count = Field(64, ge=1)
    """Games, or pairs of completions, per batch; not in GRPO."""
    gradient_accumulation_steps: int = Field(1, ge=1)
    """Batches per optimizer step; not in GRPO."""


class RLSettings(RoundFit, SharedSettings):
    """Settings that GRPO, expert iteration, DPO and distillation share."""

    group_size: Count | None = Field(None, ge=1)
    """Games per secret; None: 16 in GRPO, 8 in expert iteration, 4 in DPO, 1 in distillation."""


class GRPOSettings(Section):
    """Multi-turn GRPO: settings that only it has."""

    steps: int = Field(100, ge=0)
    """Optimizer steps; 0 skips GRPO."""
    groups_per_step: Count = Field(32, ge=1)
    """Secrets per step and process."""
    micro_batch_size: int = Field(0, ge=0)
    """Games per backward pass; 0: all of a step. Games of similar length share a micro-batch, which saves padding."""
    outside_rate: float = Field(0.0, ge=0, le=1)
    """Rate of groups whose secret is a listed word outside the answers. No policy can know it, so such a group teaches
    only while an answer is still possible, and by rewards that compare a guess with the solver's (`quick_regret`)."""
    credit: str = "turn"
    """Advantage estimator. `turn`: rewards from the turn on; `guess`: the turn's own reward alone, for rewards
    that already value the guess for the rest of the game; `game`: one advantage per game. Or `module:attribute`, a
    function of yours with the signature of `wordle_rl.train.advantages.turn_advantages`."""
    scale_advantages: bool = False
    """Divide by the group's standard deviation (GRPO) or not (Dr. GRPO)."""
    loss_type: Literal["grpo", "dr_grpo", "dapo"] = "dapo"
    """Weight of a token: `dapo` every token the same, `grpo` every game the same, `dr_grpo` a constant."""
    sequence_importance: bool = False
    """Importance ratios per sequence instead of per token (GSPO). Needs `credit = "game"`, `game.shape = "state"` or
    turn_candidates > 1; each gives a sequence one advantage."""
    epsilon: float = Field(0.2, gt=0)
    """Lower clip range of importance ratios. Only with batches_ahead: other games are trained on once, by the weights
    that played them, so ratios are 1."""
    epsilon_high: float = Field(0.28, gt=0)
    """Upper clip range (clip-higher); see epsilon."""
    beta: float = Field(0.0, ge=0)
    """Weight of the KL divergence to the model that GRPO starts from (with adapters: to that adapter)."""
    mask_overlong: bool = False
    """Leave completions that were cut at max_completion_tokens out of the loss."""
    engine: str = "transformers"
    """Rollout engine: `transformers` with the trained model itself, `vllm` with a copy of its weights in each process,
    or the address of a vLLM server that gets the weights of each step, such as `http://localhost:8000`."""
    batches_ahead: int = Field(0, ge=0, le=1)
    """1: the server plays the games of the next step while this step's are learnt from, with weights one step old;
    needs the address of a server as engine."""
    vllm: VLLMSettings = VLLMSettings()
    """The vLLM engine, with engine `vllm`; a server has options of its own."""
    max_importance_ratio: float | None = Field(None, ge=0)
    """Truncated importance sampling: multiply a token's advantage by its probability in training over that in sampling,
    at most this. 0: off. None: 2 with vLLM, else 0."""
    prioritized_fraction: float = Field(0.5, ge=0, le=1)
    """Prioritized sampling of secrets: this fraction of the draws goes by priority, the rest is uniform. Priority is
    the within-group reward std or, with probe_every_steps, the greedy cost."""
    probe_every_steps: int = Field(0, ge=0)
    """Probe every training secret once, greedily, before the first step and every this many steps; its priority is then
    the best probe's reward minus its own. Probes are not trained on. 0: no probes, and a secret that was never trained
    on has the largest priority."""
    turn_candidates: int = Field(1, ge=1)
    """Above 1: sample this many completions for every turn from the same state, credit each guess with its value
    against their mean, and play the best. The value is what the turn earns by the reward if the game ends with it, or
    minus its quick regret where the reward is the default one. A group then plays group_size / turn_candidates games.
    Needs `credit = "guess"` and no scale_advantages."""
    max_refills: int = Field(1, ge=0)
    """Rounds in which groups of constant reward are replaced by groups of other secrets (DAPO)."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every this many steps; 0: at the end only."""
    save_total_limit: int = Field(0, ge=-1)
    """Keep the models of the last this many checkpoints in grpo/steps, to play and compare them; 0: none, -1: all."""
    validate_every_steps: int = Field(0, ge=0)
    """Checkpoint selection by greedy validation cost: play the validation secrets, greedily and as in training, and
    some training secrets greedily, before the first step, every this many steps and at the end. Cost is the mean number
    of guesses, a loss counted as one more than the game allows. 0: keep the last weights."""
    validation_file: Path | None = None
    """Secrets of checkpoint selection, in place of the validation secrets of the split: rows as in rl.starts.file.
    Nothing is trained on them, teacher games included; test secrets among them are left out and counted."""
    interpolation_alphas: tuple[float, ...] = (1.0,)
    """Candidates of checkpoint selection besides the start: start + alpha x (last step - start), alpha above 0 and at
    most 1. Without 1 among them no step's own weights are candidates, and validations on the way are for curves.
    Weights between are played by transformers alone: with vLLM a step's own weights are the candidates."""

    stop_below_start: bool = False
    """End GRPO at a validation at which greedy play is significantly below that of the start (sign test, p below
    0.01), and keep the best weights until then. Without it such a fall is only shown beside the progress."""

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to train."""
        return self.steps == 0

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on again; never in GRPO."""
        return False

    @property
    def importance_cap(self) -> float:
        """Upper bound of a token's importance ratio, training over sampling; 0: advantages are not corrected."""
        if self.max_importance_ratio is None:
            return _VLLM_IMPORTANCE_CAP if self.plays_by_vllm else 0.0
        return self.max_importance_ratio

    @property
    def plays_by_vllm(self) -> bool:
        """True if a vLLM engine plays, here or on a server."""
        return self.engine != "transformers"

    @property
    def server(self) -> str:
        """Address of the vLLM server that plays; empty: none does."""
        return self.engine if _ADDRESS.fullmatch(self.engine) else ""

    def check(self) -> None:
        """Refuse settings of GRPO that contradict each other."""
        super().check()
        self._check_engine()
        if self.credit not in CREDIT_NAMES:
            if ":" not in self.credit:
                known = ", ".join(CREDIT_NAMES)
                raise ValueError(f"credit {self.credit!r} is none of {known}, and no import path (module:attribute)")
            resolve(self.credit, "credit", ValueError, takes="turn_rewards, scale=")
        if self.turn_candidates > 1 and self.credit != "guess":
            raise ValueError(
                f"turn_candidates {self.turn_candidates} credits each guess with its own value, not as credit "
                f'"{self.credit}" does; set credit to "guess"'
            )
        if self.turn_candidates > 1 and self.scale_advantages:
            raise ValueError(
                f"scale_advantages divides by the std of games, turn_candidates {self.turn_candidates} compares "
                "guesses; set scale_advantages to false"
            )
        if self.probe_every_steps and not self.prioritized_fraction:
            raise ValueError("probe_every_steps sets priorities, and prioritized_fraction 0 uses none; raise it")
        if self.stop_below_start and not self.validate_every_steps:
            raise ValueError("stop_below_start compares validations; set validate_every_steps")
        if self.validation_file is not None and not self.validate_every_steps:
            raise ValueError(
                "validation_file is read by checkpoint selection; set validate_every_steps, or leave it out"
            )
        if self.save_total_limit and not self.save_steps:
            raise ValueError(
                f"save_total_limit {self.save_total_limit} keeps models of checkpoints, and save_steps 0 makes none on "
                "the way; set save_steps"
            )
        self._check_alphas()

    def _check_engine(self) -> None:
        if self.engine not in {"transformers", "vllm"} and not self.server:
            raise ValueError(
                f"engine {self.engine!r} is none of transformers, vllm and the address of a vLLM server, such as "
                "http://localhost:8000; give one of them"
            )
        if self.batches_ahead and not self.server:
            raise ValueError("batches_ahead needs a server that plays meanwhile; set engine to its address")
        if self.batches_ahead and self.probe_every_steps:
            raise ValueError(
                "batches_ahead plays while weights change, and probes need them still; set probe_every_steps to 0"
            )
        if self.server and self.vllm != VLLMSettings():
            raise ValueError(
                f"vllm is for an engine in this process, and {self.server} was started with options of its own; "
                "leave it out"
            )

    def _check_alphas(self) -> None:
        alphas = self.interpolation_alphas
        if not alphas or not all(0 < alpha <= 1 for alpha in alphas) or len(set(alphas)) < len(alphas):
            raise ValueError(f"interpolation_alphas {list(alphas)}: give one or more, each once, above 0 and at most 1")


class RoundSettings(Section):
    """Rounds of playing, choosing what to train on, and training."""

    rounds: int = Field(4, ge=0)
    """Rounds; 0 skips the training."""
    groups_per_round: Count = Field(128, ge=1)
    """Secrets per round."""

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to train."""
        return self.rounds == 0

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on again."""
        return False


class ExpertIterationSettings(RoundSettings):
    """Expert iteration, fine-tuning on the policy's own games: settings that only it has."""

    labels: Literal["wins", "secret", "clues"] = "wins"
    """Tokens to train on: `wins`, the replies of the best won games; `secret`, on every board of every game but the
    empty one, the word that would have won there; `clues`, these and the game's own guesses after the first that all
    earlier marks allowed. The last two learn from losses, and need no groups."""
    keep_per_group: int = Field(1, ge=1)
    """Games kept of each group: won, different from each other, the fewest guesses first. With labels `wins`."""
    replay_fraction: float = Field(0.25, ge=0, lt=1)
    """Fraction of teacher games among the games of a round, against forgetting."""

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on again."""
        return self.replay_fraction > 0


class DPOSettings(RoundSettings):
    """Direct preference optimization on completions of the same prompt: settings that only it has."""

    judge: Literal["regret", "information", "outcome"] = "regret"
    """Value of a guess: minus its regret against the solver, the fraction of the available information it gives, or the
    mean reward of the group's games with it."""
    boards_per_round: int = Field(512, ge=1)
    """Boards of the games played at which further guesses are sampled; not with judge `outcome`, which compares the
    games themselves."""
    guesses_per_board: Count = Field(8, ge=2)
    """Guesses sampled at each of those boards; not with judge `outcome`."""
    margin: float = Field(0.1, gt=0)
    """Least difference of value between chosen and rejected: expected guesses, fraction of information, or reward."""
    pairs_per_board: int = Field(2, ge=1)
    """Pair the best guess of a board with up to this many others, the worst first."""
    beta: float = Field(0.1, gt=0)
    """Strength of the KL constraint to the model that DPO starts from."""
    loss_type: Literal["sigmoid", "hinge", "ipo"] = "sigmoid"
    """Loss of a pair: DPO, SLiC or IPO."""
    sft_weight: float = Field(0.0, ge=0)
    """Weight of the chosen completions' own likelihood in the loss, so that it does not fall with the rejected."""

    def check(self) -> None:
        """Refuse sampling of guesses that outcomes do not need."""
        super().check()
        given = [name for name in ("boards_per_round", "guesses_per_board") if name in self.model_fields_set]
        if self.judge == "outcome" and given:
            raise ValueError(f"{given[0]} is for the other judges, 'outcome' compares the games played; leave it out")


class DistillSettings(RoundSettings):
    """Distillation: learning what the solver teacher says at the boards of the policy's own games.

    The teacher is that of `traces.teacher` without its noise, and writes its thinking with `traces.narrate`. With
    targets `distribution`, regret takes the place of its settings, except for the opener.
    """

    targets: Literal["guess", "distribution"] = "guess"
    """What is learnt at a board: `guess`, the teacher's guess (DAgger), or `distribution`, its distribution over words
    by the expected guesses that each gives away, which also tells how good the other words are."""
    temperature: float | None = Field(None, gt=0)
    """Temperature of that distribution, in expected guesses: a word that gives away this many more than another is e
    times less likely; None: 0.1. With targets `distribution`."""

    groups_per_round: Count = Field(2048, ge=1)
    """Secrets per round."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Rate of secrets that are listed words outside the answers. Their games lead to boards on which a held-out answer
    is the right guess."""
    keep_rounds: int = Field(3, ge=0)
    """Earlier rounds whose boards are trained on again; 0: only those of the round itself."""
    replay_fraction: float = Field(0.25, ge=0, lt=1)
    """Fraction of teacher games among all games that a round trains on, kept rounds included, against forgetting."""

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on again."""
        return self.replay_fraction > 0

    @property
    def teacher_temperature(self) -> float:
        """Temperature of the teacher's distribution, in expected guesses."""
        return self.temperature or _TEACHER_TEMPERATURE

    def check(self) -> None:
        """Refuse a temperature of what is no distribution."""
        super().check()
        if self.temperature is not None and self.targets != "distribution":
            raise ValueError("distill.temperature is for targets 'distribution'; set distill.targets, or leave it out")
