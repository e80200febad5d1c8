"""How much plain English a model has lost: bits per token on a fixed text, and twenty multiple-choice questions.

A question is a sentence with four endings. Its answer is the ending that the model finds likeliest, all tokens of it
together, so nothing is generated and chance is five of twenty. Sentences are given without a chat template, since SFT
may have put another in place of the model's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wordle_rl.chat.codec import ChatCodec

TEXT = """\
The old bridge over the river was closed for most of the summer, because its wooden beams had to be replaced. \
People who worked on the other side took the long way round, or crossed by boat in the early morning. When it \
was opened again in September, the whole town came to walk over it, and there was music until late at night.

Bread needs little more than flour, water, salt and time. Mix them in a large bowl, cover the dough with a cloth \
and leave it in a warm place until it has doubled in size. Then shape it into a loaf, let it rest for another \
half an hour and bake it in a very hot oven until the crust is brown and sounds hollow when you knock on it.

A library is more than a room full of books. Children do their homework there, students look for a quiet table, \
and older people come to read the newspaper and to meet each other. Many libraries lend tools, games and musical \
instruments as well, and some of them help visitors to fill in forms or to write a letter.
"""

QUESTIONS: tuple[tuple[str, str, tuple[str, str, str]], ...] = (
    ("The capital of France is", "Paris", ("London", "Madrid", "Rome")),
    ("The capital of Japan is", "Tokyo", ("Beijing", "Seoul", "Bangkok")),
    ("The opposite of hot is", "cold", ("warm", "wet", "bright")),
    ("The opposite of up is", "down", ("left", "high", "over")),
    ("Two plus three equals", "five", ("four", "six", "nine")),
    ("A week has", "seven days", ("five days", "ten days", "twelve days")),
    ("The color of grass is", "green", ("purple", "white", "orange")),
    ("The sun rises in the", "east", ("west", "north", "south")),
    ("Water freezes and becomes", "ice", ("steam", "sand", "oil")),
    ("Fish live in", "water", ("trees", "houses", "deserts")),
    ("Bees make", "honey", ("milk", "bread", "glass")),
    ("The author of Romeo and Juliet is", "William Shakespeare", ("Mark Twain", "Leo Tolstoy", "Jane Austen")),
    ("The largest planet in the solar system is", "Jupiter", ("Mercury", "Mars", "Venus")),
    ("A person who teaches at a school is called a", "teacher", ("farmer", "pilot", "baker")),
    ("We see with our", "eyes", ("hands", "ears", "feet")),
    ("The month after January is", "February", ("December", "August", "June")),
    ("Snow is", "white and cold", ("black and hot", "green and loud", "red and dry")),
    ("The currency of the United States is the", "dollar", ("yen", "pound", "franc")),
    ("A baby dog is called a", "puppy", ("kitten", "calf", "lamb")),
    ("To cut paper you use", "scissors", ("a spoon", "a pillow", "a bicycle")),
)
"""Beginning of a sentence, its right ending, and three wrong ones."""

SMALLEST_VOCABULARY = 1_000


@dataclass(frozen=True)
class English:
    """What a model still knows of English: bits a token of `TEXT`, and how many of `QUESTIONS` it answers."""

    bits_per_token: float
    num_right: int

    def __str__(self) -> str:
        return f"{self.bits_per_token:.2f} bits a token, {self.num_right} of {len(QUESTIONS)} questions right"


def english_of(player: object) -> English | None:
    """Measure the model of a sampler; None if it is not in this process, or cannot have read English.

    The embedded model, for one, knows characters alone.
    """
    model, codec = getattr(player, "model", None), getattr(player, "codec", None)
    if model is None or codec is None or len(codec.tokenizer) < SMALLEST_VOCABULARY:
        return None
    return measure_english(model, codec)


def measure_english(model: Any, codec: ChatCodec) -> English:
    """Measure a torch model, in one pass of about 340 tokens and twenty of four short sentences."""
    ids = codec.encode(TEXT)
    was_training = model.training
    model.eval()
    try:
        [text] = _nats(model, [ids], 1)
        num_right = sum(_is_answered(model, codec, *question) for question in QUESTIONS)
    finally:
        model.train(was_training)
    return English(-text / (len(ids) - 1) / math.log(2), num_right)


def _is_answered(model: Any, codec: ChatCodec, start: str, right: str, wrong: tuple[str, str, str]) -> bool:
    # A question at a time: the logits of all eighty endings of a large vocabulary would take a gibibyte.
    rows = [codec.encode(f"{start} {ending}.") for ending in (right, *wrong)]
    best, *others = _nats(model, rows, len(codec.encode(start)))
    return best > max(others)


def _nats(model: Any, rows: list[list[int]], first: int) -> list[float]:
    """Log-probability in nats of each row's tokens from place `first` on; rows are padded on the right."""
    import torch

    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    taken = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [float(taken[index, first - 1 : len(row) - 1].sum()) for index, row in enumerate(rows)]
