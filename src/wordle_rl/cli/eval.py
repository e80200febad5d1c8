"""`eval`: let any player play secrets; keep, measure and show its games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import Field

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Address, Json, PlayersWords, Seed
from wordle_rl.config.base import ConfigError, Section, check_seed, seed_after
from wordle_rl.config.evaluation import Constrain, EngineName, PatienceSettings
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.conditions import EvalConditions, differences
from wordle_rl.evaluate.entropy import match_models
from wordle_rl.evaluate.eval_secrets import OUTSIDE, by_earlier_turns, marked, named_secrets, prefix_boards
from wordle_rl.evaluate.forgetting import English, measure_english, speaks_english
from wordle_rl.evaluate.journal import Journal, journal_path, num_kept
from wordle_rl.evaluate.play import Scorer, evaluate, evaluate_concurrently, with_regret
from wordle_rl.evaluate.players import Player, make_player, notes_on, reply_bound, shown_name, words_of
from wordle_rl.evaluate.records import (
    GAME_COLUMNS,
    ControlFacts,
    Evaluation,
    EvaluationError,
    Figures,
    RewardFigures,
    check_table,
    measure,
    occurrences,
    reward_figures,
    save_csv,
)
from wordle_rl.evaluate.stats import smallest_difference
from wordle_rl.game import Dictionary, Rules
from wordle_rl.import_paths import source_mark
from wordle_rl.policy.base import ConcurrentSampler
from wordle_rl.policy.directory import find_model, game_of, is_model, weights_mark
from wordle_rl.policy.providers import bare_address
from wordle_rl.policy.scripted import PLAYER_NAMES, RANDOM_PLAYERS, is_own_player
from wordle_rl.preflight.template import check_wording
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report import terminal
from wordle_rl.report.terminal import reward_table
from wordle_rl.reward import named_schedule
from wordle_rl.runs import trained_model
from wordle_rl.runs.jsonl_store import repaired
from wordle_rl.solver import Solver
from wordle_rl.train.checkpoints import complete_checkpoints
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, SplitName


class EvalRequest(Section):
    """Options of `eval`."""

    player: Annotated[str, tyro.conf.arg(aliases=["--model"])]
    """bundled, solver, consistent, random, openai:MODEL (openai:ALIAS=MODEL shows it as ALIAS), a model or run
    directory, a hub model (USER/NAME or USER/NAME@REVISION), or your own player as module:attribute."""
    out: Path | None = None
    """Write every game to this file (JSON), for `compare` and `report`. Finished games are stored beside it
    (.games.jsonl), so the same command resumes with the missing ones. An existing file is replaced only by an
    evaluation of the same player and conditions that covers its secrets. Games of an endpoint stay stored; only those
    that failed are played again."""
    csv: Path | None = None
    """Write one row per game to this file. Another kind of file is not overwritten."""
    overwrite: bool = False
    """Discard stored games, and replace the file of --out whatever it holds."""
    name: str | None = None
    """Name of the player in tables."""
    words: PlayersWords = None
    split: SplitName = "held_out"
    """Part of the split whose secrets to play. With `all` and --max-games, figures are shown for each part."""
    split_seed: int | None = None
    """Seed of the split. Default: that of the model's run, else 0."""
    secrets: str | None = None
    """Play other secrets instead of a part of the split: `outside` (listed words that are not answers), or a file of
    one word per line, such as a public list. Secrets that the player was trained on get their own column."""
    max_games: int = Field(0, ge=0)
    """Play at most this many secrets of each part. 0: all."""
    games_per_secret: int = Field(1, ge=1)
    """Games per secret. More games give more power to compare players that sample."""
    prefix_turns: int = Field(0, ge=0)
    """Begin each game on a board with 0 to this many earlier turns: answers that fit all marks before them. Figures are
    shown by their number."""
    temperature: float | None = 0.0
    """Sampling temperature; 0 is greedy. None sends an endpoint neither temperature nor top_p, as OpenAI's reasoning
    models require."""
    max_completion_tokens: int | None = None
    """Token limit of a completion. Default: that of the model's run, else 512."""
    constrain: Constrain = "none"
    """`words` limits a model's guesses to listed words; greedy play then takes the likeliest one. Such results are kept
    apart from all others."""
    match_entropy_of: Path | None = None
    """Sample at the temperature at which the player's games are as random as this model's at temperature 1 (or
    --temperature): a control for a gain in sampled play. Found over games of validation secrets."""
    checkpoints: bool = False
    """Evaluate every checkpoint that a stage has kept (save_total_limit), and its model: `eval RUN/STAGE
    --checkpoints`. --out is then a directory, with a file for each."""
    no_regret: bool = False
    """Do not measure regret against the solver."""
    reward: str | None = None
    """Also score the games with this reward preset, and show mean, range, fraction below zero and histogram."""
    dictionary: Dictionary | None = None
    """Cost of an unlisted guess. Default: as in the model's training, else strict."""
    hard_mode: bool = False
    """Later guesses must use every revealed hint. Default: as in the model's training. Not for the solver."""
    style: Style | str | None = None
    """Wording of the prompts: a built-in style or `module:attribute`. Default: the model's own, else english."""
    shape: Shape | None = None
    """Conversation shape. Default: the model's own, else transcript."""
    thinking: Thinking | None = None
    """Thinking in replies. Default: the model's own, else optional."""
    system_prompt: str | None = None
    """Text that replaces the style's own rules; {word_length}, {max_turns} and {example} (a well-formed reply) are
    filled in. Empty: no system message. Default: the model's own, else the style's."""
    engine: EngineName = "transformers"
    """Engine that samples a model's tokens: `transformers`, `vllm` (16 bits, on a GPU) or `mlx`."""
    dtype: Literal["auto", "float32", "bfloat16"] | None = None
    """Type of the model's weights; `auto`: as stored. Default: as its run loads it, else as stored."""
    max_batch_size: int = Field(1024, ge=1)
    """Play at most this many games at once; fewer if memory is short."""
    base_url: Address = None
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings()
    """Concurrency and timeouts."""
    seed: Seed = 0
    as_json: Json = False

    def refuse_contradictions(self) -> None:
        """Refuse options that do not go together, before any game is played."""
        check_seed(self.seed)
        if self.games_per_secret > 1 and not self.draws:
            raise ConfigError(
                f"{self.player} plays the same game again because nothing is sampled; drop --games-per-secret, or "
                "sample with --temperature above 0",
            )
        if self.csv is not None:
            check_table(self.csv, GAME_COLUMNS)

    @property
    def word_settings(self) -> WordSettings:
        """Word list and split seed, by default those of the player's training."""
        settings = words_of(self.player, self.words)
        return settings if self.split_seed is None else settings.model_copy(update={"split_seed": self.split_seed})

    @property
    def game(self) -> GameSettings | None:
        """Rules and wording that were asked for, on top of the player's own; None if nothing was asked for."""
        asked = {name: getattr(self, name) for name in ("style", "shape", "thinking", "system_prompt", "dictionary")}
        return game_for(self.player, {**asked, "hard_mode": self.hard_mode or None})

    @cached_property
    def sampling(self) -> SamplingSettings:
        """Sampling settings of a model."""
        return SamplingSettings(
            temperature=self.temperature or 0.0,
            max_completion_tokens=reply_bound(self.player, self.max_completion_tokens),
            max_batch_size=self.max_batch_size,
        )

    @property
    def draws(self) -> bool:
        """True if the player may play the same secret differently the next time."""
        if self.player in RANDOM_PLAYERS or is_own_player(self.player):
            return True
        return self.player != "solver" and self.temperature != 0

    def parts(self, split: Split) -> tuple[SplitName, ...]:
        """Return the parts to play. A limit cuts every part to the same count, which would skew a figure of `all`."""
        if self.secrets is not None:
            return ()
        bounded = self.split == "all" and len(split.of_each_part(self.max_games)) < len(split.named("all"))
        return ("train", "val", "held_out") if bounded else (self.split,)

    def chosen(self, split: Split, words: WordList) -> list[str]:
        """Return the secrets to play, each as often as asked for."""
        if self.secrets is not None:
            found = named_secrets(self.secrets, words, self.max_games, split.seed)
            if found.left_out:
                console.messages.print(f"{self.secrets}: left out {found.left_out}")
            return list(found.words) * self.games_per_secret
        if self.split == "strict" and not split.strict:
            raise ConfigError("this split has no strict words; train with words.strict_fraction above 0")
        if self.split == "all":
            return split.of_each_part(self.max_games) * self.games_per_secret
        return list(split.named(self.split)[: self.max_games or None]) * self.games_per_secret

    def boards(self, secrets: Sequence[str], rules: Rules, solver: Solver) -> list[tuple[str, ...]] | None:
        """Return the prefix guesses of each game, or None if every board starts empty."""
        if not self.prefix_turns:
            return None
        if self.prefix_turns >= rules.max_turns:
            raise ConfigError(f"--prefix-turns {self.prefix_turns} leaves no turn of {rules.max_turns}; lower it")
        return prefix_boards(secrets, solver, self.prefix_turns, self.seed)

    def conditions(self, prompter: Prompter) -> EvalConditions:
        """Return the prompting and sampling conditions that the evaluation records."""
        boards = f"0 to {self.prefix_turns} consistent turns, seed {self.seed}" if self.prefix_turns else None
        seed = self.seed if self.draws else None
        worded = replace(EvalConditions.of(prompter), boards=boards, seed=seed)
        if self.player in PLAYER_NAMES or is_own_player(self.player):
            return worded
        return worded.drawing(
            self.sampling,
            endpoint_default_sampling=self.temperature is None,
            engine=self.engine if is_model(self.player) else None,
            seed=seed,
            constrained=self.constrain == "words",
        )

    def make(self, words: WordList, solver: Solver) -> Player:
        """Create the player."""
        seed = self.seed
        # Shift the seed by the number of kept games, or the remaining games would repeat their samples.
        if self.out is not None and not self.overwrite and (self.temperature or is_own_player(self.player)):
            seed = seed_after(seed, num_kept(journal_path(self.out)))
        return make_player(
            self.player,
            words,
            self.game,
            self.sampling,
            solver=solver,
            base_url=self.base_url,
            endpoint_default_sampling=self.temperature is None,
            patience=self.patience,
            seed=seed,
            engine=self.engine,
            constrained=self.constrain == "words",
            dtype=self.dtype,
        )


