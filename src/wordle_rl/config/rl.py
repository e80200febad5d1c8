"""RL and its alternatives: [rl], which all algorithms share, the section of each, and both as one value.

A file holds sections. A training function takes one value, such as `GRPOTraining`, which `RunConfig.training` makes of
[rl], the algorithm's section, [model] and `max_completion_tokens`. Its further fields are constants of a run; a caller
of the library may set them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Count, Section
from wordle_rl.config.training import (
    FittingSettings,
    OptimizerSettings,
    RewardSettings,
    RLOptimizerSettings,
    SamplingSettings,
    check_vllm_temperature,
)
from wordle_rl.import_paths import resolve

Algorithm = Literal["grpo", "expert_iteration", "dpo", "distill"]
ALGORITHM_NAMES: dict[Algorithm, str] = {
    "grpo": "GRPO",
    "expert_iteration": "expert iteration",
    "dpo": "DPO",
    "distill": "distillation",
}
MODEL_NAMES = ("base", "sft", *ALGORITHM_NAMES)
"""The models that a run may evaluate, in the order of their making; `base` is the one that it begins with."""
CREDIT_NAMES = ("turn", "game", "guess")
"""Built-in advantage estimators, see `train.advantages`."""

_ROUNDS = frozenset({"batch_size", "rounds", "groups_per_round"})
FOLLOWS: dict[Algorithm, frozenset[str]] = {
    "grpo": frozenset({"reward", "beta", "outside_rate"}),
    "expert_iteration": _ROUNDS | {"replay_fraction"},
    "dpo": _ROUNDS | {"beta"},
    "distill": _ROUNDS | {"replay_fraction", "outside_rate"},
}
"""Algorithm -> settings of [rl] that it follows beside those that all of them do."""
FOLLOWED_BY_SOME = frozenset[str]().union(*FOLLOWS.values())

IMPORTANCE_CAP = 2.0
"""Largest weight by importance of a token that another engine than the trainer sampled."""
_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")
_START_PLAYER = re.compile(r"(random|consistent|teacher)(:[1-9]\d{0,4})?")


class StartSettings(Section):
    """Initial states of groups. Games of a group share secret and initial state."""

    max_prefix_guesses: int = Field(0, ge=0)
    """Begin each group after 0 to this many guesses, each number equally likely. The games of a group share them."""
    player: str = "random"
    """Player of the prefix guesses: `random` answers, `consistent` ones that fit all marks so far, or `teacher`, the
    solver teacher. With a number, as in `consistent:5`, the first guess is one of the 5 most informative openers."""
    file: Path | None = None
    """Secrets that groups play, or boards from which they start: rows of `prompt, answer` or of `word, turns`, a plain
    list of words (.txt), a file of `wordle-rl dataset`, or a data set of the hub as OWNER/NAME; `[:100]` at its end
    takes the first 100 rows. If the file has only secrets, all groups play them, by priority; if it has boards, half of
    the groups start from one. Left out and counted are validation and test secrets, boards that break the rules of the
    run, and, where only wins teach, secrets that are no answers."""

    @property
    def num_openers(self) -> int:
        """Number of the best openers of which one is the first prefix guess; 0: the player chooses."""
        return int(self.player.partition(":")[2] or 0)

    def check(self) -> None:
        """Refuse a player that nobody knows, and one that has nothing to play."""
        if not _START_PLAYER.fullmatch(self.player):
            raise ValueError(
                f"player {self.player!r} is none of random, consistent and teacher, with a number of openers as in "
                "consistent:5 if wanted; give one of them"
            )
        if self.player != "random" and not self.max_prefix_guesses:
            raise ValueError(f"player {self.player!r} plays no prefix guess; set max_prefix_guesses")


class RLSettings(Section):
    """Settings of GRPO, expert iteration, DPO and distillation. None: the default of the algorithm."""

    group_size: Count | None = Field(None, ge=1)
    """Games per secret; None: 16 in GRPO, 8 in expert iteration, 4 in DPO, 1 in distillation."""
    temperature: float = Field(1.0, ge=0)
    """Temperature at which the policy plays; 0 is greedy."""
    optimizer: RLOptimizerSettings = RLOptimizerSettings()
    """Optimizer and schedule; by rounds, its state starts again in each, and the schedule spans them all."""
    reward: RewardSettings = RewardSettings()
    """Reward of a game, in GRPO."""
    beta: float | None = Field(None, ge=0)
    """Weight of the KL divergence to the model that RL starts from (with adapters: to that adapter). None: 0 in GRPO,
    0.1 in DPO."""
    starts: StartSettings = StartSettings()
    """Initial states of groups."""
    max_secrets: int = Field(0, ge=0)
    """Play at most this many secrets: the first of the training secrets, which are shuffled, or of starts.file; 0: all.
    The teacher's games are not limited by it."""
    outside_rate: float | None = Field(None, ge=0, le=1)
    """Rate of groups whose secret is a listed word outside the answers. In GRPO such a group teaches only while an
    answer is still possible, by rewards that compare a guess with the solver's (`quick_regret`); in distillation it
    leads to boards on which a held-out answer is the right guess. None: 0 in GRPO, 0.5 in distillation."""
    rounds: int | None = Field(None, ge=0)
    """Rounds of playing and learning; 0 skips them. None: 4. In GRPO see grpo.steps."""
    groups_per_round: Count | None = Field(None, ge=1)
    """Secrets per round; None: 128, in distillation 2048."""
    batch_size: Count | None = Field(None, ge=1)
    """Games, or pairs of completions, per optimizer step of a round; None: 64."""
    replay_fraction: float | None = Field(None, ge=0, lt=1)
    """Fraction of teacher games among the games that a round trains on, against forgetting; in expert iteration and
    distillation. None: 0.25."""


