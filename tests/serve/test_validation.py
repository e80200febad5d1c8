"""Laws of OpenEnv's own validation: our package passes what openenv implements, and what it does not is known."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from openenv.validation import Level, run_validation

from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

PACKAGE = Path(__file__).resolve().parents[2] / "environments" / "openenv"
LOCAL = runpy.run_path(str(PACKAGE / "validation" / "local.py"))
IMPLEMENTED = {
    "static.manifest", "runtime.startup", "runtime.reward_well_formed", "runtime.observation_schema",
    "runtime.state_contract", "runtime.network_policy",
}  # fmt: skip


def test_the_package_passes_the_static_level() -> None:
    report = run_validation(PACKAGE, max_level=Level.STATIC)
    assert (report.verdict.value, [result.status.value for result in report.results]) == ("pass", ["pass"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of websockets, for what openenv's collector calls
def test_the_graders_that_openenv_implements_pass_through_a_local_process(capsys) -> None:
    report = LOCAL["validate"](PACKAGE, patience=8)
    graded = {result.check_id: result.status.value for result in report.results if result.status.value != "skip"}
    assert graded == dict.fromkeys(IMPLEMENTED, "pass"), [result.evidence for result in report.results]
    missing = LOCAL["unimplemented_checks"]()
    assert not IMPLEMENTED & set(missing)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(missing)} checks that openenv lists and nothing implements: {', '.join(missing)}\n")


def test_canaries_stay_at_the_floor() -> None:
    """Canned replies lose every game of a hundred seeds, the oracle's would win at once."""
    from wordle_rl.env import WordleEnv
    from wordle_rl.prompt import Prompter

    words = load_words()
    canaries = json.loads((PACKAGE / "validation" / "canaries.json").read_text())
    for secret in split_secrets(words).train[:100]:
        for name, replies in canaries.items():
            env = WordleEnv(secret, words, Prompter())
            for reply in replies:
                env.step(reply)
            assert env.stop_reason == "out_of_turns", name
