"""Laws of the environment in the process itself: OpenEnv's interface, and the rubric tree that no observation holds."""

import hashlib
import hmac
import json

import pytest
from openenv.core.rubrics import Rubric as OpenEnvRubric

from wordle_rl.config.context import GameContext
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.prompt import Prompter
from wordle_rl.reward import COMPONENTS, PRESETS
from wordle_rl.serve.environment import WordleEnvironment
from wordle_rl.serve.openenv_client import WordleAction
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.tasks import ServedGames, WordTasks, difficulty_of
from wordle_rl.serve.textarena import TextArenaAction, TextArenaEnvironment
from wordle_rl.solver import Solver
from wordle_rl.trainers.games import BoardTask
from wordle_rl.words.split import split_secrets


@pytest.fixture(scope="module")
def games() -> ServedGames:
    return ServedGames(ServeSettings())


def guess(word: str) -> WordleAction:
    return WordleAction(message=f"<guess>{word}</guess>")


def test_the_tree_shows_what_a_turn_was_made_of_and_observations_do_not(games) -> None:
    environment = WordleEnvironment(games)
    assert environment.rubric is None
    for preset in ("sparse", "notebook", "strict_xml"):
        environment.reset(seed=3, reward=preset)
        assert dict(environment.rubric.named_rubrics()).keys() == PRESETS[preset].effective_weights.keys()
        for word in ("crane", "zzzzz", "crane", "slips", "mould", "fight"):
            observation = environment.step(guess(word))
            leaves = dict(environment.rubric.named_rubrics())
            assert environment.rubric.last_score == observation.reward
            assert all(0.0 <= leaf.last_score <= 1.0 for leaf in leaves.values())
            if "greens" in leaves and word == "slips":
                assert leaves["greens"].last_score == observation.marks.count("G") / 5
        sent = json.dumps(observation.model_dump())
        assert not [name for name in COMPONENTS if f'"{name}"' in sent]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"words": "original"}, Reason.BAD_OPTION),
        ({"reward": "shaped_curriculum"}, Reason.BAD_OPTION),
        ({"given": ["qqqqq"]}, Reason.BAD_OPTION),
        ({"given": ["crane"], "max_given": 1}, Reason.BAD_OPTION),
        ({"max_given": 6}, Reason.BAD_OPTION),
        ({"split": "test"}, Reason.HELD_OUT),
        ({"split": "train", "index": 10**6}, Reason.UNKNOWN_TASK),
        ({"hard_mode": "yes"}, Reason.BAD_MESSAGE),
    ],
)
def test_what_is_not_offered_is_refused_and_the_game_goes_on(games, options, reason) -> None:
    environment = WordleEnvironment(games)
    environment.reset(seed=1)
    environment.step(guess("crane"))
    with pytest.raises(Refusal) as refused:
        environment.reset(**options)
    assert refused.value.reason is reason
    assert environment.state.step_count == 1


def test_no_training_session_has_a_strict_word_on_its_board() -> None:
    drawn: dict[float, set[str]] = {0.0: set(), 0.1: set()}
    for fraction, words in drawn.items():
        offering = ServedGames(ServeSettings(words=WordSettings(strict_fraction=fraction)))
        environment = WordleEnvironment(offering)
        for seed in range(400):
            environment.reset(seed=seed, max_given=5)
            words |= {turn["guess"] for turn in environment.state.board}
    strict = set(offering.offered().context.split.strict)
    assert strict & drawn[0.0], "without the rule they would stand on boards"
    assert not strict & drawn[0.1]


def test_a_board_of_every_secret_leaves_none_to_play(word_directory) -> None:
    settings = ServeSettings(words=WordSettings(source=str(word_directory)), game=GameSettings(max_turns=20))
    part = ServedGames(settings).offered().context.split.val
    environment = WordleEnvironment(ServedGames(settings.model_copy(update={"allow_held_out": ("val",)})))
    environment.reset(split="val", given=list(part[1:]))
    assert environment.step(guess(part[0])).secret == part[0]
    with pytest.raises(Refusal) as refused:
        environment.reset(split="val", given=list(part))
    assert refused.value.reason is Reason.BAD_OPTION