class GRPOSettings(Section):
    """Multi-turn GRPO: settings that only it has."""

    steps: int = Field(100, ge=0)
    """Optimizer steps; 0 skips GRPO."""
    groups_per_step: Count = Field(32, ge=1)
    """Secrets per step and process."""
    guesses: int = Field(0, ge=0)
    """Cut games after this many guesses; 0: play to the end. With 1, GRPO learns single next guesses, usually on boards
    of rl.starts; the reward must then value a guess at once, as `quick_regret` does."""
    credit: str = "turn"
    """Advantage estimator. `turn`: rewards from the turn on; `guess`: the turn's own reward alone, for rewards
    that already value the guess for the rest of the game; `game`: one advantage per game. Or `module:attribute`, a
    function of yours with the signature of `wordle_rl.train.advantages.turn_advantages`."""
    scale_advantages: bool = False
    """Divide by the group's standard deviation (GRPO) or not (Dr. GRPO)."""
    loss_type: Literal["grpo", "dr_grpo", "dapo"] = "dapo"
    """Weight of a token: `dapo` every token the same, `grpo` every game the same, `dr_grpo` a constant."""
    mask_overlong: bool = False
    """Leave completions that were cut at max_completion_tokens out of the loss."""
    engine: str = "transformers"
    """Rollout engine: `transformers` with the trained model itself, `vllm` with a copy of its weights in each process,
    or the address of a vLLM server that gets the weights of each step, such as `http://localhost:8000`."""
    gpu_memory_utilization: float = Field(0.3, gt=0, lt=1)
    """With engine `vllm`: fraction of a GPU's memory for the engine's copy of the weights and its key/value cache."""
    server_timeout_s: float = Field(600.0, gt=0)
    """With a server as engine: time limit of one request, in seconds. A failed request is retried three times; then its
    game is an error, never a loss. Each process sends max_batch_size requests at once."""
    batches_ahead: int = Field(0, ge=0, le=1)
    """1: the server plays the games of the next step while this step's are learnt from, with weights one step old;
    needs the address of a server as engine."""
    prioritized_fraction: float = Field(0.5, ge=0, le=1)
    """Prioritized sampling of secrets: this fraction of the draws goes by priority, the rest is uniform. Priority is
    the within-group reward std or, with probe_every_steps, the greedy cost. 0: secrets take turns, each once a pass."""
    probe_every_steps: int = Field(0, ge=0)
    """Steps between probes, the first before step 1. A probe plays every training secret once, greedily; the priority
    of a secret is then the best probe's reward minus its own. Probes are not trained on. 0: no probes, and a secret
    that was never trained on has the largest priority."""
    turn_candidates: int = Field(1, ge=1)
    """Above 1: sample this many completions for every turn from the same state, credit each guess with its value
    against their mean, and play the best. The value is what the turn earns by the reward if the game ends with it, or
    minus its quick regret where the reward is the default one. A group then plays group_size / turn_candidates games.
    Needs `credit = "guess"` and no scale_advantages."""
    max_refills: int = Field(1, ge=0)
    """Rounds in which groups of constant reward are replaced by groups of other secrets (DAPO)."""
    save_steps: int = Field(0, ge=0)
    """Steps between checkpoints. 0: only at the end."""
    validate_every_steps: int = Field(0, ge=0)
    """Steps between validations, which also come before the first step and at the end. One plays the validation
    secrets, greedily and as in training, and some training secrets greedily. The weights of the lowest greedy cost are
    kept: the mean number of guesses, a loss counted as one more than the game allows. 0: keep the last weights."""
    validation_file: Path | None = None
    """Secrets of checkpoint selection, in place of the validation secrets of the split: rows as in rl.starts.file.
    Nothing is trained on them, teacher games included; test secrets among them are left out and counted."""
    interpolation_alphas: tuple[float, ...] = (1.0,)
    """Candidates of checkpoint selection besides the start: start + alpha x (last step - start), alpha above 0 and at
    most 1. With 1 among them the weights of every validated step are candidates, too; with vLLM those are the only
    ones."""

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to train."""
        return self.steps == 0

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
        self._check_credit()
        alphas = self.interpolation_alphas
        if not alphas or not all(0 < alpha <= 1 for alpha in alphas) or len(set(alphas)) < len(alphas):
            raise ValueError(f"interpolation_alphas {list(alphas)}: give one or more, each once, above 0 and at most 1")

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
        if not self.server and not self.is_default("server_timeout_s"):
            raise ValueError("server_timeout_s needs a server; set engine to its address")

    def _check_credit(self) -> None:
        if self.credit not in CREDIT_NAMES:
            if ":" not in self.credit:
                known = ", ".join(CREDIT_NAMES)
                raise ValueError(f"credit {self.credit!r} is none of {known}, and no import path (module:attribute)")
            resolve(self.credit, "credit", ValueError, takes="turn_rewards, scale=")
        if self.guesses and self.turn_candidates > 1:
            raise ValueError("guesses cuts games short, and turn_candidates plays them to their end; set one of them")
        if self.turn_candidates > 1 and (self.credit != "guess" or self.scale_advantages):
            raise ValueError(
                f"turn_candidates {self.turn_candidates} credits each guess with its own value; set credit to "
                '"guess", and scale_advantages to false'
            )


class ExpertIterationSettings(Section):
    """Expert iteration, fine-tuning on the policy's own games: settings that only it has."""

    labels: str = Field("wins", pattern=r"^(wins(:[1-9]\d{0,5})?|secret|mistakes)$")
    """Tokens to train on. `wins`: the replies of the best won game of a group, or of several as in `wins:2`. `secret`:
    the secret at every board of every game but the empty one. `mistakes`: the secret where the guess contradicted a
    mark or was no word, elsewhere the guess itself; play it at a low temperature. The last two learn from losses, too,
    and need no groups."""


