"""Learning from games of one's own: GRPO, expert iteration, DPO, DAgger."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from wordle_rl.config.base import Count, Section
from wordle_rl.config.engine import EngineName, VLLMSettings
from wordle_rl.config.training import OptimizerSettings, Precision, RewardSettings, SamplingSettings

Algorithm = Literal["grpo", "expert_iteration", "dpo", "dagger"]
ALGORITHM_NAMES: dict[Algorithm, str] = {
    "grpo": "GRPO",
    "expert_iteration": "expert iteration",
    "dpo": "DPO",
    "dagger": "DAgger",
}
"""Algorithms of learning by play: name in settings, stages and models -> name in prose."""

MODEL_NAMES = ("base", "sft", *ALGORITHM_NAMES)
"""The models that a run may evaluate, in the order of their making; `base` is the one that it begins with."""
_VLLM_IMPORTANCE_CAP = 2.0


def _asks_no_win(reward: RewardSettings) -> bool:
    return bool({"regret", "quick_regret"} & {*reward.schedule().rubric_at(0).weights})


class GRPOSettings(Section):
    """Multi-turn GRPO."""

    steps: int = Field(100, ge=0)
    """Optimizer steps; 0 skips GRPO."""
    groups_per_step: Count = Field(32, ge=1)
    """Secrets per step and process."""
    group_size: Count = Field(16, ge=2)
    """Games per secret; a group of one has no baseline."""
    micro_batch_size: int = Field(0, ge=0)
    """Games per backward pass; 0: all of them at once. Games of similar length go together, so small batches carry less
    padding."""
    max_given: int = Field(0, ge=0)
    """Start states: 0 to so many random turns are already played (the same for a whole group)."""
    outside_rate: float = Field(0.0, ge=0, le=1)
    """Share of groups whose secret is a listed word outside the answers. No policy can know it, so such a group teaches
    only while an answer is still possible, and by rewards that compare a guess with the solver's (`quick_regret`)."""
    credit: Literal["turn", "game", "guess"] = "turn"
    """`turn`: each turn is credited with the rewards from there on; `guess`: with its own alone, for rewards that tell
    what a guess is worth for the rest of the game; `game`: one advantage per game."""
    scale_advantages: bool = False
    """Divide by the group's standard deviation (GRPO) or not (Dr. GRPO)."""
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo"] = "dapo"
    """TRL's loss aggregation."""
    sequence_importance: bool = False
    """Importance ratios per sequence instead of per token (GSPO). Needs `credit = "game"`, `game.shape = "state"` or
    turn_candidates > 1; each gives a sequence one advantage."""
    epsilon: float = Field(0.2, gt=0)
    """Lower clip range. Games are trained on once, by the weights that played them, so ratios are 1 and nothing is
    clipped; it matters in asynchronous GRPO, whose games come from older weights."""
    epsilon_high: float = Field(0.28, gt=0)
    """Upper clip range (clip-higher); see `epsilon`."""
    beta: float = Field(0.0, ge=0)
    """Weight of the KL divergence to the model that GRPO starts from (with adapters: to that adapter)."""
    mask_overlong: bool = False
    """Leave replies that were cut at max_completion_tokens out of the loss."""
    engine: EngineName = "transformers"
    """Engine that plays the games: `transformers` with the trained model itself; `vllm` with a copy of them."""
    vllm: VLLMSettings = VLLMSettings()
    """The vLLM engine, where it plays."""
    max_importance_ratio: float | None = Field(None, ge=0)
    """Multiply a token's advantage by its probability in training over that in sampling, at most this; they differ by
    engine and precision. 0: do not. Left out: 2 where vLLM plays, else 0."""
    reward: RewardSettings = RewardSettings()
    """Reward of a game."""
    sampling: SamplingSettings = SamplingSettings()
    """Sampling of the policy's tokens."""
    optimizer: OptimizerSettings = OptimizerSettings(learning_rate=3e-5, schedule="constant")
    """Optimizer and schedule."""
    focus: float = Field(0.5, ge=0, le=1)
    """Prioritized sampling: preference, 0 to 1, for secrets whose groups' rewards have the largest std (or, with
    scout_every_steps, where greedy play lost most). 0: uniform."""
    scout_every_steps: int = Field(0, ge=0)
    """Play every training secret once, greedily, before the first step and every so many steps. Secrets are then
    preferred by the best scouting reward minus this secret's. These games are not trained on. 0: secrets are preferred
    by their groups' own spread alone, and one that was never trained on counts as the largest."""
    turn_candidates: int = Field(1, ge=1)
    """Above 1: every turn is sampled so many times from the same state, each guess is credited with its regret against
    the mean of them, and the game goes on with the best. A group then plays group_size / turn_candidates games. Needs
    `credit = "guess"` and no `scale_advantages`."""
    max_refills: int = Field(1, ge=0)
    """Rounds in which groups whose games all earned the same are played anew with other secrets (DAPO)."""
    precision: Precision = "auto"
    """`bf16` autocast in the training passes or `fp32`; `auto`: bf16 where the processor computes in it."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every so many steps; 0: at the end only."""
    validate_every_steps: int = Field(0, ge=0)
    """Play the validation secrets, greedily and as in training, and some training secrets greedily, before the first
    step, every so many steps and at the end. Kept is the candidate whose greedy play needs the fewest guesses, a loss
    counted as one more than the game allows. 0: keep the last weights."""
    candidate_shares: tuple[float, ...] = (1.0,)
    """Candidates of checkpoint selection beside the start: so much of the way from there to the last step, above 0, at
    most 1. Without 1 among them no step's own weights are candidates, and validations on the way are for curves."""
    sample_games: int = Field(4, ge=0)
    """Games written to games.jsonl, and to the trackers of report_to, per step and per validation."""

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to train."""
        return self.steps == 0

    @property
    def replays(self) -> bool:
        """True if it goes over teacher games, too."""
        return False

    @property
    def importance_cap(self) -> float:
        """Upper bound of a token's importance ratio, training over sampling; 0: advantages are not corrected."""
        if self.max_importance_ratio is None:
            return _VLLM_IMPORTANCE_CAP if self.engine == "vllm" else 0.0
        return self.max_importance_ratio

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something."""
        return _asks_no_win(self.reward)

    @model_validator(mode="after")
    def _pays_without_a_win(self) -> Self:
        if self.outside_rate and not self.learns_without_wins:
            raise ValueError(
                "outside_rate needs a reward that does not ask for a win; give reward.weights quick_regret"
            )
        return self

    @model_validator(mode="after")
    def _compares_candidates(self) -> Self:
        if self.group_size % self.turn_candidates:
            raise ValueError(f"turn_candidates {self.turn_candidates} must divide group_size {self.group_size}")
        if self.turn_candidates > 1 and self.credit != "guess":
            raise ValueError(
                f"turn_candidates {self.turn_candidates} credits each guess with its own worth, not as credit "
                f'"{self.credit}" does; set credit to "guess"'
            )
        if self.turn_candidates > 1 and self.scale_advantages:
            raise ValueError(
                f"scale_advantages divides by the spread of games, turn_candidates {self.turn_candidates} compares "
                "guesses; set scale_advantages to false"
            )
        return self

    def _check_shares(self) -> None:
        shares = self.candidate_shares
        if not shares or not all(0 < share <= 1 for share in shares) or len(set(shares)) < len(shares):
            raise ValueError(f"candidate_shares {list(shares)}: give one or more, each once, above 0 and at most 1")
        if shares == (1.0,):
            return
        if not self.validate_every_steps:
            raise ValueError("candidate_shares are chosen from by validation; set validate_every_steps")
        if self.engine == "vllm":
            raise ValueError("candidate_shares other than 1 are played by transformers; leave them out, or the engine")

    @model_validator(mode="after")
    def _can_learn(self) -> Self:
        if self.sampling.temperature == 0:
            raise ValueError("sampling.temperature 0 makes all games of a group alike; raise it, 1.0 is usual")
        if self.scout_every_steps and not self.focus:
            raise ValueError(
                "scout_every_steps finds out which secrets to prefer, and focus 0 prefers none; raise focus"
            )
        self._check_shares()
        reply = self.sampling.max_completion_tokens
        if self.engine == "vllm" and 0 < self.vllm.max_length <= reply:
            raise ValueError(
                f"vllm.max_length {self.vllm.max_length} leaves no prompt beside a reply of {reply} tokens"
            )
        games = self.groups_per_step * self.group_size
        if self.micro_batch_size and games % self.micro_batch_size:
            raise ValueError(f"micro_batch_size {self.micro_batch_size} must divide the {games} games of a step")
        return self


class RoundSettings(Section):
    """Shared by expert iteration, DPO and DAgger: rounds of playing, choosing what to train on, and training."""

    rounds: int = Field(4, ge=0)
    """Rounds; 0 skips the training."""
    groups_per_round: Count = Field(128, ge=1)
    """Secrets per round."""
    group_size: Count = Field(8, ge=1)
    """Games per secret."""
    max_given: int = Field(0, ge=0)
    """Start states: 0 to so many random turns are already played (the same for a whole group)."""
    reward: RewardSettings = RewardSettings()
    """Reward of a game; a schedule of weights counts rounds as its steps."""
    sampling: SamplingSettings = SamplingSettings()
    """Sampling of the policy's tokens."""
    epochs: float = Field(1.0, gt=0)
    """Passes over what a round trains on."""
    batch_size: Count = Field(64, ge=1)
    """Games, or pairs of guesses, per batch."""
    gradient_accumulation_steps: int = Field(1, ge=1)
    """Batches per optimizer step."""
    optimizer: OptimizerSettings = OptimizerSettings(learning_rate=3e-5, schedule="constant")
    """Optimizer and schedule; both begin anew with every round."""
    precision: Precision = "auto"
    """`bf16` autocast in the training passes or `fp32`; `auto`: bf16 where the processor computes in it."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    sample_games: int = Field(4, ge=0)
    """Games written to games.jsonl per round."""

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to train."""
        return self.rounds == 0

    @property
    def replays(self) -> bool:
        """True if it goes over teacher games, too."""
        return getattr(self, "replay_share", 0.0) > 0  # not all have one

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something."""
        return False

    _learns_from_single_games: ClassVar[bool] = False
    """True if a group may be one game, which may then be greedy."""

    @model_validator(mode="after")
    def _plays_vary(self) -> Self:
        if self.sampling.temperature == 0 and not (self._learns_from_single_games and self.group_size == 1):
            fix = "set group_size to 1" if self._learns_from_single_games else "raise it, 1.0 is usual"
            raise ValueError(f"sampling.temperature 0 makes all games of a group alike; {fix}")
        return self


class ExpertIterationSettings(RoundSettings):
    """Expert iteration: fine-tuning on the policy's own best games."""

    keep_per_group: int = Field(1, ge=1)
    """Games kept of each group: won, different from each other, the fewest guesses first, then the highest reward."""
    replay_share: float = Field(0.25, ge=0, lt=1)
    """Share of teacher games among the games of a round, against forgetting."""


