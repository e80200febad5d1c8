"""Make players by name: `solver`, a model or run directory, `openai:MODEL`, `module:attribute`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from wordle_rl.chat.codec import unwritable
from wordle_rl.config.base import ConfigError, check_seed
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import EngineName, PatienceSettings
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.teachers import served_name
from wordle_rl.config.training import SamplingSettings, check_vllm_temperature
from wordle_rl.policy.base import MakeConstraint, Sampler, check_vllm, find_backend
from wordle_rl.policy.constrain import WordConstraint, make_constraint
from wordle_rl.policy.directory import find_model, game_of, is_hub_name, is_model, run_around, settings_of
from wordle_rl.policy.gguf import at_directory, is_converted
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
from wordle_rl.runs import is_run, stages_at
from wordle_rl.runs.lineage import lineage_of
from wordle_rl.runs.seal import check_sealed
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, WordListError, load_words

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from wordle_rl.chat.codec import ChatCodec
    from wordle_rl.policy.transformers import TransformersSampler


@dataclass(frozen=True)
class Player:
    """A sampler, the prompts it understands, and its name; `note` is a line on how it plays, for people."""

    label: str
    sampler: Sampler
    prompter: Prompter
    note: str = ""


def _find_player(name: str) -> Path:
    if not Path(name).is_dir() and not is_hub_name(name) and not is_converted(name):
        raise ConfigError(
            f"no model or run directory {name!r}; other players are bundled, solver, consistent, random and "
            "openai:MODEL, your own as module:attribute, and human for `wordle-rl play` alone"
        )
    return find_model(Path(name))


def words_of(player: str, source: str | None = None) -> WordSettings:
    """Return the word list and split of a player's training, or the defaults. `source` replaces its own word list."""
    lineage, run = None, None
    if is_model(player):
        model = _find_player(player)
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
    run = run_around(_find_player(player)) if is_model(player) else None
    return (run if run is not None else RunConfig()).max_completion_tokens


def make_player(
    name: str,
    words: WordList,
    game: GameSettings | None,
    sampling: SamplingSettings,
    *,
    solver: Solver,
    base_url: str | None = None,
    endpoint_default_sampling: bool = False,
    patience: PatienceSettings | None = None,
    seed: int = 0,
    engine: EngineName = "transformers",
    constrained: bool = False,
    dtype: Literal["auto", "float32", "bfloat16"] | None = None,
) -> Player:
    """Make a player.

    Args:
        name: `bundled`, `solver`, `consistent`, `random`, `openai:MODEL` or `openai:ALIAS=MODEL`, a model or run
            directory, USER/NAME of the hub, or your own player as `module:attribute` (see `OwnSampler`).
        game: Rules and wording. None: those stored with the model, else the defaults.
        base_url: URL of an OpenAI-compatible endpoint, or a provider's name. None: OpenAI.
        endpoint_default_sampling: Let the endpoint choose temperature and top_p.
        constrained: Limit a model's guesses to listed words.
        dtype: Type of a local model's weights. None: see `settings_of`.
    """
    check_seed(seed)
    if constrained:
        check_constrainable(name)
    if dtype is not None and (engine != "transformers" or not is_model(name)):
        raise ConfigError(f"--dtype {dtype} is for a model that transformers plays; leave it out")
    if endpoint_default_sampling and not name.startswith("openai:"):
        raise ConfigError(f"--temperature None is for openai:MODEL; give {name} a number, 0 is greedy")
    if name in PLAYER_NAMES or name.startswith("openai:") or is_own_player(name):
        prompter = (game or GameSettings()).prompter(words.word_length)
        if name == "random":
            return Player(name, RandomSampler(words, prompter, seed), prompter)
        if name in PLAYER_NAMES:
            sampler = (SolverSampler if name == "solver" else ConsistentSampler)(solver, prompter, seed)
            return Player(name, sampler, prompter)
        if is_own_player(name):
            return Player(name, OwnSampler(name, "player", words, prompter, seed), prompter)
        try:
            from wordle_rl.policy.openai import OpenAISampler
        except ModuleNotFoundError:
            raise ConfigError('this player needs the openai package: pip install "wordle-rl[openai]"') from None
        asked = OpenAISampler(
            find_endpoint(base_url or "openai", Path.cwd(), with_user=True),
            served_name(name.removeprefix("openai:")).model,
            sampling,
            patience or PatienceSettings(),
            prompter.thinking,
            endpoint_default_sampling=endpoint_default_sampling,
        )
        return Player(name, asked, prompter, asked.whose_sampling)
    directory = _find_player(name)
    prompter = (game or game_of(directory) or GameSettings()).prompter(words.word_length)
    model = settings_of(directory)
    if dtype is not None:
        model = model.model_copy(update={"dtype": dtype})
    model_player = model_sampler(model, words, prompter, sampling, seed, engine, constrained=constrained)
    label = name if is_hub_name(name) or is_converted(name) else str(directory)
    return Player(label, model_player, prompter)


