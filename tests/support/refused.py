"""How something is refused."""

from collections.abc import Callable

from wordle_rl.config.base import ConfigError


def names(error: ConfigError, setting: str) -> bool:
    """True if an error in one line names a setting, or its section and then the setting."""
    section, _, own = setting.rpartition(".")
    return (setting in str(error) or (section in str(error) and own in str(error))) and "\n" not in str(error)


def refusal(read: Callable[[], object], *errors: type[Exception]) -> str:
    """The message of one of these errors, or '' if nothing is raised; any other error is raised further."""
    try:
        read()
    except errors as error:
        return str(error) or type(error).__name__
    return ""
