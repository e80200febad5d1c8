"""Games of `eval`: the player is made, the games are played and kept, figures are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wordle_rl.cli import console
from wordle_rl.cli.eval_figures import show_figures
from wordle_rl.cli.eval_request import EvalRequest, Outputs
from wordle_rl.cli.eval_secrets import Source, boards_name, boards_of, named_secrets
from wordle_rl.config import ConfigError, PlayerEvalSettings, check_seed
from wordle_rl.evaluate import (
    ControlFacts,
    Evaluation,
    Journal,
    Scorer,
    evaluate,
    evaluate_concurrently,
    journal_path,
    save_csv,
    with_regret,
)
from wordle_rl.evaluate.players import Player, shown_name
from wordle_rl.import_paths import source_mark
from wordle_rl.models.directory import find_model, is_model, weights_mark
from wordle_rl.preflight.template import check_wording
from wordle_rl.prompt import name_of
from wordle_rl.report import terminal
from wordle_rl.reward import named_schedule
from wordle_rl.runs.store import repaired
from wordle_rl.samplers.base import ConcurrentSampler
from wordle_rl.samplers.endpoint.providers import bare_address
from wordle_rl.samplers.simple import RANDOM_PLAYERS, is_own_player
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class Games:
    """The games to be played.

    Attributes:
        secrets: Their secrets.
        prefixes: Guesses on the board of each when play begins; None: none.
        words: Their word list.
        solver: Measures regret; None: it is not measured.
        scorer: Gives each game a reward; None: none.
    """

    secrets: Sequence[str]
    prefixes: Sequence[tuple[str, ...]] | None
    words: WordList
    solver: Solver | None
    scorer: Scorer | None


def evaluate_player(
    asked: EvalRequest,
    source: Source,
    outputs: Outputs,
    settings: PlayerEvalSettings,
    as_json: bool,
    control: ControlFacts | None = None,
) -> None:
    """Play, keep and show.

    Raises:
        ConfigError: If an option cannot be followed, or no game could be played.
    """
    check_seed(asked.seed)
    outputs.check()
    if source.games_per_secret > 1 and not asked.draws:
        raise ConfigError(
            f"{asked.player} plays the same game again as long as it does not draw its words; leave out "
            "--games-per-secret, or have a model draw with --temperature above 0"
        )
    schedule = named_schedule(settings.reward) if settings.reward is not None else None
    word_settings = source.settings()
    found = load_words(word_settings.source)
    split = word_settings.split_of(found)
    solver = Solver(found)
    secrets = _secrets(source, split, found)
    who = asked.going_on(outputs).make(found, solver)
    if asked.wording.system_prompt is not None:  # a model's own was looked at before it was trained
        for finding in check_wording(who.prompter):
            console.messages.print(f"{finding.level}: {finding.message}", highlight=False, soft_wrap=True)
    games = Games(
        secrets=secrets,
        prefixes=boards_of(secrets, settings, who.prompter.rules, solver, asked.seed),
        words=found,
        solver=solver if settings.regret else None,
        scorer=Scorer(schedule.rubric(), solver) if schedule is not None else None,
    )
    planned = replace(_planned(who, split, source, asked, settings), control=control)
    outputs.check_replaced(planned, secrets)
    played_with = _played_with(who, split, source, asked, settings)
    # Each draw of a random player depends on all draws before it, so it starts over and no games are kept.
    with _journal(outputs, played_with if who.label not in RANDOM_PLAYERS else None) as journal:
        evaluation = _play(who, planned, games, asked, journal)
    if settings.regret and isinstance(who.sampler, ConcurrentSampler):
        with console.messages.status("measuring regret…"):
            evaluation = with_regret(evaluation, found, solver)
    if all(record.failed for record in evaluation.records):
        reasons = Counter(record.error for record in evaluation.records)
        raise ConfigError(f"no game could be played: {reasons.most_common(1)[0][0]}")
    if outputs.json is not None:
        evaluation.save(outputs.json)
        if journal is not None and not isinstance(who.sampler, ConcurrentSampler) and not _cut_short(evaluation):
            journal.discard()  # another call plays them again, since the model may have changed
    if outputs.csv is not None:
        save_csv(evaluation, split, outputs.csv)
    show_figures(evaluation, split, source, settings, as_json)
    _tell_errors(evaluation, outputs)


def _secrets(source: Source, split: Split, words: WordList) -> list[str]:
    if source.named is None:
        return source.secrets(split)
    chosen = named_secrets(source.named, words, source.max_games, split.seed)
    if chosen.left_out:
        console.messages.print(f"{source.named}: left out {chosen.left_out}", highlight=False, markup=False)
    return list(chosen.words) * source.games_per_secret


def _planned(who: Player, split: Split, source: Source, asked: EvalRequest, settings: PlayerEvalSettings) -> Evaluation:
    """The evaluation without its games."""
    conditions = replace(asked.conditions(who.prompter), boards=boards_name(settings, asked.seed))
    return Evaluation(
        name=asked.name or shown_name(asked.player),
        player=who.label,
        parts=source.parts(split),
        rules=who.prompter.rules,
        fingerprint=split.fingerprint,
        records=(),
        constrain="words" if asked.constrained else "none",
        conditions=conditions,
        reward_preset=settings.reward,
    )


def _played_with(
    who: Player, split: Split, source: Source, asked: EvalRequest, settings: PlayerEvalSettings
) -> dict[str, Any]:
    """Everything a player's games depend on, to be stored with them; an address without its user and query."""
    here: dict[str, Any] = {}
    if not isinstance(who.sampler, ConcurrentSampler):
        here = {"weights": _weights_of(who), "engine": asked.engine, "seed": asked.seed}
        here["regret"] = settings.regret
    elif asked.draws and asked.seed:  # not sent, but it distinguishes replications; 0 is not recorded
        here = {"seed": asked.seed}
    here |= {
        name: value
        for name, value in (
            ("secrets", source.named),
            ("boards", boards_name(settings, asked.seed)),
            ("reward", settings.reward),
        )
        if value is not None
    }
    drawing = asked.sampling.model_dump(exclude={"max_batch_size"})
    if asked.endpoint_default_sampling:
        drawing |= {"temperature": None, "top_p": None}
    told = who.prompter.system_prompt
    return {
        "player": who.label,
        "base_url": bare_address(asked.base_url) if asked.base_url else None,
        "words": split.fingerprint,
        "split": source.part,
        "split_seed": split.seed,
        "style": str(who.prompter.style),
        "shape": who.prompter.shape.value,
        "thinking": who.prompter.thinking.value,
        "lenient": who.prompter.lenient,
        "system_prompt": None if told is None else name_of(told),
        **asdict(who.prompter.rules),
        **drawing,
        "constrain": "words" if asked.constrained else "none",
        **here,
    }


