"""Words, rules and wording, and the model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from wordle_rl.config.base import MOST_LAYERS, Count, Section
from wordle_rl.config.training import FittingSettings
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking, fault_in, find_style, style_named, tidied
from wordle_rl.words import WordList
from wordle_rl.words.split import Split, split_secrets


class WordSettings(Section):
    """Word list and split."""

    source: str = "default"
    """`default`, `original`, `nyt`, an imported name, a file of words (answers and guesses at once), two files as
    `ANSWERS,GUESSES`, or a directory with answers.txt and guesses.txt."""
    split_seed: int = 0
    """Seed of the split into train, validation and test secrets."""
    strict_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of the answers, among the test secrets, that training never names: as no secret, guess or initial state.
    Figures of this part, `strict`, show generalisation."""

    def split_of(self, words: WordList) -> Split:
        """The split of a list's answers."""
        return split_secrets(words, self.split_seed, strict_fraction=self.strict_fraction)


class GameSettings(Section):
    """The rules, and how the game is put into words."""

    max_turns: int = Field(6, ge=1, le=20)
    """Guesses per game."""
    dictionary: Dictionary = Dictionary.STRICT
    """What an unlisted guess costs. `strict`: a turn, without marks. `lenient`: a turn, with marks, as any guess.
    `app`: nothing; any bad reply is refused, up to ten times a game."""
    hard_mode: bool = False
    """Later guesses must use every revealed hint."""
    style: Style | str = Style.ENGLISH
    """Wording of the prompts: a built-in style, or a class of yours as `module:attribute`, with the methods of
    `wordle_rl.prompt.StyleTexts`."""
    shape: Shape = Shape.TRANSCRIPT
    """`transcript`: one growing conversation. `spoken`: the same, but later turns do not see the thinking of earlier
    ones; a turn is then a row of its own in training. `state`: a fresh prompt every turn."""
    thinking: Thinking = Thinking.OPTIONAL
    """Thinking before the guess: `off` forbids it, `optional` allows it, `required` demands it."""
    system_prompt: str | None = Field(None, max_length=100_000)
    """Text in place of the style's own rules. {word_length}, {max_turns} and {example} (a well-formed reply) are filled
    in; double any other brace. Empty: no system message."""

    @field_validator("style")
    @classmethod
    def _has_a_known_form(cls, style: str) -> Style | str:
        return style_named(style)

    @field_validator("system_prompt")
    @classmethod
    def _can_be_filled(cls, text: str | None) -> str | None:
        if text is None:
            return None
        if fault := fault_in(text):
            raise ValueError(fault)
        return tidied(text)

    def check(self) -> None:
        """Refuse a style of yours that cannot be had, and thinking where the style has no form for it."""
        if self.style is Style.SPELLED and self.thinking is Thinking.REQUIRED:
            raise ValueError('style "spelled" has no form for thinking; set thinking to "off"')
        if not isinstance(self.style, Style):
            find_style(self.style)
        if self.shape is Shape.SPOKEN and (self.thinking is Thinking.OFF or self.style is Style.SPELLED):
            raise ValueError('shape "spoken" leaves out earlier thinking, and there is none; set shape to "transcript"')

    @property
    def rules(self) -> Rules:
        """The rules these settings describe."""
        return Rules(self.max_turns, self.dictionary, self.hard_mode)

    def prompter(self, word_length: int) -> Prompter:
        """The prompter these settings describe, for words of this length."""
        return Prompter(self.style, self.shape, self.thinking, word_length, self.rules, self.system_prompt)


class LoraSettings(Section):
    """Low-rank adapters on every linear layer: the model's own weights are frozen, small added matrices are trained."""

    rank: int = Field(0, ge=0)
    """Width of the adapters; 0: none, every weight is trained."""
    alpha: int = Field(0, ge=0)
    """Adapters are scaled by alpha / rank; 0: twice the rank."""


class ModelSettings(FittingSettings):
    """The model to train."""

    path: str = "tiny"
    """Model to train: a transformers directory, a GGUF file or a hub name; `tiny` makes the embedded model, `smollm2`
    and `gemma-3-270m` are those of packages."""
    hidden_size: Count = Field(192, ge=8)
    """Width of the embedded model, in heads of 32."""
    num_layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Layers of the embedded model."""
    max_length: int = Field(1024, ge=16)
    """Longest game in tokens. It is the embedded model's context; SFT of any model leaves longer games out."""
    chat_template: str | None = None
    """Chat template in place of the model's own, saved with the model: a file, or `lines` (a message a line, without
    speakers: half the tokens of most templates). None: the model's own, or a plain one if it has none."""
    template_kwargs: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Extra chat template variables, such as {"enable_thinking": false}."""
    attn_implementation: str | None = None
    """`eager`, `sdpa`, `flash_attention_2`…; None: eager for models made here on a CPU, else torch's own (`sdpa`)."""
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    """Type the weights are loaded in."""
    lora: LoraSettings = LoraSettings()
    """Low-rank adapters instead of full fine-tuning."""
    load_in_4bit: bool = False
    """QLoRA: hold the base model's weights in 4 bits; needs bitsandbytes and lora.rank."""

    compile: bool = False
    """Train with layers fused by torch.compile. The first step takes a minute longer; play stays as it is."""

    def check(self) -> None:
        """Refuse adapters without a base, and sizes that do not divide."""
        if self.lora.rank and self.path == "tiny":
            raise ValueError("lora.rank adapts a trained model, the embedded one starts from nothing; set path")
        if self.compile and self.path == "tiny":
            raise ValueError(
                "compile shares no prefixes, which makes the embedded model's steps cheap; leave it out, or set path"
            )
        if self.load_in_4bit and not self.lora.rank:
            raise ValueError("load_in_4bit leaves nothing to train without adapters; set lora.rank, 16 is usual")
        if (self.num_heads > 1 and self.hidden_size % 32) or self.hidden_size % 2:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of 32, the width of a head")

    @property
    def num_heads(self) -> int:
        """Attention heads of the embedded model."""
        return max(1, self.hidden_size // 32)

    @property
    def num_kv_heads(self) -> int:
        """Key/value heads of the embedded model: one for about eight heads."""
        return next(number for number in range(max(1, self.num_heads // 8), 0, -1) if self.num_heads % number == 0)

    @property
    def intermediate_size(self) -> int:
        """Width of the embedded model's feed-forward layers: 8/3 of its own, in whole 128s."""
        return -(-self.hidden_size * 8 // (3 * 128)) * 128
