"""Tables of commands: their rows, and what a row has for the reader to type.

A row is `| what people want | what to type | tried |`. Code in its second cell is one of

    a command        `wordle-rl …`, `python -m wordle_rl…`, `python scripts/…`, `torchrun …`
    more of it       `--hard-mode` after a command: the same once more, with that; settings without a command to go with
    a setting        `grpo.beta`, `grpo.credit = "game"`; settings of a row go together until one is given again
    another value    `"turn"` after a setting
    another word     one of `INSTEAD`, in place of a word of the last command
    something else   one of `OTHER`, or a file of the repository
"""

import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wordle_rl.cli.arguments import take_settings
from wordle_rl.config.run import RunConfig, Setting, every_setting

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("coming-from", "commands")]

TRIED = ("run", "preflight", "read")
"""Marks of how a row is tested; `read`: it has nothing to type."""
NEEDS = {
    "network": r"USER/|openai|wandb|predibase|PrimeIntellect",
    "GPU": r"\(GPU|wordle-rl run (qwen3|qwen2.5|prime-rl)|scripts/launch/",
    "vLLM": r"vllm\b|grpo\.(engine|gpu_memory)|HOST:PORT",
    "MLX": r"--backend mlx",
    "verl": r"wordle_rl\.trainers\.verl",
    "Docker": r"\bdocker\b",
}
"""Mark of what a row needs -> what in its second cell shows that."""
ELSEWHERE = ("vLLM", "MLX", "verl", "Docker")
"""Needs that this environment lacks: commands and settings are read. The others have stand-ins."""

PROGRAMS = ("wordle-rl ", "python -m wordle_rl", "python scripts/", "torchrun ")

INSTEAD = {
    "together": ("URL",),
    "fireworks": ("together", "URL"),
    "openai": ("URL",),
    "local": ("together",),
    "prime-rl": ("qwen3-4b",),
    "qwen3-1.7b": ("qwen3-4b",),
    "qwen2.5-0.5b": ("qwen3-4b",),
    "qwen2.5-1.5b-lora": ("qwen3-4b",),
    "qwen2.5-3b-qlora": ("qwen3-4b",),
    "sft,dpo": ("sft,grpo",),
    "sft,distill": ("sft,grpo",),
    "trackio": ("wandb",),
    "tensorboard": ("wandb",),
    "answers.txt,guesses.txt": ("words.csv",),
    "words.json": ("words.csv",),
}
"""Word that stands alone -> words of the last command, the first that it has of which this one may take the place."""

FLAGS = ("--dry-run", "--hard-mode", "--verbose")
"""Options without a value that run when they stand alone; other lone options are looked up."""

OTHER = {
    "?": "a key of `play`",
    "!": "a key of `play`",
    "ollama create": "a command of Ollama",
    "URL": "part of the command before it",
    "secret": "a field of rows",
    "reward_model.ground_truth": "a field of verl's rows",
    "word": "a column",
    "step": "a column",
    "answer": "a column",
    "guess": "a column",
    "metrics.jsonl": "a file of a run, which `report --wins` reads",
    "HF_TOKEN": "a variable",
    "WORDLE_TOKEN": "a variable",
    ".env": "a file of Docker",
    "docker compose up": "read by tests/repository/test_containers.py",
    "/textarena": "an address of the server, tried by tests/serve/test_textarena.py",
    "wordle_rl.serve.notebook": "a module",
    "mean_guesses_with_losses": "a figure of `eval --json`",
    "vllm": "an extra",
    "mlx": "an extra",
}
"""Code that is neither command nor setting -> what it is."""

SETTINGS = {setting for setting, *_ in every_setting(RunConfig())}
_FIELDS = "|".join(RunConfig.model_fields)
_SETTING = re.compile(rf"(?P<name>(?:{_FIELDS})(?:\.[a-z_0-9]+)*)(?: = (?P<value>.+))?")


@dataclass(frozen=True)
class Row:
    """A row of a page."""

    page: str
    wanted: str
    typed: str
    marks: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.page}: {self.wanted}"

    @property
    def needs(self) -> set[str]:
        """What the row shows that it needs."""
        return {need for need, shown in NEEDS.items() if re.search(shown, self.typed)}

    @property
    def due(self) -> set[str]:
        """The marks that the row should have."""
        here = {step.kind for step in steps_of(self) if not step.is_elsewhere}
        tried = {mark for mark, kind in (("run", "command"), ("preflight", "settings")) if kind in here}
        return (tried | self.needs) or {"read"}


