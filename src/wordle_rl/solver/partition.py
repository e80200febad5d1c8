"""Partitions of the candidates by each guess, for all guesses at once.

Two candidates are in the same class of a guess if it gets the same marks against both. Four numbers describe such a
split: the number of classes, the number of unordered pairs within classes, the size of the largest class, and the sum
of c*log2(c) over class sizes c, from which the information follows. A block holds the codes of at least one candidate,
shape (num_candidates, num_guesses); results have shape (num_guesses,).

No method is fast for all sizes, so there are three (times for 12,972 guesses on one core):

- a sorting network whose comparators work on whole rows: 0.2 ms for 20 candidates, 0.9 ms for 60;
- class histograms: 4 ms for 60, 7 ms for 200;
- a plain sort for words of six letters and more, where histograms would have up to 59,049 cells, mostly empty.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.solver.matrix import Codes

Int64s = npt.NDArray[np.int64]

NETWORK_LIMIT = 200  # at most 255, since run lengths are stored in a byte
_NUM_BYTE_CODES = 243  # codes of five letters, the longest words whose codes fit into a byte
_CHUNK_CELLS = 1 << 16  # histogram cells or sorted codes per chunk: fits into a core's L2 cache
_LOG_UNIT = float(1 << 40)


class SplitCounts(NamedTuple):
    """Number of classes of each guess, and of unordered pairs of candidates that it cannot tell apart."""

    num_classes: Int64s
    num_pairs: Int64s


def log_table(max_size: int) -> Int64s:
    """Tabulate c*log2(c) for c = 0..max_size as integers, in units of 2**-40 bit."""
    # Integers have the same sum in any order. So all methods agree to the last bit, and the best information is never
    # below that of a single guess by a rounding error.
    sizes = np.arange(max_size + 1, dtype=np.float64)
    return np.rint(sizes * np.log2(np.maximum(sizes, 1.0)) * _LOG_UNIT).astype(np.int64)


def bits_from_log_sum(log_sum: Int64s | int, num_candidates: int) -> npt.NDArray[np.float64]:
    """Return the information in bits, log2(n) - sum(c*log2(c))/n, given the sum in units of `log_table`."""
    bits: npt.NDArray[np.float64] = np.log2(num_candidates) - np.asarray(log_sum) / (_LOG_UNIT * num_candidates)
    at_least_zero: npt.NDArray[np.float64] = np.maximum(bits, 0.0)
    return at_least_zero


def count_split(block: Codes) -> SplitCounts:
    """Count classes and pairs for every guess."""
    num_candidates, num_guesses = block.shape
    if num_candidates > NETWORK_LIMIT:
        num_classes, squares = _sum_over_classes(block, lambda c: c > 0, lambda c: c * c)
        return SplitCounts(num_classes, (squares - num_candidates) // 2)
    ties = np.zeros(num_guesses, dtype=np.uint8)
    run = np.zeros(num_guesses, dtype=np.uint8)  # number of equal codes directly above
    pairs = np.zeros(num_guesses, dtype=np.min_scalar_type(num_candidates * (num_candidates - 1) // 2))
    for equal in _equal_neighbours(block):
        ties += equal
        run += equal
        run *= equal
        pairs += run
    return SplitCounts(num_candidates - ties.astype(np.int64), pairs.astype(np.int64))


def sum_logs(block: Codes, table: Int64s) -> Int64s:
    """Sum `table[c]` over the class sizes c of each guess; `table[0]` is 0."""
    num_candidates, num_guesses = block.shape
    if num_candidates > NETWORK_LIMIT:
        (of_chunks,) = _sum_over_classes(block, lambda c: table[c])
        return of_chunks
    # A class that grows from c to c + 1 members adds growth[c] = table[c + 1] - table[c], and growth[0] is 0.
    growth = np.diff(table[: num_candidates + 1])
    run = np.zeros(num_guesses, dtype=np.uint8)
    sums = np.zeros(num_guesses, dtype=np.int64)
    for equal in _equal_neighbours(block):
        run += equal
        run *= equal
        sums += growth[run]
    return sums


def largest_classes(block: Codes) -> Int64s:
    """Return the size of each guess's largest class: the candidates left in the worst case."""
    largest = [np.maximum.reduceat(sizes, first_of_guess) for sizes, first_of_guess in _chunked_class_sizes(block)]
    return np.concatenate(largest).astype(np.int64)


