"""Sealed cache files: a damaged or wrong file counts as absent.

A file is its content followed by a 32-byte SHA-256 seal over a label (what the content is, and for which words) and the
content. A file that is cut, altered or for other words does not match its seal. Files are written under a temporary
name and renamed, so readers never see half a file and two writers do no harm. The seal also detects a loss of power
before the data reached the disk, so no fsync is needed.
"""

import hashlib
import logging
import mmap
import os
import tempfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np

from wordle_rl.solver.matrix import Codes

logger = logging.getLogger(__name__)

_SEAL_BYTES = hashlib.sha256().digest_size
_FORMAT = b"wordle-rl solver cache 1\n"  # raise the number when the content or the search behind it changes


def write_sealed(path: Path, label: str, parts: Iterable[bytes | memoryview]) -> bool:
    """Write content and its seal atomically.

    Args:
        path: The file; missing directories are created.
        label: What the content is; pass the same to `read_sealed`.
        parts: The content, in order.

    Returns:
        Whether it was written. Failure (read-only, full) only logs a warning, since the solver works without a cache.
    """
    seal = hashlib.sha256(_FORMAT + label.encode() + b"\n")
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            for part in parts:
                seal.update(part)
                file.write(part)
            file.write(seal.digest())
        temporary.replace(path)
        temporary = None
    except OSError as error:
        logger.warning("solver cache %s was not written (%s); continuing without it", path, error)
        return False
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return True


def read_sealed(path: Path, label: str) -> bytes | None:
    """Read content whose seal matches; None if the file is absent, damaged, or has another label."""
    content = _sealed_view(path, label)
    return None if content is None else bytes(content)


def save_codes(path: Path, label: str, by_answer: Codes) -> bool:
    """Write a code table in NumPy's format and its seal; see `write_sealed`."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(by_answer))
    return write_sealed(path, label, [header.getvalue(), by_answer.data.cast("B")])


def load_codes(path: Path, label: str, shape: tuple[int, int], dtype: np.dtype[np.uint8 | np.uint16]) -> Codes | None:
    """Map a code table into memory, read-only, so that processes on one machine share its pages.

    Args:
        path: A file that `save_codes` wrote.
        label: Its label.
        shape: Expected (num_answers, num_guesses).
        dtype: Expected type.

    Returns:
        The table; None if the file is absent, damaged or another table.
    """
    if _sealed_view(path, label) is None:
        return None
    codes = np.asarray(np.load(path, mmap_mode="r"))  # asarray: a plain array indexes faster than a memmap
    if codes.shape != shape or codes.dtype != dtype:
        logger.warning(
            "solver cache %s holds %s %s, not %s %s; rebuilding", path, codes.shape, codes.dtype, shape, dtype
        )
        return None
    return codes


def _sealed_view(path: Path, label: str) -> memoryview | None:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= _SEAL_BYTES:
                logger.warning("solver cache %s is truncated; rebuilding", path)
                return None
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("solver cache %s cannot be read (%s); rebuilding", path, error)
        return None
    content, seal = view[:-_SEAL_BYTES], view[-_SEAL_BYTES:]
    expected = hashlib.sha256(_FORMAT + label.encode() + b"\n")
    expected.update(content)
    if expected.digest() != seal:
        logger.warning("solver cache %s does not match its seal; rebuilding", path)
        return None
    return content