@dataclass(frozen=True)
class Step:
    """Something to type. A command has words; settings have values, or None as it is; an option belongs to words."""

    kind: Literal["command", "settings", "option"]
    text: str
    settings: dict[Setting, Any] = field(default_factory=dict)
    named: tuple[Setting, ...] = ()

    @property
    def is_elsewhere(self) -> bool:
        """True if it needs what is not here. verl's settings are shown without verl."""
        needs = [need for need in ELSEWHERE if re.search(NEEDS[need], self.text)]
        return bool(needs) and not (needs == ["verl"] and self.text.endswith("--show"))


def rows_of(page: Path) -> list[Row]:
    """All rows of a page's tables. A table without a column `tried` has rows without marks."""
    rows, head, section = [], [], ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            section = line.strip("# ")
        if not line.startswith("|"):
            head = []
        elif not head:
            head = [cell.strip() for cell in line.strip("|").split("|")]
        elif not line.startswith("|--"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            marks = cells[2].split(", ") if head[2:] == ["tried"] and len(cells) == 3 else []
            rows.append(Row(f"{page.stem}, {section}", cells[0], cells[1], tuple(marks)))
    return rows


def steps_of(row: Row) -> list[Step]:
    """What a row has to type, in order; code that is nothing of the known kinds is an error."""
    reader = _Reader()
    for code in re.findall(r"`([^`]+)`", row.typed):
        reader.take(code)
    reader.close()
    return reader.steps


class _Reader:
    """Takes the code of a row, piece by piece."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._plain = self._command = ""  # the last command as it stands in the row, and with what was added
        self._given: dict[Setting, Any] = {}
        self._named: list[Setting] = []
        self._texts: list[str] = []

    def take(self, code: str) -> None:
        if code.startswith(PROGRAMS):
            self._plain = self._add(code)
        elif code.startswith("--"):
            self._take_options(code)
        elif found := _SETTING.fullmatch(code):
            setting = tuple(found["name"].split("."))
            assert setting in SETTINGS, f"{code} is no setting"
            if found["value"]:
                self._lay(code, {setting: tomllib.loads(f"value = {found['value']}")["value"]})
            else:
                self._named.append(setting)
                self._texts.append(code)
        elif re.fullmatch(r'"[^"]+"', code):
            in_words = [setting for setting, value in self._given.items() if isinstance(value, str)]
            assert in_words, f"{code} follows no setting"
            self._lay(code, {in_words[-1]: code.strip('"')})
        elif code in INSTEAD:
            replaced = next(word for word in INSTEAD[code] if word in self._plain)
            self._add(self._plain.replace(replaced, code), anew=True)
        else:
            assert code in OTHER or (ROOT / code).exists(), f"{code} is of no known kind"

    def close(self) -> None:
        """Settings so far are a step."""
        if self._texts:
            self.steps.append(Step("settings", "; ".join(self._texts), dict(self._given), tuple(self._named)))
        self._named, self._texts = [], []

    def _take_options(self, code: str) -> None:
        words = shlex.split(code)
        values, rest = take_settings(words) if len(words) > 1 else ({}, words)
        if values and not rest and not re.match(r"wordle-rl (run|preflight)|python", self._command):
            self._lay(code, dict(values))
            return
        assert self._command, f"{code} follows no command"
        if len(words) > 1 or code in FLAGS:
            self._add(f"{self._command} {code}", anew="--out" not in words)
        else:
            self.steps.append(Step("option", f"{self._command} {code}"))

    def _add(self, command: str, *, anew: bool = False) -> str:
        self._command = command
        # A run directory has one set of settings.
        again = " --overwrite" if anew and command.startswith("wordle-rl run") else ""
        self.steps.append(Step("command", command + again))
        return command

    def _lay(self, text: str, values: dict[Setting, Any]) -> None:
        if values.keys() & self._given.keys():
            self.close()
        self._given |= values
        self._texts.append(text)
