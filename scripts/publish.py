"""Send what is no model to the Hugging Face hub: the watch page as a Space, a run's teacher games as a data set.

    python scripts/publish.py space --repo USER/NAME --dry-run
    python scripts/publish.py games runs/imitation --repo USER/NAME --dry-run

`--dry-run` needs no network: it prints the card and the files. Models are sent by `wordle-rl export MODEL --repo`.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from wordle_rl.config.base import ConfigError
from wordle_rl.data.trace_files import read_games
from wordle_rl.errors import UserError
from wordle_rl.report.hub import Kind, check_name, open_repo, send_folder
from wordle_rl.report.run_record import read_run
from wordle_rl.runs.lineage import audit
from wordle_rl.runs.provenance import calls

ROOT = Path(__file__).resolve().parents[1]
SPACE = ROOT / "environments" / "space"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    space = kinds.add_parser("space", help="the watch page, played by the bundled model on a CPU")
    space.add_argument("--wheel", type=Path, help="a wheel to send along and install, in place of the released package")
    games = kinds.add_parser("games", help="the teacher games of a run")
    games.add_argument("run", type=Path, help="a run directory with traces.jsonl")
    for each in (space, games):
        each.add_argument("--repo", required=True, metavar="USER/NAME")
        each.add_argument("--private", action="store_true")
        each.add_argument("--dry-run", action="store_true", help="print the card and the files, and send nothing")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Gather the files in a folder, show or send them, and return the exit code."""
    asked = make_parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kind: Kind = "space" if asked.kind == "space" else "dataset"
        try:
            check_name(asked.repo)
            if kind == "space":
                gather_space(folder, asked.wheel)
            else:
                gather_games(folder, asked.run)
            if asked.dry_run:
                print((folder / "README.md").read_text(encoding="utf-8"))
            else:
                api = open_repo(asked.repo, private=asked.private, kind=kind)
                send_folder(api, folder, asked.repo, f"Add the {asked.kind} of wordle-rl", kind)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        print(*files, sep="\n")
        print(f"{len(files)} files {'would be sent' if asked.dry_run else 'sent'} to the {kind} {asked.repo}")
    return 0


def gather_space(folder: Path, wheel: Path | None) -> None:
    """Copy the files of the Space, and a wheel that its image then installs."""
    for name in ("README.md", "Dockerfile"):
        shutil.copy(SPACE / name, folder)
    if wheel is not None:
        if not re.fullmatch(r"wordle_rl-[\w.]+-py3-none-any\.whl", wheel.name) or not wheel.is_file():
            raise ConfigError(f"--wheel: {wheel} is no wheel of wordle-rl; make one with `make packages`")
        shutil.copy(wheel, folder)
        made = folder / "Dockerfile"
        text, package = made.read_text(encoding="utf-8"), f"./{wheel.name}[train,serve]"
        made.write_text(re.sub(r"^ARG PACKAGE=.*$", f'ARG PACKAGE="{package}"', text, flags=re.MULTILINE), "utf-8")


def gather_games(folder: Path, directory: Path) -> None:
    """Copy a run's teacher games, and write their card. Games with a held-out secret are refused."""
    run, traces = read_run(directory), directory / "traces.jsonl"
    if not traces.is_file():
        raise ConfigError(f"{directory} has no traces.jsonl; make one with `wordle-rl run PRESET --until traces`")
    found = audit(directory)
    if found.leaks:
        raise ConfigError(
            f"the games of {directory} have held-out secrets, {found.leaks[0][1]} for one; nothing is sent"
        )
    secrets: set[str] = set()
    teachers: Counter[str] = Counter()
    num_won = num_turns = 0
    for game in read_games(traces):
        secrets.add(game.secret)
        teachers[game.notes.teacher] += 1
        num_won += game.won
        num_turns += len(game.turns)
    num_games = teachers.total()
    split = run.manifest["split"]
    facts = {
        "size": next((name for limit, name in SIZES if num_games < limit), "1M<n<10M"),
        "num_games": f"{num_games:,}",
        "num_secrets": f"{len(secrets):,}",
        "won": f"{num_won / num_games:.1%}",
        "turns": f"{num_turns / num_games:.2f}",
        "teachers": ", ".join(f"{count:,} by {name}" for name, count in teachers.most_common()),
        "fingerprint": str(run.manifest["fingerprint"]),
        "split": f"{len(split['train']):,} training, {len(split['val']):,} validation, {len(split['test']):,} held-out",
        "commands": "\n".join(dict.fromkeys(str(call["command"]) for call in calls(run.manifest))),
        "seed": str(run.manifest["seed"]),
        "versions": ", ".join(dict.fromkeys(str(call["wordle_rl"]) for call in calls(run.manifest))),
    }
    card = (ROOT / "environments" / "games" / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(re.sub(r"\{(\w+)\}", lambda named: facts[named[1]], card), encoding="utf-8")
    shutil.copy(traces, folder / "games.jsonl")


if __name__ == "__main__":
    sys.exit(main())
