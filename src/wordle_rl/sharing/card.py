"""The model card: a README.md beside a trained model, from the run's own records and in the hub's format."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordle_rl.audit import audit
from wordle_rl.config import ALGORITHM_NAMES, ConfigError
from wordle_rl.display import number_text, percent_text
from wordle_rl.evaluate import CONSTRAINED_PART, PART_NAMES
from wordle_rl.players import find_model
from wordle_rl.report.read import RunRecord, read_run
from wordle_rl.runs import RunError, read_jsonl, write_text_atomically
from wordle_rl.runs.lineage import LINEAGE_FILE
from wordle_rl.runs.provenance import calls
from wordle_rl.teaching.traces import UNKNOWN_TEACHER
from wordle_rl.words import WordListError

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCardData

CARD_FILE = "README.md"
"""Where the hub looks for a model's card."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def write_cards(path: Path, *, anew: bool = True, dry_run: bool = False) -> list[Path]:
    """Write the card of each trained model of a run, or that of one model directory in it.

    Args:
        path: A run directory, or the directory of one of its models.
        anew: Write over a card that is there; else it is left as it is.
        dry_run: Write nothing, but find out whether it could be written.

    Returns:
        The cards, in the order in which the models were trained.

    Raises:
        ConfigError: If there is no trained model of a run, or huggingface_hub is not installed.
        RunError: If a record is damaged or a card cannot be written.
    """
    models = models_of(path)
    wanted = [model for model in models if anew or not (model / CARD_FILE).is_file()]
    if wanted:
        directory = models[0].parent
        run, teachers, proof = read_run(directory), _teachers(directory / "traces.jsonl"), _proof(directory)
        for model in wanted:
            text = card_text(run, model.name, teachers, proof)
            if not dry_run:
                write_text_atomically(model / CARD_FILE, text)
    return [model / CARD_FILE for model in models]


def models_of(path: Path) -> list[Path]:
    """The finished models meant by a run directory, or by one model of a run.

    Raises:
        ConfigError: If there are none, or the model's run is not around it.
    """
    named = [path / name for name in ("sft", *ALGORITHM_NAMES)]
    models = [model for model in named if (model / LINEAGE_FILE).is_file()] or [find_model(path)]
    directory = models[0].resolve().parent
    needed = (directory / "config.json", directory / "manifest.json", models[0] / LINEAGE_FILE)
    if not all(file.is_file() for file in needed):
        raise ConfigError(
            f"{models[0]} lies in no run directory, so nothing is known to put on a card; "
            f"name a run, or write a {CARD_FILE} of your own there"
        )
    return [directory / model.name for model in models]


def _teachers(path: Path) -> dict[str, int]:
    """How many games of a traces file each teacher played, most first; empty if there is no such file."""
    rows = read_jsonl(path) if path.is_file() else ()
    return dict(Counter(str(row.get("teacher", UNKNOWN_TEACHER)) for row in rows).most_common())


def _proof(directory: Path) -> str:
    """What an audit of the run says, as a sentence."""
    try:
        leaks = {secret for _, secret in audit(directory).leaks}
    except (RunError, ConfigError, WordListError) as error:
        return f"Whether held-out secrets were secrets of training games is not known: {error}."
    if leaks:
        return f"{len(leaks)} of the validation and held-out secrets were trained on, so their figures prove nothing."
    return "No validation or held-out secret was the secret of a training game."


