"""Make players by name: `solver`, a model or run directory, `openai:MODEL`, `module:attribute`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from wordle_rl.chat.codec import unwritable
from wordle_rl.config.base import ConfigError, check_seed
from wordle_rl.config.context import GameContext
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.teachers import served_name
from wordle_rl.config.training import SamplingSettings, check_vllm_temperature
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.import_paths import resolve
from wordle_rl.policy.base import Sampler, find_backend
from wordle_rl.policy.constrain import MakeConstraint, WordConstraint, make_constraint
from wordle_rl.policy.directory import (
    at_directory,
    find_model,
    game_of,
    is_converted,
    is_hub_name,
    is_model,
    run_around,
    settings_of,
)
from wordle_rl.policy.providers import find_endpoint
from wordle_rl.policy.scripted import (
    PLAYER_NAMES,
    ConsistentSampler,
    OwnSampler,
    RandomSampler,
    SolverSampler,
    is_own_player,
)
from wordle_rl.prompt import Prompter
from wordle_rl.runs import is_run, stages_at, trained_model
from wordle_rl.runs.checksums import check_sealed
from wordle_rl.runs.lineage import lineage_of
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, WordListError, load_words

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from wordle_rl.chat.codec import ChatCodec
    from wordle_rl.policy.transformers import TransformersSampler


@dataclass(frozen=True)
class Player:
    """A sampler, the prompts it understands, and its name."""

    label: str
    sampler: Sampler
    prompter: Prompter


def _find_player(name: str) -> Path:
    if not Path(name).is_dir() and not is_hub_name(name) and not is_converted(name):
        raise ConfigError(
            f"no model or run directory {name!r}; other players are bundled, solver, consistent, random and "
            "openai:MODEL, your own as module:attribute, and human for `wordle-rl play` alone"
        )
    return find_model(Path(name))


def _described_in(player: str) -> Path | None:
    """Return the model directory that says how a player was trained to play, None if none is here.

    That of a model, and for `openai:MODEL` one that MODEL or its alias names: a server knows nothing of wordings.
    """
    if is_model(player):
        return _find_player(player)
    if not player.startswith("openai:"):
        return None
    served = served_name(player.removeprefix("openai:"))
    models = (trained_model(Path(name)) for name in (served.model, served.alias) if Path(name).is_dir())
    return next((model for model in models if model is not None and lineage_of(model) is not None), None)


def words_of(player: str, source: str | None = None) -> WordSettings:
    """Return the word list and split of a player's training, or the defaults. `source` replaces its own word list."""
    lineage, run = None, None
    if (model := _described_in(player)) is not None:
        lineage, run = lineage_of(model), run_around(model)
    if lineage is None:
        known = run.words if run is not None else WordSettings()
    else:
        lesson = lineage.lessons[-1]
        known = lesson.settings
        if source is None:
            try:
                lesson.secrets()
            except WordListError as error:
                raise ConfigError(f"{player} was trained on words that are not here ({error}); give --words") from None
    return known if source is None else known.model_copy(update={"source": source})


def reply_bound(player: str, asked: int | None) -> int:
    """Return the token limit of a reply: `asked`, else that of the model's run, else the default."""
    if asked is not None:
        return asked
    model = _described_in(player)
    run = run_around(model) if model is not None else None
    return (run if run is not None else RunConfig()).max_completion_tokens


def find_player(player: PlayerSpec, dtype: Literal["auto", "float32", "bfloat16"] | None = None) -> PlayerSpec:
    """Return a player with the name it is known by and, for a model here, the settings to load it.

    Args:
        player: Its name is `bundled`, `solver`, `consistent`, `random`, `openai:MODEL` or `openai:ALIAS=MODEL`, a model
            or run directory, USER/NAME of the hub, or your own player as `module:attribute` (see `OwnSampler`).
        dtype: Type of a local model's weights. None: see `settings_of`.

    Raises:
        ConfigError: If nobody has this name, or the player cannot play as asked.
    """
    check_seed(player.seed)
    name, here = player.name, is_model(player.name)
    if player.constrain == "words" and not here:
        raise ConfigError(f"--constrain words needs a model directory; {name} samples no tokens here")
    if dtype is not None and (player.engine != "transformers" or not here):
        raise ConfigError(f"--dtype {dtype} is for a model that transformers plays; leave it out")
    if player.engine != "transformers" and not here:
        raise ConfigError(f"--engine {player.engine} plays a model directory; leave it out for {name}")
    if player.base_url is not None and not player.is_served:
        raise ConfigError(f"--base-url is the address of an endpoint; leave it out for {name}, or name openai:MODEL")
    if player.endpoint_default_sampling and not player.is_served:
        raise ConfigError(f"--temperature None is for openai:MODEL; give {name} a number, 0 is greedy")
    if player.patience.max_minutes and not player.is_served:
        raise ConfigError("--max-minutes limits the games of an endpoint; for a player on this machine use --max-games")
    if is_own_player(name):
        resolve(name, "player", ConfigError)
    if not here:
        return player
    directory = _find_player(name)
    model = settings_of(directory)
    if dtype is not None:
        model = model.model_copy(update={"dtype": dtype})
    # The name of a hub model or a file says more than the directory that it was brought to.
    return replace(player, name=name if is_hub_name(name) or is_converted(name) else str(directory), model=model)


