"""Laws of the gate: without the token nothing is served but the probes, and no page of another site plays."""

import base64
import json
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import InvalidStatus
from wordle_server import ask, wordle_server

from wordle_rl.serve.serve_settings import ServeSettings

TOKEN = "opensesameé"


def get(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"me:{token}".encode()).decode()


@pytest.fixture(scope="module")
def guarded():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVE_TOKEN", TOKEN)
        with wordle_server(ServeSettings(token_variable="SERVE_TOKEN")) as running:
            yield running


WRONG = ["", "Bearer", "Bearer ", "Bearer x", "Basic !!", "Basic", f"Token {TOKEN}".encode().decode("latin-1"),
         basic("x"), basic("")]  # fmt: skip


@pytest.mark.parametrize(
    "path", ["/", "/watch/", "/metadata", "/schema", "/metrics", "/docs", "/openapi.json", "/wordle_rl/splits"]
)
def test_no_route_but_the_probes_is_served_without_the_token(guarded, path) -> None:
    for wrong in WRONG:
        assert get(guarded.address + path, **({"Authorization": wrong} if wrong else {})) == 401
    assert get(guarded.address + path, Authorization=f"Bearer {TOKEN}".encode().decode("latin-1")) == 200
    assert get(guarded.address + path, Authorization=basic(TOKEN)) == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_probes_need_no_token(guarded, path) -> None:
    assert get(guarded.address + path) == 200


@pytest.mark.parametrize("path", ["/ws", "/batch"])
def test_no_socket_is_opened_without_the_token(guarded, path) -> None:
    for wrong in WRONG:
        with (
            pytest.raises(InvalidStatus) as refused,
            guarded.connect(path, additional_headers={"Authorization": wrong}),
        ):
            pass
        assert refused.value.response.status_code == 401
        assert "token" in json.loads(refused.value.response.body)["message"]
    with guarded.connect(path, additional_headers={"Authorization": basic(TOKEN)}):
        pass


def test_a_page_of_another_site_opens_no_socket(guarded) -> None:
    headers = {"Authorization": basic(TOKEN)}
    with pytest.raises(InvalidStatus) as refused:
        guarded.connect(additional_headers=headers, origin="http://elsewhere.example")
    assert refused.value.response.status_code == 403
    with guarded.connect(additional_headers=headers, origin=guarded.address) as same:
        assert ask(same, "reset")["type"] == "observation"
