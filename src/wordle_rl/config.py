"""Every setting: frozen pydantic models, read from TOML, overridden on the command line, stored as JSON."""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.reward import CURRICULA, FixedSchedule, LinearSchedule, Schedule, SwitchSchedule, named_schedule
from wordle_rl.words import SplitName

Precision = Literal["auto", "bf16", "fp32"]
Algorithm = Literal["grpo", "expert_iteration", "dpo"]
ALGORITHM_NAMES: dict[Algorithm, str] = {"grpo": "GRPO", "expert_iteration": "expert iteration", "dpo": "DPO"}
"""How a policy may learn from its own games after SFT: name of the setting, stage and model -> what to call it."""
Constrain = Literal["none", "words"]
"""What limits the tokens a model may say: nothing, or that a guess, once opened, must be a listed word."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the setting and the mend in one line."""


class Section(BaseModel):
    """What all sections share: values never change and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class WordSettings(Section):
    """Which words, and which of them are held out."""

    source: str = "default"
    """`default`, `original`, `nyt`, an imported name, or a directory with answers.txt and guesses.txt."""
    split_seed: int = 0
    """Seed of the split into train, validation and test secrets."""


class GameSettings(Section):
    """The rules, and how the game is put into words."""

    max_turns: int = Field(6, ge=1, le=20)
    """Guesses per game."""
    dictionary: Dictionary = Dictionary.STRICT
    """What an unlisted guess costs: `strict` a turn, `lenient` nothing (it is scored), `app` it is refused."""
    hard_mode: bool = False
    """Every revealed hint must be used in later guesses."""
    max_refusals: int = Field(10, ge=0)
    """With `app`: free refusals per game."""
    style: Style = Style.ENGLISH
    """Wording of the prompts."""
    shape: Shape = Shape.TRANSCRIPT
    """One growing conversation, or a fresh prompt every turn."""
    thinking: Thinking = Thinking.OPTIONAL
    """Whether a reply may or must reason before its guess."""

    def prompter(self, word_length: int) -> Prompter:
        """The prompter these settings describe, for words of this length."""
        rules = Rules(self.max_turns, self.dictionary, self.hard_mode, self.max_refusals)
        return Prompter(self.style, self.shape, self.thinking, word_length, rules)


class LoraSettings(Section):
    """Low-rank adapters: the model's own weights stay as they are, small matrices beside them learn."""

    rank: int = Field(0, ge=0)
    """Width of the adapters; 0: none, every weight is trained."""
    alpha: int = Field(0, ge=0)
    """Adapters count alpha / rank times; 0: twice the rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before the adapters."""
    target_modules: str = "all-linear"
    """Layers that get one: `all-linear`, or names joined by commas such as `q_proj,v_proj`."""


class ModelSettings(Section):
    """The model to train."""

    path: str = "tiny"
    """`tiny` makes the embedded model; anything else is a transformers directory or hub name."""
    hidden_size: int = Field(128, ge=8)
    """Width of the embedded model."""
    num_layers: int = Field(4, ge=1)
    """Layers of the embedded model."""
    num_heads: int = Field(2, ge=1)
    """Attention heads of the embedded model."""
    num_kv_heads: int = Field(1, ge=1)
    """Key/value heads of the embedded model."""
    intermediate_size: int = Field(384, ge=8)
    """Width of the embedded model's feed-forward layers."""
    max_length: int = Field(1024, ge=16)
    """Context of the embedded model, in tokens."""
    template_kwargs: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Extra chat template variables, such as {"enable_thinking": false}."""
    attn_implementation: str | None = None
    """`eager`, `sdpa`, `flash_attention_2`…; None: eager for short games on a CPU, else the library's choice."""
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    """Type the weights are loaded in."""
    lora: LoraSettings = LoraSettings()
    """Low-rank adapters instead of full fine-tuning."""
    load_in_4bit: bool = False
    """QLoRA: hold the base model's weights in 4 bits; needs a CUDA GPU, bitsandbytes and lora.rank."""
    liger_kernels: bool = False
    """Replace norms, rotations and feed-forward layers by Liger's fused kernels; needs a GPU and liger-kernel."""

    @model_validator(mode="after")
    def _adapters_have_a_base(self) -> Self:
        if self.lora.rank and self.path == "tiny":
            raise ValueError("lora.rank adapts a trained model, the embedded one starts from nothing; set path")
        if self.load_in_4bit and not self.lora.rank:
            raise ValueError("load_in_4bit leaves nothing to train without adapters; set lora.rank, 16 is usual")
        return self

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} must be an even multiple of num_heads {self.num_heads}, "
                "since positions turn the numbers of a head in pairs"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads {self.num_heads} must be a multiple of num_kv_heads {self.num_kv_heads}")
        return self