def test_of_a_reply_no_more_is_read_or_kept_than_the_limit_allows() -> None:
    short = ServedGames(ServeSettings(max_reply_characters=100))
    ours, textarena = WordleEnvironment(short), TextArenaEnvironment(short)
    word = "<guess>crane</guess>"
    for reply, outcome in ((word + " " * 10**6, "scored"), ("<think>" + "x" * 10**6 + "</think>" + word, "malformed")):
        ours.reset(seed=1)
        assert ours.step(WordleAction(message=reply)).outcome == outcome
        (played,) = ours._game.env.played
        assert (played.reply, played.overlong) == (reply[:100], True)
    ours.step(guess("slips"))
    assert not ours._game.env.played[-1].overlong
    textarena.reset(seed=1)
    said = textarena.step(TextArenaAction(message="[crane] " + "😀" * 10**6)).messages[-1].content
    assert len(said) < 2000


# --- tasks: same place, same secret; ids and lists tell none ---


@pytest.fixture(scope="module")
def tasks_of(small_words):
    context = GameContext(small_words, split_secrets(small_words), Prompter(), Solver(small_words))
    return lambda key=b"key", allowed=(): WordTasks(context, key, allowed)


def test_a_seed_is_the_same_task_in_every_process_and_seeds_differ(tasks_of) -> None:
    drawn = [tasks_of().pick("train", None, seed) for seed in range(300)]
    assert drawn == [tasks_of(b"another key").pick("train", None, seed) for seed in range(300)]
    assert {task.index for task in drawn} == set(range(tasks_of().num_tasks("train")))


def test_lists_hold_no_secret_and_only_the_key_makes_their_ids(small_words, tasks_of) -> None:
    tasks = tasks_of(allowed=("val", "test"))
    listed = tasks.tasks("train")
    text = json.dumps([tasks.list_splits(), listed, tasks.tasks("val"), tasks.tasks("test")]).lower()
    for word in small_words.answers:
        assert word not in text
        for digest in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            assert digest(word.encode()).hexdigest()[:16] not in text
    assert len({task["id"] for task in listed}) == len(listed)
    assert tasks_of().tasks("train") == listed
    assert not {task["id"] for task in tasks_of(b"another key").tasks("train")} & {task["id"] for task in listed}
    place = f"{small_words.fingerprint}:0:train:0".encode()
    assert listed[0]["id"] == hmac.new(b"key", place, hashlib.sha256).hexdigest()[:32]


def test_difficulty_is_the_length_of_the_trees_path(tasks_of) -> None:
    tasks = tasks_of()
    tree = tasks.context.solver.tree()
    for row in tasks.tasks("train"):
        secret = tasks.secret(BoardTask(split="train", index=row["index"]))
        assert row["difficulty"] == difficulty_of(len(tree.paths[secret]))
    assert [difficulty_of(count) for count in (1, 3, 4, 5, 7)] == ["easy", "easy", "medium", "hard", "hard"]


class Counting(OpenEnvRubric):
    """Counts the turns that it scored, and the games that began."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.games = 0

    def forward(self, action, observation) -> float:
        self.turns += 1
        return 0.0

    def reset(self) -> None:
        self.games += 1


def test_a_tree_of_your_own_scores_later_games_too(games) -> None:
    environment, own = WordleEnvironment(games), Counting()
    environment.rubric = own
    for game in (1, 2):
        environment.reset(seed=game)
        environment.step(guess("crane"))
        assert environment.rubric is own
        assert (own.games, own.turns) == (game, game)
    environment.rubric = None
    environment.reset(seed=3)
    assert environment.rubric is not own


def test_a_style_that_cannot_think_is_refused_by_a_server_that_must() -> None:
    served = ServedGames(ServeSettings(game=GameSettings(thinking="required")))
    environment = WordleEnvironment(served)
    with pytest.raises(Refusal, match="spelled") as refused:
        environment.reset(seed=1, style="spelled")
    assert refused.value.reason is Reason.BAD_OPTION
