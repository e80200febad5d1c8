"""Versions of stored settings: today's, and the translation of older ones.

Version 1, which has no number, had starts, reward, sampling and optimizer once for each algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from wordle_rl.config.base import ConfigError, section_of
from wordle_rl.config.rl import ALGORITHM_NAMES, RLSettings, not_followed

VERSION = 2
"""Version of the settings; raise it with every change of names, and let `upgraded` translate the one before."""
VERSION_KEY = "config_version"
"""Key of the version in a run's config.json; no setting."""

_RENAMED = {
    "focus": "prioritized_fraction",
    "scout_every_steps": "probe_every_steps",
    "candidate_shares": "interpolation_alphas",
    "replay_share": "replay_fraction",
    "rl_only_share": "rl_only_fraction",
    "warmup_share": "warmup_fraction",
    "gpu_memory_share": "gpu_memory_utilization",
}
"""Last part of a name in version 1 -> in version 2, in the sections traces and sft and in those of the algorithms."""

_MOVED = {
    ("starts_file",): "rl.starts.file",
    ("starts_share",): "rl.starts.fraction",
    ("eval", "max_completion_tokens"): "max_completion_tokens",
}
_ENDED = {
    "max_bad_steps": "dropped; training stops after 5 steps in a row that are not finite",
    "compile": "dropped, it was slower",
    "outside_choice": "now traces.pseudo_secrets",
    "reveal_rate": "now traces.pseudo_secrets",
    "outside_noise_rate": "dropped; traces.teacher.noise_rate is that of all games",
}
"""Last part of a name in version 1 -> its end, in any section."""
_GONE = {
    "over_steps": "dropped; weights switch at rl.reward.threshold",
    "replay_games": "dropped, it did not help",
    "replay_weight": "dropped, it did not help",
}


def successor(setting: tuple[str, ...]) -> str:
    """New name, or the end, of a setting of version 1, for an error message; empty if there was none of that name.

    Examples:
        >>> successor(("grpo", "max_given"))
        'now rl.starts.max_prefix_guesses'
    """
    if setting in _MOVED:
        return f"now {_MOVED[setting]}"
    if setting[-1] in _ENDED:
        return _ENDED[setting[-1]]
    section, name = setting[:-1], _RENAMED.get(setting[-1], setting[-1])
    of_algorithm = bool(section) and section[0] in ALGORITHM_NAMES
    if of_algorithm and name in _GONE:
        return _GONE[name]
    if of_algorithm and section[1:] == ("sampling",) and name == "max_completion_tokens":
        return "now max_completion_tokens, once for RL and evaluation"
    if of_algorithm and (*section[1:], name) == ("max_given",):
        return "now rl.starts.max_prefix_guesses"
    if of_algorithm and _is_in(RLSettings, (*section[1:], name)):
        return f"now rl.{'.'.join((*section[1:], name))}"
    return f"now {'.'.join((*section, name))}" if name != setting[-1] else ""


def _is_in(section: type[BaseModel], setting: tuple[str, ...]) -> bool:
    first, *rest = setting
    if first not in section.model_fields:
        return False
    inner = section_of(section.model_fields[first].annotation)
    return _is_in(inner, tuple(rest)) if inner and rest else not inner and not rest


def version_of(values: Mapping[str, Any]) -> int:
    """The version of stored settings.

    Raises:
        ConfigError: If it is not known here.
    """
    version = values.get(VERSION_KEY, 1)
    if version not in range(1, VERSION + 1):
        raise ConfigError(f"{VERSION_KEY} {version!r} is not known here")
    return int(version)


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings under today's names, without the version; what is missing stays missing.

    For reading only: what older runs did and today's cannot (replayed games in GRPO, weights that move by steps) is
    dropped.

    Raises:
        ConfigError: If the version is not known here.
    """
    rest = {name: value for name, value in values.items() if name != VERSION_KEY}
    return rest if version_of(values) == VERSION else _from_1(rest)


def _from_1(old: Mapping[str, Any]) -> dict[str, Any]:
    algorithm = old.get("algorithm", "grpo")
    translated = ("traces", "sft", *ALGORITHM_NAMES)
    new = {n: _renamed(v) if n in translated and isinstance(v, dict) else v for n, v in old.items()}
    starts = {"file": new.pop("starts_file", None), "fraction": new.pop("starts_share", None)}
    if starts["file"] is None:
        starts["fraction"] = None  # of no file
    played = new.get(algorithm)
    played = played if isinstance(played, dict) else {}
    starts["max_prefix_guesses"] = played.get("max_given")
    unused = not_followed(algorithm, played.get("judge")) if algorithm in ALGORITHM_NAMES else {}
    rl = {name: value for name, value in played.items() if name in RLSettings.model_fields and name not in unused}
    for part, gone in (("reward", "over_steps"), ("sampling", "max_completion_tokens")):
        if isinstance(rl.get(part), dict):
            rl[part] = {name: value for name, value in rl[part].items() if name != gone}
    rl["starts"] = {name: value for name, value in starts.items() if value is not None}
    gone_from_sections = {*RLSettings.model_fields, "max_given", "replay_games", "replay_weight"}
    for name in ALGORITHM_NAMES:
        if isinstance(new.get(name), dict):
            new[name] = {key: value for key, value in new[name].items() if key not in gone_from_sections}
    if isinstance(new.get("eval"), dict) and "max_completion_tokens" in new["eval"]:
        evaluation = dict(new["eval"])
        new["max_completion_tokens"], new["eval"] = evaluation.pop("max_completion_tokens"), evaluation
    return {**new, "rl": rl}


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """A section with today's names, without settings that ended."""
    return {
        _RENAMED.get(name, name): _renamed(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if name not in _ENDED
    }
