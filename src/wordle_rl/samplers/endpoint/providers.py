"""Addresses of endpoints and their keys, which are read from the environment or `.env` and never stored or shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from wordle_rl.config import ConfigError

NO_KEY = "no-key-needed"
"""Sent where there is no key, since the client library requires one."""
_SHORTEST_SECRET = 16
"""Characters. A shorter key is taken for a placeholder such as `EMPTY`, which ordinary text may contain."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A public endpoint, the variable that holds its key, and what it calls the bound on a reply's tokens."""

    base_url: str
    key_name: str
    needs_key: bool = True
    limit_name: str = "max_tokens"


PROVIDERS = {
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    # its reasoning models refuse the older name
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", limit_name="max_completion_tokens"),
    "local": Provider("http://localhost:8000/v1", "OPENAI_API_KEY", needs_key=False),
}


_BY_ADDRESS = {provider.base_url: provider for provider in PROVIDERS.values()}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and its key. Neither `repr` nor any message holds the key."""

    base_url: str
    key_name: str
    key: str = field(default=NO_KEY, repr=False)
    limit_name: str = "max_tokens"

    def without_key(self, text: str) -> str:
        """The text with the key replaced, to be stored or shown: a server may echo it. Placeholders stay."""
        is_secret = self.key != NO_KEY and len(self.key) >= _SHORTEST_SECRET
        return text.replace(self.key, "(key)") if is_secret else text


def find_endpoint(provider: str, directory: Path, *, with_user: bool = False) -> Endpoint:
    """The endpoint of a provider, with its key from the environment or else from `.env` in a directory.

    Args:
        provider: A name among `PROVIDERS`, or an address with http:// or https://. A provider's address means the
            same as its name.
        directory: Where `.env` may be.
        with_user: Allow user and password in an address, for one's own server behind a proxy that asks for them.

    Raises:
        ConfigError: If there is no such provider, or its key is missing or malformed.
    """
    found = PROVIDERS.get(provider) or _BY_ADDRESS.get(provider.rstrip("/"))
    if found is None:
        address = _address_of(provider)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(f"no provider {provider!r}; give {', '.join(PROVIDERS)}, or an address with http://")
        if (address.username or address.password) and not with_user:
            raise ConfigError("leave user and password out of the address; a key goes into OPENAI_API_KEY")
        found = Provider(provider, "OPENAI_API_KEY", needs_key=False)
    key = os.environ.get(found.key_name) or read_env_file(directory / ".env").get(found.key_name) or ""
    if not key and found.needs_key:
        raise ConfigError(f"{provider} needs a key; set {found.key_name}, or write {found.key_name}=… into .env")
    if not all("!" <= letter <= "~" for letter in key):  # a client would quote such a header in its error
        raise ConfigError(f"{found.key_name} holds characters that no key has, such as blanks; set it again")
    return Endpoint(found.base_url, found.key_name, key or NO_KEY, found.limit_name)


def bare_address(provider: str) -> str:
    """The address of a provider, or an address without user and query, to be stored or shown.

    Examples:
        >>> bare_address("together"), bare_address("http://me:mine@host:8000/v1?token=mine")
        ('https://api.together.xyz/v1', 'http://host:8000/v1')
    """
    address = _address_of(PROVIDERS[provider].base_url if provider in PROVIDERS else provider)
    return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"


def _address_of(text: str) -> SplitResult:
    """The parts of an address.

    Raises:
        ConfigError: If its host or port is invalid; the message leaves out its user and query.
    """
    try:
        address = urlsplit(text)
        (address.hostname or "").encode("idna")
        address.port  # noqa: B018  # raises where it is no number, or too large
    except ValueError:
        shown = text.rpartition("@")[2].partition("?")[0]
        raise ConfigError(f"no address {shown!r}: fix its host or port; http://localhost:8000/v1 is one") from None
    return address


_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", re.ASCII)


def read_env_file(path: Path) -> dict[str, str]:
    """Read `NAME=value` lines; values may be quoted, `export` and comments are skipped. A missing file is empty.

    Raises:
        ConfigError: If the file is no text.
    """
    if not path.is_file():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text; write NAME=value lines in UTF-8") from None
    return {match[1]: _value(match[2]) for match in map(_LINE.fullmatch, lines) if match is not None}


def _value(text: str) -> str:
    quoted = re.match(r"""(["'])(.*?)\1\s*(?:#.*)?$""", text)
    return quoted[2] if quoted else re.split(r"(?:^|\s)#", text, maxsplit=1)[0].rstrip()
