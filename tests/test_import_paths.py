"""Code from outside the package is plugged in by `module:attribute`, through the real settings; the rest is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from reward_games import SOLVER, WORDS, play
from rich.console import Console
from scripted import ScriptedSampler, say
from training_fixtures import context_for, rows, write_config

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config, stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.import_paths import resolve
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.base import Request
from wordle_rl.policy.scripted import OwnSampler
from wordle_rl.prompt import Prompter, PromptError
from wordle_rl.reward import RewardError, Rubric
from wordle_rl.rollout import Trajectory
from wordle_rl.rollout import play as play_games
from wordle_rl.runs import write_json
from wordle_rl.train.advantages import find_credit
from wordle_rl.train.scored_games import score_group
from wordle_rl.train.starts import GameSetup

MODULE = '''
from pathlib import Path

from wordle_rl.reward import Component

NUMBER = 3


def vowels(transcript, solver):
    """Vowels of each guess over all letters of the game."""
    turns = transcript.own_turns
    counts = [sum(letter in "aeiou" for letter in played.turn.guess or "") for played in turns]
    return [count / (5 * len(turns)) for count in counts]


def first(transcript, solver):
    return [2.0, *(0.0 for _ in transcript.own_turns[1:])]


bonus = Component(first, (0, 2), (0, 2), (0, 2))  # 2 in every game
short = lambda transcript, solver: [0.0]
none = lambda transcript, solver: None
not_finite = lambda transcript, solver: [float("nan") for _ in transcript.own_turns]
one_argument = lambda transcript: [0.0]


def best_only(turn_rewards, *, scale=False):
    """Credit the best game of a group alone."""
    totals = [sum(rewards) for rewards in turn_rewards]
    return [[float(sum(rewards) == max(totals))] * len(rewards) for rewards in turn_rewards]


one_game = lambda turn_rewards, *, scale=False: [[0.0]]


class German:
    def brackets(self, prompter):
        return False

    def rules(self, prompter):
        return f"Finde ein Wort mit {prompter.word_length} Buchstaben: {prompter.example}"

    def opening(self, prompter):
        return "Los!"

    def feedback(self, prompter, turns):
        return f"{turns[-1].guess} {turns[-1].marks}" if turns[-1].marks else f"nein: {turns[-1].outcome}"

    def state(self, prompter, turns):
        return "; ".join(self.feedback(prompter, turns[: n + 1]) for n in range(len(turns)))


class Halved:
    rules = opening = feedback = German.feedback


class Speechless(German):
    def feedback(self, prompter, turns):
        return None


class Alphabet:
    """Names the first word that fits the board."""

    def __init__(self, words, seed):
        from wordle_rl.game import violates_clues

        self.words, self.violates = words.guesses, violates_clues

    def __call__(self, boards):
        return [self.reply(next(word for word in self.words if not self.violates(word, board))) for board in boards]

    def reply(self, word):
        return word


class Thinker(Alphabet):
    def reply(self, word):
        return f"<think>Alphabet.</think><guess>{word}</guess>"


class Tired(Alphabet):
    """Is stopped in its second batch as long as there is a file `tired`."""

    batches = 0

    def __call__(self, boards):
        self.batches += not boards[0]
        if self.batches == 2 and Path(__file__).with_name("tired").exists():
            raise KeyboardInterrupt
        return super().__call__(boards)


def zebra(boards):
    return ["zebra" for _ in boards]


too_few = lambda boards: []
'''


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """A directory with a package `my_pkg` from outside, which Python finds."""
    (tmp_path / "outside" / "my_pkg").mkdir(parents=True)
    (tmp_path / "outside" / "my_pkg" / "__init__.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "outside")
    monkeypatch.delitem(sys.modules, "my_pkg", raising=False)
    yield tmp_path
    sys.modules.pop("my_pkg", None)


def config_of(directory: Path, text: str) -> RunConfig:
    path = directory / "run.toml"
    path.write_text(text)
    return load_config(path)


def test_a_component_from_outside_pays_the_turns_of_a_played_game(own) -> None:
    config = config_of(own, '[grpo.reward]\nweights = {win = 1.0, "my_pkg:vowels" = 0.5}\nkeep_order = false')
    found = config.grpo.reward.schedule().rubric().score(play("crane", "zzzzz", "eerie", "crane"), SOLVER)
    assert found.turn_rewards == pytest.approx((0.0, 0.5 * 4 / 15, 0.5 * 2 / 15 + 1.0))
    assert found.values["my_pkg:vowels"] == pytest.approx(6 / 15)


def test_order_is_kept_with_components_from_outside_and_with_the_ranges_that_they_state(own) -> None:
    narrow, wide = Rubric({"my_pkg:vowels": 0.5}), Rubric({"my_pkg:bonus": 0.5})
    assert narrow.effective_weights["win"] == pytest.approx(2 * (0.5 + 0.01))
    assert wide.effective_weights["win"] == pytest.approx(2 * (1.0 + 0.01))
    lost, broke, won = (
        wide.score(play("crane", *words), SOLVER).total for words in (["zzzzz"] * 6, ["qqqqq"] * 6, ["crane"])
    )
    assert won > lost > broke


@pytest.mark.parametrize("name", ["short", "none", "not_finite", "first"])
def test_a_component_that_returns_something_else_is_refused(name: str, own) -> None:
    with pytest.raises(RewardError, match=f"my_pkg:{name}"):
        Rubric({f"my_pkg:{name}": 1.0}).score(play("crane", "zzzzz", "crane"), SOLVER)


def test_an_estimator_from_outside_credits_a_scored_group(own) -> None:
    config = config_of(own, '[grpo]\ncredit = "my_pkg:best_only"')
    setup = GameSetup(context_for(WORDS, Prompter(), SOLVER), WORDS.answers)
    group = [Trajectory(play("crane", *words)) for words in (["crane"], ["trace", "crane"])]
    scored = score_group(group, Rubric({"win": 1.0, "speed": 0.5}), setup, config.grpo)
    assert [game.advantages for game in scored.games] == [(1.0,), (0.0, 0.0)]
    assert not scored.is_constant


@pytest.mark.parametrize("shape", ["transcript", "state"])
def test_a_style_from_outside_words_a_played_game(shape: str, own) -> None:
    class Watched(ScriptedSampler):
        def sample(self, requests):
            asked.extend(requests)
            return super().sample(requests)

    asked: list[Request] = []
    config = config_of(own, f'[game]\nstyle = "my_pkg:German"\nshape = "{shape}"')
    player = Watched({0: [say("zzzzz"), "what?", say("crane")]})
    [game] = play_games([InitialState("crane")], WORDS, config.game.prompter(5), player)
    assert game.transcript.won
    texts = [message["content"] for message in asked[-1].messages if message["role"] != "assistant"]
    system = "Finde ein Wort mit 5 Buchstaben: <guess>xylyl</guess>"
    board = ["zzzzz XXXXX", "nein: malformed"]
    assert texts == ([system, "Los!", *board] if shape == "transcript" else [system, "; ".join(board)])
    assert [message["content"] for message in asked[0].messages] == [system, "Los!"]


def test_a_run_learns_from_the_won_games_of_a_teacher_from_outside(own, word_directory, sixty) -> None:
    changes = {"traces.teacher__name": '"my_pkg:Alphabet"', "traces__num_games": "40", "traces__outside_rate": "0.3"}
    config = load_config(write_config(own / "run.toml", word_directory, **changes))
    Pipeline(config, own / "run", Console(quiet=True))("traces")
    games = rows(own / "run" / "traces.jsonl")
    assert {game["teacher"] for game in games} == {"my_pkg:Alphabet"}
    assert 0 < len(games) <= 40
    assert all(game["turns"][-1]["guess"] == game["secret"] for game in games)
    assert all(game["turns"][0]["guess"] == sixty.guesses[0] for game in games)
    split = config.words.split_of(sixty)
    assert {game["secret"] for game in games}.isdisjoint(split.never_trained)
    assert {game["secret"] for game in rows(own / "run" / "validation_traces.jsonl")} <= {*split.val}
    assert stored_config(own / "run" / "config.json").traces.teacher.name == "my_pkg:Alphabet"


def test_the_traces_command_writes_every_game_of_a_teacher_from_outside(own, word_directory, cli) -> None:
    out = own / "games.jsonl"
    few = ("--words", word_directory, "--num-games", 30, "--out", out)
    assert cli("traces", "--teacher", "my_pkg:Thinker", "--game.max-turns", 3, *few)[0] == 0
    games = rows(out)
    assert len(games) == 30
    assert max(len(game["turns"]) for game in games) == 3
    assert {turn["thinking"] for game in games for turn in game["turns"]} == {"Alphabet."}
    assert cli("traces", "--teacher", "my_pkg:Thinker", *few)[0] == 0  # its own games may be replaced
    code, _, error = cli("traces", *few)
    assert (code, len(rows(out))) == (2, 30)
    assert str(out) in error


def test_a_player_from_outside_is_evaluated_and_its_games_are_kept(own, word_directory, cli) -> None:
    out = own / "eval.json"
    asked = ("eval", "--words", word_directory, "--split", "train", "--out", out, "--json")
    code, shown, _ = cli(*asked, "--player", "my_pkg:Alphabet")
    assert code == 0
    found = json.loads(shown)
    assert found["player"] == json.loads(out.read_text())["player"] == "my_pkg:Alphabet"
    assert found["clue_violating_rate"] == found["malformed_rate"] == 0.0
    assert found["mean_regret"] > 0.0


def test_kept_games_of_a_player_are_continued_but_not_by_other_code(own, word_directory, cli) -> None:
    asked = ("eval", "--player", "my_pkg:Tired", "--words", word_directory, "--split", "train", "--out", own / "e.json")
    few = ("--max-batch-size", 8, "--no-regret")
    module = own / "outside" / "my_pkg" / "__init__.py"
    (own / "outside" / "my_pkg" / "tired").touch()
    assert cli(*asked, *few)[0] == 130
    (own / "outside" / "my_pkg" / "tired").unlink()
    module.write_text(MODULE + "# changed")
    assert cli(*asked, *few)[0] == 2
    module.write_text(MODULE)
    code, _, told = cli(*asked, *few)
    assert code == 0
    assert "8 of" in told


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda: find_credit("my_pkg:one_game")([(1.0,), (0.0, 0.0)]), ConfigError),
        (lambda: OwnSampler("my_pkg:too_few", "player", WORDS, Prompter()).sample([Request(0, (), ())]), ConfigError),
        (lambda: Prompter(style="my_pkg:Speechless").feedback(()), PromptError),
    ],
    ids=["credit", "player", "style"],
)
def test_what_returns_something_else_is_refused(use, error: type[Exception], own) -> None:
    with pytest.raises(error, match="my_pkg:"):
        use()


SETTINGS = {
    "reward": ('[grpo.reward]\nweights = {{"{}" = 1.0}}', "grpo.reward"),
    "credit": ('[grpo]\ncredit = "{}"', "grpo: credit"),
    "style": ('[game]\nstyle = "{}"', "style"),
    "teacher": ('[traces.teacher]\nname = "{}"', "traces.teacher: name"),
}
WRONG = ["no_such_module:vowels", "my_pkg:no_such", "my_pkg:NUMBER", "my_pkg:", "my_pkg.py:vowels"]


UNSUITABLE = [("reward", "one_argument"), ("credit", "vowels"), ("style", "Halved"), ("style", "vowels")]


@pytest.mark.parametrize(
    ("setting", "path"),
    [*((setting, path) for setting in SETTINGS for path in WRONG), *((s, f"my_pkg:{name}") for s, name in UNSUITABLE)],
)
def test_what_cannot_be_had_or_called_is_refused_by_key(setting: str, path: str, own) -> None:
    text, key = SETTINGS[setting]
    with pytest.raises(ConfigError) as refused:
        config_of(own, text.format(path))
    assert key in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["def vowels(:", "from math import nothing_there"])
def test_a_module_that_does_not_import_is_refused_with_what_is_wrong(text: str, own) -> None:
    (own / "outside" / "broken_module.py").write_text(text)
    with pytest.raises(ConfigError, match=r"broken_module cannot be imported .*(broken_module.py|nothing_there)"):
        resolve("broken_module:vowels", "player", ConfigError)


def test_the_current_directory_is_searched_and_hides_nothing(own, tmp_path) -> None:
    (tmp_path / "mine.py").write_text("vowels = lambda transcript, solver: [0.0 for _ in transcript.own_turns]")
    (tmp_path / "json.py").write_text("raise RuntimeError")
    (tmp_path / "run.toml").write_text('[grpo.reward]\nweights = {"mine:vowels" = 0.5}')
    program = f"import sys; sys.path[:] = {[path for path in sys.path if path]}; from wordle_rl.cli import main; main()"
    command = [sys.executable, "-P", "-c", program, "rewards", "run.toml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert '"mine:vowels": 0.5' in done.stdout, done.stderr


def test_reading_a_run_imports_nothing(own) -> None:
    paths = {"reward": "vowels", "credit": "best_only", "style": "German", "teacher": "zebra"}
    config = config_of(own, "\n".join(SETTINGS[kind][0].format(f"my_pkg:{name}") for kind, name in paths.items()))
    write_json(own / "config.json", config.stored())
    del sys.modules["my_pkg"]
    assert stored_config(own / "config.json") == config
    assert "my_pkg" not in sys.modules
    assert load_config(own / "config.json") == config  # to resume it they are resolved again
    assert "my_pkg" in sys.modules