def game_for(player: str, asked: Mapping[str, Any]) -> GameSettings | None:
    """Lay the game settings asked for (not None) over those of the player's model; None if there are none."""
    update = {name: value for name, value in asked.items() if value is not None}
    if player == "solver" and update.get("hard_mode"):
        raise ConfigError("the solver does not keep to hard mode: its best guess may leave out a hint; name a model")
    if not update:
        return None
    own = game_of(find_model(Path(player))) if is_model(player) else None
    return (own or GameSettings()).model_copy(update=update)


def eval_player(asked: Annotated[EvalRequest, tyro.conf.arg(name="")]) -> None:
    """Let any player play secrets, and measure its games: six turns, strict dictionary, no retries."""
    if asked.checkpoints:
        evaluate_checkpoints(asked)
    elif asked.match_entropy_of is not None:
        evaluate_player(*_matched(asked, asked.match_entropy_of))
    else:
        evaluate_player(asked)


def _matched(asked: EvalRequest, other: Path) -> tuple[EvalRequest, ControlFacts]:
    if asked.engine != "transformers" or asked.constrain != "none" or not is_model(asked.player):
        raise ConfigError(
            "--match-entropy-of needs a model on this machine, sampled by transformers without --constrain; give its "
            "directory, and drop --engine and --constrain",
        )
    at_one = asked.model_copy(update={"temperature": asked.temperature or 1.0})
    games = at_one.game, at_one.model_copy(update={"player": str(other)}).game
    models = (asked.player, str(other))

    def tell(name: str, temperature: float, nats: float) -> None:
        console.messages.print(f"{name} at temperature {temperature:.3g}: {nats:.2f} nats a game", soft_wrap=True)

    with console.messages.status("finding the temperature of equal entropy…"):
        match = match_models(models, games, at_one.sampling, asked.word_settings, asked.seed, tell)
    console.messages.print(
        f"temperature {match.temperature:.3g}: {match.nats:.2f} nats a game, {other} {match.target:.2f} at "
        f"{at_one.temperature:g}",
    )
    control = ControlFacts("equal_entropy", str(other), None, match.nats, match.target, at_one.sampling.temperature)
    return asked.model_copy(update={"temperature": match.temperature}), control


