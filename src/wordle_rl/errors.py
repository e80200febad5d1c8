"""Base of the errors that a user can mend; the command prints them as one line."""


class UserError(ValueError):
    """A wrong input: the message names it, says what was expected, and how to mend it."""


def first_line(error: Exception) -> str:
    """Return the first line of another library's error, or the name of its type if it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
