"""Addresses of endpoints and their keys. Keys come from the environment or `.env` and are never stored or shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from wordle_rl.config.base import ConfigError

NO_KEY = "no-key-needed"
"""Sent if there is no key, since the client library requires one."""
_SHORTEST_SECRET = 16
"""Shorter keys, in characters, are placeholders such as `EMPTY`, which ordinary text can contain."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, its key and the environment variable of that, and its name for the token limit.

    Neither `repr` nor any message holds the key.
    """

    base_url: str
    key_name: str
    key: str = field(default=NO_KEY, repr=False)
    limit_name: str = "max_tokens"
    needs_key: bool = True

    def without_key(self, text: str) -> str:
        """Replace the key in a text, since a server can echo it; placeholders stay."""
        is_secret = self.key != NO_KEY and len(self.key) >= _SHORTEST_SECRET
        return text.replace(self.key, "(key)") if is_secret else text


PROVIDERS = {
    "together": Endpoint("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": Endpoint("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    # OpenAI's reasoning models refuse `max_tokens`.
    "openai": Endpoint("https://api.openai.com/v1", "OPENAI_API_KEY", limit_name="max_completion_tokens"),
    "local": Endpoint("http://localhost:8000/v1", "OPENAI_API_KEY", needs_key=False),
}
_BY_ADDRESS = {provider.base_url: provider for provider in PROVIDERS.values()}


def find_endpoint(provider: str, directory: Path, *, with_user: bool = False) -> Endpoint:
    """Return the endpoint of a provider, with its key from the environment or from `.env` in `directory`.

    `provider` is a name in `PROVIDERS`, or an address with http:// or https://. `with_user` allows user and password in
    it, for your own server behind a proxy.
    """
    found = PROVIDERS.get(provider) or _BY_ADDRESS.get(provider.rstrip("/"))
    if found is None:
        address = _address_of(provider)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(f"unknown provider {provider!r}; use {', '.join(PROVIDERS)}, or an address with http://")
        if (address.username or address.password) and not with_user:
            raise ConfigError("the address holds a user or password; leave them out and set OPENAI_API_KEY instead")
        found = Endpoint(provider, "OPENAI_API_KEY", needs_key=False)
    key = os.environ.get(found.key_name) or read_env_file(directory / ".env").get(found.key_name) or ""
    if not key and found.needs_key:
        raise ConfigError(f"{provider} needs a key; set {found.key_name}, or write {found.key_name}=… into .env")
    if not all("!" <= letter <= "~" for letter in key):  # the client's error would quote the header, key included
        raise ConfigError(f"{found.key_name} holds blanks or other characters that no key has; set it again")
    return replace(found, key=key or NO_KEY)


def bare_address(provider: str) -> str:
    """Return the address of a provider without user and query, to store or show it.

    Examples:
        >>> bare_address("together"), bare_address("http://me:mine@host:8000/v1?token=mine")
        ('https://api.together.xyz/v1', 'http://host:8000/v1')
    """
    address = _address_of(PROVIDERS[provider].base_url if provider in PROVIDERS else provider)
    return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"


def _address_of(text: str) -> SplitResult:
    try:
        address = urlsplit(text)
        (address.hostname or "").encode("idna")
        address.port  # noqa: B018  # raises if it is not a number, or too large
    except ValueError:
        shown = text.rpartition("@")[2].partition("?")[0]  # without user and query, which can hold secrets
        raise ConfigError(
            f"invalid host or port in address {shown!r}; write it like http://localhost:8000/v1"
        ) from None
    return address


_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*"""
    r"""(?:(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|(?P<plain>.*?))\s*(?:(?<=\s)\#.*)?""",
    re.ASCII,
)


def read_env_file(path: Path) -> dict[str, str]:
    """Read `NAME=value` lines; values can be quoted, `export` and comments are skipped. A missing file is empty."""
    if not path.is_file():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file; write NAME=value lines in UTF-8") from None
    return {match["name"]: match["quoted"] or match["plain"] or "" for match in map(_LINE.fullmatch, lines) if match}
