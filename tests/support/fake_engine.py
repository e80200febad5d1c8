"""An engine that generates from token ids, as vLLM's `/inference/v1/generate` does, and says what it is told to."""

from collections.abc import Callable
from typing import Any

from fake_endpoint import FakeEndpoint

from wordle_rl.chat.codec import ChatCodec

Say = Callable[[list[int]], str]
"""Tokens of a prompt -> the reply."""


def token_engine(codec: ChatCodec, say: Say) -> FakeEndpoint:
    """Serve replies in the tokens of a codec; log-probabilities are -1."""

    def generate(_number: int, body: dict[str, Any]) -> tuple[int, object]:
        ids = codec.reply_ids(say(body["token_ids"]))
        content = [{"token": f"token_id:{token}", "logprob": -1.0} for token in ids]
        choice = {"index": 0, "token_ids": ids, "logprobs": {"content": content}, "finish_reason": "stop"}
        return 200, {"request_id": "1", "choices": [choice]}

    return FakeEndpoint(generate)
