"""Teachers: the solver and language models."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from wordle_rl.config.base import ConfigError, Count, Section
from wordle_rl.config.model import GameSettings
from wordle_rl.import_paths import resolve
from wordle_rl.words.split import SplitName


class TeacherSettings(Section):
    """The teacher, and deviations of the solver's games from best play. Rates are chances per turn unless stated
    otherwise.
    """

    name: str = "solver"
    """`solver`, or `module:attribute`, a teacher of your own: a function from boards to guesses or replies, or a class
    that is made with the word list and a seed, see `wordle_rl.samplers.simple.OwnSampler`. Its games go through the
    same checks as those of a file (`traces.file`); what else is here, and `pseudo_secrets`, `invented_rate`,
    `slip_rate` and `narrate`, are the solver's."""
    opener: str | None = None
    """First guess of most games; None: the most informative answer."""
    random_opener_rate: float = Field(0.5, ge=0, le=1)
    """Chance per game that a random answer opens it."""
    noise_rate: float = Field(0.25, ge=0, le=1)
    """Chance of a random word that is still possible, instead of the best one."""
    plan: Literal["classes", "probes", "tree"] = "classes"
    """Best play: `classes`, the answer that splits those still possible into the most classes; `probes`, the same, but
    a word that cannot be the secret where it makes at least two classes more; `tree`, the solver's exact tree of the
    opener, and on boards that it does not come to as with `classes`."""

    def check(self) -> None:
        """Refuse a teacher that cannot be had, and how it should play."""
        if self.is_own:
            if ":" not in self.name:
                raise ValueError(f"name {self.name!r} is neither solver nor an import path (module:attribute)")
            resolve(self.name, "name", ValueError)
            if of_solver := _changed(self, except_for={"name"}):
                raise ValueError(f"{of_solver[0]} is for the solver, not for name {self.name!r}; leave it out")

    @property
    def is_own(self) -> bool:
        """True if a teacher from outside the package plays."""
        return self.name != "solver"


class TraceSettings(Section):
    """Teacher games to make."""

    file: Path | None = None
    """Learn from the games of this file of `wordle-rl traces`, or of this directory of wordle_data_WORD.csv, instead of
    playing new ones; or from conversations of your own, rows of `messages` or of `instruction, output` (JSON lines,
    CSV, parquet, or a data set of the hub as OWNER/NAME), word for word. Left out are games whose secret may not be
    taught, games that come out differently when played again by the rules of the run, and conversations with a reply
    that holds no listed guess. Games that the solver did not play are also left out for the reasons of `wordle-rl
    dataset`, such as being lost. Games of validation secrets give the validation loss of SFT. Of the settings here,
    only `num_games`, `rl_only_fraction` and `spelling` still apply."""
    num_games: int = Field(100_000, ge=1, le=100_000_000)
    """Games to play; of `file`, the most to take."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Fraction of games whose secret is a listed word outside the answers. They keep held-out answers possible. With
    `narrate` there are none, since thoughts such as "only essay fits" would be false in them."""
    pseudo_secrets: bool = False
    """In place of listed words the secrets outside the answers are letters, mostly no word, that earn the marks of an
    answer until it is named, and not then. Each answer is shown equally often so, held-out ones too, strict ones
    never; its wins are then coverage. Where there are no such letters a listed word is the secret."""
    invented_rate: float = Field(0.0, ge=0, le=1)
    """Fraction of games whose secret is an invented word: no listed one, of letters that follow each other as in the
    list. It is named once no answer fits the board, so that a policy learns to spell what the marks say where it knows
    no word."""
    rl_only_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of the training secrets that no teacher game has as its secret. Learning by play then trains on these
    alone, since no teacher game of theirs was trained on."""
    slip_rate: float = Field(0.0, ge=0, lt=1)
    """Chance, after the first turn, that a misspelt word comes before the teacher's: it is refused, costs the turn and
    is not trained on; the correct word after it is."""
    narrate: bool = False
    """Write the teacher's thinking into every turn."""
    spelling: float = Field(0.0, ge=0, le=100)
    """Mix spelling lessons into the games of SFT: each listed word this many times as `Spell crane.`, answered by `c r
    a n e`, and as often the other way; 0.5: half of the lessons. For models whose tokens are pieces of words. No strict
    word is named, every other listed word is."""
    teacher: TeacherSettings = TeacherSettings()
    """The solver teacher's play."""

    def check(self) -> None:
        """Refuse rates that add up to more than 1, and what only the solver teacher follows, from another one."""
        own = _changed(self, except_for={"num_games", "outside_rate", "rl_only_fraction", "teacher"})
        if self.teacher.is_own and own:
            raise ValueError(f"traces.{own[0]} is not for traces.teacher.name {self.teacher.name!r}; leave it out")
        if self.outside_rate + self.invented_rate > 1:
            raise ValueError(
                f"traces.outside_rate {self.outside_rate} and traces.invented_rate {self.invented_rate} are fractions "
                "of the same games; together they must not exceed 1"
            )