def models_of_stage(stage: Path) -> dict[str, Path]:
    """Return the kept checkpoints of a stage by name, oldest first, and its model as `end`.

    Checkpoint selection may have taken that from an earlier step than the last.
    """
    kept = complete_checkpoints(stage / "checkpoints")
    if not kept:
        raise ConfigError(
            f"--checkpoints needs a stage that has kept some, and {stage} has none; name RUN/STAGE, trained with "
            "save_total_limit 0 or above 1 in its section, and GRPO and SFT with save_steps"
        )
    models = {path.name.removeprefix("checkpoint-"): path for path in kept}
    return models | ({"end": stage} if trained_model(stage) == stage else {})


def evaluate_checkpoints(asked: EvalRequest) -> None:
    """Evaluate the checkpoints of a stage, and show one table over them."""
    if asked.csv is not None or asked.match_entropy_of is not None:
        raise ConfigError("--csv and --match-entropy-of are for one player; drop them, or --checkpoints")
    found: dict[str, dict[str, Figures]] = {}
    for name, model in models_of_stage(Path(asked.player)).items():
        out = None if asked.out is None else asked.out / f"{name}.json"
        one = asked.model_copy(update={"player": str(model), "name": name, "out": out, "checkpoints": False})
        evaluation, split, _ = _evaluated(one)
        found[name] = figures_shown(one, evaluation, split)
    if asked.as_json:
        told = {name: {part: asdict(each) for part, each in parts.items()} for name, parts in found.items()}
        console.print_json({"stage": asked.player, "checkpoints": told})
        return
    console.out.print(terminal.checkpoints_table(found, title=f"Checkpoints of {asked.player}"))


