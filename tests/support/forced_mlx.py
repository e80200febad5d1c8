"""A sampler of MLX whose tokens are written down, so that its log-probabilities can be compared."""

from collections.abc import Mapping, Sequence

import mlx.core as mx
from agreement import embedded_codec

from wordle_rl.config.training import SamplingSettings
from wordle_rl.mlx.model import MLXModel
from wordle_rl.mlx.sampler import MLXSampler


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