def _changed(section: Section, *, except_for: Collection[str]) -> list[str]:
    """The settings of a section that differ from their defaults."""
    fields = type(section).model_fields.items()
    return [name for name, field in fields if name not in except_for and getattr(section, name) != field.default]


class ServedName(NamedTuple):
    """A model behind an endpoint: the name it is shown under, and the one it is asked for by."""

    alias: str
    model: str


def served_name(name: str) -> ServedName:
    """Read `ALIAS=MODEL`; a name without an alias is its own.

    Raises:
        ConfigError: If one of both is empty.

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
        raise ConfigError(f"{name!r} names no model under an alias; give ALIAS=MODEL, or MODEL alone")
    return ServedName(alias, model)


class LLMTeacherSettings(Section):
    """A language model as teacher, behind any OpenAI-compatible endpoint."""

    provider: str | None = None
    """`together`, `fireworks`, `openai`, `local` (http://localhost:8000/v1), or an address; left out: local."""
    model: str = ""
    """Model name as the endpoint knows it; `ALIAS=MODEL` asks for MODEL and names the teacher ALIAS in the file."""
    split: SplitName = "train"
    """Secrets to play."""
    words_file: Path | None = None
    """Play the words of this file instead of a part of the split, one a line."""
    max_secrets: int = Field(0, ge=0)
    """Play only this many of them, from the first; 0: all."""
    games_per_word: Count = Field(1, ge=1)
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
    """Token limit of a completion, reasoning included."""
    timeout_s: float = Field(300.0, gt=0)
    """Time for one request, in seconds."""
    game_timeout_s: float = Field(1800.0, gt=0)
    """Time for one game, pauses included, in seconds."""
    max_retries: int = Field(6, ge=0)
    """Further tries of a request after rate limits, time-outs and server errors, with growing pauses."""
    max_failures: int = Field(20, ge=1)
    """Failed games in a row after which the run stops."""
    budget_tokens: int = Field(0, ge=0)
    """Tokens these games may use, prompts included; no request is sent once they are used up; 0: no bound. Tokens that
    the file of --out records for the same games (secrets, seeds, model) count, failed games included: raise the budget
    to resume. Games cut off when a budget ran out are not in the file and do not count."""
    budget_money: float = Field(0.0, ge=0)
    """Budget in money, in the currency of the prices."""
    price_in: float | None = Field(None, ge=0)
    """Price of a million prompt tokens."""
    price_out: float | None = Field(None, ge=0)
    """Price of a million completion tokens."""
    game: GameSettings = GameSettings()
    """Rules and wording."""

    def check(self) -> None:
        """Refuse half of the prices, and a budget of money without them."""
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out belong together; give both or neither")
        if self.budget_money and self.price_in is None:
            raise ValueError("budget_money needs price_in and price_out, per million tokens")
