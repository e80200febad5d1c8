"""A vLLM server that plays for a training: TRL sends it the weights of each step, our rollouts ask it for tokens.

TRL's own generation in this mode gathers the prompts of all processes, asks once in the first one and sends the replies
back. Every process must then make the same number of calls, and games of several turns do not: where those of one
process end first, the others wait for it for ever. Here each process asks the server itself, and processes meet
twice in a step, however their games go: when the server has the new weights, and when the games are trained on.

What of TRL is used here is private to it: `vllm_generation` and its `vllm_client`. A test holds that they are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game
from wordle_rl.config import ConfigError, GRPOTraining, SamplingSettings
from wordle_rl.models.multimodal import is_text_part
from wordle_rl.prompt import Prompter
from wordle_rl.rl.grpo.vllm import send_weights
from wordle_rl.samplers.base import check_vllm
from wordle_rl.samplers.vllm_server import ServedModel, ServerSampler, check_takes_weights, served_models
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from trl import GRPOTrainer

_WAIT_S = 240.0
"""Time the server has to come up, in seconds: as long as TRL waits for it."""


def server_arguments(server: str) -> dict[str, Any]:
    """Arguments of TRL for a server.

    TRL's correction for differences between sampler and trainer is off; ours (`importance_cap`) replaces it.
    """
    return {
        "use_vllm": True,
        "vllm_mode": "server",
        "vllm_server_base_url": server.rstrip("/"),
        "vllm_importance_sampling_correction": False,
    }


def check_server(
    settings: GRPOTraining, model: PreTrainedModel, words: WordList, prompter: Prompter, codec: ChatCodec
) -> None:
    """Refuse what cannot work before TRL meets the server.

    Raises:
        ConfigError: If vLLM is missing here, where it sends the weights, no server answers, it takes no weights, a game
            may outgrow it, or only a part of the model is trained that it serves.
    """
    server = settings.server
    check_vllm(f'grpo.engine "{server}"')
    if model.name_or_path and is_text_part(model.name_or_path):
        raise ConfigError(
            f"{server} serves all of {model.name_or_path}, of which the text part alone is trained here; begin with an "
            "SFT without model.lora, and serve what that saves"
        )
    served = served_model(server)
    check_takes_weights(server)
    budget = settings.sampling.max_completion_tokens
    game = longest_game(words, prompter, codec, budget)
    if game > served.max_length:
        raise ConfigError(
            f"a game may take {game} tokens with max_completion_tokens {budget}, {server} takes {served.max_length}; "
            'lower it, set game.style to "compact", or start the server with a larger --max-model-len'
        )


def served_model(server: str) -> ServedModel:
    """The model that the server was started with, which TRL sends the weights to, under whatever name.

    Raises:
        ConfigError: If none answers.
    """
    models = served_models(server, wait_s=_WAIT_S)
    if not models:
        raise ConfigError(
            f"no vLLM server answers at {server}; start it with scripts/vllm_server.sh, or correct grpo.engine"
        )
    return models[0]


@contextmanager
def server_player(
    trainer: GRPOTrainer, server: str, codec: ChatCodec, sampling: SamplingSettings, seed: int = 0
) -> Iterator[tuple[ServerSampler, int]]:
    """A sampler over the server with the current weights.

    Every process must enter together, since weights may be gathered over all of them; what they play may differ.

    Yields:
        The sampler, and the longest prompt that leaves room for a reply.
    """
    send_weights(trainer)
    model = served_model(server)
    yield ServerSampler(server, model, codec, sampling, seed), model.max_length - sampling.max_completion_tokens


def leave_server(trainer: GRPOTrainer) -> None:
    """Close the way by which weights went; the server stays, with those of the last step that was played."""
    if trainer.accelerator.is_main_process:
        trainer.vllm_generation.vllm_client.close_communicator()
