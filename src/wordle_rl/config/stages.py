"""Stages: SFT, GRPO, expert iteration, DPO and distillation. One class for each.

A class is the section of a config file and the argument of the training function. A run lists its stages in order, and
each one starts from the model of the one before:

    stages = ["sft", "expert_iteration", "grpo"]
    [sft] ...
    [expert_iteration] ...
    [grpo] ...

The second stage of a kind is called `grpo_2`. Its section, [grpo_2], holds what differs from [grpo].

What all stages share stands elsewhere: how games pass through the model in [model], the token limit of a completion at
the top of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Count, Section
from wordle_rl.config.evaluation import Constrain
from wordle_rl.config.training import OptimizerSettings, RewardSettings, RLOptimizerSettings, check_vllm_temperature
from wordle_rl.import_paths import resolve

Kind = Literal["sft", "grpo", "expert_iteration", "dpo", "distill"]
Labels = Literal["wins", "secret", "mistakes", "refused"]
KIND_NAMES: dict[str, str] = {
    "sft": "SFT",
    "grpo": "GRPO",
    "expert_iteration": "expert iteration",
    "dpo": "DPO",
    "distill": "distillation",
}
"""Kinds of stages, as people call them."""
CREDIT_NAMES = ("turn", "game", "guess")
"""Built-in advantage estimators, see `train.advantages`."""

IMPORTANCE_CAP = 2.0
"""Largest weight by importance of a token that another engine than the trainer sampled."""
_STAGE = re.compile(rf"({'|'.join(KIND_NAMES)})(?:_([2-9]|[1-9]\d))?")
_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")
_START_PLAYER = re.compile(r"(random|consistent|teacher)(:[1-9]\d{0,4})?")


def is_stage(name: str) -> bool:
    """Return True for the name of a stage, such as `sft` or `grpo_2`."""
    return _STAGE.fullmatch(name) is not None


def kind_of(stage: str) -> Kind:
    """Return the kind of a stage.

    Examples:
        >>> kind_of("grpo_2"), kind_of("expert_iteration")
        ('grpo', 'expert_iteration')
    """
    found = _STAGE.fullmatch(stage)
    if found is None:
        raise ValueError(f"{stage!r} is no stage; give one of {', '.join(KIND_NAMES)}")
    return found[1]  # type: ignore[return-value]


def stage_title(stage: str) -> str:
    """Return a stage's name for people.

    Examples:
        >>> stage_title("expert_iteration"), stage_title("grpo_2")
        ('expert iteration', 'GRPO 2')
    """
    found = _STAGE.fullmatch(stage)
    return stage if found is None else f"{KIND_NAMES[found[1]]}{f' {found[2]}' if found[2] else ''}"


def check_stages(stages: Sequence[str]) -> None:
    """Check the names of a run's stages, and that the n-th of a kind ends in its number."""
    if not stages:
        raise ValueError('stages is empty, which leaves nothing to train; give for example ["sft", "grpo"]')
    seen: dict[str, int] = {}
    for stage in stages:
        if not is_stage(stage):
            raise ValueError(f"stages has {stage!r}, which is none; give {', '.join(KIND_NAMES)}")
        kind = kind_of(stage)
        seen[kind] = seen.get(kind, 0) + 1
        # Directories, logs and evaluations are named after the stage, so its name must say which one it is.
        expected = kind if seen[kind] == 1 else f"{kind}_{seen[kind]}"
        if stage != expected:
            raise ValueError(f"stages {', '.join(stages)}: call number {seen[kind]} of {kind} {expected!r}")


class StageSettings(Section):
    """What every stage has."""

    optimizer: OptimizerSettings = OptimizerSettings()
    """Optimizer and schedule."""
    save_total_limit: int = Field(1, ge=0)
    """Checkpoints to keep, the newest ones; 0: all. With more than 1 they stay after the stage, for
    `wordle-rl eval --checkpoints RUN/STAGE`; else they go once the model is saved."""


