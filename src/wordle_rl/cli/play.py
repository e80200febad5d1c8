"""`play`: play one game in the terminal, or watch a player."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date
from typing import Annotated

import tyro
from rich.table import Table

from wordle_rl.boards import InitialState
from wordle_rl.cli import console
from wordle_rl.cli.arguments import Address, PlayersWords
from wordle_rl.cli.human import play_yourself, secret_of
from wordle_rl.config.base import LARGEST_SEED, ConfigError
from wordle_rl.config.evaluation import Constrain
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.players import Player, game_for, make_player, notes_on, reply_bound, words_of
from wordle_rl.game import Dictionary, Rules, Turn
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.report import terminal
from wordle_rl.report.terminal import verbose_lines
from wordle_rl.reward import Rubric, named_schedule
from wordle_rl.rollout import play as play_games
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words


def play(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])] = "human",
    secret: str | None = None,
    words: PlayersWords = None,
    temperature: float | None = 0.0,
    max_completion_tokens: int | None = None,
    constrain: Constrain = "none",
    base_url: Address = None,
    dictionary: Dictionary | None = None,
    hard_mode: bool = False,
    style: Style | str | None = None,
    shape: Shape | None = None,
    thinking: Thinking | None = None,
    system_prompt: str | None = None,
    verbose: bool = False,
    reward: str = "sparse",
    daily: bool = False,
    seed: int | None = None,
) -> None:
    """Play in the terminal yourself, or watch a player.

    Args:
        player: human, solver, consistent, random, bundled, openai:MODEL, a model or run directory, a hub model
            (USER/NAME), or your own player as module:attribute.
        secret: The word to find. Default: a random answer.
        temperature: Sampling temperature; 0 is greedy. None leaves it to an endpoint.
        max_completion_tokens: Token limit of a completion. Default: that of the model's run, else 512.
        constrain: `words` limits a model's guesses to listed words.
        dictionary: Cost of an unlisted guess; `app` refuses any bad reply for free. Default: `app` for a human, a
            model's own, else strict.
        hard_mode: Later guesses must use every revealed hint. Not for the solver.
        style: Wording of a player's prompts. Default: the model's own, else english.
        shape: Conversation shape of a player. Default: the model's own, else transcript.
        thinking: Thinking in a player's replies. Default: the model's own, else optional.
        system_prompt: Text that replaces the rules of a player's style. Empty: no system message.
        verbose: Show every turn as the player saw it: prompt, completion, parsed guess, marks, feedback message,
            reward, and whether the game is over. Not for a human.
        reward: Reward preset of --verbose.
        daily: Play the word of the day, the same for everybody with this list, and show squares to pass on.
        seed: Seed of the secret and the player. Default: a new game every time.
    """
    sampling = SamplingSettings(
        temperature=temperature or 0.0, max_completion_tokens=reply_bound(player, max_completion_tokens)
    )
    found = load_words(words_of(player, words).source)
    if daily and (secret is not None or seed is not None):
        raise ConfigError("--daily chooses the word; leave out --secret and --seed")
    today, seed = date.today(), random.randint(0, LARGEST_SEED) if seed is None else seed
    drawn = secret_of(today, found) if daily else random.Random(seed).choice(found.answers)
    chosen = secret.lower() if secret is not None else drawn
    if chosen not in found:
        raise ConfigError(f"secret {chosen!r} is not in word list {found.name!r}; choose a listed word")
    wording = {"style": style, "shape": shape, "thinking": thinking, "system_prompt": system_prompt}
    if player == "human":
        if verbose or any(value is not None for value in wording.values()):
            raise ConfigError("--verbose and the wording are for a player that you watch; name one with --player")
        # A person mistypes. As in the app, that costs nothing; a limit is needed, and 1000 is none for a person.
        rules = Rules(dictionary=dictionary or Dictionary.APP, hard_mode=hard_mode, max_refusals=1000)
        play_yourself(chosen, found, rules, f"wordle-rl {today}" if daily else "")
        return
    # None leaves a model the dictionary and the mode of its training.
    game = game_for(player, wording | {"dictionary": dictionary, "hard_mode": hard_mode or None})
    with console.messages.status(f"{player} gets ready…"):
        asked = PlayerSpec(
            player,
            sampling,
            seed,
            constrain=constrain,
            base_url=base_url,
            endpoint_default_sampling=temperature is None,
        )
        who = make_player(asked, found, Solver(found), game)
    for note in notes_on(player, who.prompter, asked=style is not None):
        console.messages.print(note, soft_wrap=True)
    rubric = named_schedule(reward).rubric() if verbose else None
    _watch(who, chosen, found, rubric, reward)


def _watch(who: Player, secret: str, words: WordList, rubric: Rubric | None, preset: str) -> None:
    with console.messages.status(f"{who.label} plays…"):
        trajectory = play_games([InitialState(secret)], words, who.prompter, who.sampler)[0]
    if trajectory.error is not None:
        raise ConfigError(f"{who.label} could not be asked: {trajectory.error}")
    if rubric is not None:
        earned = rubric.score(trajectory.transcript, Solver(words))
        for line in verbose_lines(trajectory.transcript, words, who.prompter, earned, preset):
            console.out.print(line)
    else:
        for played in trajectory.transcript.turns:
            console.out.print(played.reply, style="dim")
    console.out.print(_board([played.turn for played in trajectory.transcript.turns], words, who.prompter.rules))
    console.out.print(f"{'found' if trajectory.transcript.won else 'not found'}: {secret.upper()}", style="bold")


def _board(turns: Sequence[Turn], words: WordList, rules: Rules) -> Table:
    num_free = sum(not turn.costs_turn for turn in turns)
    return terminal.board(turns, word_length=words.word_length, max_turns=rules.max_turns, num_free=num_free)
