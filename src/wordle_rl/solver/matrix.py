"""Marks as numbers, and the table of them for every guess against every answer.

Marks are base-3 numbers with X=0, Y=1, G=2, the first letter being the least significant digit: `GYX` is
2 + 1*3 + 0*9 = 5. All green is therefore the largest code, 3**length - 1.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wordle_rl.errors import UserError
from wordle_rl.words import MAX_WORD_LENGTH, MIN_WORD_LENGTH

Codes = npt.NDArray[np.uint8 | np.uint16]

_DIGIT_OF_MARK = {"X": 0, "Y": 1, "G": 2}
_MARK_OF_DIGIT = "XYG"
_LARGEST_UINT8_LENGTH = 5  # 3**5 = 243 codes fit in one byte, 3**6 = 729 do not
_ALPHABET_SIZE = 26
_MAX_BYTES = 16 << 30  # 130,000 words of five letters, each guess and answer; published lists need 0.03 GiB


class SolverError(UserError):
    """A word, marks or candidate set that the solver cannot use."""


def encode_marks(marks: str) -> int:
    """Turn 3 to 10 marks into their code.

    >>> encode_marks("GYX"), encode_marks("GGGGG")
    (5, 242)
    """
    if not MIN_WORD_LENGTH <= len(marks) <= MAX_WORD_LENGTH:
        raise SolverError(f"marks {marks!r} have {len(marks)} characters; give 3 to 10, one per letter")
    code = 0
    for mark in reversed(marks):
        if mark not in _DIGIT_OF_MARK:
            raise SolverError(f"marks {marks!r} contain {mark!r}; use only G, Y and X")
        code = 3 * code + _DIGIT_OF_MARK[mark]
    return code


def decode_marks(code: int, length: int) -> str:
    """Turn a code back into marks.

    >>> decode_marks(5, 3)
    'GYX'
    """
    marks = ""
    for _ in range(length):
        code, digit = divmod(code, 3)
        marks += _MARK_OF_DIGIT[digit]
    return marks


def marks_matrix(guesses: Sequence[str], answers: Sequence[str]) -> Codes:
    """Score every guess against every answer, all of one length.

    Returns:
        Codes, shape (num_guesses, num_answers); uint8 up to five letters, uint16 beyond. The array is in Fortran order,
        one answer after the other, because every search gathers whole answers.

    Raises:
        SolverError: If a word is not of that length, or the table would not fit in memory or in 16 GiB.
    """
    length = len(guesses[0])
    dtype = np.dtype(np.uint8 if length <= _LARGEST_UINT8_LENGTH else np.uint16)
    size = len(guesses) * len(answers) * dtype.itemsize
    try:
        if size > _MAX_BYTES:
            raise MemoryError
        by_answer = np.zeros((len(answers), len(guesses)), dtype=dtype)
    except MemoryError:
        raise SolverError(
            f"{len(guesses):,} guesses by {len(answers):,} answers need {size / 1024**3:.1f} GiB for their table of "
            "marks; give a shorter word list, or a machine with more memory"
        ) from None
    guess_places = _letter_places(_letters(guesses, length))  # (26, num_guesses)
    answer_places = _letter_places(_letters(answers, length))  # (26, num_answers)

    # What a letter adds to the code depends only on its places in the answer and in the guess. So look up one row over
    # all guesses per letter and set of places, and keep it; the codes of an answer are the sum over its letters.
    row_of: dict[tuple[int, int], Codes] = {}
    for row, places in zip(by_answer, answer_places.T, strict=True):
        for letter in np.flatnonzero(places).tolist():
            key = (letter, int(places[letter]))
            if key not in row_of:
                row_of[key] = _letter_codes(key[1], length).astype(dtype)[guess_places[letter]]
            row += row_of[key]
    return by_answer.T


def _letters(words: Sequence[str], length: int) -> npt.NDArray[np.uint8]:
    for word in words:
        if len(word) != length or not (word.isascii() and word.isalpha() and word.islower()):
            raise SolverError(f"word {word!r} is not {length} lower-case letters a-z; fix or drop it")
    flat = np.frombuffer("".join(words).encode("ascii"), dtype=np.uint8)
    return (flat - np.uint8(ord("a"))).reshape(len(words), length)


def _letter_places(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    num_words, length = letters.shape  # one bit per place of the letter in the word
    places = np.zeros((_ALPHABET_SIZE, num_words), dtype=np.intp)
    for place in range(length):
        places[letters[:, place], np.arange(num_words)] |= 1 << place
    return places


def _letter_codes(answer_places: int, length: int) -> npt.NDArray[np.intp]:
    # What one letter adds to the code, for each set of places in the guess, shape (2**length,).
    guess_places = np.arange(1 << length)
    greens = [place for place in range(length) if (answer_places >> place) & 1]
    unmatched = np.full(1 << length, len(greens), dtype=np.intp)
    codes = np.zeros(1 << length, dtype=np.intp)
    for place in greens:
        here = (guess_places >> place) & 1
        codes += 2 * 3**place * here
        unmatched -= here
    # Yellows from left to right, as long as the answer has unmatched copies.
    for place in sorted(set(range(length)) - set(greens)):
        yellow = ((guess_places >> place) & 1) * (unmatched > 0)
        codes += 3**place * yellow
        unmatched -= yellow
    return codes
