"""Laws of the checks of trainers: ours passes, and each planted fault fails the check for it."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from faulty_trainers import FOUND, right
from recorded_games import record

from wordle_rl.trainers.check import CHECKS, GROUP_SIZE, Case, examine_trainer


@pytest.fixture(scope="module")
def case() -> Case:
    return Case.recorded()


def with_status(adapter: Any, case: Case, status: str) -> set[str]:
    return {found.check_id for found in examine_trainer(adapter, case) if found.status == status}


def test_the_recorded_games_are_those_that_our_rollout_plays(case: Case) -> None:
    for stored, made in zip(case.games, record(), strict=True):
        kept, fresh = stored.row, made.row
        assert [*kept.sampler_logprobs] == pytest.approx([*fresh.sampler_logprobs], abs=1e-4)
        assert [*kept.advantages] == pytest.approx([*fresh.advantages])
        assert ([*kept.token_ids], [*kept.loss_mask]) == ([*fresh.token_ids], [*fresh.loss_mask])
        assert [*map(dict, stored.messages)] == [*map(dict, made.messages)]
        assert stored.reward == pytest.approx(made.reward)


def test_ours_passes_every_check(case: Case) -> None:
    assert with_status(right, case, "pass") == {f"trainer.{key}" for key in CHECKS}


@pytest.mark.parametrize("fault", FOUND, ids=lambda fault: fault.__name__)
def test_a_fault_fails_the_check_for_it_alone(fault, case: Case) -> None:
    assert with_status(fault, case, "fail") == {FOUND[fault]}


def test_what_an_adapter_leaves_out_is_skipped(case: Case) -> None:
    assert with_status(lambda case: {"ids": right(case)["ids"]}, case, "skip") == {
        f"trainer.{key}" for key in CHECKS if key != "ids"
    }


def test_nothing_is_not_taken_for_agreement(case: Case) -> None:
    assert "trainer.loss" in with_status(lambda case: right(case) | {"loss": {}}, case, "skip")

    def longer(case: Case) -> dict[str, Any]:
        return {"mask": [*right(case)["mask"], [1]]}

    assert with_status(longer, case, "fail") == {"trainer.mask"}


def test_advantages_may_be_scaled_by_group(case: Case) -> None:
    """Trainers divide by the standard deviation of a group, or do not."""

    def scaled(case: Case) -> dict[str, Any]:
        rows = enumerate(right(case)["advantages"])
        return {"advantages": [[value * (2 + place // GROUP_SIZE) for value in row] for place, row in rows]}

    assert with_status(scaled, case, "pass") == {"trainer.advantages"}


def test_the_command_gives_1_after_a_fault_and_writes_a_report(tmp_path: Path, cli) -> None:
    code, out, _ = cli("conformance", "--trainer", "faulty_trainers:right", "--json", "--out", tmp_path)
    assert (code, json.loads(out)["counts"]) == (0, {"pass": 5})
    assert json.loads((tmp_path / "conformance.json").read_text())["conforms"] is True
    assert cli("conformance", "--trainer", "faulty_trainers:shifted")[0] == 1
    assert cli("conformance", "--trainer", "faulty_trainers:nothing")[0] == 2
