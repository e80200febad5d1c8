"""Settings of teachers: the solver and language models."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import tyro
from pydantic import Field

from wordle_rl.config.base import ConfigError, Count, Section
from wordle_rl.config.model import GameSettings
from wordle_rl.import_paths import resolve
from wordle_rl.words.split import SplitName


class TeacherSettings(Section):
    """The teacher, and how the solver deviates from best play. Rates are chances per turn unless stated otherwise."""

    name: str = "solver"
    """`solver`, or your own teacher as `module:attribute`: a function from boards to guesses or replies, or a class
    that takes the word list and a seed (see `wordle_rl.policy.scripted.OwnSampler`). Its games are checked like
    those of traces.file. The other settings of this section, and pseudo_rate, invented_rate, slip_rate
    and narrate, are for the solver only."""
    opener: str | None = None
    """First guess of most games. None: the most informative answer."""
    random_opener_rate: float = Field(0.5, ge=0, le=1)
    """Chance per game to open with a random answer instead."""
    noise_rate: float = Field(0.25, ge=0, le=1)
    """Chance per turn of a random word that is still possible, instead of the best one."""
    plan: Literal["classes", "probes", "tree"] = "classes"
    """Best play. `classes`: the possible answer that splits the others into the most classes. `probes`: the same, but a
    word that cannot be the secret if it makes at least two more classes. `tree`: the opener's exact strategy tree, and
    `classes` on boards outside it."""

    def check(self) -> None:
        """Check that an own teacher can be imported, and that no setting of the solver is set for it."""
        if self.is_own:
            if ":" not in self.name:
                raise ValueError(f"name {self.name!r} is neither solver nor an import path (module:attribute)")
            resolve(self.name, "name", ValueError)
            if of_solver := _changed(self, except_for={"name"}):
                raise ValueError(f"{of_solver[0]} is for the solver, not for name {self.name!r}; remove it")

    @property
    def is_own(self) -> bool:
        """True if the teacher is user code."""
        return self.name != "solver"


class TraceSettings(Section):
    """Teacher games to make."""

    file: Annotated[Path | None, tyro.conf.Suppress] = None  # of a run; `traces` writes such files
    """Learn from existing games instead of new ones: a file of `wordle-rl traces`, a directory of wordle_data_WORD.csv,
    or your own conversations, learnt word for word (rows of `messages` or of `instruction, output`; JSON lines, CSV,
    parquet, or a hub data set OWNER/NAME). Left out and counted are games of secrets that may not be taught or with
    other marks than by the run's rules, and conversations with a reply that holds no listed guess. Games of another
    teacher than the solver also pass the checks of `wordle-rl dataset`. Games of validation secrets give the validation
    loss of SFT. Of the other settings here, num_games, checked, drop_duplicates and rl_only_fraction
    apply."""
    checked: Annotated[bool, tyro.conf.Suppress] = True
    """False, with a `file` of conversations: learn any chat, such as "the sky is blue", though no reply holds a guess.
    Rows that name a held-out secret or a strict word are still left out; other mentions of held-out words pass."""
    drop_duplicates: Annotated[bool, tyro.conf.Suppress] = False
    """Learn a game of `file`, or of a teacher of your own, once: not again by the same secret and turns, nor a
    conversation by the same messages. Duplicates are always counted."""
    num_games: int = Field(100_000, ge=1, le=100_000_000)
    """Games to play; with `file`, games to take at most."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Fraction of games whose secret is a listed word outside the answers, so held-out answers stay possible. 0 with
    `narrate`, since thoughts such as "only essay fits" would be false."""
    pseudo_rate: float = Field(0.0, ge=0, le=1)
    """Fraction of games whose secret is a letter string that earns the marks of an answer until it is guessed. Every
    answer is shown equally often, held-out ones too, strict ones never, so its wins count as coverage. If no such
    string exists, the secret is a listed word outside the answers. 0 with `narrate`."""
    invented_rate: float = Field(0.0, ge=0, le=1)
    """Fraction of games with an invented secret, whose letters follow each other as in listed words. The teacher
    guesses it once no answer fits, so the policy learns to spell what the marks say."""
    rl_only_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of the training secrets kept out of teacher games. Learning by play then trains only on these."""
    slip_rate: float = Field(0.0, ge=0, lt=1)
    """Chance, after the first turn, of a misspelt word before the teacher's. It is refused and costs the turn; only the
    correct word after it is trained on."""
    narrate: bool = False
    """Write the teacher's thinking into every turn."""
    teacher: TeacherSettings = TeacherSettings()
    """How the solver teacher plays."""

    def check(self) -> None:
        """Check the rates, and that settings of the solver teacher are not set for another one."""
        own = _changed(self, except_for={"num_games", "outside_rate", "rl_only_fraction", "teacher", "drop_duplicates"})
        if self.teacher.is_own and own:
            raise ValueError(f"traces.{own[0]} is not for traces.teacher.name {self.teacher.name!r}; remove it")
        if not self.checked and self.file is None:
            raise ValueError("traces.checked = false is for conversations of traces.file; name a file, or remove it")
        if self.drop_duplicates and self.file is None and not self.teacher.is_own:
            raise ValueError("traces.drop_duplicates is for games of traces.file or of a teacher of yours; remove it")
        rates = {"outside": self.outside_rate, "pseudo": self.pseudo_rate, "invented": self.invented_rate}
        if sum(rates.values()) > 1 + 1e-9:
            given = ", ".join(f"traces.{name}_rate {rate}" for name, rate in rates.items() if rate)
            raise ValueError(f"{given} add up to more than 1; lower one")


