"""Shared parts of the tests of MLX: the small models of other tests, held by MLX, their logits, rows to train on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from agreement import embedded_codec
from training_fixtures import small_model
from transformers import AutoModelForCausalLM, PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.mlx.model import MLXModel, of_transformers
from wordle_rl.mlx.sampler import MLXSampler


def firm(model: PreTrainedModel) -> PreTrainedModel:
    """The model with weights large enough that what it reads matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.12 / parameter.std())
    return model.eval()


def pair(tokenizer, seed: int = 0) -> tuple[PreTrainedModel, MLXModel]:
    """One small model, by transformers and by MLX."""
    whole = firm(small_model(tokenizer, seed))
    return whole, of_transformers(whole)


def probe(vocabulary: int, rows: int = 2, length: int = 24) -> np.ndarray:
    """Token ids, shape (rows, length)."""
    return np.random.default_rng(0).integers(0, vocabulary, (rows, length))


def torch_logits(model: PreTrainedModel, ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids)).logits.float().numpy()


def mlx_logits(model: MLXModel, ids: np.ndarray) -> np.ndarray:
    model.network.eval()
    return np.array(model.logits(mx.array(ids)).astype(mx.float32))


def write_family(directory: Path, codec: ChatCodec, config) -> Path:
    """A transformers directory of a random model of some family."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
    firm(model).save_pretrained(directory)
    codec.tokenizer.save_pretrained(directory)
    return directory


def same(a: MLXModel, b: MLXModel) -> bool:
    """True if all weights are the same, bit for bit."""
    ours, theirs = a.weights(), b.weights()
    return ours.keys() == theirs.keys() and all(mx.array_equal(ours[name], theirs[name]).item() for name in ours)


def close(ours: MLXModel, theirs: PreTrainedModel, tolerance: float) -> bool:
    """True if the weights of one model in both libraries differ by less than a tolerance."""
    weights = ours.weights()
    return all(
        np.abs(weight.detach().numpy() - np.array(weights[name])).max() < tolerance
        for name, weight in theirs.named_parameters()
    )


def forced(model: MLXModel, replies: Mapping[int, Sequence[Sequence[int]]]) -> MLXSampler:
    """An `MLXSampler` that plays one game after the other's turn, each with the tokens of its replies.

    Args:
        model: Whose log-probabilities count.
        replies: Game -> token ids of its replies, turn by turn.
    """
    turns = dict.fromkeys(replies, 0)

    class Forced(MLXSampler):
        def sample(self, requests):
            completions = []
            for request in requests:
                tokens = replies[request.game_id][turns[request.game_id]]
                turns[request.game_id] += 1
                self._script = iter(tokens)
                self.settings = SamplingSettings(max_completion_tokens=len(tokens))
                others = {game: seen for game, seen in self._seen.items() if game != request.game_id}
                completions += super().sample([request])
                self._seen |= others
            return completions

        def _draw(self, logprobs: mx.array) -> mx.array:
            # the generator looks one token beyond the last
            return mx.array([next(self._script, embedded_codec().pad_id)])

    return Forced(model, embedded_codec())