class SFTSettings(StageSettings):
    """Supervised fine-tuning on teacher games."""

    epochs: float = Field(1.0, gt=0)
    """Passes over the games."""
    batch_size: Count = Field(256, ge=1)
    """Games per optimizer step and process."""
    plain_text_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of plain texts among the games and texts that are learnt from, against forgetting one's language. The
    model that the run begins with writes them itself (plain_text.jsonl). For pretrained models."""
    save_steps: int = Field(0, ge=0)
    """Steps between checkpoints. 0: only at the end."""
    validations_per_epoch: int = Field(1, ge=0)
    """How often per epoch to measure the loss on teacher games of validation secrets, also after the last step. 0:
    never."""
    save_each_epoch: bool = False
    """Keep the model of every epoch, in the stage's `epochs` directory."""
    logging_steps: int = Field(10, ge=1)
    """Steps between metric rows."""


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
    own_prompt: bool = False
    """With `file` and `grpo.guesses = 1`: show the policy the `prompt` of each row, a text or messages, in place of the
    run's wording, in all groups. Marks and rewards follow the row's secret and guesses as ever, and replies the grammar
    of the run."""

    @property
    def num_openers(self) -> int:
        """Number of the best openers of which one is the first prefix guess; 0: the player chooses."""
        return int(self.player.partition(":")[2] or 0)

    def check(self) -> None:
        """Validate `player`, and that it has guesses to play."""
        if not _START_PLAYER.fullmatch(self.player):
            raise ValueError(
                f"player {self.player!r} is none of random, consistent and teacher, with a number of openers as in "
                "consistent:5 if wanted; give one of them"
            )
        if self.own_prompt and self.file is None:
            raise ValueError("own_prompt is the prompt of a row of file; name a file, or remove it")
        # With no guess to play, another player would change nothing.
        if self.player != "random" and not self.max_prefix_guesses:
            raise ValueError(f"player {self.player!r} plays no prefix guess; set max_prefix_guesses")


class PlaySettings(StageSettings):
    """What every stage has that learns by play."""

    group_size: Count = Field(1, ge=1)
    """Games per secret."""
    temperature: float = Field(1.0, ge=0)
    """Temperature at which the policy plays; 0 is greedy."""
    # Annotated with the narrower class: a table that sets the rate alone keeps RL's constant schedule.
    optimizer: RLOptimizerSettings = RLOptimizerSettings()
    """Optimizer and schedule."""
    starts: StartSettings = StartSettings()
    """Initial states of groups."""
    max_secrets: int = Field(0, ge=0)
    """Play at most this many secrets: the first of the training secrets, which are shuffled, or of starts.file; 0: all.
    The teacher's games are not limited by it."""
    updates_per_batch: int = Field(1, ge=1)
    """Optimizer steps on each batch. GRPO clips the ratios of the later ones against the probabilities of sampling."""
    sample_games: int = Field(4, ge=0)
    """Games logged to games.jsonl, and by GRPO to trackers, per step, validation or round."""
    outside_rate: float = Field(0.0, ge=0, le=1)
    """Share of groups whose secret may be guessed but is never an answer. Such a game teaches words that no answer
    would: those of boards on which a held-out answer may be right. It needs a stage that learns from games which nobody
    can win by reasoning about the answers: distillation, DPO, expert iteration by hindsight labels, and GRPO by
    `quick_regret`, which trains on their turns only while some answer fits the marks."""

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something."""
        return False

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on beside those of the policy."""
        return False


