"""Rebuild the embedded word list from Debian's `scowl` package.

Run it after `apt-get install scowl`; the result is the same byte for byte every time:

    python scripts/build_wordlist.py

What goes in:
  guesses: five-letter lower-case words of the `english` and `american` files up to size 80.
  answers: the same up to size 50, less plurals and verb forms in -s and -ed whose stem is itself
    a word of that size. The sizes are SCOWL's own measure of how rare a word is.
  neither: slurs, strong profanity, sexual and ethnic insults. They are kept as SHA-256 hashes in
    `blocked_word_hashes.txt` so that nobody has to read them; add one with
    `printf %s WORD | sha256sum`.

The package's copyright file travels with the data, unchanged, because its notices ask for that.
"""

import argparse
import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCKED_HASHES_FILE = Path(__file__).resolve().parent / "blocked_word_hashes.txt"

WORD_LENGTH = 5
SPELLINGS = ("english", "american")
ALL_SIZES = (10, 20, 35, 40, 50, 55, 60, 70, 80)
ANSWER_MAX_SIZE = 50
GUESS_MAX_SIZE = 80

# The stem rule reads these as inflections of "twee", "your" and "mope", yet each is a word of its own.
KEPT_ANSWERS = frozenset({"moped", "tweed", "yours"})
# Inflections the stem rule cannot see: the stem is rarer than size 50 or the ending is irregular.
DROPPED_ANSWERS = frozenset(
    {"carbs", "elves", "feted", "maxed", "maxes", "oases", "pends", "stats", "techs"},
)


def build_lists(scowl: Path, blocked_hashes: frozenset[str]) -> tuple[list[str], list[str]]:
    """Choose answers and guesses, each sorted, from a directory with files named like `english-words.35`."""
    common = read_scowl_words(scowl, ANSWER_MAX_SIZE)
    known = read_scowl_words(scowl, GUESS_MAX_SIZE)
    guesses = sorted(word for word in known if len(word) == WORD_LENGTH and not is_blocked(word, blocked_hashes))
    answers = [word for word in guesses if word in common and is_answer(word, common)]
    return answers, guesses


def read_scowl_words(scowl: Path, max_size: int) -> frozenset[str]:
    """Read all plain lower-case words, of any length, up to a SCOWL size."""
    words: set[str] = set()
    for spelling in SPELLINGS:
        for size in (size for size in ALL_SIZES if size <= max_size):
            lines = (scowl / f"{spelling}-words.{size}").read_text(encoding="utf-8").split("\n")
            words.update(line for line in lines if re.fullmatch("[a-z]+", line))
    return frozenset(words)


def is_answer(word: str, lexicon: frozenset[str]) -> bool:
    """Say whether a common word may be a secret: it is not merely another word plus -s or -ed."""
    if word in KEPT_ANSWERS:
        return True
    return word not in DROPPED_ANSWERS and not any(stem in lexicon for stem in possible_stems(word))


def possible_stems(word: str) -> tuple[str, ...]:
    """List the words that `word` could be a plural, third person or past form of.

    >>> possible_stems("plies")
    ('plie', 'pli', 'ply')
    >>> possible_stems("upped")
    ('uppe', 'upp', 'up')
    >>> possible_stems("glass")
    ()
    """
    stems: list[str] = []
    if word.endswith("ss"):
        return ()
    if word.endswith(("s", "ed")):
        stems.append(word[:-1])
    if word.endswith(("es", "ed")):
        stems.append(word[:-2])
    if word.endswith(("ies", "ied")):
        stems.append(word[:-3] + "y")
    if word.endswith("ed") and word[-3] == word[-4]:
        stems.append(word[:-3])
    return tuple(stems)


def is_blocked(word: str, blocked_hashes: frozenset[str]) -> bool:
    """Say whether a word is kept out of both lists."""
    return hashlib.sha256(word.encode("ascii")).hexdigest() in blocked_hashes


def read_blocked_hashes(path: Path = BLOCKED_HASHES_FILE) -> frozenset[str]:
    """Read the blocked hashes: one 64-digit hex number per line, `#` starts a comment line."""
    lines = path.read_text(encoding="ascii").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def write_words(path: Path, words: Iterable[str]) -> None:
    """Write one word per line, the last line ended too, with Unix line ends on every system."""
    path.write_bytes("".join(f"{word}\n" for word in words).encode("ascii"))


def main() -> None:
    """Write answers.txt, guesses.txt and the copyright file, and print the counts."""
    parser = argparse.ArgumentParser(description="Rebuild the embedded word list from Debian's scowl package.")
    parser.add_argument("--scowl", type=Path, default=Path("/usr/share/dict/scowl"))
    parser.add_argument("--copyright", type=Path, default=Path("/usr/share/doc/scowl/copyright"))
    parser.add_argument("--out", type=Path, default=REPOSITORY / "src" / "wordle_rl" / "words" / "embedded")
    arguments = parser.parse_args()

    answers, guesses = build_lists(arguments.scowl, read_blocked_hashes())
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_words(arguments.out / "answers.txt", answers)
    write_words(arguments.out / "guesses.txt", guesses)
    shutil.copyfile(arguments.copyright, arguments.out / "SCOWL-NOTICE.txt")
    print(f"{len(answers)} answers, {len(guesses)} guesses written to {arguments.out}")


if __name__ == "__main__":
    main()