def game_for(player: str, asked: Mapping[str, Any]) -> GameSettings | None:
    """Lay the game settings asked for (not None) over those of the player's model; None if there are none."""
    update = {name: value for name, value in asked.items() if value is not None}
    if player == "solver" and update.get("hard_mode"):
        raise ConfigError("the solver does not keep to hard mode: its best guess may leave out a hint; name a model")
    if not update:
        return None
    model = _described_in(player)
    own = game_of(model) if model is not None else None
    return (own or GameSettings()).model_copy(update=update)


def prompter_of(player: PlayerSpec, word_length: int, game: GameSettings | None = None) -> Prompter:
    """Return rules and wording of a player: `game`, else those stored with its model, else the defaults."""
    model = _described_in(player.name) if game is None else None
    own = game_of(model) if model is not None else game
    return (own or GameSettings()).prompter(word_length)


def make_player(player: PlayerSpec, words: WordList, solver: Solver, game: GameSettings | None = None) -> Player:
    """Find a player and make its sampler; `game` replaces the rules and wording of its own."""
    found = find_player(player)
    prompter = prompter_of(found, words.word_length, game)
    return Player(found.name, make_sampler(found, words, prompter, solver, found.seed), prompter)


@contextmanager
def open_player(asked: Asked, seed: int) -> Iterator[tuple[Sampler, int | None]]:
    """Open the player that is asked, for `evaluate`, with draws of this seed."""
    # No limit on the prompt: a game cut off by one would count as a loss.
    context = asked.context
    sampler = make_sampler(asked.player, context.words, context.prompter, context.solver, seed)
    try:
        yield sampler, None
    finally:
        if (close := getattr(sampler, "close", None)) is not None:  # it holds something large, such as an engine
            close()


def make_sampler(player: PlayerSpec, words: WordList, prompter: Prompter, solver: Solver, seed: int) -> Sampler:
    """Make the sampler of a player that was found, with draws of this seed."""
    if player.model is not None:
        return _model_sampler(player, words, prompter, seed)
    if player.name == "random":
        return RandomSampler(words, prompter, seed)
    if player.name in PLAYER_NAMES:
        return (SolverSampler if player.name == "solver" else ConsistentSampler)(solver, prompter, seed)
    if not player.is_served:
        return OwnSampler(player.name, "player", words, prompter, seed)
    try:
        from wordle_rl.policy.openai import OpenAISampler
    except ModuleNotFoundError:
        raise ConfigError('this player needs the openai package: pip install "wordle-rl[openai]"') from None
    return OpenAISampler(
        find_endpoint(player.base_url or "openai", Path.cwd(), with_user=True),
        served_name(player.name.removeprefix("openai:")).model,
        player.sampling,
        player.patience,
        prompter.thinking,
        endpoint_default_sampling=player.endpoint_default_sampling,
    )


def notes_on(name: str, prompter: Prompter, *, asked: bool = False) -> Iterator[str]:
    """Yield what a user may not expect of a model: an earlier stage of its run plays, or its wording is a guess.

    `asked`: the user named a wording.
    """
    if not is_model(name):
        if not asked and (described := _described_in(name)) is not None:
            yield f"asked in the wording of {described}"
        return
    directory, run = _find_player(name), Path(name)
    if is_run(run) and (last := stages_at(run)[-1]) != directory.name:
        yield f"{run} has no model of {last} yet; {directory} plays"
    if game_of(directory) is None and not asked:
        yield (
            f"{name} does not say how it was trained to play; it is asked with style {prompter.style}, shape "
            f"{prompter.shape} and thinking {prompter.thinking}, and loses games if it needs others"
        )


