"""A game in the terminal."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rich.prompt import Prompt
from rich.table import Table

from wordle_rl.commands.console import out
from wordle_rl.commands.eval_request import game_for
from wordle_rl.config import LARGEST_SEED, ConfigError, SamplingSettings
from wordle_rl.env import WordleEnv
from wordle_rl.evaluate.players import check_constrainable, make_player, words_of
from wordle_rl.game import Dictionary, Rules, Turn
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report import terminal
from wordle_rl.rollout import Start
from wordle_rl.rollout import play as play_games
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words


def play(
    player: str,
    secret: str | None,
    source: str | None,
    sampling: SamplingSettings,
    base_url: str | None,
    endpoint_default_sampling: bool,
    dictionary: Dictionary | None,
    hard_mode: bool,
    seed: int | None,
    constrained: bool,
) -> None:
    """One game in the terminal; a `dictionary` of None and no hard mode leave a model the rules it was trained with."""
    found = load_words(words_of(player, source).source)
    seed = random.randint(0, LARGEST_SEED) if seed is None else seed
    chosen = secret.lower() if secret is not None else random.Random(seed).choice(found.answers)
    if chosen not in found:
        raise ConfigError(f"secret {chosen!r} is not in word list {found.name!r}")
    if constrained:
        check_constrainable(player)
    if player == "human":
        rules = Rules(dictionary=dictionary or Dictionary.APP, hard_mode=hard_mode, max_refusals=1000)
        prompter = Prompter(Style.SYMBOLS, Shape.TRANSCRIPT, Thinking.OFF, found.word_length, rules)
        _play_yourself(chosen, WordleEnv(chosen, found, prompter), found)
        return
    if player == "solver" and hard_mode:
        raise ConfigError("the solver does not keep to hard mode: its best guess may leave out a hint; watch a model")
    who = make_player(
        player,
        found,
        game_for(player, {"dictionary": dictionary, "hard_mode": hard_mode or None}),
        sampling,
        solver=Solver(found),
        base_url=base_url,
        endpoint_default_sampling=endpoint_default_sampling,
        seed=seed,
        constrained=constrained,
    )
    trajectory = play_games([Start(chosen)], found, who.prompter, who.sampler)[0]
    if trajectory.error is not None:
        raise ConfigError(f"{who.label} could not be asked: {trajectory.error}")
    for played in trajectory.transcript.turns:
        out.print(played.reply, style="dim", markup=False, highlight=False)
    out.print(_board([played.turn for played in trajectory.transcript.turns], found, who.prompter.rules))
    out.print(f"{'found' if trajectory.transcript.won else 'not found'}: {chosen.upper()}", style="bold")


def _board(turns: Sequence[Turn], words: WordList, rules: Rules) -> Table:
    num_free = sum(not turn.costs_turn for turn in turns)
    return terminal.board(turns, word_length=words.word_length, max_turns=rules.max_turns, num_free=num_free)


def _play_yourself(secret: str, env: WordleEnv, words: WordList) -> None:
    rules = env.prompter.rules
    while env.stop_reason is None:
        try:
            word = Prompt.ask(f"guess {rules.max_turns - env.observation.turns_left + 1}", console=out)
        except EOFError:
            raise KeyboardInterrupt from None
        env.step(env.prompter.reply(word.strip().lower()))
        out.print(_board(env.turns, words, rules))
    out.print(f"{'well done' if env.stop_reason == 'solved' else 'the word was'}: {secret.upper()}", style="bold")
