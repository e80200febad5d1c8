"""Base of the errors that a user can mend; the command prints them as one line."""


class UserError(ValueError):
    """A wrong input: the message names it, says what was expected, and how to mend it."""
