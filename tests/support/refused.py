"""How something is refused."""

from collections.abc import Callable

from wordle_rl.config import ConfigError


def names(error: ConfigError, setting: str) -> bool:
    """True if an error in one line names a setting, as `error.setting` or in its text."""
    section, _, own = setting.rpartition(".")
    named = error.setting == setting or setting in str(error) or (section == error.setting and own in str(error))
    return named and "\n" not in str(error)


def refusal(read: Callable[[], object], *errors: type[Exception]) -> str:
    """The message of one of these errors, or '' if nothing is raised; any other error is raised further."""
    try:
        read()
    except errors as error:
        return str(error) or type(error).__name__
    return ""
