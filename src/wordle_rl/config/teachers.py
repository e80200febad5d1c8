"""Teachers: the solver and language models."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from wordle_rl.config.base import Count, Section
from wordle_rl.config.model import GameSettings
from wordle_rl.split import SplitName


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
    reveal_rate: float = Field(0.0, ge=0, le=1)
    """In games whose secret is outside the answers, a word after which few answers are left, rather those shown least
    so far; the teacher disowns it."""
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

    file: Path | None = None
    """Teach from the games of this file of `wordle-rl traces`, any teacher's, or directory of wordle_data_WORD.csv,
    instead of the solver's. Left out are games of secrets not to be taught, games that do not come out as told by the
    rules of the run, and, the solver's apart, what `wordle-rl dataset` would leave out, lost games among it; the
    solver's are learnt from lost ones too. Of the settings here `num_games` and `rl_only_share` still count."""
    num_games: int = Field(100_000, ge=1, le=100_000_000)
    """Games to play; of `file`, the most to take."""
    outside_rate: float = Field(0.5, ge=0, le=1)
    """Share of games whose secret is a listed word outside the answers. They keep held-out answers possible."""
    outside_choice: int = Field(1, ge=1, le=1000)
    """So many of these games are played for each that is kept: the one that shows the answers shown least so far."""
    rl_only_share: float = Field(0.0, ge=0, lt=1)
    """Share of the training secrets that no teacher game has as its secret. Learning by play then trains on these,
    where there still is something to find out."""
    slip_rate: float = Field(0.0, ge=0, lt=1)
    """Chance, after the first turn, that a misspelt word comes before the teacher's: it is refused, costs the turn and
    is not learnt; what is learnt is to mend it."""
    narrate: bool = False
    """Write the teacher's thinking into every turn."""
    teacher: TeacherSettings = TeacherSettings()
    """The solver teacher's play."""


class LLMTeacherSettings(Section):
    """A language model as teacher, behind any OpenAI-compatible endpoint."""

    provider: str | None = None
    """`together`, `fireworks`, `openai`, `local` (http://localhost:8000/v1), or an address; left out: local."""
    model: str = ""
    """Model name as the endpoint knows it."""
    split: SplitName = "train"
    """Which secrets to play."""
    words_file: Path | None = None
    """Play the words of this file instead of a part of the split, one a line."""
    max_secrets: int = Field(0, ge=0)
    """Play only the first so many of them; 0: all."""
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
    """Tokens these games may use, prompts included; no request is sent once they are used up; 0: no bound. What the
    file of --out holds of the same games (secrets, seeds, model) counts, failed ones too: raise it to go on. Games cut
    off at its end are not in the file and do not count."""
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
