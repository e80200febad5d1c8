"""The sections of a model card, as Markdown from a run's records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wordle_rl.config import ALGORITHM_NAMES, TRAININGS
from wordle_rl.data.trace import UNKNOWN_TEACHER
from wordle_rl.evaluate import CONSTRAINED_PART, PART_NAMES, STRICT_CONSTRAINED_PART, is_sampled_part, sampled_part
from wordle_rl.report.controls import control_table
from wordle_rl.report.read import RunRecord, has_sft, kept_weights
from wordle_rl.report.terminal import number_text, percent_text
from wordle_rl.runs.provenance import calls


def opening(run: RunRecord, name: str) -> str:
    """Play, origin and last training stage of the model."""
    base, model = base_model(run), run.config.get("model", {})
    if base == "tiny":
        sizes = f"{model.get('num_layers')} layers of width {model.get('hidden_size')}"
        made = f"the embedded model of wordle-rl ({sizes}, Qwen3 architecture), trained from nothing"
    else:
        made = f"`{base}`, " + (
            "with low-rank adapters" if model.get("lora", {}).get("rank") else "all weights trained"
        )
    game = run.config.get("game", {})
    rules = f"{game.get('max_turns', 6)} guesses, dictionary {game.get('dictionary', 'strict')}" + (
        ", hard mode" if game.get("hard_mode") else ""
    )
    return (
        f"Plays Wordle as a conversation ({rules}; prompts: {game.get('style')} wording{_told(game)}, "
        f"{game.get('shape')} shape, thinking {game.get('thinking')}). Base: {made}. "
        f"Last stage of training: {stage_name(name)}."
    )


def results(run: RunRecord, name: str) -> str:
    """The figures of the model, a row per part of the secrets."""
    figures = run.results.get(name)
    if not figures:
        return "This model was not evaluated in its run."
    lines = [
        "| played | games | wins (95 % interval) | guesses on wins | losses as one more | invalid turns | errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for part, label in PART_NAMES.items():
        if figures.get(part):
            lines.append(_result_row(label, figures[part]))
        if figures.get(sampled_part(part)):
            lines.append(_result_row(f"{label}, T = 1", figures[sampled_part(part)]))
    said = "Greedy decoding, one game per secret, no retries; Wilson intervals."
    if any(map(is_sampled_part, figures)):
        said += " T = 1: every secret once more, sampled at temperature 1."
    if figures.get(CONSTRAINED_PART) or figures.get(STRICT_CONSTRAINED_PART):
        said += (
            " In rows with limited guesses the model could write listed words only: it shows how well the model "
            "plays if spelling is taken care of, and must not be compared with the other rows."
        )
    return "\n\n".join(["\n".join(lines), said, *_controls(run, name)])


def _controls(run: RunRecord, name: str) -> list[str]:
    """The controls of a model trained by play, and which are not there."""
    table = control_table(run) if name in ALGORITHM_NAMES else None
    if table is None:
        return []
    head = ["", *table.columns]
    rows = [head, ["---"] * len(head), *table.rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    said = f"Wins of {table.model} beside its controls, in %; p is of wins against it, played alike."
    return [said, text, *([table.verdict] if table.verdict else [])]


def training(run: RunRecord, name: str, teachers: Mapping[str, int], proof: str) -> str:
    """Training data and settings of the model, as a list."""
    manifest, split = run.manifest, run.manifest.get("split", {})
    versions, commits = _of_calls(run, "wordle_rl"), _of_calls(run, "git_commit")
    num_train, num_val, num_test = (len(split.get(part, ())) for part in ("train", "val", "test"))
    lines = [
        f"- Teacher games {_taught(run, teachers)}",
        *([] if name == "sft" else [_played(run, name)]),
        f"- Words: list `{word_list(run)}`, fingerprint `{manifest.get('fingerprint')}`, split seed "
        f"{split.get('seed')}: {num_train:,} training, {num_val:,} validation, {num_test:,} held-out secrets. "
        f"{proof}".rstrip(),
        f"- Weights: {_chosen(run, name)}",
        f"- Hardware: {_hardware(run)}",
        f"- Time of the whole run: {_time(run)}",
        f"- wordle-rl {', '.join(versions)}, {'commits' if len(commits) > 1 else 'commit'} "
        f"{', '.join(commits) or 'unknown'}; seed {manifest.get('seed')}",
    ]
    return "\n".join(lines)


_ENGLISH = ("default", "original", "nyt")


def is_english(run: RunRecord) -> bool:
    """True if the words are one of the English lists that the package knows."""
    return word_list(run) in _ENGLISH


def use(run: RunRecord) -> str:
    """Instructions for playing the model, and for loading it without this package."""
    secret = min(run.secrets_of("train"), default="crane") if not is_english(run) else "crane"
    words = (
        ""
        if is_english(run)
        else (
            f"\nIts words, `{word_list(run)}`, are a list of one's own that does not come with the model: "
            "`wordle-rl solve --save --words DIR` brings them in first, under the same name.\n"
        )
    )
    return f"""\
With wordle-rl installed and this directory downloaded to `model`:

