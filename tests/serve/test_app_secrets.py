"""Law of secrecy: before the end of a game no byte that the server sends holds its secret, or a hash of it."""

import base64
import hashlib
import itertools
import json
import logging
import re
import socket
import threading
import urllib.parse
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from websockets.sync.client import connect
from wordle_server import ask, secret_of, wordle_server

from wordle_rl.prompt import Style
from wordle_rl.serve.serve_settings import ServeSettings

REPLIES = (
    "<guess>fuzzy</guess>", "prose", "", "<guess>zzzzz</guess>", "<think>open", "<guess>jiffy</guess>",
    "<guess>toolong</guess>", "[fuzzy]", "\u2028\x00é🟩", "<guess>mamma</guess>",
)  # fmt: skip
ODD = ("{", "[]", '{"type":"x"}', '{"type":"step","data":{}}', '{"type":"reset","data":{"seed":-1}}',
       '{"type":"reset","data":{"split":"test"}}', '{"type":"reset","data":{"given":["zz"]}}')  # fmt: skip


class Tap:
    """A relay that keeps every byte that comes from the server."""

    def __init__(self, port: int) -> None:
        self._target, self.heard, self._lock = port, bytearray(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, keep: bool) -> None:
        try:
            while data := source.recv(65536):
                if keep:
                    with self._lock:
                        self.heard += data
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for side in (source, sink):
                with suppress(OSError):  # the other direction may have ended it
                    side.shutdown(socket.SHUT_RDWR)
                side.close()

    def bytes(self) -> bytes:
        with self._lock:
            return bytes(self.heard)


@contextmanager
def tapped(port: int) -> Iterator[Tap]:
    tap = Tap(port)
    try:
        yield tap
    finally:
        tap.listener.close()


def forms(word: str) -> Iterator[bytes]:
    """A word as it might be sent: plain, spaced, reversed, encoded, hashed without a key."""
    for text in (word, " ".join(word), word[::-1], "-".join(word)):
        yield text.encode()
    raw = word.encode()
    yield base64.b64encode(raw).rstrip(b"=")
    yield raw.hex().encode()
    yield json.dumps([ord(letter) for letter in word]).encode()
    yield "".join(f"%{letter:02x}" for letter in raw).encode()
    for name in ("md5", "sha1", "sha256", "sha512", "blake2b"):
        for value in (word, word.upper()):
            digest = hashlib.new(name, value.encode()).digest()
            yield digest.hex()[:12].encode()
            yield base64.b64encode(digest)[:10]
    yield str(zlib.crc32(raw)).encode()


def held(word: str, sent: bytes) -> list[bytes]:
    lowered = sent.lower()
    return [form for form in forms(word) if form.lower() in lowered]


def plain_secrets(service, prompts: str) -> Iterator[tuple[int, str]]:
    """Seeds whose secrets are no words of the prompts, the replies or the protocol itself."""
    said = set(re.findall("[a-z]{5}", prompts.lower()))
    for seed in itertools.count():
        secret = secret_of(service, seed)
        if secret not in said and not any(secret in text for text in (*REPLIES, *ODD)):
            yield seed, secret


@pytest.fixture(scope="module")
def server():
    with wordle_server(ServeSettings()) as running:
        yield running


def protocol_words(running) -> str:
    """Everything the server says of itself whatever the secret."""
    with running.connect() as one:
        said = [json.dumps(ask(one, "reset", style=style, reward="notebook")) for style in Style]
        said.append(json.dumps(ask(one, "state")))
    return " ".join(said) + urllib.parse.unquote(json.dumps(ODD)) + "HTTP Upgrade websocket Connection server agent"


def test_no_byte_before_the_end_holds_the_secret(server, caplog) -> None:
    caplog.set_level(logging.INFO)
    games = list(itertools.islice(plain_secrets(server.service, protocol_words(server)), 40))
    with tapped(server.port) as tap:
        for (seed, secret), style, reward in zip(
            games, itertools.cycle(Style), itertools.cycle(("sparse", "notebook", "strict_xml")), strict=False
        ):
            begin = len(tap.bytes())
            with connect(f"ws://127.0.0.1:{tap.port}/ws", compression=None) as play:
                ask(play, "reset", seed=seed, style=style, reward=reward, max_given=seed % 3)
                wrap = ("[", "]") if style is Style.TEXTARENA else ("<guess>", "</guess>")
                left = ask(play, "state")["data"]["turns_left"]
                for reply in itertools.islice(itertools.cycle(REPLIES), seed % len(REPLIES), None):
                    if left == 1:
                        break
                    left = ask(play, "step", message=reply.replace("<guess>", wrap[0]).replace("</guess>", wrap[1]))[
                        "data"
                    ]["observation"]["turns_left"]
                    ask(play, "state")
                for odd in ODD[:3]:
                    play.send(odd)
                    play.recv()
                for odd in ODD[3:]:
                    play.send(odd)
                    assert json.loads(play.recv())["type"] == "error"
                before_the_end = tap.bytes()[begin:]
                assert held(secret, before_the_end) == [], (seed, style)
                last = ask(play, "step", message=f"{wrap[0]}kudzu{wrap[1]}")["data"]
                assert (last["done"], last["observation"]["secret"]) == (True, secret)
                assert held(secret, tap.bytes()[begin:])[:1] == [secret.encode()]
    assert not [record for record in caplog.records if any(secret in record.getMessage() for _, secret in games)]
    assert not [secret for _, secret in games if secret in server.service.metrics.text().decode()]


def test_a_server_that_shows_no_secret_sends_none_at_the_end_either() -> None:
    with wordle_server(ServeSettings(reveal_secret=False)) as running, tapped(running.port) as tap:
        for seed, secret in itertools.islice(plain_secrets(running.service, protocol_words(running)), 5):
            begin = len(tap.bytes())
            with connect(f"ws://127.0.0.1:{tap.port}/ws", compression=None) as play:
                ask(play, "reset", seed=seed)
                for _ in range(6):
                    last = ask(play, "step", message="<guess>fuzzy</guess>")["data"]
                assert last["done"]
                ask(play, "state")
            assert held(secret, tap.bytes()[begin:]) == []


def test_the_scan_finds_what_it_looks_for() -> None:
    for form in forms("crane"):
        assert held("crane", b"..." + form + b"...")
    assert not held("crane", b"crate, slate")