class DPOSettings(RoundSettings):
    """Direct preference optimization on pairs of replies to the same prompt."""

    group_size: Count = Field(4, ge=1)
    """Games per secret."""
    judge: Literal["regret", "information", "outcome"] = "regret"
    """The worth of a guess: minus its regret against the solver, its share of the information to be had, or the mean
    reward of the group's games with it."""
    boards_per_round: int = Field(512, ge=1)
    """Boards of the games played at which further guesses are sampled; unused by `outcome`, which compares the games
    themselves."""
    guesses_per_board: Count = Field(8, ge=2)
    """Guesses sampled at each of those boards."""
    margin: float = Field(0.1, gt=0)
    """Least advantage of the chosen guess: expected guesses, share of information, or reward."""
    pairs_per_board: int = Field(2, ge=1)
    """The best guess of a board is paired with up to so many others, the worst first."""
    beta: float = Field(0.1, gt=0)
    """Strength of the tie to the model that DPO starts from."""
    loss_type: Literal["sigmoid", "hinge", "ipo"] = "sigmoid"
    """TRL's loss of a pair."""
    sft_weight: float = Field(0.0, ge=0)
    """Weight of the chosen replies' own likelihood in the loss, so that it does not fall along with the rejected."""

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something; `information` prefers the secret to all else."""
        return self.judge == "regret" or (self.judge == "outcome" and _asks_no_win(self.reward))

    @model_validator(mode="after")
    def _has_pairs(self) -> Self:
        if self.judge == "outcome" and self.group_size < 2:
            raise ValueError("judge 'outcome' compares the games of a group; group_size must be at least 2")
        return self


class DaggerSettings(RoundSettings):
    """DAgger: fine-tuning on the solver teacher's guesses at the boards that the policy's own games come to.

    The teacher is that of `traces.teacher` without its noise, and thinks aloud where `traces.narrate` says so.
    """

    groups_per_round: Count = Field(2048, ge=1)
    """Secrets per round."""
    group_size: Count = Field(1, ge=1)
    """Games per secret."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Share of secrets that are listed words outside the answers. Their games lead to boards on which a held-out answer
    is the right guess."""
    keep_rounds: int = Field(3, ge=0)
    """Earlier rounds whose boards are trained on again; 0: only those of the round itself."""
    replay_share: float = Field(0.25, ge=0, lt=1)
    """Share of teacher games among all games that a round trains on, kept rounds included, against forgetting."""

    @property
    def learns_without_wins(self) -> bool:
        """The teacher does not know the secret, and names an answer that fits."""
        return True

    _learns_from_single_games = True