class GRPOSettings(PlaySettings):
    """Multi-turn GRPO. A round is a step: play groups of games, learn from them once."""

    steps: int = Field(100, ge=1)
    """Rounds of playing and learning."""
    groups_per_step: Count = Field(32, ge=1)
    """Secrets per step and process."""
    group_size: Count = Field(16, ge=2)
    """Games per secret; 8 to 16 are usual."""
    reward: RewardSettings = RewardSettings()
    """Reward of a game."""
    belief_weight: float = Field(0.0, ge=0)
    """Weight of a reward by the policy's own belief: a turn earns the rise of log pi(secret | board), in nats, that the
    marks of its guess bring, divided by belief_clip. No solver and no word list is asked. 0: off."""
    belief_clip: float = Field(2.0, gt=0)
    """Largest rise and fall of a turn, in nats."""
    constrain: Constrain = "none"
    """`words`: a guess can only be a listed word, in play and in the loss. Forbidden tokens have probability 0 in both,
    so the policy learns which word to name and not how to spell."""
    beta: float = Field(0.0, ge=0)
    """Weight of the KL divergence to the model that the stage starts from (with adapters: to that adapter)."""
    guesses: int = Field(0, ge=0)
    """Cut games after this many guesses; 0: play to the end. With 1, GRPO learns single next guesses, usually on boards
    of starts; the reward must then value a guess at once, as `quick_regret` does."""
    credit: str = "turn"
    """Advantage estimator. `turn`: rewards from the turn on; `guess`: the turn's own reward alone, for rewards
    that already value the guess for the rest of the game; `game`: one advantage per game. Or `module:attribute`, a
    function of yours with the signature of `wordle_rl.train.advantages.turn_advantages`."""
    scale_advantages: bool = False
    """Divide by the group's standard deviation (GRPO) or not (Dr. GRPO)."""
    loss_type: Literal["grpo", "dr_grpo", "dapo"] = "dapo"
    """Weight of a token: `dapo` every token the same, `grpo` every row the same (a game, or a turn where each has a
    prompt of its own), `dr_grpo` a constant."""
    gradient_noise_every: int = Field(0, ge=0)
    """Steps between measurements of the gradient's noise: metrics `gradient/cosine`, of the gradients of two halves of
    a step, and `gradient/noise_scale`, in games. Costs a copy of the gradient. 0: never."""
    epsilon: float = Field(0.2, gt=0)
    """Clip range of importance ratios below 1. Only with updates_per_batch or batches_ahead: otherwise games are
    trained on once, by the weights that played them, so ratios are 1."""
    epsilon_high: float = Field(0.28, gt=0)
    """Clip range of importance ratios above 1 (clip-higher)."""
    max_importance_ratio: float | None = Field(None, ge=0)
    """Truncated importance sampling: multiply a token's advantage by its probability in training over that in sampling,
    at most this. 0: off. None: 2 with vLLM, else 0. With updates_per_batch or batches_ahead that ratio is clipped by
    epsilon instead."""
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
    batches_ahead: int = Field(0, ge=0, le=8)
    """Batches that the server plays ahead while a step is learnt from: their weights are at most as many steps old
    (metric `staleness`). 1 is enough where play and learning take even times. Needs the address of a server as
    engine."""
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
    """Secrets of checkpoint selection, in place of the validation secrets of the split: rows as in starts.file.
    Nothing is trained on them, teacher games included; test secrets among them are left out and counted."""
    interpolation_alphas: tuple[float, ...] = (1.0,)
    """Candidates of checkpoint selection besides the start: start + alpha x (last step - start), alpha above 0 and at
    most 1. With 1 among them the weights of every validated step are candidates, too."""

    @property
    def num_rounds(self) -> int:
        """Rounds of playing and learning: steps."""
        return self.steps

    @property
    def groups_to_play(self) -> int:
        """Groups per step and process."""
        return self.groups_per_step

    @property
    def plays_by_vllm(self) -> bool:
        """True if a vLLM engine plays, here or on a server."""
        return self.engine != "transformers"

    @property
    def server(self) -> str:
        """Address of the vLLM server that plays; empty: none does."""
        return self.engine if _ADDRESS.fullmatch(self.engine) else ""

    @property
    def importance_cap(self) -> float:
        """Upper bound of a token's importance ratio, training over sampling; 0: advantages are not corrected."""
        if self.max_importance_ratio is None:
            return IMPORTANCE_CAP if self.plays_by_vllm else 0.0
        return self.max_importance_ratio

    @property
    def learns_without_wins(self) -> bool:
        """True if the reward compares guesses with the solver's, so that games nobody can win have one."""
        return all({"regret", "quick_regret"} & {*weights} for _, weights in self.reward.schedule().phases)

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        self._check_engine()
        self._check_credit()
        self._check_belief()
        # 0 would be the start, which is always a candidate; above 1 is extrapolation.
        alphas = self.interpolation_alphas
        if not alphas or not all(0 < alpha <= 1 for alpha in alphas) or len(set(alphas)) < len(alphas):
            raise ValueError(f"interpolation_alphas {list(alphas)}: give one or more, each once, above 0 and at most 1")
        # Equal games have equal rewards: every advantage would be zero.
        if self.temperature == 0:
            raise ValueError("temperature 0 makes all games of a group alike; raise it, 1.0 is usual")
        if self.plays_by_vllm:
            check_vllm_temperature(self.temperature, "temperature")
        # Nobody can win such a game by reasoning, so a reward of wins would only punish.
        if self.outside_rate and not self.learns_without_wins:
            raise ValueError(
                "outside_rate needs a reward that does not ask for a win; give reward.weights quick_regret"
            )
        # The secrets would leave the training and serve nothing.
        if self.validation_file and not self.validate_every_steps:
            raise ValueError("validation_file is for checkpoint selection; set validate_every_steps, or leave it out")

    def _check_engine(self) -> None:
        if self.engine not in {"transformers", "vllm"} and not self.server:
            raise ValueError(
                f"engine {self.engine!r} is none of transformers, vllm and the address of a vLLM server, such as "
                "http://localhost:8000; give one of them"
            )
        # An engine in this process shares its device with the learner: it cannot play while that learns.
        if self.batches_ahead and not self.server:
            raise ValueError("batches_ahead needs a server that plays meanwhile; set engine to its address")
        if self.max_importance_ratio and (self.batches_ahead or self.updates_per_batch > 1):
            raise ValueError(
                "max_importance_ratio is for games that are trained on once, by the weights that played them; with "
                "updates_per_batch or batches_ahead set epsilon and epsilon_high, and leave it out"
            )
        if self.batches_ahead and self.probe_every_steps:
            raise ValueError(
                "batches_ahead plays while weights change, and probes need them still; set probe_every_steps to 0"
            )
        # A setting that nobody reads is a typo, or a belief that it acts.
        if not self.server and not self.is_default("server_timeout_s"):
            raise ValueError("server_timeout_s needs a server; set engine to its address")

        if self.constrain != "none" and self.plays_by_vllm:
            raise ValueError('constrain "words" limits this process\'s own sampler; set engine to "transformers"')

    def _check_belief(self) -> None:
        if not self.belief_weight:
            if not self.is_default("belief_clip"):
                raise ValueError("belief_clip needs a reward by belief; set belief_weight, or leave it out")
            return
        # Its range is known only with the policy, so no weight of a win can be raised above it beforehand.
        if self.reward.keep_order:
            raise ValueError(
                "belief_weight can pay a loss more than a win; set reward.keep_order to false to allow that"
            )
        if self.guesses or self.turn_candidates > 1:
            raise ValueError("belief_weight values the boards of whole games; leave out guesses and turn_candidates")
        # Asking the policy would meet it in the middle of an update.
        if self.batches_ahead:
            raise ValueError("belief_weight asks the weights that learn meanwhile; set batches_ahead to 0")

    def _check_credit(self) -> None:
        if self.credit not in CREDIT_NAMES:
            if ":" not in self.credit:
                known = ", ".join(CREDIT_NAMES)
                raise ValueError(f"credit {self.credit!r} is none of {known}, and no import path (module:attribute)")
            resolve(self.credit, "credit", ValueError, takes="turn_rewards, scale=")
        # A candidate is valued by its turn, and the others are thrown away: there is no shorter game to cut.
        if self.guesses and self.turn_candidates > 1:
            raise ValueError("guesses cuts games short, and turn_candidates plays them to their end; set one of them")
        # A candidate is worth what its turn earns. Other estimators would add rewards of turns it did not lead to.
        if self.turn_candidates > 1 and (self.credit != "guess" or self.scale_advantages):
            raise ValueError(
                f"turn_candidates {self.turn_candidates} credits each guess with its own value; set credit to "
                '"guess", and scale_advantages to false'
            )
        # group_size counts completions of a turn over all games of the group.
        if self.group_size % self.turn_candidates:
            raise ValueError(f"turn_candidates {self.turn_candidates} must divide group_size {self.group_size}")


