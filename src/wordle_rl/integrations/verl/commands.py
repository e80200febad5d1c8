"""`wordle-rl verl`: a run's GRPO or PPO under verl on Ray."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.program import Command
from wordle_rl.cli.settings import RunSettings
from wordle_rl.config import ConfigError
from wordle_rl.integrations.verl.refusals import check_settings
from wordle_rl.integrations.verl.settings import VerlSettings

INSTALL = 'pip install "wordle-rl[verl]" and vllm or sglang (--rollout), in an environment of its own'


def verl(
    out: Path,
    settings: Annotated[RunSettings, tyro.conf.arg(name="")] = RunSettings(),
    cluster: Annotated[VerlSettings, tyro.conf.arg(name="")] = VerlSettings(),
    show: bool = False,
) -> None:
    """Train with verl on Ray: one GPU, one machine or many.

    The same command resumes from the last checkpoint.

    Args:
        out: The run directory, with its model of SFT unless `sft.epochs` is 0. All machines must see it.
        settings: Config file and settings, the same as of the run.
        cluster: What verl has settings for and the run has not.
        show: Print the overrides of verl's config, and do not train.
    """
    config = settings.config()
    check_settings(config, cluster)
    # A module of yours that verl imports may bring a server of its own.
    server = () if os.environ.get("VERL_USE_EXTERNAL_MODULES") else (cluster.rollout,)
    needed = ("transformers", "verl", "ray", *server)
    if missing := [name for name in needed if find_spec(name) is None and not show]:
        raise ConfigError(f"verl needs packages that are not installed ({', '.join(missing)}): {INSTALL}")
    from wordle_rl.integrations.verl import launch

    is_new = not out.exists()
    prepared = None
    try:
        prepared = launch.prepare(config, cluster, out)
    finally:
        # What was only shown, or refused, must not stand in the way of the corrected command.
        if is_new and (show or prepared is None):
            shutil.rmtree(out, ignore_errors=True)
    for note in prepared.notes:
        console.messages.print(note, highlight=False, soft_wrap=True)
    if show:
        for override in prepared.overrides:
            console.out.print(override, highlight=False, markup=False, soft_wrap=True)
        return
    console.out.print(f"model: {launch.train(prepared)}", highlight=False)


COMMANDS = {"verl": Command(verl, resumes=lambda **_: True)}
