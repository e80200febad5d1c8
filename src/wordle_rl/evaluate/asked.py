"""What an evaluation asks: who plays which games under which conditions, as one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import Constrain, EngineName, PatienceSettings
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.records import ControlFacts, EvalConditions, Evaluation
from wordle_rl.import_paths import source_mark
from wordle_rl.policy.constrain import word_beam
from wordle_rl.policy.directory import weights_mark
from wordle_rl.policy.providers import bare_address
from wordle_rl.policy.scripted import RANDOM_PLAYERS, is_own_player
from wordle_rl.words.split import SplitName


@dataclass(frozen=True)
class PlayerSpec:
    """Who plays, and how its replies are sampled.

    Attributes:
        name: `solver`, `openai:MODEL`, `module:attribute`, a model directory; see `players.find_player`.
        model: Settings to load a model on this machine; None for every other player.
        seed: Seed of what is drawn. It also decides the weights of an untrained model.
        endpoint_default_sampling: Let the endpoint choose temperature and top_p.
    """

    name: str = ""
    sampling: SamplingSettings = field(default_factory=lambda: SamplingSettings(temperature=0.0))
    seed: int = 0
    model: ModelSettings | None = None
    engine: EngineName = "transformers"
    constrain: Constrain = "none"
    base_url: str | None = None
    endpoint_default_sampling: bool = False
    patience: PatienceSettings = field(default_factory=PatienceSettings)

    @property
    def is_served(self) -> bool:
        """True for a model behind an endpoint."""
        return self.name.startswith("openai:")

    @property
    def samples_tokens(self) -> bool:
        """True for a model, here or behind an endpoint."""
        return self.is_served or self.model is not None

    @property
    def is_sampled(self) -> bool:
        """True if replies are drawn at random, so that nearly every game has an opener of its own."""
        if self.samples_tokens:
            return self.endpoint_default_sampling or self.sampling.temperature > 0
        return self.name in RANDOM_PLAYERS

    def at(self, temperature: float) -> PlayerSpec:
        """Return a copy that samples at a temperature."""
        return replace(self, sampling=self.sampling.model_copy(update={"temperature": temperature}))

    @property
    def draws(self) -> bool:
        """True if the player may play the same secret differently the next time."""
        # Your own player may draw or not; nobody but you knows.
        return self.is_sampled or is_own_player(self.name)


@dataclass(frozen=True)
class Asked:
    """All that an evaluation asks. Its `key` names everything that one of its games depends on.

    Attributes:
        context: Word list, split, wording and rules, solver.
        starts: Secret and board of each game. A repeated one is played again.
        batch_size: Most games in play at once; fewer if memory is short. None: all.
        boards: How the boards were drawn, in words; None: they are empty.
        reward: Reward preset by which games are scored; None: no score.
        regret: Measure every turn's regret.
        name: Name in tables.
        parts: Parts of the split that are played; empty for other secrets.
    """

    context: GameContext
    starts: Sequence[InitialState]
    player: PlayerSpec = field(default_factory=PlayerSpec)
    batch_size: int | None = None
    boards: str | None = None
    reward: str | None = None
    regret: bool = False
    name: str = ""
    parts: tuple[SplitName, ...] = ()
    control: ControlFacts | None = None

    @property
    def secrets(self) -> list[str]:
        """The secret of each game."""
        return [start.secret for start in self.starts]

    @property
    def conditions(self) -> EvalConditions:
        """Prompting and sampling, as the evaluation records them."""
        player = self.player
        # A seed that decides nothing would make games look different that are the same.
        asked = replace(
            EvalConditions.of(self.context.prompter), boards=self.boards, seed=player.seed if player.draws else None
        )
        if not player.samples_tokens:
            return asked
        temperature = None if player.endpoint_default_sampling else player.sampling.temperature
        engine = player.engine if player.model is not None else None
        return replace(
            asked,
            temperature=temperature,
            max_completion_tokens=player.sampling.max_completion_tokens,
            engine=engine,
            word_beam=word_beam(engine, temperature, constrained=player.constrain == "words"),
        )

    def key(self) -> dict[str, Any]:
        """Return everything that a game depends on but its secret and number, as JSON values.

        Other secrets do not change a game, so an evaluation may grow and keep the games it has. Regret is measured
        afterwards, and what is only shown (`name`, `parts`, `control`) decides nothing.
        """
        player = self.player
        if player.is_served:  # an address loses its user and query, which may be secret
            where = {"base_url": bare_address(player.base_url) if player.base_url else None}
        elif player.model is not None:
            # 16 bits can round two tokens to a tie, so the type of the weights decides games, too.
            where = {"weights": weights_mark(Path(player.model.path)), "dtype": player.model.dtype}
        else:
            where = {"weights": source_mark(player.name) if is_own_player(player.name) else None}
        return {
            "player": player.name,
            **where,
            "words": self.context.words.fingerprint,
            "reward": self.reward,
            "constrain": player.constrain,
            **asdict(self.context.prompter.rules),
            # Left out where it is False, so that the stored games of before still count.
            **{name: value for name, value in asdict(self.conditions).items() if name != "lenient" or value},
        }

    def evaluation(self, records: Iterable[GameRecord] = ()) -> Evaluation:
        """Return the evaluation that these games make."""
        return Evaluation(
            name=self.name,
            player=self.player.name,
            parts=self.parts,
            rules=self.context.prompter.rules,
            fingerprint=self.context.words.fingerprint,
            records=tuple(records),
            conditions=self.conditions,
            constrain=self.player.constrain,
            control=self.control,
            reward_preset=self.reward,
        )
