"""Trainings by rounds in miniature: who plays, what a round trained on, and log-probabilities without any trainer."""

from collections.abc import Sequence
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
from scripted import Script, scripted
from training_fixtures import context_for

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.prompt import Prompter
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import play
from wordle_rl.solver import Solver
from wordle_rl.train.example import Example
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import OpenPolicy
from wordle_rl.train.round_method import RoundMethod
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup
from wordle_rl.words import WordList


def learner_of(model, codec) -> TorchLearner:
    """What trains this model in float32."""
    return TorchLearner(model, codec, precision="fp32")


def playing(script: Script, codec) -> OpenPolicy:
    """Opens a policy that replies by the script."""

    @contextmanager
    def open_policy(sampling, seed):
        yield scripted(script)(None, codec, sampling, seed), None

    return open_policy


def fitted(monkeypatch: pytest.MonkeyPatch) -> list[list[list[Example]]]:
    """Have rounds collect what they would train on: for each round its items, such as pairs."""
    rounds: list[list[list[Example]]] = []

    def collect(_method, games, _number) -> list:
        rounds.append([list(item) for item in games.items])
        return []

    monkeypatch.setattr(RoundMethod, "batches", collect)
    return rounds


def token_logprobs(model, prompt_ids: Sequence[int], reply_ids: Sequence[int]):
    """Log-probability of each token of a reply, with gradient, from one forward pass over one unpadded row."""
    ids = torch.tensor([[*prompt_ids, *reply_ids]])
    scores = model(input_ids=ids).logits[0, len(prompt_ids) - 1 : -1].float().log_softmax(-1)
    return scores.gather(1, ids[0, len(prompt_ids) :, None])[:, 0]


def gradient_norm(model, loss) -> float:
    """Norm of the gradient of a loss, which the model then does not keep."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    return float(torch.stack([gradient.norm() for gradient in gradients if gradient is not None]).norm())


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