class DPOSettings(Section):
    """Direct preference optimization on completions of the same prompt. It has no settings that others lack."""


class DistillSettings(Section):
    """Distillation: learning what a teacher says at the boards of the policy's own games.

    The solver teacher is that of `traces.teacher` without its noise, and writes its thinking with `traces.narrate`.
    With targets `distribution`, regret takes the place of its settings, except for the opener.
    """

    targets: str = "guess"
    """What is learnt at a board. `guess`: the solver teacher's guess (DAgger). `distribution`: how good each word is,
    as a distribution by the expected guesses that it gives away. A run, a model directory or `bundled`: what that model
    would write at each token of the policy's own replies; it needs the policy's tokenizer."""

    @property
    def teacher_model(self) -> Path | None:
        """The model that teaches; None if the solver does."""
        return None if self.targets in ("guess", "distribution") else Path(self.targets)

    def check(self) -> None:
        """Refuse a teacher that is not there."""
        super().check()
        path = self.teacher_model
        if path is not None and self.targets != "bundled" and not path.expanduser().is_dir():
            raise ValueError(f"targets {self.targets!r} is none of guess, distribution, bundled and a directory")


class RLTraining(FittingSettings):
    """Settings of one training in full. Fields without a description are described in the sections above."""

    group_size: Count = Field(1, ge=1)
    sampling: SamplingSettings = SamplingSettings()
    optimizer: OptimizerSettings = RLOptimizerSettings()
    reward: RewardSettings = RewardSettings()
    starts: StartSettings = StartSettings()
    max_secrets: int = Field(0, ge=0)
    replay_fraction: float = Field(0.0, ge=0, lt=1)
    sample_games: int = Field(4, ge=0)
    """Games logged to games.jsonl, and by GRPO to trackers, per step, validation or round."""

    @property
    def asks_no_win(self) -> bool:
        """True if the reward compares guesses with the solver's, so that games nobody can win have one."""
        return bool({"regret", "quick_regret"} & {*self.reward.schedule().start})

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something."""
        return False


class GRPOTraining(GRPOSettings, RLTraining):
    """Settings of a GRPO training in full."""

    group_size: Count = Field(16, ge=1)
    beta: float = Field(0.0, ge=0)
    epsilon: float = Field(0.2, gt=0)
    """Clip range of importance ratios below 1. Only with batches_ahead: other games are trained on once, by the weights
    that played them, so ratios are 1."""
    epsilon_high: float = Field(0.28, gt=0)
    """Clip range of importance ratios above 1 (clip-higher)."""
    max_importance_ratio: float | None = Field(None, ge=0)
    """Truncated importance sampling: multiply a token's advantage by its probability in training over that in sampling,
    at most this. 0: off. None: 2 with vLLM, else 0."""
    outside_rate: float = Field(0.0, ge=0, le=1)

    @property
    def importance_cap(self) -> float:
        """Upper bound of a token's importance ratio, training over sampling; 0: advantages are not corrected."""
        if self.max_importance_ratio is None:
            return IMPORTANCE_CAP if self.plays_by_vllm else 0.0
        return self.max_importance_ratio

    @property
    def learns_without_wins(self) -> bool:
        """True if the reward asks for no win."""
        return self.asks_no_win

    def check(self) -> None:
        """Refuse settings of GRPO and [rl] that contradict each other."""
        super().check()
        if self.group_size < 2:
            raise ValueError("rl.group_size 1 leaves no baseline; GRPO needs 2 or more, 8 to 16 are usual")
        if self.sampling.temperature == 0:
            raise ValueError("rl.temperature 0 makes all games of a group alike; raise it, 1.0 is usual")
        if self.plays_by_vllm:
            check_vllm_temperature(self.sampling.temperature, "rl.temperature")
        if self.outside_rate and not self.asks_no_win:
            raise ValueError(
                "rl.outside_rate needs a reward that does not ask for a win; give rl.reward.weights quick_regret"
            )
        if self.group_size % self.turn_candidates:
            raise ValueError(f"grpo.turn_candidates {self.turn_candidates} must divide rl.group_size {self.group_size}")
        games = self.groups_per_step * self.group_size
        if self.micro_batch_size and games % min(self.micro_batch_size, games):
            raise ValueError(f"model.micro_batch_size {self.micro_batch_size} must divide the {games} games of a step")


