"""Games of a script, as trainings by rounds see them."""

from collections.abc import Sequence

from contexts import context_for
from scripted import Script, scripted

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.prompt import Prompter
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import play
from wordle_rl.solver import Solver
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup
from wordle_rl.words import WordList


def setup_for(words: WordList, prompter: Prompter, secrets: Sequence[str] = ()) -> GameSetup:
    """Games over some secrets, or over all answers."""
    return GameSetup(context_for(words, prompter, Solver(words)), secrets or words.answers)


def games_of(
    words: WordList,
    codec: ChatCodec,
    secrets: Sequence[str],
    script: Script,
    prompter: Prompter,
    preset: str = "sparse",
) -> list[Scored]:
    """Games of a policy that replies by the script, with their rewards and without credit."""
    sampler = scripted(script)(None, codec)
    played = play([InitialState(secret) for secret in secrets], words, prompter, sampler)
    return [Scored(game, PRESETS[preset].score(game.transcript, Solver(words)), ()) for game in played]
