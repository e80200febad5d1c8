"""`eval`: play secrets and measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.eval_request import EvalRequest, Outputs, Source, Wording, game_for
from wordle_rl.cli.options import Address, Json, PlayersWords, Seed
from wordle_rl.config import (
    ConfigError,
    Constrain,
    EngineName,
    PatienceSettings,
    PlayerEvalSettings,
    SamplingSettings,
    check_seed,
)
from wordle_rl.evaluate import (
    ControlFacts,
    Evaluation,
    Figures,
    Journal,
    evaluate,
    evaluate_concurrently,
    journal_path,
    save_csv,
    with_regret,
)
from wordle_rl.evaluate.entropy import match_models
from wordle_rl.evaluate.players import Player, reply_bound
from wordle_rl.models.directory import is_model, weights_mark
from wordle_rl.preflight.template import check_wording
from wordle_rl.prompt import Shape, Style, Thinking, name_of
from wordle_rl.report import terminal
from wordle_rl.runs.logs import repaired
from wordle_rl.samplers.base import ConcurrentSampler
from wordle_rl.samplers.endpoint.providers import bare_address
from wordle_rl.samplers.simple import RANDOM_PLAYERS
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, SplitName


def eval_player(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])],
    words: PlayersWords = None,
    split: SplitName = "held_out",
    split_seed: int | None = None,
    out: Path | None = None,
    name: str | None = None,
    temperature: float | None = 0.0,
    constrain: Constrain = "none",
    match_entropy_of: Path | None = None,
    base_url: Address = None,
    settings: Annotated[PlayerEvalSettings, tyro.conf.arg(name="")] = PlayerEvalSettings(),
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings(),
    csv: Path | None = None,
    overwrite: bool = False,
    style: Style | None = None,
    shape: Shape | None = None,
    thinking: Thinking | None = None,
    system_prompt: str | None = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Play secrets and measure: six turns, strict dictionary, no retries.

    Args:
        player: solver, consistent, random, openai:MODEL, or a model or run directory.
        split: Which secrets to play. Of `all` with --max-games the figures are those of each part by itself.
        split_seed: Seed of the split; left out: that of the model's run, else 0.
        out: Write every game to this file (JSON), for `compare` and `report`. An existing file is replaced only if it
            holds an evaluation of the same player under the same conditions, on the same secrets or fewer. Finished
            games are stored beside it as they end (.games.jsonl), sampled ones a batch at a time, and the same command
            continues with what is missing. Once the file is written the stored games are removed; those of an endpoint
            stay, so that only games that were errors are played again.
        name: What to call the player in tables.
        temperature: 0 is greedy. None sends an endpoint neither temperature nor top_p, since OpenAI's reasoning models
            accept none but their defaults.
        constrain: `words` limits a model's guesses to listed words; such results are kept apart from all others.
        match_entropy_of: Draw the player at the temperature at which its games are as random as this model's at
            temperature 1, or at --temperature: a control for a gain in sampled play. It is found by bisection over
            games of validation secrets.
        csv: Write a row per game to this file, unless it holds something else.
        overwrite: Discard games played before, and replace whatever --out names.
        style: Wording; left out: the model's own, else english.
        shape: Conversation shape; left out: the model's own, else transcript.
        thinking: Left out: the model's own, else optional.
        system_prompt: Text in place of the style's own rules; {word_length}, {max_turns} and {example}, a
            well-formed reply, are filled in. Empty: no system message. Left out: the model's own, else the style's.
    """
    sampling = SamplingSettings(
        temperature=0.0 if temperature is None else temperature,
        max_completion_tokens=reply_bound(player, settings.max_completion_tokens),
        max_batch_size=settings.max_batch_size,
    )
    wording = Wording(style, shape, thinking, system_prompt)
    source = Source(player, words, split_seed, split, settings.max_games, settings.games_per_secret)
    control = None
    if match_entropy_of is not None:
        limited = constrain != "none"
        sampling, control = _matched(
            player, match_entropy_of, sampling, source, wording, settings.engine, seed, constrained=limited
        )
    endpoint_default_sampling = temperature is None
    asked = EvalRequest(
        player,
        name,
        wording,
        sampling,
        patience,
        base_url,
        endpoint_default_sampling,
        settings.engine,
        seed,
        constrain == "words",
    )
    _evaluate(asked, source, Outputs(out, csv, overwrite), settings.regret, as_json, control)


