"""Law of secrecy: before the end of a game nothing that the server sends holds its secret, or a hash of it."""

import base64
import hashlib
import itertools
import json
import logging
import re
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import ClientConnection
from wordle_server import RunningServer, wordle_server

from wordle_rl.prompt import Style
from wordle_rl.serve.openenv_client import ResetOptions
from wordle_rl.serve.serve_settings import ServeSettings

REPLIES = (
    "<guess>fuzzy</guess>", "prose", "", "<guess>zzzzz</guess>", "<think>open", "<guess>jiffy</guess>",
    "<guess>toolong</guess>", "[fuzzy]", "\u2028\x00é🟩", "<guess>mamma</guess>",
)  # fmt: skip
ODD = ("{", "[]", '{"type":"x"}', '{"type":"step","data":{}}', '{"type":"reset","data":{"seed":-1}}',
       '{"type":"reset","data":{"split":"test"}}', '{"type":"reset","data":{"given":["zz"]}}')  # fmt: skip


class Player:
    """A session that keeps all it hears."""

    def __init__(self, socket: ClientConnection) -> None:
        self.heard, self.socket = "", socket

    def send(self, text: str) -> dict[str, Any]:
        self.socket.send(text)
        said = self.socket.recv(timeout=20)
        self.heard += said
        return json.loads(said)["data"]

    def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        return self.send(json.dumps({"type": kind, "data": data}))


def forms(word: str) -> Iterator[str]:
    """A word as it might be sent: plain, spaced, reversed, encoded, hashed without a key."""
    raw = word.encode()
    yield from (word, " ".join(word), word[::-1], "-".join(word))
    yield base64.b64encode(raw).decode().rstrip("=")
    yield raw.hex()
    yield json.dumps([ord(letter) for letter in word])
    yield "".join(f"%{letter:02x}" for letter in raw)
    for name in ("md5", "sha1", "sha256", "sha512", "blake2b"):
        for value in (word, word.upper()):
            digest = hashlib.new(name, value.encode()).digest()
            yield digest.hex()[:12]
            yield base64.b64encode(digest)[:10].decode()
    yield str(zlib.crc32(raw))


def held(word: str, sent: str) -> list[str]:
    lowered = sent.lower()
    return [form for form in forms(word) if form.lower() in lowered]


def plain_secrets(server: RunningServer, count: int) -> list[tuple[int, str]]:
    """Seeds whose secrets are no words of the prompts, the replies or the protocol itself."""
    with server.connect() as socket:
        player = Player(socket)
        for style in Style:
            player.ask("reset", style=style, reward="notebook")
        player.ask("state")
    with server.connect("/textarena/ws") as socket:
        (theirs := Player(socket)).ask("reset")
        theirs.ask("state")
    said = set(re.findall("[a-z]{5}", f"{player.heard} {theirs.heard} {REPLIES} {ODD}".lower()))
    tasks = server.games.offered()
    secrets = ((seed, tasks.secret(tasks.pick("train", None, seed))) for seed in itertools.count())
    return list(itertools.islice(((seed, secret) for seed, secret in secrets if secret not in said), count))


@pytest.mark.parametrize("path", ["/ws", "/textarena/ws"])
def test_nothing_before_the_end_holds_the_secret(server, path: str, caplog) -> None:
    caplog.set_level(logging.INFO)
    games = plain_secrets(server, 40)
    presets = itertools.cycle(("sparse", "notebook", "strict_xml"))
    for (seed, secret), style, reward in zip(games, itertools.cycle(Style), presets, strict=False):
        options = {"style": style, "reward": reward} if path == "/ws" else {}
        wrap = ("[", "]") if not options or style is Style.TEXTARENA else ("<guess>", "</guess>")
        with server.connect(path) as socket:
            player = Player(socket)
            player.ask("reset", seed=seed, max_given=seed % 3, **options)
            state, first = player.ask("state"), seed % len(REPLIES)
            left = state["turns_left"] if options else 6 - state["turn"]
            for reply in itertools.islice(itertools.cycle(REPLIES), first, first + left - 1):
                player.ask("step", message=reply.replace("<guess>", wrap[0]).replace("</guess>", wrap[1]))
                player.ask("state")
            assert all("reason" in player.send(odd) for odd in ODD)
            assert held(secret, player.heard) == [], (seed, style)
            assert player.ask("step", message=f"{wrap[0]}kudzu{wrap[1]}")["done"]
            player.ask("state")
            assert held(secret, player.heard)[:1] == [secret]
    assert not [record for record in caplog.records if any(secret in record.getMessage() for _, secret in games)]


@pytest.mark.parametrize(("path", "reply"), [("/ws", "<guess>fuzzy</guess>"), ("/textarena/ws", "[fuzzy]")])
def test_a_server_that_shows_no_secret_sends_none_at_the_end_either(path: str, reply: str) -> None:
    with wordle_server(ServeSettings(reveal_secret=False)) as running:
        for seed, secret in plain_secrets(running, 5):
            with running.connect(path) as socket:
                player = Player(socket)
                player.ask("reset", seed=seed)
                for _ in range(6):
                    last = player.ask("step", message=reply)
                assert last["done"]
                assert player.ask("state").get("task_id") is None
                assert held(secret, player.heard) == []


@pytest.mark.parametrize("path", ["/ws", "/textarena/ws"])
@pytest.mark.parametrize("named", [{}, {"seed": 5}, {"index": 5}, {"seed": 5, "index": 5}])
def test_a_board_is_begun_alike_whether_or_not_it_names_the_secret(server, path: str, named: dict[str, int]) -> None:
    tasks = server.games.offered()
    secret = tasks.secret(tasks.pick("train", named.get("index"), named.get("seed", 0)))
    with server.connect(path) as socket:
        for given in ([secret], ["crane"], [secret, "crane"], ["crane", secret.upper()]):
            player = Player(socket)
            begun = player.ask("reset", given=given, **named)
            assert not begun["done"]
            assert begun["observation"].get("turns_left", 6 - len(given)) == 6 - len(given)
            state = player.ask("state")
            board = [turn["guess"] for turn in state.get("board", ())] or [
                guess for guess, _ in state["raw_state"]["game_state"]["guess_history"]
            ]
            assert board == [word.lower() for word in given]
            assert "GGGGG" not in player.heard


def test_boards_on_one_seed_score_no_word_of_another_ones_secret(server) -> None:
    """Else a few resets would find the secret of a seed. A group with one seed and one board has one secret."""
    games = server.games
    boards = [ResetOptions(seed=1, given=[word]) for word in ("crane", "slips", "fight")]
    played = [games.new_game(options, {}).env._secret for options in boards * 2]
    assert played[:3] == played[3:]
    assert len(set(played)) == 3


def test_the_scan_finds_what_it_looks_for() -> None:
    for form in forms("crane"):
        assert held("crane", f"...{form}...")
    assert not held("crane", "crate, slate")
