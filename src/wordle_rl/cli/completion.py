"""Completion of commands, recipes and options, as a script for the shell."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

from wordle_rl.cli import COMMANDS, execute
from wordle_rl.config.files import PRESETS_DIRECTORY
from wordle_rl.reward import CURRICULA, PRESETS

_SCRIPT = """\
_wordle_rl() {{
  local words='' current=${{COMP_WORDS[COMP_CWORD]}}
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='{commands}'
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _wordle_rl wordle-rl
"""

_RECIPES = sorted(path.stem for path in PRESETS_DIRECTORY.glob("*.toml"))
_NAMES = {
    "run": _RECIPES,
    "preflight": _RECIPES,
    "rewards": [*PRESETS, *CURRICULA],
    "eval": ["bundled", "solver", "consistent", "random"],
    "play": ["bundled", "solver", "consistent", "random"],
}
"""Command -> names that its first argument may have. Where nothing fits, the shell completes files."""


def script(shell: str) -> str:
    """Return the script for bash; zsh reads the same one once it has loaded what it needs for that."""
    cases = []
    for name, command in COMMANDS.items():
        # The help lists every option, settings of a run among them.
        with redirect_stdout(io.StringIO()) as shown:
            execute(command, f"wordle-rl {name}", ["--help-all" if name in ("run", "preflight") else "--help"])
        entries = " ".join(re.findall(r"^(?:│ |  )(-.*?)(?:  |$)", shown.getvalue(), re.MULTILINE))
        options = sorted(set(re.findall(r"--[a-z][\w.-]*", entries)))
        begins = f"[[ $current == -* ]] && words='{' '.join(options)}'"
        names = f" || {{ [ \"$COMP_CWORD\" -eq 2 ] && words='{' '.join(_NAMES[name])}'; }}" if name in _NAMES else ""
        cases.append(f"      {name}) {begins}{names} ;;")
    before = "autoload -U compinit bashcompinit && compinit && bashcompinit\n" if shell == "zsh" else ""
    return before + _SCRIPT.format(commands=" ".join(COMMANDS), cases="\n".join(cases))
