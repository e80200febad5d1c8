"""`python -m wordle_rl.trainers.verl`: a run's GRPO or PPO under verl on Ray."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import Command, execute
from wordle_rl.cli.arguments import Overrides, fill_in
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.trainers.verl.settings import VerlSettings, check_settings

INSTALL = 'pip install "wordle-rl[verl]" and vllm or sglang (--rollout), in an environment of its own'


def verl(
    config: Annotated[str, tyro.conf.Positional],
    overrides: Overrides,
    out: Path,
    cluster: Annotated[VerlSettings, tyro.conf.arg(name="")] = VerlSettings(),
    show: bool = False,
) -> None:
    """Train with verl on Ray: one GPU, one machine or many.

    The same command resumes from the last checkpoint.

    Args:
        config: A preset, or a config file.
        overrides: Settings that override the file's.
        out: The run directory, with the model of the stage before GRPO. All machines must see it. {model} and
            {time} in the name stand for the model and the time of the call, so {time} always starts a new run.
        cluster: What verl has settings for and the run has not.
        show: Print the overrides of verl's config, and do not train.
    """
    wanted = load_config(config, overrides)
    check_settings(wanted, cluster)
    # A module of yours that verl imports may bring a server of its own.
    server = () if os.environ.get("VERL_USE_EXTERNAL_MODULES") else (cluster.rollout,)
    needed = ("transformers", "verl", "ray", *server)
    if missing := [name for name in needed if find_spec(name) is None and not show]:
        raise ConfigError(f"verl needs packages that are not installed ({', '.join(missing)}): {INSTALL}")
    from wordle_rl.trainers.verl.launch import launch

    launch(wanted, cluster, fill_in(out, wanted.model.path), show=show)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit codes are those of `wordle-rl`."""
    command = Command("trainers.verl.__main__:verl", "", resumes=True)
    return execute(command, "python -m wordle_rl.trainers.verl", sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