def shown_name(name: str) -> str:
    """Return a player's name for tables: the alias of an endpoint's model, else the last part of its path."""
    if name.startswith("openai:") and "=" in name:
        return served_name(name.removeprefix("openai:")).alias
    return Path(name).name


def _model_sampler(player: PlayerSpec, words: WordList, prompter: Prompter, seed: int) -> Sampler:
    # A local model by transformers, vLLM, or a backend such as MLX.
    model, sampling, seeds = player.model, player.sampling, (player.seed, seed)
    assert model is not None

    def constraint_of(codec: ChatCodec) -> WordConstraint | None:
        _check_readable(prompter, codec)
        return make_constraint(words, prompter, codec) if player.constrain == "words" else None

    if player.engine == "mlx":
        played: Sampler = find_backend("mlx").make_sampler(model, sampling, seeds, constraint_of)
        return played
    if player.engine == "transformers":
        return _own_sampler(model, sampling, seeds, constraint_of)
    with _needing_torch():
        from wordle_rl.policy.adapters import is_adapter
        from wordle_rl.policy.loading import load_codec
        from wordle_rl.policy.vllm import check_vllm, make_engine
        from wordle_rl.policy.whole_models import merge
    check_vllm('engine "vllm"')
    check_vllm_temperature(sampling.temperature, "temperature")
    codec = load_codec(model)
    constraint = constraint_of(codec)
    directory = Path(at_directory(model).path)
    check_sealed(directory)
    with TemporaryDirectory() as kept:  # the engine reads its weights while it is made
        if is_adapter(directory):
            merge(directory, Path(kept) / "merged")
            directory = Path(kept) / "merged"
        return make_engine(directory, codec, sampling, constraint, seed)


def _own_sampler(
    model: ModelSettings,
    sampling: SamplingSettings,
    seeds: tuple[int, int],
    constraint_of: MakeConstraint,
) -> TransformersSampler:
    with _needing_torch():
        from wordle_rl.policy.device import autocasts_to_bf16, device_kind
        from wordle_rl.policy.loading import load_model
        from wordle_rl.policy.transformers import TransformersSampler
    if model.dtype == "auto" and device_kind() == "cpu" and not autocasts_to_bf16():
        model = model.model_copy(update={"dtype": "float32"})  # these CPUs emulate 16 bits, several times slower
    loaded, codec = load_model(model, seeds[0])
    return TransformersSampler(loaded, codec, sampling, seeds[1], constraint_of(codec))


def _check_readable(prompter: Prompter, codec: ChatCodec) -> None:
    if prompter.system_prompt and (missing := unwritable(codec, prompter.system_text)):
        parts = ", ".join(missing)
        raise ConfigError(f"the model's tokenizer has no tokens for {parts} in the system prompt; leave that out")


@contextmanager
def _needing_torch() -> Iterator[None]:
    # The first import of torch and transformers makes a million objects that stay. Searching them for garbage again and
    # again would take a sixth of the time until the first guess, so the collector is off, and never looks at them.
    first = "torch" not in sys.modules and gc.isenabled()
    if first:
        gc.disable()
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f'this player needs {error.name}: pip install "wordle-rl[train]"') from None
    finally:
        if first:
            gc.freeze()
            gc.enable()


@dataclass(frozen=True)
class OpenModel:
    """A loaded model and what belongs to it, for programs that play or train it themselves.

    `context` holds words, split and wording of its training; `sampler` samples from the current weights.
    """

    model: PreTrainedModel
    codec: ChatCodec
    context: GameContext
    sampler: TransformersSampler


def open_model(path: str | Path, *, temperature: float = 1.0, seed: int = 0) -> OpenModel:
    """Open a model or run directory with the wording, words and split of its training, or with the defaults."""
    path = Path(path)
    known = words_of(str(path))
    words = load_words(known.source)
    directory = find_model(path)
    prompter = (game_of(directory) or GameSettings()).prompter(words.word_length)
    sampling = SamplingSettings(temperature=temperature, max_completion_tokens=reply_bound(str(path), None))
    model, seeds = settings_of(directory), (seed, seed)
    sampler = _own_sampler(model, sampling, seeds, lambda codec: _check_readable(prompter, codec))
    context = GameContext(words, known.split_of(words), prompter, Solver(words))
    return OpenModel(sampler.model, sampler.codec, context, sampler)