class RoundTraining(RLTraining):
    """Settings of a training by rounds in full."""

    rounds: int = Field(4, ge=0)
    groups_per_round: Count = Field(128, ge=1)
    batch_size: Count = Field(64, ge=1)
    epochs: float = Field(1.0, gt=0)
    """Passes over the data of a round."""

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to train."""
        return self.rounds == 0

    @property
    def learns_from_single_games(self) -> bool:
        """True if a group may be one game, which may then be greedy."""
        return False

    def check(self) -> None:
        """Refuse greedy games of which a group has several."""
        super().check()
        if self.sampling.temperature == 0 and not (self.learns_from_single_games and self.group_size == 1):
            fix = "set rl.group_size to 1" if self.learns_from_single_games else "raise it, 1.0 is usual"
            raise ValueError(f"rl.temperature 0 makes all games of a group alike; {fix}")


class ExpertIterationTraining(RoundTraining):
    """Settings of expert iteration in full."""

    labels: Literal["wins", "secret", "mistakes"] = "wins"
    group_size: Count = Field(8, ge=1)
    replay_fraction: float = Field(0.25, ge=0, lt=1)
    keep_per_group: int = Field(1, ge=1)
    """Games kept of each group: won, different from each other, the fewest guesses first. With labels `wins`."""

    @property
    def learns_from_single_games(self) -> bool:
        """True with labels that need no group."""
        return self.labels != "wins"


class DPOTraining(DPOSettings, RoundTraining):
    """Settings of a DPO training in full."""

    group_size: Count = Field(4, ge=1)
    beta: float = Field(0.1, gt=0)
    boards_per_round: int = Field(512, ge=1)
    """Boards of the games played at which further guesses are sampled."""
    guesses_per_board: Count = Field(8, ge=2)
    """Guesses sampled at each of those boards."""
    margin: float = Field(0.1, gt=0)
    """Least difference between chosen and rejected, in expected guesses."""
    pairs_per_board: int = Field(2, ge=1)
    """Pair the best guess of a board with up to this many others, the worst first."""

    @property
    def learns_without_wins(self) -> bool:
        """True: the solver values guesses without the secret."""
        return True


class DistillTraining(DistillSettings, RoundTraining):
    """Settings of a distillation in full. The teacher labels every board, and names an answer that fits."""

    group_size: Count = Field(1, ge=1)
    groups_per_round: Count = Field(2048, ge=1)
    outside_rate: float = Field(0.5, ge=0, le=1)
    replay_fraction: float = Field(0.25, ge=0, lt=1)
    """Fraction of teacher games among all games that a round trains on, those of the last round included."""
    temperature: float = Field(0.1, gt=0)
    """Temperature of the teacher's distribution, in expected guesses: a word that gives away this many more than
    another is e times less likely."""

    @property
    def learns_from_single_games(self) -> bool:
        """True: every board gets a label."""
        return True

    @property
    def learns_without_wins(self) -> bool:
        """True: the teacher does not know the secret."""
        return True


Training = GRPOTraining | ExpertIterationTraining | DPOTraining | DistillTraining

TRAININGS: dict[Algorithm, type[Training]] = {
    "grpo": GRPOTraining,
    "expert_iteration": ExpertIterationTraining,
    "dpo": DPOTraining,
    "distill": DistillTraining,
}
