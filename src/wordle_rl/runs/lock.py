"""Lock files: one process writes a run, or a file of games, at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wordle_rl.runs.atomic_files import RunError, cannot_write

if TYPE_CHECKING:
    from filelock import FileLock

LOCK_FILE = ".lock"
"""Locked by the process that works on a run."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold a lock file within this context; on a file system without locks it does nothing."""
    lock = acquire(path, path)
    try:
        yield
    finally:
        release(lock, path)


def acquire(path: Path, written: Path) -> FileLock | None:
    """Take the lock file `path` of a file that is `written`; None on a file system without locks."""
    from filelock import FileLock, Timeout  # importing it takes 0.1 s

    lock = FileLock(path, blocking=False, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()  # where no file can be made, the lock would seem to be another's
        lock.acquire()
    except Timeout:
        raise RunError(f"another process is writing {written}; wait until it ends, or name another --out") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise cannot_write(written, error) from error
        return None
    return lock


def release(lock: FileLock | None, path: Path) -> None:
    """Give a lock of `acquire` back, and remove its file."""
    if lock is None:
        return
    # Remove the file while it is locked; afterwards another process could own it. If it cannot be removed (a read-only
    # disk, Windows), it locks nobody out.
    with suppress(OSError):
        path.unlink(missing_ok=True)
    lock.release()