class TeacherSettings(Section):
    """How far solver-teacher games stray from best play. Rates are chances per turn unless said otherwise."""

    opener: str | None = None
    """First guess of most games; None: the most informative answer."""
    random_opener_rate: float = Field(0.5, ge=0, le=1)
    """Chance per game that a random answer opens it."""
    noise_rate: float = Field(0.25, ge=0, le=1)
    """A random word that is still possible, instead of the best one."""
    outside_noise_rate: float = Field(0.25, ge=0, le=1)
    """The same in games whose secret is outside the answers; there it also teaches words that are never a secret."""
    stray_rate: float = Field(0.05, ge=0, le=1)
    """A random listed word, possible or not; the teacher disowns it, so it is not learnt."""
    probe_gain: int = Field(0, ge=0)
    """Play a word that cannot be the secret where it makes so many classes more than any that can; 0: never."""
    max_turns: int = Field(6, ge=1, le=20)
    """Guesses per game."""

    @model_validator(mode="after")
    def _rates_fit(self) -> Self:
        if max(self.noise_rate, self.outside_noise_rate) + self.stray_rate > 1:
            raise ValueError("a noise rate and stray_rate together must not exceed 1")
        return self


class TraceSettings(Section):
    """Teacher games to make."""

    num_games: int = Field(100_000, ge=1)
    """Games to play."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Share of games whose secret is a listed word outside the answers. They keep held-out answers possible."""
    narrate: bool = False
    """Write the teacher's thinking into every turn."""
    teacher: TeacherSettings = TeacherSettings()
    """The solver teacher's play."""


class LLMTeacherSettings(Section):
    """A language model as teacher, behind any OpenAI-compatible endpoint."""

    provider: str = "local"
    """`together`, `fireworks`, `openai`, `local` (http://localhost:8000/v1), or an endpoint's address."""
    model: str = ""
    """Model name as the endpoint knows it."""
    split: SplitName = "train"
    """Which secrets to play."""
    words_file: Path | None = None
    """Play the words of this file instead, one a line."""
    max_secrets: int = Field(0, ge=0)
    """Play only the first so many of them; 0: all."""
    games_per_word: int = Field(1, ge=1)
    """Games per secret, under the seeds SEED, SEED + 1 and so on."""
    allow_test_secrets: bool = False
    """Play test secrets too. Their games may be looked at, but never trained on."""
    max_concurrent: int = Field(16, ge=1)
    """Games in play at once."""
    temperature: float | None = Field(None, ge=0)
    """0 is greedy; left out: the endpoint's default."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Left out: the endpoint's default."""
    send_seed: bool = False
    """Send a game's seed along with its requests; not every endpoint takes one."""
    max_completion_tokens: int = Field(4096, ge=1)
    """Bound on one reply, reasoning included."""
    timeout_s: float = Field(300.0, gt=0)
    """Time for one request, in seconds."""
    game_timeout_s: float = Field(1800.0, gt=0)
    """Time for one game, pauses included, in seconds."""
    max_retries: int = Field(6, ge=0)
    """Further tries of a request after rate limits, time-outs and server errors, with growing pauses."""
    max_failures: int = Field(20, ge=1)
    """Failed games in a row after which the run stops."""
    budget_tokens: int = Field(0, ge=0)
    """Tokens this run may use, prompts included; no request is sent once they are used up; 0: no bound."""
    budget_money: float = Field(0.0, ge=0)
    """The same in money, in the currency of the prices."""
    price_in: float | None = Field(None, ge=0)
    """Price of a million prompt tokens."""
    price_out: float | None = Field(None, ge=0)
    """Price of a million completion tokens."""
    game: GameSettings = GameSettings()
    """Rules and wording."""

    @model_validator(mode="after")
    def _prices_fit(self) -> Self:
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out belong together; give both or neither")
        if self.budget_money and self.price_in is None:
            raise ValueError("budget_money needs price_in and price_out, per million tokens")
        return self