def evaluate_player(asked: EvalRequest, control: ControlFacts | None = None) -> None:
    """Play the secrets, keep the games and show the figures."""
    evaluation, split, who = _evaluated(asked, control)
    show_figures(asked, evaluation, split, _english(who))


def _evaluated(asked: EvalRequest, control: ControlFacts | None = None) -> tuple[Evaluation, Split, Player]:
    # Play the secrets and keep the games.
    # Everything that can be refused is refused before the first game, which may cost money.
    asked.refuse_contradictions()
    schedule = named_schedule(asked.reward) if asked.reward is not None else None
    settings = asked.word_settings
    words = load_words(settings.source)
    split, solver = settings.split_of(words), Solver(words)
    secrets = asked.chosen(split, words)
    who = asked.make(words, solver)
    for note in filter(None, (*notes_on(asked.player, who.prompter, asked=asked.style is not None), who.note)):
        console.messages.print(note, soft_wrap=True)
    served = isinstance(who.sampler, ConcurrentSampler)
    if asked.patience.max_minutes and not served:
        raise ConfigError("--max-minutes limits the games of an endpoint; for a player on this machine use --max-games")
    if asked.system_prompt is not None:  # a model's own prompt was checked before its training
        for finding in check_wording(who.prompter):
            console.messages.print(f"{finding.level}: {finding.message}", soft_wrap=True)
    planned = Evaluation(
        name=asked.name or shown_name(asked.player),
        player=who.label,
        parts=asked.parts(split),
        rules=who.prompter.rules,
        fingerprint=split.fingerprint,
        records=(),
        constrain=asked.constrain,
        conditions=asked.conditions(who.prompter),
        reward_preset=asked.reward,
        control=control,
    )
    _check_replaced(asked, planned, secrets)
    scorer = Scorer(schedule.rubric(), solver) if schedule is not None else None
    with ExitStack() as held:
        journal = None
        # Each draw of a random player depends on all earlier draws, so it starts over and keeps no games.
        if asked.out is not None and who.label not in RANDOM_PLAYERS:
            played_with = _played_with(asked, planned, split, served=served)
            journal = Journal(journal_path(asked.out), played_with, overwrite=asked.overwrite)
            held.enter_context(closing(journal))
            if journal.num_bytes_cut:
                text = f"{repaired(journal.path, journal.num_bytes_cut)}; that game is played again"
                console.messages.print(text, soft_wrap=True)
        evaluation = _play(asked, who, planned, secrets, words, solver, scorer, journal)
    if served and not asked.no_regret:
        with console.messages.status("measuring regret…"):
            evaluation = with_regret(evaluation, words, solver)
    failed = [record for record in evaluation.records if record.failed]
    errors = Counter(record.error for record in failed).most_common(1)
    if len(failed) == len(evaluation.records):
        raise ConfigError(f"no game could be played: {errors[0][0]}")
    if asked.out is not None:
        evaluation.save(asked.out)
        if journal is not None and not served and not failed:
            journal.discard()  # another call plays them again, since the model may have changed
    if asked.csv is not None:
        save_csv(evaluation, split, asked.csv)
    for reason, count in errors:
        again = "; the same command plays them again" if journal is not None else ""
        told = f"{len(failed):,} games could not be played and are not counted ({count:,}: {reason}){again}"
        console.messages.print(told, soft_wrap=True)
    return evaluation, split, who


