"""Laws of endpoints and keys: the environment wins over .env, and no message ever holds a key."""

import pytest

from wordle_rl.config.base import ConfigError
from wordle_rl.policy.providers import NO_KEY, PROVIDERS, bare_address, find_endpoint, read_env_file


@pytest.fixture(autouse=True)
def no_keys(monkeypatch) -> None:
    for provider in PROVIDERS.values():
        monkeypatch.delenv(provider.key_name, raising=False)


@pytest.mark.parametrize("name", ["together", "fireworks", "openai"])
def test_a_public_provider_needs_its_own_key(name, monkeypatch, tmp_path) -> None:
    with pytest.raises(ConfigError, match=PROVIDERS[name].key_name):
        find_endpoint(name, tmp_path)
    monkeypatch.setenv(PROVIDERS[name].key_name, "key-1")
    found = find_endpoint(name, tmp_path)
    assert (found.base_url, found.key) == (PROVIDERS[name].base_url, "key-1")
    assert found.base_url.startswith("https://")


def test_the_environment_wins_over_the_file(monkeypatch, tmp_path) -> None:
    (tmp_path / ".env").write_text("TOGETHER_API_KEY=from-file\n")
    assert find_endpoint("together", tmp_path).key == "from-file"
    monkeypatch.setenv("TOGETHER_API_KEY", "from-environment")
    assert find_endpoint("together", tmp_path).key == "from-environment"


@pytest.mark.parametrize("host", ["[::1", "[house]", "host:port", "host:99999", "a..b"])
def test_an_address_that_cannot_be_one_is_named_without_user_and_query(host, tmp_path) -> None:
    for address in (f"http://{host}/v1", f"http://me:secret@{host}/v1?token=secret"):
        for read in (lambda address: find_endpoint(address, tmp_path, with_user=True), bare_address):
            with pytest.raises(ConfigError, match="address") as caught:
                read(address)
            assert f"{host}/v1'" in str(caught.value)
            assert "secret" not in str(caught.value)
    assert find_endpoint("http://[::1]:8000/v1", tmp_path).base_url == "http://[::1]:8000/v1"


@pytest.mark.parametrize("key", ["sk-1 2", "sk-1\nx", "sk-é"])
def test_a_key_no_header_can_carry_is_refused_unseen(key, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        find_endpoint("openai", tmp_path)
    assert key not in str(caught.value)


def test_a_key_is_blotted_out_and_never_in_a_repr(monkeypatch, tmp_path) -> None:
    key = "sk-0123456789abc"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    found = find_endpoint("openai", tmp_path)
    assert key not in repr(found)
    assert found.without_key(f"bad key {key}") == "bad key (key)"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert find_endpoint("local", tmp_path).without_key(NO_KEY) == NO_KEY


def test_env_files_are_read_as_people_write_them(tmp_path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# keys\n\nA=1\nexport B = 'two words' # note\nC=\"a#b\"\nD=x # note\nE=\nnot a line\nF=a=b\n  G='un\n"
    )
    assert read_env_file(path) == {"A": "1", "B": "two words", "C": "a#b", "D": "x", "E": "", "F": "a=b", "G": "'un"}
    assert read_env_file(tmp_path / "none") == {}
    path.write_bytes(b"A=\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_env_file(path)