def card_text(run: RunRecord, name: str, teachers: Mapping[str, int] | None = None, proof: str = "") -> str:
    """The card of one model of a run.

    Args:
        run: The run's records.
        name: The model's directory in it: `sft`, `grpo`, `expert_iteration`, `dpo`, `dagger`.
        teachers: How many of the run's teacher games each teacher played; None or empty: not known.
        proof: What is known of held-out secrets in training; empty: nothing is said of it.

    Raises:
        ConfigError: If huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import ModelCard
    except ModuleNotFoundError:
        raise ConfigError('a model card needs huggingface_hub: pip install "wordle-rl[train]"') from None
    sections = [
        f"# {run.name}, {_stage(name)}",
        _opening(run, name),
        "## Results",
        _results(run, name),
        "## Training",
        _training(run, name, teachers or {}, proof),
        "## Use",
        _USE,
        "## Limitations",
        _limitations(run),
        "## Licence",
        _licence(run),
        "## Settings",
        _settings(run),
    ]
    body = "\n\n".join(section for section in sections if section)
    return str(ModelCard(f"---\n{_metadata(run, name).to_yaml()}\n---\n\n{body}\n"))


def _metadata(run: RunRecord, name: str) -> ModelCardData:
    from huggingface_hub import ModelCardData

    base = _base(run)
    return ModelCardData(
        language="en",
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["wordle", "wordle-rl", "reinforcement-learning", *([] if name == "sft" else [name.replace("_", "-")])],
        base_model=base if _is_hub_name(base) else None,
        model_name=f"{run.name}-{name}",
        eval_results=_eval_results(run, name) or None,
        license="mit" if base == "tiny" else "other",
        license_name=None if base == "tiny" else "see-base-model",
    )


def _eval_results(run: RunRecord, name: str) -> list[EvalResult]:
    from huggingface_hub import EvalResult

    found = []
    for part, label in PART_NAMES.items():
        figures = run.results.get(name, {}).get(part) or {}
        for metric, title in (("win_rate", "Win rate"), ("mean_guesses_on_wins", "Mean guesses on wins")):
            if figures.get(metric) is not None:
                found.append(
                    EvalResult(
                        task_type="text-generation",
                        task_name="Wordle",
                        dataset_type="wordle",
                        dataset_name=f"Wordle, word list {_words(run)}, {label}",
                        dataset_split=part,
                        metric_type=metric,
                        metric_name=title,
                        metric_value=round(figures[metric], 4),
                    )
                )
    return found


def _opening(run: RunRecord, name: str) -> str:
    base, model = _base(run), run.config.get("model", {})
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
        f"Plays Wordle as a conversation ({rules}; prompts: {game.get('style')} wording, {game.get('shape')} shape, "
        f"thinking {game.get('thinking')}). Base: {made}. Last stage of training: {_stage(name)}."
    )


def _results(run: RunRecord, name: str) -> str:
    figures = run.results.get(name)
    if not figures:
        return "This model was not evaluated in its run."
    lines = [
        "| played | games | wins (95 % interval) | guesses on wins | a loss as one more | invalid turns | errors |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_result_row(label, figures[part]) for part, label in PART_NAMES.items() if figures.get(part)]
    said = "Greedy decoding, one game per secret, no retries; Wilson intervals."
    if figures.get(CONSTRAINED_PART):
        said += (
            " In the row with limited guesses the model could finish no unlisted word: it says how well the model "
            "plays when it need not spell, and is not to be set beside the other rows."
        )
    return "\n".join([*lines, "", said])


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


def _training(run: RunRecord, name: str, teachers: Mapping[str, int], proof: str) -> str:
    manifest, split = run.manifest, run.manifest.get("split", {})
    versions, commits = _of_calls(run, "wordle_rl"), _of_calls(run, "git_commit")
    num_train, num_val, num_test = (len(split.get(part, ())) for part in ("train", "val", "test"))
    lines = [
        f"- Teacher games for supervised fine-tuning: {_taught(run, teachers)}",
        *([] if name == "sft" else [_played(run, name)]),
        f"- Words: list `{_words(run)}`, fingerprint `{manifest.get('fingerprint')}`, split seed "
        f"{split.get('seed')}: {num_train:,} training, {num_val:,} validation, {num_test:,} held-out secrets. "
        f"{proof}".rstrip(),
        f"- Weights: {_chosen(run, name)}",
        f"- Hardware: {_hardware(run)}",
        f"- Time of the whole run: {_time(run)}",
        f"- wordle-rl {', '.join(versions)}, {'commits' if len(commits) > 1 else 'commit'} "
        f"{', '.join(commits) or 'unknown'}; seed {manifest.get('seed')}",
    ]
    return "\n".join(lines)


def _taught(run: RunRecord, teachers: Mapping[str, int]) -> str:
    """How many games were taught from, and whose they were."""
    traces = run.config.get("traces", {})
    given = traces.get("file") is not None
    if teachers:
        named = {"solver": "the solver", UNKNOWN_TEACHER: "an unknown teacher"}
        said = ", ".join(f"{count:,} of {named.get(teacher, teacher)}" for teacher, count in teachers.items())
    else:
        said = f"at most {traces.get('num_games'):,} of {'a file of games made before' if given else 'the solver'}"
    return said + (", with its thinking" if traces.get("narrate") and not given else "")


def _of_calls(run: RunRecord, fact: str) -> list[str]:
    """What the calls that made a run say of something, first to last, each once."""
    return list(dict.fromkeys(str(call[fact]) for call in calls(run.manifest) if call[fact]))


def _played(run: RunRecord, name: str) -> str:
    settings = run.config.get(name, {})
    times, groups, where = "rounds", "groups_per_round", ""
    if name == "grpo":  # what is learnt by rounds is learnt in one process
        times, groups, where = "steps", "groups_per_step", " per process"
    reward = settings.get("reward", {})
    paid = "reward: weights of its own" if reward.get("weights") else f"reward: preset `{reward.get('preset')}`"
    if name == "dagger":
        paid = "no reward, since the solver teacher says what to play"
    return (
        f"- Own games for {_stage(name)}: {settings.get(times):,} {times}, each of {settings.get(groups)} groups of "
        f"{settings.get('group_size')} games{where}; {paid}"
    )


def _chosen(run: RunRecord, name: str) -> str:
    if name == "grpo" and run.manifest.get("selected_on") == "val":
        return "those that played the validation secrets best; the held-out secrets had no say"
    return "the last ones of the training"


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


_USE = """\
With wordle-rl installed and this directory downloaded to `model`:

