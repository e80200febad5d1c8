"""Laws of the page for users of other projects: every setting, file and preset on it exists."""

import re
from pathlib import Path

from wordle_rl.config import RunConfig, setting_names
from wordle_rl.reward import CURRICULA, PRESETS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")


def ours() -> list[str]:
    """The right column of every table."""
    rows = [line.split(" | ", 1) for line in PAGE.splitlines() if line.startswith("| ") and "| here |" not in line]
    assert all(len(row) == 2 for row in rows)
    return [row[1] for row in rows]


def spans() -> list[str]:
    return [span for cell in ours() for span in re.findall(r"`([^`]+)`", cell)]


def test_every_setting_on_the_right_exists() -> None:
    known = {".".join(setting) for setting in setting_names(RunConfig)} | {"model.template_kwargs"}
    sections = {name.partition(".")[0] for name in known if "." in name}
    named = [re.match(r"[a-z_]+(?:\.[a-z_0-9]+)+", span) for span in spans()]
    settings = {found[0] for found in named if found is not None and found[0].partition(".")[0] in sections}
    assert len(settings) > 30
    assert settings <= known
    options = {found for span in spans() for found in re.findall(r"--([a-z]+(?:\.[a-z-]+)+)", span)}
    assert {option.replace("-", "_") for option in options} <= known


def test_every_preset_and_path_on_the_right_exists() -> None:
    presets = {found for span in spans() for found in re.findall(r'preset = "(\w+)"', span)}
    assert presets
    assert presets <= {*PRESETS, *CURRICULA}
    paths = {found for span in spans() for found in re.findall(r"(?:scripts|examples|environments)/[\w./-]+", span)}
    assert paths
    assert all((ROOT / path).exists() for path in paths)