def resumes(player: str, out: Path | None = None, **_: object) -> bool:
    """Finished games are kept beside the file; the random players' are not."""
    return out is not None and player not in RANDOM_PLAYERS


def _matched(
    player: str,
    other: Path,
    sampling: SamplingSettings,
    source: Source,
    wording: Wording,
    engine: EngineName,
    seed: int,
    *,
    constrained: bool,
) -> tuple[SamplingSettings, ControlFacts]:
    """The sampling at which a player's games are as random as another model's, and what that controls for."""
    if engine != "transformers" or constrained or not is_model(player):
        raise ConfigError(
            "--match-entropy-of draws a model of this machine by transformers, its guesses not limited; give its "
            "directory, and leave out --engine and --constrain"
        )
    asked = sampling if sampling.temperature else sampling.model_copy(update={"temperature": 1.0})
    with console.messages.status("finding the temperature of equal entropy…"):
        games = game_for(player, asdict(wording)), game_for(str(other), asdict(wording))
        match = match_models((player, str(other)), games, asked, source.settings(), seed)
    console.messages.print(
        f"temperature {match.temperature:.3g}: {match.nats:.2f} nats a game, {other} {match.target:.2f} at "
        f"{asked.temperature:g}",
        highlight=False,
        markup=False,
    )
    control = ControlFacts("equal_entropy", str(other), None, match.nats, match.target, asked.temperature)
    return sampling.model_copy(update={"temperature": match.temperature}), control


def _evaluate(
    asked: EvalRequest,
    source: Source,
    outputs: Outputs,
    with_regrets: bool,
    as_json: bool,
    control: ControlFacts | None = None,
) -> None:
    check_seed(asked.seed)
    outputs.check()
    if source.games_per_secret > 1 and not asked.draws:
        raise ConfigError(
            f"{asked.player} plays the same game again as long as it does not draw its words; leave out "
            "--games-per-secret, or have a model draw with --temperature above 0"
        )
    settings = source.settings()
    found = load_words(settings.source)
    split = settings.split_of(found)
    solver = Solver(found)
    who = asked.going_on(outputs).make(found, solver)
    if asked.wording.system_prompt is not None:  # a model's own was looked at before it was trained
        for finding in check_wording(who.prompter):
            console.messages.print(f"{finding.level}: {finding.message}", highlight=False, soft_wrap=True)
    secrets = source.secrets(split)
    planned = replace(_planned(who, split, source, asked), control=control)
    outputs.check_replaced(planned, secrets)
    played_with = _played_with(who, split, source.part, asked, with_regrets)
    # Each draw of a random player depends on all draws before it, so it starts over and no games are kept.
    with _journal(outputs, played_with if who.label not in RANDOM_PLAYERS else None) as journal:
        evaluation = _play(who, planned, secrets, found, asked, solver if with_regrets else None, journal)
    if with_regrets and isinstance(who.sampler, ConcurrentSampler):
        with console.messages.status("measuring regret…"):
            evaluation = with_regret(evaluation, found, solver)
    figures = _figures_shown(evaluation, split, source.part)
    if not any(part.num_games for part in figures.values()):
        reasons = Counter(record.error for record in evaluation.records)
        raise ConfigError(f"no game could be played: {reasons.most_common(1)[0][0]}")
    if outputs.json is not None:
        evaluation.save(outputs.json)
        if journal is not None and not isinstance(who.sampler, ConcurrentSampler):
            journal.discard()  # another call plays them again, since the model may have changed
    if outputs.csv is not None:
        save_csv(evaluation, split, outputs.csv)
    if as_json:
        shown = {part: asdict(found) for part, found in figures.items()}
        told = shown.get(source.part, {"parts": shown})
        console.print_json({"player": who.label, "split": source.part, "constrain": evaluation.constrain, **told})
    else:
        console.out.print(terminal.results_table({evaluation.label: figures}))
    _tell_errors(evaluation, outputs)


