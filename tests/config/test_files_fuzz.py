"""Laws of reading settings from anybody: whatever the bytes, settings or one line that names the file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.config import ConfigError, RunConfig, files, load_config
from wordle_rl.config.files import stored_config

PIECES = [
    "[rl]", "[grpo]", "[rl.reward]", "weights = { win = 1.0 }", "weights = 3", "seed = 1", 'seed = "x"', "seed = 1e999",
    "algorithm = 'dpo'", "algorithm = 7", "[game", "a = [", "x = " + "[" * 4000, '"" = 1', "[[rl]]", "steps = nan",
    "\x00", "\ufeff", "é = 1", "seed = 99999999999999999999999999", "grpo = 1", "[model]", 'path = "tiny"',
    "[sft.lora]", "rl = []", '[words]\nsource = "../../etc/passwd"', "seed = 1979-05-27", "{", '{"seed": 1}', "}",
    "null",
]  # fmt: skip
CONTENT = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("\n".join).map(str.encode),
    st.binary(max_size=80),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, name=st.sampled_from(["run.toml", "config.json"]))
def test_any_bytes_are_settings_or_one_line(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for read in (load_config, stored_config):
        if told := refusal(lambda read=read: read(path), ConfigError):
            assert str(path) in told
            assert len(told.splitlines()) == 1
        else:
            assert isinstance(read(path), RunConfig)


@pytest.mark.parametrize(("name", "text"), [("run.toml", "x = " + "[" * 50_000), ("config.json", "[" * 100_000)])
def test_a_file_deeper_than_python_can_follow_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name):
        load_config(tmp_path / name)


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 20)
    (tmp_path / "run.toml").write_text("seed = 1\n# a long remark\n")
    with pytest.raises(ConfigError, match=r"run\.toml has 25 bytes"):
        load_config(tmp_path / "run.toml")
