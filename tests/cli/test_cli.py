"""Laws of the command line: help lists every setting, JSON is JSON, and a wrong input is one line and exit code 2."""

import csv
import inspect
import json
import logging
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stdout
from datetime import date
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest
import tyro
from fake_endpoint import chat
from training_fixtures import rows, write_config

from wordle_rl.cli import COMMANDS, console, main
from wordle_rl.cli.arguments import USUAL, fill_in, read
from wordle_rl.cli.play import secret_of
from wordle_rl.config.base import Section
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig, every_setting
from wordle_rl.data.game_record import GameRecord
from wordle_rl.data.trace_files import read_games
from wordle_rl.game import score_guess
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.reward import PRESETS
from wordle_rl.words import load_words


def flags_in(shown: str) -> set[str]:
    """Options that have an entry in a help text, as opposed to those that a text mentions."""
    entries = re.findall(r"^[│ ]+(-.*?)(?=  |$)", shown, re.MULTILINE)
    return {flag for entry in entries for flag in re.findall(r"--(?:no-)?([\w.-]+)", entry)}


def options_in(name: str, kind: object, marks: Iterable[object]) -> set[str]:
    """Names of the options that set a value: its own, or those of the fields of a section."""
    if get_origin(kind) is Annotated:
        kind, *marks = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Section):
        return set().union(
            *(options_in(name, each.annotation, each.metadata) for name, each in kind.model_fields.items())
        )
    if {tyro.conf.Positional, tyro.conf.Suppress} & {*marks}:
        return set()
    return {next((mark.name for mark in marks if getattr(mark, "name", None)), name)}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_says_what_it_does_and_has_an_entry_for_every_option(command: str, cli) -> None:
    code, shown, _ = cli(command, "--help")
    assert code == 0
    function, flags = COMMANDS[command].load(), flags_in(shown)
    assert " ".join(inspect.getdoc(function).splitlines()[0].split()) in " ".join(shown.split())
    parameters = inspect.signature(function, eval_str=True).parameters
    names = set().union(*(options_in(name, each.annotation, ()) for name, each in parameters.items()))
    told = {flag.rpartition(".")[2].replace("-", "_") for flag in flags}
    assert {re.sub("^(as|no)_", "", name) for name in names} - {"overrides"} | {"quiet"} <= told
    assert ("json" in told) == (command != "serve"), "all others print figures, a game or the files that they wrote"
    assert not re.search(r"--no-[\w-]+[^-]*\(default: True\)", shown), "a negated flag with a default of True"


@pytest.mark.parametrize("command", ["run", "preflight"])
def test_help_shows_the_usual_settings_and_help_all_every_one(command: str, cli) -> None:
    usual, whole = cli(command, "--help")[1], cli(command, "quickstart", "--help-all")[1]
    every = {".".join(setting).replace("_", "-") for setting, *_ in every_setting(RunConfig())}
    assert every <= flags_in(whole)
    assert every & flags_in(usual) == {name.replace("_", "-") for name in USUAL}
    assert f"--grpo.steps {load_config('quickstart').grpo.steps} " in whole, "as in the preset"
    of_another = cli(command, "smollm2", "--help")[1]
    assert f"--sft.optimizer.learning-rate {load_config('smollm2').sft.optimizer.learning_rate}\n" in of_another


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_ends_in_examples_that_it_takes(command: str, cli) -> None:
    examples = COMMANDS[command].examples
    shown = cli(command, "--help")[1].partition("Examples:\n")[2].splitlines()
    assert len(shown) == len(examples) >= 1
    assert max(map(len, shown)) <= 80
    for example in examples:
        arguments = example.split()
        if command in ("eval", "play") and arguments and not arguments[0].startswith("-"):
            arguments = ["--player", *arguments]
        assert read(COMMANDS[command].load(), "wordle-rl", arguments), "it is taken, and not run"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pre", ["preflight"]),
        ("run qu", ["quickstart"]),
        ("run quickstart --grpo.group-s", ["--grpo.group-size"]),
        ("eval --games-per", ["--games-per-secret"]),
        ("eval --prov", ["--provider"]),
        ("report runs/qu", []),
    ],
)
def test_bash_completes_commands_recipes_and_options(typed, offered, completion: Path) -> None:
    words = ["wordle-rl", *typed.split()]
    given = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    ask = f'{given}; _wordle_rl; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", f". {completion}; {ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.fixture(scope="session")