def _weights_of(who: Player) -> str:
    """Mark of a model's weights, or of your player's code; of another player, of nothing."""
    if is_own_player(who.label):
        return source_mark(who.label)
    return weights_mark(find_model(Path(who.label)) if is_model(who.label) else Path(who.label))


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


def _play(who: Player, planned: Evaluation, games: Games, asked: EvalRequest, journal: Journal | None) -> Evaluation:
    """Play the secrets that no earlier call has kept a game of; a server's games each at its own pace.

    A solver measures regret meanwhile, but not in a server's games.
    """
    kept = journal.kept(games.secrets) if journal is not None else []
    if kept:
        console.messages.print(f"{len(kept):,} of {len(games.secrets):,} games are kept from before", highlight=False)
    sampler, patience, is_random = who.sampler, asked.patience, who.label in RANDOM_PLAYERS
    with terminal.game_progress(console.messages, f"{who.label} plays", len(games.secrets), kept) as tell:
        if isinstance(sampler, ConcurrentSampler):
            return evaluate_concurrently(
                planned,
                games.secrets,
                games.words,
                who.prompter,
                sampler,
                patience,
                journal=journal,
                on_finished=tell,
                prefixes=games.prefixes,
                scorer=games.scorer,
            )
        return evaluate(
            planned,
            games.secrets,
            games.words,
            who.prompter,
            sampler,
            solver=games.solver,
            regret_games=100 if is_random else None,
            batch_size=None if is_random else asked.sampling.max_batch_size,
            journal=journal,
            drawn=asked.sampling.temperature > 0,
            on_finished=tell,
            prefixes=games.prefixes,
            scorer=games.scorer,
            max_minutes=patience.max_minutes,
        )


def _cut_short(evaluation: Evaluation) -> bool:
    """True if the time was up before every game of a model on this machine was played."""
    return any(record.failed for record in evaluation.records)


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
    if outputs.json is not None and evaluation.player not in RANDOM_PLAYERS:
        console.messages.print("the same command plays them again")