```bash
wordle-rl play --player model --secret crane
wordle-rl eval --player model
```

The prompts it was trained with and the split of its words are in `wordle_rl.json` and are used by themselves. For
anything else it is an ordinary directory of transformers:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("model")
tokenizer = AutoTokenizer.from_pretrained("model")
```"""


def _limitations(run: RunRecord) -> str:
    lines = [
        "- The figures hold for this word list, these prompts and greedy decoding; other lists, wordings and "
        "temperatures were not measured.",
        "- Training secrets were met in training: what the model does with words it was never trained on as "
        "secrets is in the held-out row alone.",
        "- One training run with one seed; another seed gives other weights, and intervals do not cover that.",
    ]
    if _base(run) == "tiny":
        lines.append(
            "- It knows nothing but this game: its vocabulary is made for it, and it cannot hold a conversation."
        )
    else:
        lines.append("- What the base model is biased to or unfit for, this one is too.")
    return "\n".join(lines)


def _licence(run: RunRecord) -> str:
    if _base(run) == "tiny":
        return "MIT, the code of wordle-rl and these weights alike."
    return f"The weights: see the base model, `{_base(run)}`. The code of wordle-rl: MIT."


def _settings(run: RunRecord) -> str:
    stored = json.dumps(run.config, indent=2, ensure_ascii=False)
    commands = "\n".join(_of_calls(run, "command"))
    return (
        f"```bash\n{commands}\n```\n\n<details><summary>Every setting</summary>\n\n```json\n{stored}\n```\n\n</details>"
    )


def _base(run: RunRecord) -> str:
    return str(run.config.get("model", {}).get("path", "tiny"))


def _words(run: RunRecord) -> str:
    """What the word list is called; of a directory the last part, since its place says nothing elsewhere."""
    return Path(str(run.manifest.get("words"))).name


def _is_hub_name(base: str) -> bool:
    return bool(_HUB_NAME.fullmatch(base)) and not Path(base).exists()


def _stage(name: str) -> str:
    names: dict[str, str] = {"sft": "supervised fine-tuning"} | {
        str(key): said for key, said in ALGORITHM_NAMES.items()
    }
    return names.get(name, name)