def _check_replaced(asked: EvalRequest, planned: Evaluation, secrets: Sequence[str]) -> None:
    # Replace only an earlier evaluation of the same player and conditions. It may gain secrets, but lose none.
    path = asked.out
    if path is None or asked.overwrite or not path.exists():
        return
    fix = "name another --out, or pass --overwrite"
    try:
        before = Evaluation.load(path)
    except EvaluationError:
        raise ConfigError(f"{path} holds no readable evaluation; {fix}") from None
    names = ("player", "fingerprint", "parts", "constrain")
    facts: dict[str, tuple[object, object]] = {name: (getattr(before, name), getattr(planned, name)) for name in names}
    facts["rules"] = (before.rules.in_effect, planned.rules.in_effect)
    facts.update(differences(before.conditions, planned.conditions))
    told = [f"{name} {now} instead of {was}" for name, (was, now) in facts.items() if was != now]
    if missing := set(occurrences(record.secret for record in before.records)) - set(occurrences(secrets)):
        told.append(f"{len(missing):,} of its games missing")
    if told:
        raise ConfigError(f"{path} holds another evaluation, this one has {', '.join(told)}; {fix}")


def _played_with(asked: EvalRequest, planned: Evaluation, split: Split, *, served: bool) -> dict[str, Any]:
    # Everything the games depend on, to be stored with them. An address loses its user and query.
    label, here = planned.player, {}
    if not served:
        if is_own_player(label):
            weights = source_mark(label)
        else:  # a player that is no model has no weights; its name gives the mark of an absent directory
            weights = weights_mark(find_model(Path(label)) if is_model(label) else Path(label))
        here = {"weights": weights, "regret": not asked.no_regret}
    return {
        "player": label,
        "base_url": bare_address(asked.base_url) if asked.base_url else None,
        "words": split.fingerprint,
        "split": asked.split,
        "split_seed": split.seed,
        "secrets": asked.secrets,
        "reward": asked.reward,
        "constrain": asked.constrain,
        **asdict(planned.rules),
        **asdict(planned.conditions),
        **here,
    }


def _play(
    asked: EvalRequest,
    who: Player,
    planned: Evaluation,
    secrets: Sequence[str],
    words: WordList,
    solver: Solver,
    scorer: Scorer | None,
    journal: Journal | None,
) -> Evaluation:
    # Only secrets that have no stored game yet are played. The solver measures regret meanwhile; for the games of an
    # endpoint it does so afterwards.
    prefixes = asked.boards(secrets, who.prompter.rules, solver)
    kept = journal.kept(secrets) if journal is not None else []
    if kept:
        console.messages.print(f"{len(kept):,} of {len(secrets):,} games are stored already")
    is_random = who.label in RANDOM_PLAYERS
    with terminal.game_progress(console.messages, f"{who.label} plays", len(secrets), kept) as tell:
        if isinstance(who.sampler, ConcurrentSampler):
            return evaluate_concurrently(
                planned,
                secrets,
                words,
                who.prompter,
                who.sampler,
                asked.patience,
                journal=journal,
                on_finished=tell,
                prefixes=prefixes,
                scorer=scorer,
            )
        return evaluate(
            planned,
            secrets,
            words,
            who.prompter,
            who.sampler,
            solver=None if asked.no_regret else solver,
            # A random player opens every game anew, and regret takes half a second for each opener.
            regret_games=6 if is_random else None,
            batch_size=None if is_random else asked.max_batch_size,
            journal=journal,
            drawn=asked.sampling.temperature > 0,
            on_finished=tell,
            prefixes=prefixes,
            scorer=scorer,
        )


def _english(who: Player) -> English | None:
    # Of a model in this process, by transformers, that may have read English before.
    model, codec = getattr(who.sampler, "model", None), getattr(who.sampler, "codec", None)
    return measure_english(model, codec) if model is not None and codec is not None and speaks_english(codec) else None