class SamplingSettings(Section):
    """How tokens are drawn."""

    temperature: float = Field(1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Keep the smallest set of tokens with at least this probability."""
    max_completion_tokens: int = Field(512, ge=1)
    """Bound on one turn's reply, thinking included."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass, which bounds activations; the key/value cache holds all games in play."""
    constrain: Constrain = "none"
    """`words`: once a reply has opened its guess, only tokens that spell a listed word may follow."""


class OptimizerSettings(Section):
    """The optimizer and its schedule."""

    name: Literal["adamw", "muon"] = "adamw"
    """`muon`: Muon for the weight matrices inside the layers, AdamW for the rest."""
    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    muon_learning_rate: float = Field(0.02, gt=0)
    """Peak learning rate of Muon."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient clipping."""
    warmup_share: float = Field(0.03, ge=0, lt=1)
    """Share of the steps in which the rate rises."""
    warmup_steps: int = Field(0, ge=0)
    """Steps in which the rate rises; 0: as many as warmup_share says."""
    schedule: Literal["constant", "linear", "cosine", "stable_decay"] = "cosine"
    """What follows the warm-up; `stable_decay`: constant for 40 % of the steps, then linear to 2 %."""
    max_bad_steps: int = Field(5, ge=1)
    """A step whose loss or gradient is not finite changes no weight; after so many in a row training stops."""


class SFTSettings(Section):
    """Supervised fine-tuning on teacher games."""

    epochs: float = Field(1.0, gt=0)
    """Passes over the games."""
    batch_size: int = Field(256, ge=1)
    """Games per batch and process."""
    gradient_accumulation_steps: int = Field(1, ge=1)
    """Batches per optimizer step."""
    max_length: int = Field(1024, ge=8)
    """Longest game in tokens; longer ones are dropped and counted."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """Optimizer and schedule."""
    precision: Precision = "auto"
    """`bf16` autocast or `fp32`; `auto`: bf16 where the processor computes in it."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every so many steps; 0: at the end only."""
    logging_steps: int = Field(10, ge=1)
    """Write metrics every so many steps."""
    save_each_epoch: bool = False
    """Keep model and tokenizer after each epoch, in sft/epochs."""
    compile: bool = False
    """Run the model through torch.compile while training."""


class RewardSettings(Section):
    """Which reward, and how its weights change while training."""

    preset: str = "sparse"
    """Name of a reward preset or curriculum."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weights of one's own by component name, instead of the preset's."""
    then_preset: str | None = None
    """Preset to move on to."""
    then_weights: dict[str, float] = Field(default_factory=dict)
    """Weights of one's own to move on to."""
    over_steps: int = Field(0, ge=0)
    """Move on in a straight line over so many steps; 0: all at once, when replies are well formed enough."""
    threshold: float = Field(0.9, gt=0, le=1)
    """With over_steps 0: the share of well-formed replies at which to move on."""
    keep_order: bool = True
    """Raise the weights of winning and of broken rules as far as no loss may outscore a win, nor a cheat a loss."""

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        self.schedule()
        return self

    def schedule(self) -> Schedule:
        """The schedule these settings describe.

        Raises:
            RewardError: If a preset or component is unknown.
        """
        if self.preset in CURRICULA and not self.weights and not self.then_preset and not self.then_weights:
            return CURRICULA[self.preset]
        start = self.weights or named_schedule(self.preset).rubric_at(0).weights
        if not self.then_preset and not self.then_weights:
            return FixedSchedule(start, self.keep_order)
        end = self.then_weights or named_schedule(self.then_preset or "").rubric_at(0).weights
        if self.over_steps:
            return LinearSchedule(start, end, self.over_steps, self.keep_order)
        return SwitchSchedule(start, end, self.threshold, self.keep_order)


class GRPOSettings(Section):
    """Multi-turn GRPO."""

    steps: int = Field(100, ge=0)
    """Optimizer steps; 0 skips GRPO."""
    groups_per_step: int = Field(32, ge=1)
    """Secrets per step and process."""
    group_size: int = Field(16, ge=2)
    """Games per secret; a group of one has no baseline."""
    micro_batch_size: int = Field(0, ge=0)
    """Games per backward pass; 0: all of them at once."""
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
    """Importance ratios per sequence instead of per token (GSPO)."""
    epsilon: float = Field(0.2, gt=0)
    """Lower clip range."""
    epsilon_high: float = Field(0.28, gt=0)
    """Upper clip range (clip-higher)."""
    beta: float = Field(0.0, ge=0)
    """Weight of the KL divergence to the SFT model (with adapters: to the SFT adapter)."""
    mask_overlong: bool = False
    """Leave replies that were cut at max_completion_tokens out of the loss."""
    max_importance_ratio: float = Field(0.0, ge=0)
    """Where sampler and trainer differ (precision, engine): weigh a token by their ratio, at most this; 0: do not."""
    reward: RewardSettings = RewardSettings()
    """What a game earns."""
    sampling: SamplingSettings = SamplingSettings()
    """How the policy's tokens are drawn."""
    optimizer: OptimizerSettings = OptimizerSettings(learning_rate=3e-5, schedule="constant")
    """Optimizer and schedule."""
    focus: float = Field(0.5, ge=0, le=1)
    """How strongly secrets with a mixed record are preferred; 0: all alike."""
    turn_candidates: int = Field(1, ge=1)
    """Above 1: every turn is sampled so many times from the same state, each guess is credited with its regret against
    the mean of them, and the game goes on with the best. A group then plays group_size / turn_candidates games."""
    max_refills: int = Field(1, ge=0)
    """Rounds in which groups whose games all earned the same are played anew with other secrets (DAPO)."""
    precision: Precision = "auto"
    """`bf16` autocast in the training passes or `fp32`; `auto`: bf16 where the processor computes in it."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every so many steps; 0: at the end only."""
    validate_every_steps: int = Field(0, ge=0)
    """Play the validation secrets greedily before training, every so many steps and at the end, and keep the weights
    that need the fewest guesses, a loss counted as one more than the game allows; 0: keep the last weights."""
    sample_games: int = Field(4, ge=0)
    """Games written to games.jsonl per step."""

    @property
    def is_skipped(self) -> bool:
        """Whether there is nothing to train."""
        return self.steps == 0

    @model_validator(mode="after")
    def _can_learn(self) -> Self:
        if self.sampling.temperature == 0:
            raise ValueError("sampling.temperature 0 makes all games of a group alike; raise it, 1.0 is usual")
        if self.outside_rate and not {*self.reward.schedule().rubric_at(0).weights} & {"regret", "quick_regret"}:
            raise ValueError(
                "outside_rate needs a reward that does not ask for a win; give reward.weights quick_regret"
            )
        if self.group_size % self.turn_candidates:
            raise ValueError(f"turn_candidates {self.turn_candidates} must divide group_size {self.group_size}")
        if self.sampling.constrain != "none":
            raise ValueError(
                'sampling.constrain "words" would train on probabilities that are not the policy\'s; set it to "none" '
                "and constrain evaluations instead (eval.constrained)"
            )
        games = self.groups_per_step * self.group_size
        if self.micro_batch_size and games % self.micro_batch_size:
            raise ValueError(f"micro_batch_size {self.micro_batch_size} must divide the {games} games of a step")
        return self


class RoundSettings(Section):
    """What expert iteration and DPO share: rounds of playing, choosing what to learn from, and training on it."""

    rounds: int = Field(4, ge=0)
    """Rounds; 0 skips the training."""
    groups_per_round: int = Field(128, ge=1)
    """Secrets per round."""
    group_size: int = Field(8, ge=1)
    """Games per secret."""
    max_given: int = Field(0, ge=0)
    """Start states: 0 to so many random turns are already played (the same for a whole group)."""
    reward: RewardSettings = RewardSettings()
    """What a game earns; a schedule of weights counts rounds as its steps."""
    sampling: SamplingSettings = SamplingSettings()
    """How the policy's tokens are drawn."""
    epochs: float = Field(1.0, gt=0)
    """Passes over what a round trains on."""
    batch_size: int = Field(64, ge=1)
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
        """Whether there is nothing to train."""
        return self.rounds == 0

    @model_validator(mode="after")
    def _plays_vary(self) -> Self:
        if self.sampling.temperature == 0:
            raise ValueError("sampling.temperature 0 makes all games of a group alike; raise it, 1.0 is usual")
        return self


class ExpertIterationSettings(RoundSettings):
    """Expert iteration: fine-tuning on the policy's own best games."""

    keep_per_group: int = Field(1, ge=1)
    """Games kept of each group: won, different from each other, the fewest guesses first, then the highest reward."""
    replay_share: float = Field(0.25, ge=0, lt=1)
    """Share of teacher games among the games of a round, against forgetting."""


class DPOSettings(RoundSettings):
    """Direct preference optimization on pairs of replies to the same prompt."""

    group_size: int = Field(4, ge=1)
    """Games per secret."""
    judge: Literal["regret", "information", "outcome"] = "regret"
    """The worth of a guess: what it gives away to the solver, what it tells, or how the group's games with it ended."""
    boards_per_round: int = Field(512, ge=1)
    """Boards reached at which further guesses are sampled; not for `outcome`, which compares the games played."""
    guesses_per_board: int = Field(8, ge=2)
    """Guesses sampled at each of those boards."""
    margin: float = Field(0.1, gt=0)
    """How much better the chosen guess must be: expected guesses, share of information, or reward."""
    pairs_per_board: int = Field(2, ge=1)
    """The best guess of a board is set against so many others, the worst first."""
    beta: float = Field(0.1, gt=0)
    """How closely the policy is held to the SFT model."""
    loss_type: Literal["sigmoid", "hinge", "ipo"] = "sigmoid"
    """TRL's loss of a pair."""
    sft_weight: float = Field(0.0, ge=0)
    """Weight of the chosen replies' own likelihood in the loss, so that it does not fall along with the rejected."""

    @model_validator(mode="after")
    def _has_pairs(self) -> Self:
        if self.judge == "outcome" and self.group_size < 2:
            raise ValueError("judge 'outcome' compares the games of a group; group_size must be at least 2")
        return self


class PlaySettings(Section):
    """How much an evaluation plays, and what it measures."""

    max_games: int = Field(0, ge=0)
    """Play only so many secrets of each part; 0: all."""
    max_completion_tokens: int = Field(512, ge=1)
    """Bound on one turn's reply."""
    max_batch_size: int = Field(1024, ge=1)
    """Games played at once."""
    regret: bool = True
    """Measure regret against the solver."""


class EvalSettings(PlaySettings):
    """Evaluation in a run."""

    constrained: bool = False
    """Play held-out secrets once more with guesses limited to listed words; shown apart, never in place of the rest."""


class PatienceSettings(Section):
    """How an endpoint's games are played, and how long it is waited for."""

    concurrency: int = Field(16, ge=1)
    """Games an endpoint plays at once, each at its own pace."""
    timeout_s: float = Field(120.0, gt=0)
    """Time an endpoint has for one request, in seconds; it is tried again three times."""
    game_timeout_s: float = Field(600.0, gt=0)
    """Time an endpoint has for one game, in seconds; a longer one is an error, never a loss."""
    max_minutes: float = Field(0.0, ge=0)
    """Time an endpoint has for all games, in minutes; those not finished by then are errors. 0: no bound."""
    max_failures: int = Field(32, ge=0)
    """Ask an endpoint no more once so many games in a row were errors. 0: go on."""


class RunConfig(Section):
    """A whole run: words, teacher games, SFT, learning by play, evaluation."""

    words: WordSettings = WordSettings()
    """Word lists and split."""
    game: GameSettings = GameSettings()
    """Rules and wording."""
    model: ModelSettings = ModelSettings()
    """The model."""
    traces: TraceSettings = TraceSettings()
    """Teacher games."""
    sft: SFTSettings = SFTSettings()
    """Supervised fine-tuning."""
    algorithm: Algorithm = "grpo"
    """How the SFT model then learns from its own games; the section of that name has its settings."""
    grpo: GRPOSettings = GRPOSettings()
    """Multi-turn GRPO."""
    expert_iteration: ExpertIterationSettings = ExpertIterationSettings()
    """Expert iteration."""
    dpo: DPOSettings = DPOSettings()
    """DPO on pairs of guesses."""
    eval: EvalSettings = EvalSettings()
    """Evaluation."""
    seed: int = Field(0, ge=0)
    """Seed of everything drawn at random, the split excepted."""
    report_to: tuple[Literal["trackio", "wandb", "tensorboard"], ...] = ()
    """Where training metrics go beside metrics.jsonl."""

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.game.hard_mode and self.traces.teacher.stray_rate > 0:
            raise ValueError("game.hard_mode forbids the teacher's stray guesses; set traces.teacher.stray_rate to 0")
        if self.game.hard_mode and self.traces.teacher.probe_gain:
            raise ValueError("game.hard_mode forbids the teacher's probes; set traces.teacher.probe_gain to 0")
        if self.traces.teacher.max_turns > self.game.max_turns:
            raise ValueError(
                f"traces.teacher.max_turns {self.traces.teacher.max_turns} exceeds game.max_turns {self.game.max_turns}"
            )
        for name in ALGORITHM_NAMES:
            max_given = getattr(self, name).max_given
            if max_given >= self.game.max_turns:
                raise ValueError(f"{name}.max_given {max_given} leaves none of {self.game.max_turns} turns to play")
        return self

    @property
    def play_settings(self) -> GRPOSettings | ExpertIterationSettings | DPOSettings:
        """The settings of the chosen algorithm."""
        settings: GRPOSettings | ExpertIterationSettings | DPOSettings = getattr(self, self.algorithm)
        return settings


def load_config(path: Path) -> RunConfig:
    """Read settings from TOML, or from the JSON that a run stores.

    Raises:
        ConfigError: If the file is missing, cannot be read, or holds an unknown or impossible setting.
    """
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        values = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no config file {path}; see configs/ for examples") from None
    except ValueError as error:  # both parsers' errors, and bytes that are no text
        raise ConfigError(f"{path} cannot be read: {error}") from None
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from None


def describe(error: ValidationError) -> str:
    """All faults of a validation in one line, each with the dotted name of its setting."""
    faults = []
    for fault in error.errors():
        name = ".".join(str(part) for part in fault["loc"]) or "config"
        if fault["type"] == "extra_forbidden":
            faults.append(f"unknown setting {name}{_nearest(fault['loc'])}")
        else:
            faults.append(f"{name}: {fault['msg'].removeprefix('Value error, ')}")
    return "; ".join(faults)


def _nearest(loc: tuple[int | str, ...]) -> str:
    """A hint at the setting that was probably meant."""
    section: Any = RunConfig
    for part in loc[:-1]:
        section = section.model_fields[str(part)].annotation
    close = difflib.get_close_matches(str(loc[-1]), section.model_fields, n=1, cutoff=0.5)
    return f" (did you mean {'.'.join([*map(str, loc[:-1]), close[0]])}?)" if close else ""
