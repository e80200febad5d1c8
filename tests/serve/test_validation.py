"""Laws of OpenEnv's own validation: our package passes what openenv implements, and what it does not is known."""

import runpy
import sys
from pathlib import Path

import pytest
from openenv.validation import Level, run_validation

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