class RoundSettings(PlaySettings):
    """What the algorithms share that choose from the games of a round what to learn, and pass over it as SFT does."""

    rounds: int = Field(4, ge=1)
    """Rounds of playing and learning. The optimizer's state starts again in each; the schedule spans them all."""
    groups_per_round: Count = Field(128, ge=1)
    """Secrets per round."""
    batch_size: Count = Field(64, ge=1)
    """Games, or pairs of completions, per batch of a round."""
    epochs: float = Field(1.0, gt=0)
    """Passes over what a round chose."""

    @property
    def num_rounds(self) -> int:
        """Rounds of playing and learning."""
        return self.rounds

    @property
    def groups_to_play(self) -> int:
        """Groups per round."""
        return self.groups_per_round

    @property
    def learns_from_single_games(self) -> bool:
        """True if a group may be one game, which may then be greedy."""
        return False

    def check(self) -> None:
        """Refuse greedy games of which a group has several, and secrets that teach nothing."""
        # One greedy game a secret still meets every secret; a second one would be its copy.
        if self.temperature == 0 and not (self.learns_from_single_games and self.group_size == 1):
            fix = "set group_size to 1" if self.learns_from_single_games else "raise it, 1.0 is usual"
            raise ValueError(f"temperature 0 makes all games of a group alike; {fix}")
        if self.outside_rate and not self.learns_without_wins:
            raise ValueError(
                "outside_rate needs labels that a lost game has, too; set labels to mistakes, refused or secret, or "
                "leave it out"
            )