def _changed(section: Section, *, except_for: Collection[str]) -> list[str]:
    fields = type(section).model_fields.items()
    return [name for name, field in fields if name not in except_for and getattr(section, name) != field.default]


class ServedName(NamedTuple):
    """A model behind an endpoint: the name to show, and the name to request."""

    alias: str
    model: str


def served_name(name: str) -> ServedName:
    """Parse `ALIAS=MODEL`. A name without an alias is its own alias.

    Examples:
        >>> served_name("mine=runs/quickstart/grpo")
        ServedName(alias='mine', model='runs/quickstart/grpo')
        >>> served_name("gpt-5").alias
        'gpt-5'
    """
    alias, equals, model = name.partition("=")
    if not equals:
        return ServedName(name, name)
    if not alias or not model:
        raise ConfigError(f"{name!r} is incomplete; give ALIAS=MODEL, or MODEL alone")
    return ServedName(alias, model)


class LLMTeacherSettings(Section):
    """A language model as teacher, behind an OpenAI-compatible endpoint."""

    provider: Annotated[str | None, tyro.conf.arg(aliases=["--base-url"])] = None
    """`together`, `fireworks`, `openai`, `local` (http://localhost:8000/v1), or a URL. Default: local."""
    model: str = ""
    """Model name at the endpoint. `ALIAS=MODEL` requests MODEL and stores ALIAS as the teacher's name."""
    split: SplitName = "train"
    """Part of the split whose secrets to play."""
    max_secrets: int = Field(0, ge=0)
    """Play at most this many secrets. 0: all."""
    games_per_word: Count = Field(1, ge=1)
    """Games per secret, with the seeds SEED, SEED + 1 and so on."""
    allow_test_secrets: bool = False
    """Also play test secrets. You may look at these games, but nothing trains on them."""
    max_concurrent: int = Field(16, ge=1)
    """Games in play at once."""
    temperature: float | None = Field(None, ge=0)
    """Sampling temperature; 0 is greedy. Default: the endpoint's."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling. Default: the endpoint's."""
    send_seed: bool = False
    """Send each game's seed with its requests. Not every endpoint accepts one."""
    max_completion_tokens: int = Field(4096, ge=1)
    """Token limit of a completion, reasoning included."""
    timeout_s: float = Field(300.0, gt=0)
    """Time limit of one request, in seconds."""
    game_timeout_s: float = Field(1800.0, gt=0)
    """Time limit of one game, pauses included, in seconds."""
    max_retries: int = Field(6, ge=0)
    """Retries of a request after rate limits, timeouts and server errors, with growing pauses."""
    max_failures: int = Field(20, ge=1)
    """Stop after this many failed games in a row."""
    budget_tokens: int = Field(0, ge=0)
    """Token budget of these games, prompts included. 0: no limit. Tokens that the file of --out already records for the
    same games (secrets, seeds, model) count too, so raise the budget to resume. Games cut off by a budget are neither
    stored nor counted."""
    budget_money: float = Field(0.0, ge=0)
    """Budget in money, in the currency of the prices. 0: no limit."""
    price_in: float | None = Field(None, ge=0)
    """Price per million prompt tokens."""
    price_out: float | None = Field(None, ge=0)
    """Price per million completion tokens."""
    game: GameSettings = GameSettings()
    """Rules and wording."""

    def check(self) -> None:
        """Check that prices come in pairs, and that a money budget has prices."""
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out belong together; give both or neither")
        if self.budget_money and self.price_in is None:
            raise ValueError("budget_money needs price_in and price_out, per million tokens")
