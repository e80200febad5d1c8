"""Laws of the documents: what they tell people to type exists, and their example runs."""

import io
import re
import runpy
import shlex
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest
import yaml
from pages import blocks

pytest.importorskip("torch")

from wordle_rl import open_model
from wordle_rl.boards import InitialState
from wordle_rl.cli import COMMANDS as ALL_COMMANDS
from wordle_rl.cli import main
from wordle_rl.cli.arguments import take_settings
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig, every_setting
from wordle_rl.evaluate.leaderboard import read_board
from wordle_rl.evaluate.stats import wilson_interval
from wordle_rl.policy.scripted import OwnSampler
from wordle_rl.report.findings import PAGE, PATTERNS
from wordle_rl.reward import COMPONENTS, Rubric
from wordle_rl.rollout import play
from wordle_rl.runs import read_object
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import find_credit
from wordle_rl.trainers.check import examine_trainer
from wordle_rl.words import load_words

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "docs" / "library.md"
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "AGENTS", "CONTRIBUTING", "CHANGELOG", "benchmarks/README")),
    *(ROOT / "docs").rglob("*.md"),
]


def commands_in(path: Path) -> list[str]:
    """Every `wordle-rl …` a document shows, continuation lines joined."""
    text = path.read_text(encoding="utf-8")
    lines = "\n".join(blocks(path, "bash")).replace("\\\n", " ").splitlines()
    shown = [line.strip() for line in lines if line.strip().startswith("wordle-rl ")]
    return shown + re.findall(r"`(wordle-rl [^`\n]+)`", text)


COMMANDS = sorted(
    {command for path in DOCUMENTS for command in commands_in(path)}
    | {f"wordle-rl {name} {example}" for name, each in ALL_COMMANDS.items() for example in each.examples}
)