class ExpertIterationSettings(RoundSettings):
    """Expert iteration: fine-tuning on the policy's own games."""

    group_size: Count = Field(8, ge=1)
    """Games per secret."""
    labels: Labels = "wins"
    """Tokens to train on. `wins`: the replies of the best won games of a group. `secret`: the secret at every board of
    every game but the empty one. `mistakes`: the secret where the guess contradicted a mark or was no word, elsewhere
    the guess itself; play it at a low temperature. `refused`: the secret only where the guess was no word or had been
    named before, for a policy that names words which the marks rule out on purpose, as a teacher with probes does. All
    but `wins` learn from losses, too, and need no groups."""
    invented_rate: float = Field(0.0, ge=0, le=1)
    """Share of groups with an invented secret, whose letters follow each other as in listed words; it may be guessed.
    With labels other than `wins` it is learnt on boards that no listed word need fit, after the policy's own refused
    strings. The metric `invented_win_rate` has how many are won."""
    keep_per_group: int = Field(1, ge=1)
    """Games kept of each group: won, different from each other, the fewest guesses first. With labels `wins`."""
    replay_fraction: float = Field(0.25, ge=0, lt=1)
    """Fraction of teacher games among the games that a round trains on, against forgetting."""
    plain_text_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of plain texts among the games and texts that are learnt from, against forgetting one's language. The
    model that the run begins with writes them itself (plain_text.jsonl). For pretrained models."""

    def check(self) -> None:
        """Refuse rates of secrets that teach nothing, or are too high together."""
        super().check()
        if self.invented_rate and not self.learns_without_wins:
            raise ValueError("invented_rate needs labels mistakes, refused or secret; set labels, or leave it out")
        if self.outside_rate + self.invented_rate > 1 + 1e-9:
            rates = f"outside_rate {self.outside_rate} and invented_rate {self.invented_rate}"
            raise ValueError(f"{rates} add up to more than 1; lower one")

    @property
    def learns_from_single_games(self) -> bool:
        """True with labels that need no group."""
        return self.labels != "wins"

    @property
    def learns_without_wins(self) -> bool:
        """True with labels that a lost game has, too."""
        return self.labels != "wins"

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on beside those of the policy."""
        return self.replay_fraction > 0


class DPOSettings(RoundSettings):
    """Direct preference optimization on completions of the same prompt."""

    group_size: Count = Field(4, ge=1)
    """Games per secret."""
    beta: float = Field(0.1, gt=0)
    """Strength of the implicit KL constraint to the model that the stage starts from."""
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


class DistillSettings(RoundSettings):
    """Distillation: learning what a teacher says at the boards of the policy's own games.

    The solver teacher is that of `traces.teacher` without its noise, and writes its thinking with `traces.narrate`.
    With targets `distribution`, regret takes the place of its settings, except for the opener.
    """

    groups_per_round: Count = Field(2048, ge=1)
    """Secrets per round."""
    targets: str = "guess"
    """What is learnt at a board. `guess`: the solver teacher's guess (DAgger). `distribution`: how good each word is,
    as a distribution by the expected guesses that it gives away. A run, a model directory or `bundled`: what that model
    would write at each token of the policy's own replies; it needs the policy's tokenizer."""
    teacher_temperature: float = Field(0.1, gt=0)
    """With targets `distribution`: its temperature, in expected guesses. A word that gives away this many more than
    another is e times less likely."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Share of groups whose secret may be guessed but is never an answer."""
    replay_fraction: float = Field(0.25, ge=0, lt=1)
    """Fraction of teacher games among all games that a round trains on, those of the last round included."""
    plain_text_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of plain texts among the games and texts that are learnt from, against forgetting one's language. The
    model that the run begins with writes them itself (plain_text.jsonl). For pretrained models."""

    @property
    def teacher_model(self) -> Path | None:
        """The model that teaches; None if the solver does."""
        return None if self.targets in ("guess", "distribution") else Path(self.targets)

    @property
    def learns_from_single_games(self) -> bool:
        """True: every board gets a label."""
        return True

    @property
    def learns_without_wins(self) -> bool:
        """True: the teacher does not know the secret."""
        return True

    @property
    def replays(self) -> bool:
        """True if teacher games are trained on beside those of the policy."""
        return self.replay_fraction > 0

    def check(self) -> None:
        """Refuse a teacher that is not there."""
        super().check()
        path = self.teacher_model
        if path is not None and self.targets != "bundled" and not path.expanduser().is_dir():
            raise ValueError(f"targets {self.targets!r} is none of guess, distribution, bundled and a directory")


LearningByPlay = GRPOSettings | ExpertIterationSettings | DPOSettings | DistillSettings

STAGES: dict[Kind, type[StageSettings]] = {
    "sft": SFTSettings,
    "grpo": GRPOSettings,
    "expert_iteration": ExpertIterationSettings,
    "dpo": DPOSettings,
    "distill": DistillSettings,
}