def notes_on(name: str, prompter: Prompter, *, asked: bool = False) -> Iterator[str]:
    """Yield what a user may not expect of a model: an earlier stage of its run plays, or its wording is a guess.

    `asked`: the user named a wording.
    """
    if not is_model(name):
        return
    directory, run = _find_player(name), Path(name)
    if is_run(run) and (last := stages_at(run)[-1]) != directory.name:
        yield f"{run} has no model of {last} yet; {directory} plays"
    if game_of(directory) is None and not asked:
        yield (
            f"{name} does not say how it was trained to play; it is asked with style {prompter.style}, shape "
            f"{prompter.shape} and thinking {prompter.thinking}, and loses games if it needs others"
        )


def check_constrainable(name: str) -> None:
    """Check that a player's tokens are sampled here, so that its guesses can be limited."""
    if not is_model(name):
        raise ConfigError(f"--constrain words needs a model directory; {name} samples no tokens here")


def shown_name(name: str) -> str:
    """Return a player's name for tables: the alias of an endpoint's model, else the last part of its path."""
    if name.startswith("openai:") and "=" in name:
        return served_name(name.removeprefix("openai:")).alias
    return Path(name).name


def model_sampler(
    model: ModelSettings,
    words: WordList,
    prompter: Prompter,
    sampling: SamplingSettings,
    seed: int,
    engine: EngineName,
    *,
    constrained: bool = False,
) -> Sampler:
    """Make a sampler of a local model with transformers, vLLM, or a backend such as MLX."""

    def constraint_of(codec: ChatCodec) -> WordConstraint | None:
        _check_readable(prompter, codec)
        return make_constraint(words, prompter, codec) if constrained else None

    if engine == "mlx":
        return find_backend(engine).make_sampler(model, sampling, seed, constraint_of)
    if engine == "transformers":
        return _own_sampler(model, sampling, seed, constraint_of)
    with _needing_torch():
        from wordle_rl.policy.adapters import is_adapter
        from wordle_rl.policy.export import merge
        from wordle_rl.policy.loading import load_codec
        from wordle_rl.policy.vllm import make_engine
    check_vllm('engine "vllm"')
    check_vllm_temperature(sampling.temperature, "temperature")
    codec, _ = load_codec(model)
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
    seed: int,
    constraint_of: MakeConstraint,
) -> TransformersSampler:
    with _needing_torch():
        from wordle_rl.policy.device import autocasts_to_bf16, device_kind
        from wordle_rl.policy.loading import load_model
        from wordle_rl.policy.transformers import TransformersSampler
    if model.dtype == "auto" and device_kind() == "cpu" and not autocasts_to_bf16():
        model = model.model_copy(update={"dtype": "float32"})  # these CPUs emulate 16 bits, several times slower
    loaded, codec = load_model(model, seed)
    return TransformersSampler(loaded, codec, sampling, seed, constraint_of(codec))


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


def open_model(path: Path, *, temperature: float = 1.0, seed: int = 0) -> OpenModel:
    """Open a model or run directory with the wording, words and split of its training, or with the defaults."""
    known = words_of(str(path))
    words = load_words(known.source)
    directory = find_model(path)
    prompter = (game_of(directory) or GameSettings()).prompter(words.word_length)
    sampling = SamplingSettings(temperature=temperature, max_completion_tokens=reply_bound(str(path), None))
    sampler = _own_sampler(settings_of(directory), sampling, seed, lambda codec: _check_readable(prompter, codec))
    context = GameContext(words, known.split_of(words), prompter, Solver(words))
    return OpenModel(sampler.model, sampler.codec, context, sampler)