def _planned(who: Player, split: Split, source: Source, asked: EvalRequest) -> Evaluation:
    """The evaluation without its games."""
    return Evaluation(
        name=asked.name or Path(asked.player).name,
        player=who.label,
        parts=source.parts(split),
        rules=who.prompter.rules,
        fingerprint=split.fingerprint,
        records=(),
        constrain="words" if asked.constrained else "none",
        conditions=asked.conditions(who.prompter),
    )


def _figures_shown(evaluation: Evaluation, split: Split, part: SplitName) -> dict[str, Figures]:
    """The figures of the part that was asked for; if `all` was cut, those of each part separately."""
    if evaluation.parts == (part,):
        return {part: evaluation.figures()}
    return {each: evaluation.figures(split.named(each)) for each in evaluation.parts}


def _played_with(who: Player, split: Split, part: SplitName, asked: EvalRequest, with_regrets: bool) -> dict[str, Any]:
    """Everything a player's games depend on, to be stored with them; an address without its user and query."""
    here: dict[str, Any] = {}
    if not isinstance(who.sampler, ConcurrentSampler):
        here = {"weights": weights_mark(Path(who.label)), "engine": asked.engine, "seed": asked.seed}
        here["regret"] = with_regrets
    elif asked.draws and asked.seed:  # not sent, but it distinguishes replications; 0 is not recorded
        here = {"seed": asked.seed}
    drawing = asked.sampling.model_dump(exclude={"max_batch_size"})
    if asked.endpoint_default_sampling:
        drawing |= {"temperature": None, "top_p": None}
    told = who.prompter.system_prompt
    return {
        "player": who.label,
        "base_url": bare_address(asked.base_url) if asked.base_url else None,
        "words": split.fingerprint,
        "split": part,
        "split_seed": split.seed,
        "style": who.prompter.style.value,
        "shape": who.prompter.shape.value,
        "thinking": who.prompter.thinking.value,
        "system_prompt": None if told is None else name_of(told),
        **asdict(who.prompter.rules),
        **drawing,
        "constrain": "words" if asked.constrained else "none",
        **here,
    }


@contextmanager
def _journal(outputs: Outputs, settings: dict[str, Any] | None) -> Iterator[Journal | None]:
    if outputs.json is None or settings is None:
        yield None
        return
    with closing(Journal(journal_path(outputs.json), settings, overwrite=outputs.overwrite)) as journal:
        if journal.num_bytes_cut:
            text = f"{repaired(journal.path, journal.num_bytes_cut)}; that game is played again"
            console.messages.print(text, highlight=False, soft_wrap=True)
        yield journal


def _play(
    who: Player,
    planned: Evaluation,
    secrets: Sequence[str],
    words: WordList,
    asked: EvalRequest,
    solver: Solver | None,
    journal: Journal | None,
) -> Evaluation:
    """Play the secrets that no earlier call has kept a game of; a server's games each at its own pace.

    A solver measures regret meanwhile, but not in a server's games.
    """
    kept = journal.kept(secrets) if journal is not None else []
    if kept:
        console.messages.print(f"{len(kept):,} of {len(secrets):,} games are kept from before", highlight=False)
    sampler, patience, is_random = who.sampler, asked.patience, who.label in RANDOM_PLAYERS
    with terminal.game_progress(console.messages, f"{who.label} plays", len(secrets), kept) as tell:
        if isinstance(sampler, ConcurrentSampler):
            return evaluate_concurrently(
                planned, secrets, words, who.prompter, sampler, patience, journal=journal, on_finished=tell
            )
        return evaluate(
            planned,
            secrets,
            words,
            who.prompter,
            sampler,
            solver=solver,
            regret_games=100 if is_random else None,
            batch_size=None if is_random else asked.sampling.max_batch_size,
            journal=journal,
            drawn=asked.sampling.temperature > 0,
            on_finished=tell,
        )


def _tell_errors(evaluation: Evaluation, outputs: Outputs) -> None:
    """Report how many games are errors, and the most frequent reason."""
    errors = Counter(record.error for record in evaluation.records if record.failed)
    if not errors:
        return
    reason, count = errors.most_common(1)[0]
    console.messages.print(
        f"{errors.total():,} games could not be played and are not counted ({count:,}: {reason})",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if outputs.json is not None and evaluation.player.startswith("openai:"):
        console.messages.print("the same command plays them again")