```bash
wordle-rl play --player model --secret {secret}
wordle-rl eval --player model
```
{words}
The prompts it was trained with and the split of its words are in `wordle_rl.json` and are used automatically.
Apart from that this is an ordinary model directory of transformers:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("model")
tokenizer = AutoTokenizer.from_pretrained("model")
```"""


def limitations(run: RunRecord) -> str:
    """Limits of the figures and of the model."""
    lines = [
        "- The figures hold for this word list, these prompts and the decoding named beside them; other lists, "
        "wordings and temperatures were not measured.",
        "- Training secrets were the secrets of training games. Held-out secrets were not, but training names many of "
        "them as guesses, some on the very board on which they fall due: only strict secrets, and those never named, "
        "show how the model plays words that it was not shown.",
        "- One training run with one seed; another seed gives other weights, and intervals do not cover that.",
    ]
    if base_model(run) == "tiny":
        lines.append("- It knows only this game: its vocabulary is made for it, and it cannot hold a conversation.")
    else:
        lines.append("- The biases and limits of the base model are those of this model too.")
    return "\n".join(lines)


def licence(run: RunRecord) -> str:
    """The licences of weights and code."""
    if base_model(run) == "tiny":
        return "MIT, for the code of wordle-rl and for these weights."
    return f"The weights: see the base model, `{base_model(run)}`. The code of wordle-rl: MIT."


def settings(run: RunRecord) -> str:
    """The commands and every setting of the run."""
    stored = json.dumps(run.config, indent=2, ensure_ascii=False)
    commands = "\n".join(_of_calls(run, "command"))
    return (
        f"```bash\n{commands}\n```\n\n<details><summary>Every setting</summary>\n\n```json\n{stored}\n```\n\n</details>"
    )


def base_model(run: RunRecord) -> str:
    """The model that the run began with; `tiny`: one made for the run."""
    return str(run.config.get("model", {}).get("path", "tiny"))


def word_list(run: RunRecord) -> str:
    """The name of the word list; of a directory the last part, since its path means nothing on other machines."""
    return Path(str(run.manifest.get("words"))).name


def stage_name(name: str) -> str:
    """Name of a training stage in prose."""
    names: dict[str, str] = {"sft": "supervised fine-tuning"} | {
        str(key): said for key, said in ALGORITHM_NAMES.items()
    }
    return names.get(name, name)


def _told(game: Mapping[str, Any]) -> str:
    """Note that the system prompt is the user's own, or empty; '' if it is the style's."""
    text = game.get("system_prompt")
    if text is None:
        return ""
    return " with a system prompt of its own (`game.system_prompt` below)" if text else " without a system message"


def _result_row(label: str, figures: Mapping[str, Any]) -> str:
    low, high = percent_text(figures.get("win_rate_low")), percent_text(figures.get("win_rate_high"))
    cells = [
        label,
        f"{figures.get('num_games'):,}",
        f"{percent_text(figures.get('win_rate'))} % ({low} to {high})",
        number_text(figures.get("mean_guesses_on_wins"), 2),
        number_text(figures.get("mean_guesses_with_losses"), 2),
        f"{percent_text(figures.get('invalid_rate'))} %",
        str(figures.get("num_errors")),
    ]
    return f"| {' | '.join(cells)} |"


def _taught(run: RunRecord, teachers: Mapping[str, int]) -> str:
    """Purpose, number and players of the teacher games."""
    traces = run.config.get("traces", {})
    given = traces.get("file") is not None
    if teachers:
        named = {"solver": "the solver", UNKNOWN_TEACHER: "an unknown teacher"}
        said = ", ".join(f"{count:,} by {named.get(teacher, teacher)}" for teacher, count in teachers.items())
    else:
        said = f"at most {traces.get('num_games'):,} {'from a given file' if given else 'by the solver'}"
    said += ", with its thinking" if traces.get("narrate") and not given else ""
    if has_sft(run.config):
        return f"for supervised fine-tuning: {said}"
    return f"to replay beside its own: {said}" if teachers else "for supervised fine-tuning: none"


def _played(run: RunRecord, name: str) -> str:
    own, shared = run.config.get(name, {}), run.config.get("rl", {})
    times, groups, where = "rounds", "groups_per_round", ""
    if name == "grpo":  # training by rounds runs in one process only
        times, groups, where = "steps", "groups_per_step", " per process"
    kind = next(training for algorithm, training in TRAININGS.items() if algorithm == name)

    def number(setting: str) -> int:
        given = own.get(setting) or shared.get(setting)  # None: the default of the algorithm
        return int(kind.model_fields[setting].default if given is None else given)

    return (
        f"- Games of the model itself for {stage_name(name)}: {number(times):,} {times}, each of "
        f"{number(groups)} groups of {number('group_size')} games{where}; {_paid(name, own.get('judge'), shared)}"
    )


def _paid(name: str, judge: str | None, shared: Mapping[str, Any]) -> str:
    """The reward of the games, or what takes its place."""
    if name == "distill":
        return "no reward: the solver labels every board"
    if name == "expert_iteration":
        return "no reward: the wins of fewest guesses are kept"
    if name == "dpo" and judge != "outcome":
        return f"no reward: guesses are judged by {judge}"
    reward = shared.get("reward", {})
    return "reward: custom weights" if reward.get("weights") else f"reward: preset `{reward.get('preset') or 'sparse'}`"


def _chosen(run: RunRecord, name: str) -> str:
    return (name == "grpo" and kept_weights(run)) or "those at the end of training"


def _hardware(run: RunRecord) -> str:
    machines = []
    for call in calls(run.manifest):
        facts = call["hardware"] or {}
        parts = [facts.get("accelerator"), f"{facts.get('cores')} cores of {facts.get('processor')}"]
        machines.append(", ".join(part for part in parts if part))
    return "; ".join(dict.fromkeys(machines))


def _time(run: RunRecord) -> str:
    seconds = run.facts.get("seconds") or {}
    if "total" not in seconds:
        return "unknown"
    stages = ", ".join(f"{stage} {s / 60:.1f}" for stage, s in seconds.items() if stage != "total")
    return f"{seconds['total'] / 60:.1f} minutes ({stages})"


def _of_calls(run: RunRecord, fact: str) -> list[str]:
    """Values of a fact in the manifest over the calls that made a run, first to last, each once."""
    return list(dict.fromkeys(str(call[fact]) for call in calls(run.manifest) if call[fact]))
