"""Laws of the command `rewards`: it shows the weights in use, and refuses a reward that can be had without winning."""

import json
from pathlib import Path

from wordle_rl.reward import PRESETS

FEW = ("--attack", "--secrets", "1", "--steps", "1", "--answers", "20")
FORM_ALONE = '[model]\npath = "tiny"\n[rl.reward]\nweights = { format = 1.0 }\nkeep_order = false\n'


def test_every_preset_is_shown_with_the_weights_in_use(cli) -> None:
    code, out, _ = cli("rewards", "--json")
    assert code == 0
    assert json.loads(out) == {name: dict(preset.effective_weights) for name, preset in PRESETS.items()}
    assert all(name in cli("rewards")[1] for name in PRESETS)
    assert json.loads(cli("rewards", "shaped", "--no-keep-order", "--json")[1])["shaped"] == PRESETS["shaped"].weights


def test_a_reward_that_switches_has_two_rows(cli, tmp_path: Path) -> None:
    shown = json.loads(cli("rewards", "shaped_curriculum", "--json")[1])
    assert list(shown) == ["shaped_curriculum", "shaped_curriculum, later"]


def test_an_attack_reports_floor_and_gap(cli, word_directory) -> None:
    code, out, err = cli("rewards", "sparse", *FEW, "--words", word_directory, "--json")
    assert code == 0, err
    (found,) = json.loads(out).values()
    assert (found["floor"], found["false_wins"]) == (0.0, 0)
    assert found["gap"] == found["honest"] > 0.5
    assert "the best policy" in cli("rewards", "sparse", *FEW, "--words", word_directory)[1]


def test_a_reward_of_ones_own_that_pays_form_alone_is_refused(cli, word_directory, tmp_path: Path) -> None:
    (tmp_path / "form.toml").write_text(FORM_ALONE)
    code, out, err = cli("rewards", tmp_path / "form.toml", *FEW, "--words", word_directory)
    assert code == 2
    assert "form.toml" in out
    assert "earns as much as honest play" in " ".join(err.split())
