"""Plain text beside games, so that a pretrained model keeps its language.

Games are a narrow text, and training on nothing else costs a model its English. Rehearsal holds it: in every batch some
rows are plain text. Nobody has to bring that text, since the model itself wrote it, before any training. It is sampled
at temperature 1, so what is rehearsed is the distribution of the model that came.

    texts = written by the model at the start of the run     # plain_text.jsonl, once for all stages of a run
    rows  = games + texts                                    # sft: every epoch; rounds: different ones in each

Source: rehearsal on samples of the model itself, Robins 1995 (pseudo-rehearsal) and Sun et al. 2019, LAMOL,
arXiv:1909.03329.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wordle_rl.config.base import ConfigError
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.forgetting import SMALLEST_VOCABULARY
from wordle_rl.policy.base import Request
from wordle_rl.runs import PLAIN_TEXT_FILE, read_jsonl, write_jsonl
from wordle_rl.runs.checksums import check_marks, marks_of, read_record, write_record
from wordle_rl.runs.distributed import gather, is_first, wait_for_all
from wordle_rl.train.example import Example
from wordle_rl.words.split import Split

if TYPE_CHECKING:
    from wordle_rl.train.learner import Learner

NUM_TEXTS = 1024
TEXT_TOKENS = 48
"""Most tokens of a text, its opening included."""
_FEWEST_TOKENS = 16
"""A text that ends earlier is left out."""
_BATCH = 256
_OPENINGS = (
    "The", "A", "In", "It", "When", "There", "After", "This", "Many", "Some", "On", "If", "For", "At", "One", "As",
    "She", "He", "They", "We", "I", "You", "People", "Most", "Once", "While", "To", "What", "How", "Every", "By",
    "With",
)  # fmt: skip


def texts_for(games: int, fraction: float) -> int:
    """Return the number of texts that make up a fraction of all rows beside a number of games.

    Examples:
        >>> texts_for(90, 0.1)
        10
    """
    return round(games * fraction / (1 - fraction))


def has_plain_text(directory: Path) -> bool:
    """Return True if a run has its texts; a `RunError` if these have changed since they were written."""
    record = (directory / PLAIN_TEXT_FILE).with_suffix(".json")  # written last: only then do the texts count
    found = all(gather(record.is_file()))  # one answer for all processes, or they would wait for each other
    if found:
        remedy = f"restore it, or delete {record} to have the texts written again"
        check_marks(directory, read_record(record, remedy), remedy)
    return found


def write_plain_text(learner: Learner, directory: Path, split: Split, seed: int, tell: Callable[[str], None]) -> None:
    """Have the model write the texts of a run; those with a strict word are left out.

    Every process of a launch must call this.
    """
    path = directory / PLAIN_TEXT_FILE
    codec = learner.codec
    if len(codec.tokenizer) < SMALLEST_VOCABULARY:
        raise ConfigError("plain_text_fraction: this model has never read plain text; set it to 0")
    tell(f"writing {NUM_TEXTS:,} plain texts to rehearse, into {path}")
    rows = []
    sampling = SamplingSettings(temperature=1.0, max_batch_size=_BATCH, max_completion_tokens=TEXT_TOKENS - 1)
    with learner.policy(sampling, seed) as (sampler, _):
        before = list(codec.tokenizer("").input_ids)  # what the tokenizer puts in front of any text, if anything
        openings = [[*before, *codec.encode(_OPENINGS[number % len(_OPENINGS)])] for number in range(NUM_TEXTS)]
        for first in range(0, NUM_TEXTS, _BATCH):
            sampler.begin()
            batch = openings[first : first + _BATCH]
            asked = [Request(number, (), (), ids) for number, ids in enumerate(batch)]
            for ids, completion in zip(batch, sampler.sample(asked), strict=True):
                written = [*itertools.takewhile(lambda token: token not in codec.stop_ids, completion.token_ids)]
                text = str(codec.tokenizer.decode([*ids[len(before) :], *written]))
                if len(written) >= _FEWEST_TOKENS and not split.strict_words_in(text):
                    rows.append({"text": text, "token_ids": [*ids, *written]})
    if len(rows) < NUM_TEXTS // 4:
        raise ConfigError(f"plain_text_fraction: only {len(rows)} texts of {NUM_TEXTS} are usable; set it to 0")
    if is_first():
        write_jsonl(path, rows)
        write_record(path.with_suffix(".json"), marks_of(directory, [path]))
    wait_for_all()


def plain_texts(directory: Path, count: int, first: int = 0) -> Iterator[Example]:
    """Yield `count` texts of a run from number `first` on, as rows whose tokens are all trained but the first one.

    After the last text the first one comes again.
    """
    if not count:
        return
    rows = [row["token_ids"] for row in read_jsonl(directory / PLAIN_TEXT_FILE)]
    for number in range(first, first + count):
        ids = rows[number % len(rows)]
        yield Example([*ids], [0] + [1] * (len(ids) - 1))