def show_figures(asked: EvalRequest, evaluation: Evaluation, split: Split, english: English | None) -> None:
    """Print the figures of an evaluation, as tables or as JSON."""
    figures = figures_shown(asked, evaluation, split)
    turns = evaluation.rules.max_turns
    by_turns: dict[str, Figures] = {}
    if evaluation.conditions.boards is not None:
        by_turns = {f"{n}": measure(found, turns) for n, found in by_earlier_turns(evaluation.records).items()}
    rewards = _rewards(asked, evaluation, split)
    if asked.as_json:
        shown = {part: asdict(found) for part, found in figures.items()}
        part = asked.split if asked.secrets is None else asked.secrets
        told: dict[str, Any] = shown.get(part, {})
        if len(shown) > 1 or not told:
            told = {**told, "parts": shown}
        if by_turns:
            told["by_earlier_turns"] = {name: asdict(found) for name, found in by_turns.items()}
        if rewards:
            told["reward"] = {name: asdict(found) for name, found in rewards.items()}
        if english is not None:
            told["english"] = asdict(english)
        console.print_json({"player": evaluation.player, "split": part, "constrain": evaluation.constrain, **told})
        return
    console.out.print(terminal.results_table({evaluation.label: figures}, title=_title(evaluation)))
    if by_turns:
        console.out.print(
            terminal.results_table({evaluation.label: by_turns}, title="By earlier turns on the board: 0, 1, …")
        )
    if rewards:
        console.out.print(reward_table(rewards))
    if english is not None:
        console.out.print(f"English: {english}")
    if line := power_line(figures):
        console.out.print(line)


def power_line(figures: Mapping[str, Figures]) -> str:
    """Return a line with the smallest difference that the largest part can show; '' for repeated secrets."""
    part = max(figures, key=lambda name: figures[name].num_games, default="")
    if not part:
        return ""
    rate, num_games = figures[part].win_rate, figures[part].num_games
    if rate is None or figures[part].pass_at:
        return ""
    # Look towards one half, where wins vary most. A difference away from it shows no sooner.
    rise = smallest_difference(min(rate, 1 - rate), num_games)
    if rise is None:
        return f"{num_games:,} games of {part} show no difference at all; `wordle-rl power` counts how many do"
    return f"{num_games:,} games of {part} can show a difference of {100 * rise:.1f} points (5 %, power 80 %)"


def figures_shown(asked: EvalRequest, evaluation: Evaluation, split: Split) -> dict[str, Figures]:
    """Return the figures by part.

    Named secrets (--secrets) give one column for each part of the split they belong to, and one for all of them. A cut
    `all` gives one for each part.
    """
    if asked.secrets is not None:
        parts = marked([record.secret for record in evaluation.records], split)
        of_parts = {part: evaluation.figures(words) for part, words in parts.items()}
        return of_parts if [*of_parts] == [asked.secrets] else of_parts | {asked.secrets: evaluation.figures()}
    if evaluation.parts == (asked.split,):
        return {asked.split: evaluation.figures()}
    return {each: evaluation.figures(split.named(each)) for each in evaluation.parts}


def _rewards(asked: EvalRequest, evaluation: Evaluation, split: Split) -> dict[str, RewardFigures]:
    if evaluation.reward_preset is None:
        return {}
    groups = {"all games": evaluation.records}
    if asked.secrets is not None and asked.secrets != OUTSIDE:
        parts = marked([record.secret for record in evaluation.records], split)
        groups |= {part: evaluation.only(words).records for part, words in parts.items()}
    found = {name: reward_figures(records, evaluation.reward_preset) for name, records in groups.items()}
    return {name: figures for name, figures in found.items() if figures is not None}


def _title(evaluation: Evaluation) -> str | None:
    # Rules and boards that differ from those of other tables, so that their figures are not compared.
    rules, usual = evaluation.rules, Rules()
    unusual = [f"{rules.dictionary} dictionary"] if rules.dictionary is not usual.dictionary else []
    unusual += ["hard mode"] if rules.hard_mode else []
    unusual += [f"{rules.max_turns} turns"] if rules.max_turns != usual.max_turns else []
    unusual += [f"boards with {evaluation.conditions.boards}"] if evaluation.conditions.boards else []
    return f"Not the usual rules: {', '.join(unusual)}" if unusual else None