@cache
def help_of(name: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        assert main([name, "--help-all" if name in ("run", "preflight") else "--help"]) == 0
    return printed.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_shown_exists_and_settings_go_together(command: str) -> None:
    name, *arguments = shlex.split(command)[1:]
    if name.startswith("--") or name.isupper():
        return
    described = help_of(name)
    options = [argument.split("=")[0] for argument in arguments if argument.startswith("--")]
    for option in options:
        if "." not in option and name != "run":
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", described), option
    if name in ("run", "preflight"):
        overrides, own = take_settings(arguments)
        preset = next((word for word in own if not word.startswith("-")), "")
        if preset and not preset.endswith(".toml") and not preset.isupper():
            load_config(preset, overrides)


def test_settings_that_a_document_names_exist() -> None:
    setting = re.compile(rf"`((?:{'|'.join(RunConfig.model_fields)})(?:\.(?!(?:py|toml|jsonl?)`)[a-z_0-9]+)+)`")
    known = {".".join(names[:depth]) for names, *_ in every_setting(RunConfig()) for depth in range(1, len(names) + 1)}
    for path in (ROOT / "docs").rglob("*.md"):
        assert set(setting.findall(path.read_text(encoding="utf-8"))) <= known, path.name


def test_the_blocks_of_the_library_page_run_and_train(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(LIBRARY, "python"):
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    # The program above the rest trained a run, and played three of its validation secrets with the model of the last
    # stage.
    run = names["run"].directory
    assert {"sft", "grpo", "eval", "report.html"} <= {path.name for path in run.iterdir()}
    held_back = open_model(run).context.split.val[:3]
    assert [line.split()[0] for line in printed[1:4]] == list(held_back)
    # The player of the package wins most games, but not all when sampled, so a step has something to learn from.
    [won] = [int(line.split()[0]) for line in printed if line.endswith("of 32 won")]
    assert 16 < won < 32
    before = dict(open_model("bundled").model.named_parameters())
    assert any((before[name] != weight).any() for name, weight in names["opened"].model.named_parameters())


def test_the_code_of_the_library_page_is_found_by_its_settings(tmp_path, monkeypatch) -> None:
    (tmp_path / "my_pkg").mkdir()
    for block in blocks(LIBRARY, "python"):
        if named := re.match(r"# (my_pkg/\w+\.py)\n", block):
            (tmp_path / named[1]).write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    for settings in blocks(LIBRARY, "toml"):
        (tmp_path / "shown.toml").write_text(settings)
        load_config(tmp_path / "shown.toml")
    words = load_words()
    prompter = load_config(tmp_path / "shown.toml", {("game", "style"): "my_pkg.style:German"}).game.prompter(5)
    player = OwnSampler("my_pkg.players:Alphabet", "player", words, prompter)
    [game] = play([InitialState("abbey")], words, prompter, player)
    rubric = Rubric({"my_pkg.rewards:vowels": 1.0}, keep_order=False)
    assert 0 < rubric.score(game.transcript, Solver(words)).total < 1
    assert find_credit("my_pkg.credit:leave_one_out")([(1.0, 0.0), (0.0,)]) == [(1.0, 1.0), (-1.0,)]


def test_the_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    exec(example, {})
    assert capsys.readouterr().out.rstrip().endswith("5")


def pages_of(nav: list) -> list[tuple[str | None, str]]:
    """Name and path of every page in the menu of the site; the name is None where the menu takes the page's title."""
    found: list[tuple[str | None, str]] = []
    for entry in nav:
        if isinstance(entry, str):
            found.append((None, entry))
            continue
        for name, below in entry.items():
            found += [(name, below)] if isinstance(below, str) else pages_of(below)
    return found


def site_nav() -> list:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return yaml.safe_load(settings[settings.index("\nnav:") :])["nav"]


def test_the_menu_names_every_page_by_its_title() -> None:
    titles = set()
    for name, page in pages_of(site_nav()):
        path = ROOT / page.removeprefix("repository/") if page.startswith("repository/") else ROOT / "docs" / page
        (title,) = re.findall(r"\A# (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert name in (None, title), page
        titles.add(title)
    assert len(titles) == len(pages_of(site_nav())), "two pages of one title"


def test_the_readme_and_the_page_of_models_begin_with_one_recipe() -> None:
    first = []
    for path in (ROOT / "README.md", ROOT / "docs" / "models.md"):
        command = next(command for command in commands_in(path) if "--model.path" in command)
        first.append(shlex.split(command)[2])
    assert first[0] == first[1]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_diagrams_and_formulas_fit_beside_the_menus(path: Path) -> None:
    # What docs/assets/site.css leaves room for; other blocks wrap.
    assert [line for block in blocks(path, "text") for line in block.splitlines() if len(line) > 86] == []


def test_every_finding_in_the_curves_of_a_run_leads_to_a_section() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", page, flags=re.MULTILINE)
    assert {pattern.capitalize() for pattern in PATTERNS} <= set(sections)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_a_contributor_is_sent_to_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    package = ROOT / "src" / "wordle_rl"
    places = [ROOT, package, *(path for path in package.iterdir() if path.is_dir())]
    for name in re.findall(r"`([\w./-]+\.(?:py|md|toml|html|txt|ya?ml))`", text):
        assert any((place / name).is_file() for place in places), name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_tests_that_a_page_names_exist(path: Path) -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"`(test(?:_[a-z0-9]+){3,})`", text)  # shorter names, such as `test_secret`, are no tests
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_the_guide_says_what_every_component_of_a_reward_is() -> None:
    guide = (ROOT / "docs" / "guides" / "rewards.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| (`.+?) \|", guide.partition("## Components")[2].partition("\n## ")[0], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(described))) == {*COMPONENTS}


def test_the_adapter_of_the_conformance_page_passes() -> None:
    (adapter,) = blocks(ROOT / "docs" / "conformance.md", "python")
    found: dict = {}
    exec(adapter, found)
    assert {each.status for each in examine_trainer(found["adapter"])} == {"pass", "skip"}


def test_the_page_of_the_board_and_its_rows_are_what_the_records_say() -> None:
    board = runpy.run_path(str(ROOT / "scripts" / "board.py"))
    page = board["PAGE"].read_text(encoding="utf-8")
    assert board["drawn"](page) == page, "python scripts/board.py"
    record = read_object(ROOT / "benchmarks" / "records" / "quickstart.json")["wins"].values()
    counts = {tuple(count) for parts in record for part, count in parts.items() if not part.startswith("train")}
    rows = read_board(ROOT / "benchmarks" / "board.json")
    assert {(row["wins"], row["games"]) for row in rows if "quickstart.json" in str(row["source"])} == counts
    for row in rows:
        assert (row["low"], row["high"]) == pytest.approx(wilson_interval(row["wins"], row["games"]))
        assert row["win_rate"] == pytest.approx(row["wins"] / row["games"])
