"""How something is refused."""

from collections.abc import Callable

from wordle_rl.config import ConfigError


def names(error: ConfigError, setting: str) -> bool:
    """True if an error in one line names a setting, by `error.setting` or as one of the settings of that section."""
    own = setting.removeprefix(error.setting).lstrip(".")
    return setting.startswith(error.setting) and own in str(error) and "\n" not in str(error)


def refusal(read: Callable[[], object], *errors: type[Exception]) -> str:
    """The message of one of these errors, or '' if nothing is raised; any other error is raised further."""
    try:
        read()
    except errors as error:
        return str(error) or type(error).__name__
    return ""
