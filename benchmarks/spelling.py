"""How well a pretrained model connects words with their letters, before any training.

    python benchmarks/spelling.py [--model smollm2] [--words 300] [--shots 8] [--seed 0]

Few examples come first, as lines of text; then the model continues one more line, greedily. Two tasks: a word, say its
letters; letters, say the word. Right is what is right to the end of the line, and, for letters, each place by itself.
The words are answers of the game. A model that has read English knows them; the spelled wording of the game hides them
behind letters, and this says how much there is to connect.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from wordle_rl.config.model import ModelSettings
from wordle_rl.evaluate.stats import wilson_interval
from wordle_rl.policy.loading import load_model
from wordle_rl.words import load_words

BATCH = 32
"""Lines continued at once."""


def spelled(word: str) -> str:
    """The letters of a word, apart."""
    return " ".join(word)


TASKS: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "a word, its letters": (lambda word: f"{word}:", spelled),
    "letters, the word": (lambda word: f"{spelled(word)}:", str),
}
"""Task -> what stands before the colon, and what is to follow it."""


@torch.no_grad()
def continued(model: Any, tokenizer: Any, prompts: Sequence[str], num_tokens: int) -> list[str]:
    """The rest of the last line of each prompt, greedily."""
    tokenizer.padding_side = "left"
    found = []
    for first in range(0, len(prompts), BATCH):
        asked = tokenizer(list(prompts[first : first + BATCH]), return_tensors="pt", padding=True).to(model.device)
        said = model.generate(**asked, max_new_tokens=num_tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id)
        found += tokenizer.batch_decode(said[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    return [text.split("\n")[0].strip() for text in found]


def main() -> None:
    """Print a line for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--shots", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model, codec = load_model(ModelSettings(path=options.model), 0)
    model.eval()
    chosen = random.Random(options.seed).sample(load_words().answers, options.words + options.shots)
    shown, asked = chosen[: options.shots], chosen[options.shots :]
    for name, (before, after) in TASKS.items():
        examples = "".join(f"{before(word)} {after(word)}\n" for word in shown)
        said = continued(model, codec.tokenizer, [examples + before(word) for word in asked], 12)
        right = sum(text == after(word) for text, word in zip(said, asked, strict=True))
        low, high = wilson_interval(right, len(asked))
        letters = [text.replace(" ", "") for text in said]
        places = [
            sum(text[place : place + 1] == word[place] for text, word in zip(letters, asked, strict=True))
            for place in range(len(asked[0]))
        ]
        by_place = ", ".join(f"{100 * count / len(asked):.0f}" for count in places)
        print(
            f"{name}: {100 * right / len(asked):.1f} % of {len(asked)} right ({100 * low:.1f} to {100 * high:.1f}); "
            f"letters right by place, %: {by_place}"
        )


if __name__ == "__main__":
    main()