def completion(tmp_path_factory) -> Path:
    """The script for bash."""
    path = tmp_path_factory.mktemp("shell") / "wordle-rl"
    with path.open("w") as file, redirect_stdout(file):
        assert main(["--completion", "bash"]) == 0
    return path


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_help_needs_no_tensors_and_no_pipeline(arguments: list[str]) -> None:
    code = (
        "import sys; from wordle_rl.cli import main\n"
        f"assert main({arguments}) == 0\n"
        "assert not {'torch', 'wordle_rl.pipeline', 'wordle_rl.report'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=True)


@pytest.mark.parametrize("content", [b"dear diary\n", b'{"word":"crane","turns":[]}\n', b"\xff\xfe\x00", b"\n"])
def test_traces_replace_earlier_ones_and_nothing_else(content: bytes, cli, word_directory, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(content)
    command = ("traces", "--out", path, "--words", word_directory, "--num-games", 5)
    assert cli(*command)[:2] == (2, "")
    assert path.read_bytes() == content
    path.write_bytes(b"")
    assert [cli(*command)[0] for _ in range(2)] == [0, 0]
    assert len(rows(path)) == 5


def test_games_of_the_solver_are_written_a_file_per_word_and_read_back(cli, word_directory, tmp_path: Path) -> None:
    path, tables = tmp_path / "t.jsonl", tmp_path / "tables"
    command = ("traces", "--out", path, "--words", word_directory, "--num-games", 20, "--csv", tables)
    assert cli(*command)[0] == 0
    played, read = (sorted(map(game_in_short, read_games(place))) for place in (path, tables))
    assert played == read
    assert {file.name for file in tables.iterdir()} == {f"wordle_data_{word.upper()}.csv" for word, _ in played}
    code, _, err = cli(*command)
    assert (code, str(tables) in err) == (2, True)


def game_in_short(game: GameRecord) -> tuple[str, list[tuple[str | None, bool]]]:
    return game.secret, [(turn.guess, turn.taught) for turn in game.turns]


def test_json_output_of_every_command_that_has_it_parses(cli, finished_run, word_directory, tmp_path: Path) -> None:
    words = ["--words", word_directory]
    secret = (word_directory / "answers.txt").read_text().split()[3]
    traces, games, model = tmp_path / "traces.jsonl", tmp_path / "solver.json", tmp_path / "model.json"
    report, page = str(finished_run / "report.html"), tmp_path / "page.html"
    commands = [
        (["traces", "--out", traces, *words, "--num-games", 60], lambda told: told["num_games"] == 60),
        (
            ["play", "--player", "solver", *words, "--secret", secret],
            lambda told: told["won"] is True,
        ),
        (["rewards", "sparse"], lambda told: told["sparse"]["win"] == 1),
        (["power", 60, 70], lambda told: told["games_each"] == 356),
        (["preflight", finished_run / "config.json", "--groups", 0], lambda told: told["memory"]["sft"]["total"] > 0),
        (["report", finished_run, "--cards"], lambda told: len(told["cards"]) == 2),
        (["export", finished_run, "--out", tmp_path / "model"], lambda told: told["model"] == str(tmp_path / "model")),
        (["watch", finished_run, "--export", page], lambda told: told == {"page": str(page)}),
        (["solve", "--top", 0, *words], lambda told: (told["num_answers"], told["openers"]) == (60, [])),
        (["solve", *words], lambda told: told["openers"][0]["bits"] >= told["openers"][-1]["bits"] > 0),
        (["solve", *words, "--tree"], lambda told: told["num_solved"] == sum(told["distribution"]) == 60),
        (["solve", *words, "--secret", secret], lambda told: told["path"] == [told["opener"], secret]),
        (["dataset", traces, *words, "--csv", tmp_path / "table.csv"], lambda told: told["num_games"] == 60),
        (
            ["dataset", traces, "--out", tmp_path / "set", *words],
            lambda told: told["rows"]["sft_train"] + told["rejected"]["not_won"] == 60,
        ),
        (["eval", "--player", "solver", *words, "--out", games], lambda told: told["win_rate"] == 1),
        (["eval", "--player", finished_run, *words, "--out", model], lambda told: told["player"].endswith("/grpo")),
        (["compare", games, model], lambda told: [run["figures"]["num_games"] for run in told["runs"]] == [6, 6]),
        (["report", finished_run], lambda told: told["report"] == report),
        (["report", finished_run, "--audit"], lambda told: told["clean"] is True and told["leaks"] == []),
        (
            ["run", finished_run / "config.json", "--out", finished_run, "--until", "traces"],
            lambda told: told == {"run": str(finished_run), "finished": "traces"},
        ),
    ]
    for command, tells in commands:
        code, out, err = cli(*command, "--json", "--quiet")
        assert (code, err) == (0, "")
        told = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert tells(told), (command, told)


def test_quiet_keeps_results_and_errors_and_drops_what_was_beside_them(cli, finished_run) -> None:
    again = ("run", finished_run / "config.json", "--out", finished_run)
    quiet = cli(*again, "--quiet")
    assert (quiet[0], quiet[2]) == (0, "")
    loud = cli(*again)
    assert loud[1] == quiet[1]
    assert "next: wordle-rl watch" in loud[2], "said again by the next command"
    assert cli("power", 60, 60, "--quiet")[2].startswith("error:")


LONG = ("a/run/with/a/name/that/says/what/it/is/for", "another/run/with/as/long/a/name/as/that", "a-third")
SHOWN_AT_80 = {
    "eval --player {run} --words {words} --split all --max-games 2 --temperature 1 --games-per-secret 2": "held out",
    "eval --player {run} --words {words} --prefix-turns 2 --reward shaped --max-games 2": "held out",
    "compare {run}/eval/sft.json {run}/eval/grpo.json {base} --names {names}": "a-third",
    "report {run} --audit": "training secrets",
    "preflight {run}/config.json --groups 0 --model.path tiny": "GiB",
    "rewards": "weights",
    "rewards shaped_curriculum strict_xml --attack --secrets 1 --steps 1 --answers 20 --words {words}": "false wins",
    "solve --words {words}": "words left on average",
    "dataset {run}/traces.jsonl --words {words}": "broken turns",
}
"""Commands, and a head of each one's widest table."""


@pytest.mark.parametrize("command", SHOWN_AT_80)
def test_nothing_breaks_in_a_terminal_of_80_columns(
    command, cli, finished_run, word_directory, monkeypatch, tmp_path: Path
) -> None:
    terminal = console.PlainConsole(width=80, force_terminal=True, color_system=None, markup=False, highlight=False)
    monkeypatch.setattr(console, "out", terminal)
    base = tmp_path / "base.json"
    base.write_text(json.dumps(json.loads((finished_run / "eval" / "sft.json").read_text()) | {"name": "base"}))
    places = {"run": finished_run, "words": word_directory, "base": base, "names": " ".join(LONG)}
    code, out, err = cli(*command.format(**places).split())
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    assert SHOWN_AT_80[command] in out
    assert not re.search(r"\w…", out), "no figure is cut"


def test_a_summary_counts_games_and_names_no_word(cli, finished_run, word_directory) -> None:
    out = cli("dataset", finished_run / "traces.jsonl", "--words", word_directory)[1]
    assert "200 games of" in out
    counted = {line.split()[0]: line.split()[2] for line in out.splitlines() if line.startswith((" train", " outside"))}
    assert sum(map(int, counted.values())) == 200
    assert not {*load_words(str(word_directory)).answers} & {*out.split()}


def test_the_openers_come_before_the_hashes_of_the_list(cli, word_directory) -> None:
    out = cli("solve", "--words", word_directory)[1]
    assert out.index(" opener") < out.index("fingerprint")


HOSTILE = "\x1b]52;c;cm0=\x1b\\\x07\x9b2J\u202e\r[red]"
"""Writes to the clipboard, rings, clears the screen, reorders what follows and overwrites the line."""


def test_text_of_others_reaches_no_terminal_as_orders(cli, serve, word_directory, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    endpoint = serve(lambda *_: chat(f"{HOSTILE}<guess>crane</guess>"))
    asked = ["--player", f"openai:{HOSTILE}=m", "--base-url", endpoint.url, "--words", word_directory, "--seed", "1"]
    played, other = tmp_path / "a.json", tmp_path / "b.json"
    (unreadable := tmp_path / f"{HOSTILE}.jsonl").write_text(HOSTILE)
    commands = {
        "reply": ["play", *asked],
        "every turn": ["play", *asked, "--verbose"],
        "name": ["eval", *asked, "--max-games", "1", "--out", played],
        "another name": ["eval", *asked, "--player", f"openai:b{HOSTILE}=m", "--max-games", "1", "--out", other],
        "names": ["compare", played, other],
        "names as JSON": ["compare", played, other, "--json"],
        "file": ["dataset", unreadable],
        "directory": ["report", tmp_path / HOSTILE],
        "option": ["eval", f"--{HOSTILE}"],
        "value": ["eval", *asked, "--max-games", HOSTILE],
    }
    for what, command in commands.items():
        _, out, err = cli(*command)
        assert set(re.findall(r"[\x00-\x1f\x7f-\x9f\u202e]", out + err)) <= {"\n"}, what
        assert "1b]52;c" in "".join((out + err).split()), f"{what} is shown"
    assert logging.getLogRecordFactory()("a", 1, "a", 1, HOSTILE, (), None).getMessage().startswith("\\x1b]52")


def test_the_shipped_run_command_prints_figures_and_goes_on(cli, word_directory, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory, words__split_seed="3", grpo__steps="1")
    code, out, _ = cli("run", config, "--out", tmp_path / "{model}-{time}")
    assert code == 0
    [run] = [path for path in tmp_path.iterdir() if path.name.startswith("tiny-2")]
    assert "report.html" in out
    code, out, _ = cli("run", config, "--out", run, "--json")
    assert code == 0
    assert set(json.loads(out)) == {"sft", "grpo", "seconds", "peak_memory_gib", "memory"}
    assert len([row for row in rows(run / "metrics.jsonl") if row["stage"] == "grpo"]) == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("traces --words {words} --num-games 5", "solver"),
        ("eval --player solver --words {words} --max-games 2", "solver"),
        ("export {run}", "mini"),
    ],
)
def test_out_is_named_after_the_model_and_the_time(command, name, cli, finished_run, word_directory, tmp_path) -> None:
    given = command.format(run=finished_run, words=word_directory).split()
    code, _, err = cli(*given, "--out", tmp_path / "{model}-{time}")
    assert code == 0, err
    [made] = tmp_path.iterdir()
    assert re.fullmatch(rf"{name}-\d{{8}}-\d{{6}}(.games.jsonl)?", made.name), made.name
    assert f"--out {made}" in err.replace("\n", " ")


def test_a_name_of_a_model_is_made_safe_for_a_path() -> None:
    assert fill_in(Path("{model}.json"), "openai:org/Some Model:7b") == Path("Some-Model-7b.json")


@pytest.mark.parametrize(("gib", "fits"), [("80", True), ("0.001", False)])
def test_preflight_judges_a_gpu_that_one_thinks_of(gib, fits, cli, word_directory, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory)
    code, out, err = cli("preflight", config, "--groups", "0", "--memory-gib", gib)
    assert f"a GPU has {float(gib):.1f} GiB" in out
    assert (code == 0) is fits, out + err
    assert ("problem: sft " in out) is not fits


def test_a_run_writes_nothing_outside_its_directory(word_directory, tmp_path: Path) -> None:
    home, temporary, run = (tmp_path / name for name in ("home", "temporary", "run"))
    for place in (home, temporary):
        place.mkdir()
    config = write_config(tmp_path / "mini.toml", word_directory, grpo__steps="1")
    unset = ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", *unset))}
    subprocess.run(
        [sys.executable, "-m", "wordle_rl", "run", config, "--out", run],
        env={**environment, "HOME": str(home), "TMPDIR": str(temporary)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert (run / "report.html").is_file()
    assert [*home.rglob("*"), *temporary.rglob("*")] == []
    assert {path.name for path in tmp_path.iterdir()} == {"home", "temporary", "mini.toml", "run"}


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_leaves_a_checkpoint(word_directory, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "mini.toml", word_directory, sft__epochs="400", stages='["sft"]')
    command = [sys.executable, "-m", "wordle_rl", "run", config, "--out", run, "--until", "sft"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (run / "metrics.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    [checkpoint] = (run / "sft" / "checkpoints").glob("checkpoint-*")
    assert 1 <= int(checkpoint.name.split("-")[1]) < 2800


@pytest.mark.parametrize(
    ("command", "resumes"),
    [
        ("run quickstart --out {here}/run", True),
        ("run quickstart --out {here}/run --overwrite", True),
        ("run quickstart --out {here}/{{time}}", True),
        ("eval --player solver --out {here}/x.json", True),
        ("eval --player solver", False),
        ("export a --out {here}/m", False),
    ],
)
def test_ctrl_c_promises_to_go_on_only_where_that_is_so(command, resumes, cli, monkeypatch, tmp_path: Path) -> None:
    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for place in ("run.run_chain", "eval.open_journal", "report.find_model"):
        monkeypatch.setattr(f"wordle_rl.cli.{place}", press)
    code, out, err = cli(*command.format(here=tmp_path).split())
    assert (code, out) == (130, "")
    assert ("resumes" in err) == resumes
    assert ("--overwrite" in err) == ("--overwrite" in command), "which would begin anew"
    assert ("the --out that it printed" in err) == ("time" in command), "since {time} would begin anew"


@pytest.fixture
def person(cli, monkeypatch):
    """A person who types these words, and what the game shows."""

    def plays(*typed, options=("--secret", "CRANE")):
        words = iter(typed)
        monkeypatch.setattr("wordle_rl.cli.play.Prompt.ask", lambda *_, **__: next(words))
        code, out, err = cli("play", *options)
        assert code == 0, err
        assert next(words, None) is None, "all was asked for"
        return out

    return plays


def test_a_human_is_asked_again_after_a_slip_and_may_name_the_secret_in_capitals(person) -> None:
    out = person("", "zzzzz", "", "slate", "Crane")
    assert re.search(r"^ *2 +C +R +A +N +E", out, flags=re.MULTILINE), "slips cost no turn"
    assert out.count("that costs nothing") == 1, "an empty line is no guess"
    assert max(map(len, out.splitlines())) <= 80


def test_the_keys_show_the_best_that_is_known_of_each_letter(person) -> None:
    first, second = re.findall(r"^ *(q.*\n.*\n.*)$", person("geese", "eerie", "crane"), flags=re.MULTILINE | re.I)
    for shown, known, out in ((first, "E", "gs"), (second, "ER", "gsi")):
        assert {key for key in shown if key.isupper()} == set(known)
        assert not set(out) & set(shown)
        assert shown.count("·") == len(out)


def test_a_hint_is_the_solvers_and_giving_up_names_the_word(person) -> None:
    out = person("slate", "?", "!")
    [left, word] = re.search(r"([\d,]+) answers fit; the solver would play ([A-Z]{5})", out).groups()
    words = load_words()
    fits = [each for each in words.answers if score_guess(each, "slate") == score_guess("crane", "slate")]
    assert int(left) == len(fits)
    assert word.lower() in words
    assert "the word was: CRANE" in out


def test_the_word_of_a_day_is_everybodys_and_can_be_passed_on(person) -> None:
    words = load_words()
    days = [secret_of(date(2026, 11, day), words) for day in range(1, 31)]
    assert secret_of(date(2026, 11, 28), words) == days[27]
    assert len(set(days)) > 25
    assert set(days) <= set(words.answers)
    out = person(secret_of(date.today(), words), options=("--daily",))
    assert f"wordle-rl {date.today()} 1/6\n🟩🟩🟩🟩🟩" in out


def test_a_player_may_be_watched_in_another_wording(cli) -> None:
    command = ("play", "--player", "solver", "--secret", "crane")
    assert "[crane]" in cli(*command, "--style", "textarena")[1]
    assert "Say" in cli(*command, "--verbose", "--system-prompt", "Say {example}")[1]
    assert cli("play", "--style", "english")[0] == cli("play", "--daily", "--seed", 1)[0] == 2


@pytest.mark.parametrize(
    ("option", "value", "starts"),
    [
        ("--style", "spelled", "Wordle\nStart<|reply|><guess>"),
        ("--shape", "state", "5x6\nsXaYlXeYtX<|reply|>"),
        ("--system-prompt", "Say {example}", "Say <guess>xylyl</guess>\n5x6<|reply|>"),
    ],
)
def test_a_model_is_asked_in_the_wording_that_is_asked_for(option, value, starts, cli, monkeypatch) -> None:
    sample, read = TransformersSampler.sample, []

    def recorded(self, requests):
        read.append(self.codec.tokenizer.decode(requests[0].prompt_ids))
        return sample(self, requests)

    monkeypatch.setattr(TransformersSampler, "sample", recorded)
    cli("play", "--player", "bundled", "--secret", "crane", "--max-completion-tokens", 8, option, value)
    assert read[1].startswith(starts)


def test_only_a_seed_has_the_same_game_played_again(cli) -> None:
    command = ("play", "--player", "random", "--secret", "crane")
    games = [cli(*command, *seed)[1] for seed in ((), (), (), (), ("--seed", 1), ("--seed", 1))]
    assert len(set(games[:4])) > 1
    assert games[4] == games[5]


def test_hard_mode_holds_for_a_player_that_does_not_know_it(cli, word_directory) -> None:
    command = ("play", "--words", word_directory, "--seed", 1)
    assert "leaves out a hint" not in cli(*command, "--player", "random")[1]
    assert "leaves out a hint" in cli(*command, "--player", "random", "--hard-mode")[1]
    assert cli(*command, "--player", "solver", "--hard-mode")[0] == 2
    assert cli(*command, "--player", "solver", "--dictionary", "app")[0] == 0


FEW = ("--attack", "--secrets", "1", "--steps", "1", "--answers", "20")
FORM_ALONE = '[model]\npath = "tiny"\n[grpo.reward]\nweights = { format = 1.0 }\nkeep_order = false\n'


def test_every_preset_is_shown_with_the_weights_in_use(cli) -> None:
    code, out, _ = cli("rewards", "--json")
    assert code == 0
    assert json.loads(out) == {name: dict(preset.effective_weights) for name, preset in PRESETS.items()}
    assert all(name in cli("rewards")[1] for name in PRESETS)
    assert json.loads(cli("rewards", "shaped", "--no-keep-order", "--json")[1])["shaped"] == PRESETS["shaped"].weights
    assert len(json.loads(cli("rewards", "shaped_curriculum", "--json")[1])) == 2, "it switches from one to the other"


def test_an_attack_reports_floor_and_gap(cli, word_directory) -> None:
    code, out, err = cli("rewards", "sparse", *FEW, "--words", word_directory, "--json")
    assert code == 0, err
    (found,) = json.loads(out).values()
    assert (found["floor"], found["false_wins"]) == (0.0, 0)
    assert found["gap"] == found["honest"] > 0.5
    told = cli("rewards", "sparse", *FEW, "--words", word_directory)[1]
    assert told.splitlines()[-1].startswith(f"verdict: winning pays {found['gap']:.3f} more")


def test_a_reward_of_ones_own_that_pays_form_alone_is_refused(cli, word_directory, tmp_path: Path) -> None:
    (tmp_path / "form.toml").write_text(FORM_ALONE)
    code, out, err = cli("rewards", tmp_path / "form.toml", *FEW, "--words", word_directory)
    assert (code, bool(err)) == (2, True)
    assert "form.toml" in out


def test_a_config_is_attacked_in_its_own_game_and_in_every_grpo_stage(cli, word_directory, tmp_path: Path) -> None:
    def attacked(name: str, text: str) -> tuple[int, dict[str, dict[str, float]], str]:
        source = f'words.source = "{word_directory}"\nmodel.path = "tiny"\n'
        (tmp_path / f"{name}.toml").write_text(f'stages = ["sft", "grpo", "grpo_2"]\n{source}{text}')
        code, out, err = cli("rewards", tmp_path / f"{name}.toml", *FEW, "--json")
        return code, json.loads(out), err

    paid = "grpo.reward.weights = {{ win = 1.0, speed = {} }}\ngrpo_2.reward = {{ weights = {}, keep_order = false }}\n"
    code, found, err = attacked("second", paid.format(0.0, "{ format = 1.0 }"))
    assert (code, [name.rpartition(", ")[2] for name in found]) == (2, ["grpo", "grpo_2"])
    assert "second.toml, grpo_2: a policy" in err
    six, one = (
        attacked(
            f"turns-{turns}", f"game.max_turns = {turns}\ngame.style = 'textarena'\n{paid.format(1.0, '{ win = 1.0 }')}"
        )[1]
        for turns in (6, 1)
    )
    honest = [next(iter(each.values()))["honest"] for each in (six, one)]
    assert 1 < honest[0] <= 2
    assert honest[1] in (0.0, 1.0), "one guess is won or lost, and leaves no turn to spare"


def test_the_entropy_table_agrees_with_counting_marks(cli, word_directory: Path, tmp_path: Path) -> None:
    table = tmp_path / "entropies.csv"
    command = ("solve", "--words", word_directory, "--entropies", table)
    assert [cli(*command)[0] for _ in range(2)] == [0, 0], "an earlier table is replaced"
    words = load_words(str(word_directory))
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert sorted(row["guess"] for row in rows) == sorted(words.guesses)
    bits = [float(row["expected_information_bits"]) for row in rows]
    assert bits == sorted(bits, reverse=True)
    for row in rows:
        sizes = Counter(score_guess(answer, row["guess"]) for answer in words.answers).values()
        parts = [size / len(words.answers) for size in sizes]
        assert float(row["expected_information_bits"]) == pytest.approx(-sum(p * math.log2(p) for p in parts), abs=1e-9)
        assert float(row["expected_remaining"]) == pytest.approx(sum(p * p for p in parts) * len(words.answers))
        assert int(row["largest_class"]) == max(sizes)


def test_the_printed_tree_finds_every_secret_by_its_marks(cli, word_directory: Path) -> None:
    code, out, _ = cli("solve", "--words", word_directory, "--tree")
    assert code == 0
    root: dict[str, tuple[str, dict]] = {}  # marks -> the guess to make, and its branches
    open_branches = [root]
    for line in out.split("\n\n")[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        marks, _, guess = f" {line.strip()}".rpartition(" ")
        del open_branches[depth + 1 :]
        open_branches[depth][marks.strip()] = (guess, {})
        open_branches.append(open_branches[depth][marks.strip()][1])
    for secret in load_words(str(word_directory)).answers:
        guess, branches = root[""]
        for _ in range(5):
            if guess != secret:
                guess, branches = branches[score_guess(secret, guess)]
        assert guess == secret


def test_two_runs_are_compared_by_their_last_models(cli, finished_run, tmp_path: Path) -> None:
    other = shutil.copytree(finished_run, tmp_path / "other")
    by_run = cli("compare", finished_run, other, "--json", "--names", "a", "b")
    by_file = cli(
        "compare", *(run / "eval" / "grpo.json" for run in (finished_run, other)), "--json", "--names", "a", "b"
    )
    assert by_run[0] == 0
    assert by_run[:2] == by_file[:2]


def test_rates_that_look_like_fractions_are_told_to_be_per_cent(cli) -> None:
    code, _, err = cli("power", 0.6, 0.7)
    assert code == 0
    assert "percent" in err
    assert cli("power", 60, 70)[2] == ""


def test_long_searches_and_exports_tell_how_far_they_are(cli, finished_run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.runs.progress.LINE_EVERY_S", 0.0)
    attack = ("rewards", "sparse", "--attack", "--secrets", 1, "--steps", 1, "--answers", 20)
    for command in (attack, ("watch", finished_run, "--export", tmp_path / "page.html")):
        code, _, err = cli(*command)
        assert code == 0
        [*_, (done, total)] = re.findall(r": (\d+) of (\d+)", err)
        assert done == total != "0"


def test_the_end_of_another_process_is_not_taken_for_that_of_our_reader(cli, monkeypatch) -> None:
    def asks(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("wordle_rl.cli.compare.games_needed", asks)
    code, _, err = cli("power", 60, 70)
    assert code == 2
    assert "a process that it writes to has ended" in err
