"""Laws of trackers that cannot be opened: refused in one line, before a run and when a stage opens them."""

import sys
from typing import Any

import pytest
from fake_trackers import FakeTrackio, FakeWandb, fake_trackio, fake_wandb  # noqa: F401  # fixtures, two of them

from wordle_rl.config import ConfigError
from wordle_rl.runs.trackers import Tracking, check_trackers, open_trackers

NAMES = Tracking("first", "wordle")


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_that_fails_to_open_is_one_line_and_the_others_are_closed(
    name, wandb, trackio, tmp_path, monkeypatch
) -> None:
    others = {"wandb": "trackio", "trackio": "wandb"}
    broken = {"wandb": FakeWandb(FakeWandb.Error("no\nnet")), "trackio": FakeTrackio(ConnectionError("no\nnet"))}
    monkeypatch.setitem(sys.modules, name, broken[name])
    with pytest.raises(ConfigError, match=f"report_to '{name}'") as refused:
        open_trackers([others[name], name], NAMES, "sft", tmp_path)
    assert len(str(refused.value).splitlines()) == 1
    assert (wandb.run, trackio.is_open) == (None, False)


@pytest.mark.parametrize(
    ("name", "package"),
    [("wandb", "wandb"), ("trackio", "trackio"), ("trackio", "pandas"), ("tensorboard", "tensorboard")],
)
def test_a_missing_package_is_refused_before_and_when_opening(name, package, trackio, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for attempt in (lambda: check_trackers([name], NAMES), lambda: open_trackers([name], NAMES, "sft", tmp_path)):
        with pytest.raises(ConfigError, match=f"report_to '{name}'.* pip install {package}"):
            attempt()


def test_a_check_asks_wandb_for_a_key_but_opens_nothing(wandb, trackio, monkeypatch) -> None:
    check_trackers(["wandb", "trackio"], NAMES)
    assert (wandb.logins, wandb.runs, trackio.opened) == (1, [], [])
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(FakeWandb.Error("no key")))
    with pytest.raises(ConfigError, match="report_to 'wandb'"):
        check_trackers(["wandb"], NAMES)


class FakeHub:
    """`HfApi().whoami`, which returns or raises what was set."""

    def __init__(self, result: dict[str, Any] | Exception) -> None:
        self._result = result

    def __call__(self) -> "FakeHub":
        return self

    def whoami(self) -> dict[str, Any]:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def account(role: str, name: str = "Me") -> dict[str, Any]:
    return {
        "name": name,
        "orgs": [{"name": "lab"}],
        "auth": {"type": "access_token", "accessToken": {"role": role}},
    }


def test_an_unreachable_hub_and_a_token_without_rights_are_refused(trackio, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    errors = pytest.importorskip("huggingface_hub.errors")
    refusals = (
        errors.LocalTokenNotFoundError("no token"),
        errors.OfflineModeIsEnabled("offline"),
        errors.HTTPError("not\nreached"),
        account("read"),
        account("write", "you"),
    )
    for refusal in refusals:
        monkeypatch.setattr(hub, "HfApi", FakeHub(refusal))
        with pytest.raises(ConfigError, match="trackio:me/space") as refused:
            check_trackers(["trackio"], Tracking("first", None, "me/space"))
        assert len(str(refused.value).splitlines()) == 1