def class_sizes(codes: Codes) -> npt.NDArray[np.intp]:
    """Return the class sizes of one guess, in no particular order; `codes` has shape (num_candidates,)."""
    if codes.dtype == np.uint8:
        sizes = np.bincount(codes)
        return sizes[sizes > 0]
    return np.unique(codes, return_counts=True)[1]


# --- up to NETWORK_LIMIT candidates: sort all columns at once, one row operation per comparator -----------------


@lru_cache(maxsize=NETWORK_LIMIT)
def _comparators(num_rows: int) -> tuple[tuple[int, int], ...]:
    # Compare these pairs of rows in order, and every column is sorted: Batcher's odd-even merge sort (1968), with only
    # the comparators between rows that exist.
    pairs: list[tuple[int, int]] = []
    merged = 1
    while merged < num_rows:
        gap = merged
        while gap >= 1:
            for start in range(gap % merged, num_rows - gap, 2 * gap):
                for low in range(start, min(start + gap, num_rows - gap)):
                    if low // (2 * merged) == (low + gap) // (2 * merged):
                        pairs.append((low, low + gap))
            gap //= 2
        merged *= 2
    return tuple(pairs)


def _equal_neighbours(block: Codes) -> Iterator[npt.NDArray[np.uint8]]:
    # Sort each column. Yield, row by row from the second, 1 where a code equals the one above it, else 0.
    rows = list(block.copy())
    spare = np.empty_like(rows[0])
    for low, high in _comparators(len(rows)):
        smaller, larger = rows[low], rows[high]
        np.minimum(smaller, larger, out=spare)
        np.maximum(smaller, larger, out=larger)
        rows[low], spare = spare, smaller
    for above, below in pairwise(rows):
        yield (above == below).view(np.uint8)


# --- more candidates: chunks of guesses -----------------------------------------------------------------------


def _sum_over_classes(block: Codes, *measures: Callable[[Int64s], npt.NDArray[Any]]) -> list[Int64s]:
    # A measure is a function of the class size that is 0 at size 0, since histograms have empty cells.
    sums: list[list[Int64s]] = [[] for _ in measures]
    for sizes, first_of_guess in _chunked_class_sizes(block):
        for measure, out in zip(measures, sums, strict=True):
            out.append(np.add.reduceat(measure(sizes), first_of_guess, dtype=np.int64))
    return [np.concatenate(parts) for parts in sums]


def _chunked_class_sizes(block: Codes) -> Iterator[tuple[Int64s, npt.NDArray[np.intp]]]:
    # Yield, for a chunk of guesses, the class sizes in a row and where those of each guess begin.
    num_candidates, num_guesses = block.shape
    by_histogram = block.dtype == np.uint8
    width = max(1, _CHUNK_CELLS // (_NUM_BYTE_CODES if by_histogram else num_candidates))
    for start in range(0, num_guesses, width):
        chunk = block[:, start : start + width]
        if by_histogram:
            first = np.arange(chunk.shape[1]) * _NUM_BYTE_CODES
            yield np.bincount((chunk + first).ravel(), minlength=_NUM_BYTE_CODES * len(first)), first
            continue
        codes = np.sort(chunk.T, axis=1)  # (width, num_candidates)
        starts_run = np.ones(codes.shape, dtype=np.bool_)
        starts_run[:, 1:] = codes[:, 1:] != codes[:, :-1]
        sizes = np.diff(np.flatnonzero(starts_run), append=codes.size)
        num_runs = np.count_nonzero(starts_run, axis=1)
        yield sizes, np.cumsum(num_runs) - num_runs
