"""The message with which something is refused."""

from collections.abc import Callable


def refusal(read: Callable[[], object], *errors: type[Exception]) -> str:
    """The message of one of these errors, or '' if nothing is raised; any other error is raised further."""
    try:
        read()
    except errors as error:
        return str(error) or type(error).__name__
    return ""
