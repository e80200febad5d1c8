"""Laws of hindsight labels: on every board but the empty one the word that would have won, learnt from losses too."""

import pytest

torch = pytest.importorskip("torch")

from algorithm_settings import EXPERT_ITERATION as SETTINGS
from contexts import context_for
from round_training import fitted, learner_of, playing
from scripted import say
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.config import ConfigError, ExpertIterationTraining
from wordle_rl.env import WordleEnv
from wordle_rl.evaluate.strata import shown_in
from wordle_rl.game import score_guess
from wordle_rl.prompt import Shape
from wordle_rl.solver import Solver
from wordle_rl.train.expert_iteration import train_expert_iteration
from wordle_rl.train.starts import GameSetup
from wordle_rl.words.split import split_secrets

SECRETS = ExpertIterationTraining.model_validate(
    SETTINGS.model_dump(exclude_unset=True, exclude={"keep_per_group"}) | {"labels": "secret", "group_size": 2}
)
MISTAKES = SECRETS.model_copy(update={"labels": "mistakes"})


class Scene:
    """One group of two games of three turns: one is won in the third, one is lost."""

    def __init__(self, words, codec, tokenizer, directory, shape=Shape.TRANSCRIPT, strict_fraction=0.0) -> None:
        self.words, self.codec, self.directory = words, codec, directory
        self.model, self.run = small_model(tokenizer), make_run(directory, words)
        self.split = split_secrets(words, strict_fraction=strict_fraction)
        self.secret, self.first, self.second, self.third = self.split.train[:4]
        self.prompter = compact(shape, max_turns=3)
        self.setup = GameSetup(context_for(words, self.prompter, Solver(words), self.split), [self.secret])

    def script(self, game_id: int, turns: tuple) -> str:
        return say([[self.first, self.second, self.secret], [self.first, self.third, self.second]][game_id][len(turns)])

    def train(self, settings=SECRETS, says=None) -> None:
        learner, player = learner_of(self.model, self.codec), playing(says or self.script, self.codec)
        train_expert_iteration(learner, self.setup, settings, self.run, open_policy=player)

    def prompt(self, *guesses: str) -> list[int]:
        """The prompt after these guesses."""
        game = WordleEnv(self.secret, self.words, self.prompter)
        for guess in guesses:
            game.step(say(guess))
        return list(self.codec.prompt_ids(game.conversation))


@pytest.mark.parametrize("shape", Shape)
def test_every_board_but_the_empty_one_is_labelled_with_the_secret(
    shape, sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, shape)
    scene.train()
    [items] = seen
    assert [len(item) for item in items] == ([2, 2] if shape is Shape.TRANSCRIPT else [1] * 4), "a game shares a batch"
    reply = list(codec.reply_ids(say(scene.secret)))
    assert [learnt_in(example) for item in items for example in item] == [reply] * 4
    prompts = {tuple(example.token_ids[: -len(reply)]) for item in items for example in item}
    boards = [(scene.first,), (scene.first, scene.second), (scene.first, scene.third)]
    assert prompts == {tuple(scene.prompt(*board)) for board in boards}
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["labels"], row["win_rate"], row["own_examples"]) == (4.0, 0.5, float(len(items)))


@pytest.mark.parametrize("shape", Shape)
def test_with_mistakes_each_board_has_one_label_its_guess_if_the_marks_allow_it_else_the_secret(
    shape, sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, shape)
    scene.train(MISTAKES)
    games = [[scene.first, scene.second, scene.secret], [scene.first, scene.third, scene.second]]
    expected, kept = [], []
    for game in games:
        for turn in range(3):
            allowed = fits(game[turn], game[:turn], scene)
            expected.append(game[turn] if allowed else scene.secret)
            kept += [game[turn]] if allowed else []
    assert scene.secret in kept
    assert kept.count(scene.first) == 2, "an opener contradicts nothing"
    assert len(kept) < 6, "one of the guesses that could not be the secret is among these games"
    [items] = seen
    learnt = [token for item in items for example in item for token in learnt_in(example)]
    size = len(learnt) // 6
    found = [learnt[start : start + size] for start in range(0, len(learnt), size)]
    assert sorted(found) == sorted(list(codec.reply_ids(say(word))) for word in expected)
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["labels"], row["own_guesses"]) == (float(6 - len(kept)), float(len(kept)))
    record = rows(tmp_path / "labels.jsonl")
    assert sorted(turn["guess"] for game in record for turn in game["turns"] if turn.get("taught", True)) == sorted(
        kept
    )
    assert sum(len(game["boards_taught"]) for game in record) == 6 - len(kept)


def learnt_in(example) -> list[int]:
    """The tokens of an example that are trained on."""
    return [token for token, m in zip(example.token_ids, example.loss_mask, strict=True) if m]


def fits(guess: str, earlier: list[str], scene: Scene) -> bool:
    """True if a guess could be the secret by the marks of earlier ones."""
    return all(score_guess(guess, word) == score_guess(scene.secret, word) for word in earlier)


def test_boards_with_a_strict_word_are_left_out_and_the_record_says_what_was_trained(
    sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, strict_fraction=0.05)
    strict = scene.split.strict[0]
    lines = [[scene.first, strict, scene.second], [strict, scene.first, scene.secret]]
    scene.train(says=lambda game_id, turns: say(lines[game_id][len(turns)]))
    [[[example]]] = seen
    assert sum(example.loss_mask) == len(list(codec.reply_ids(say(scene.secret))))
    assert strict not in codec.tokenizer.decode(example.token_ids)
    labels = shown_in(rows(tmp_path / "labels.jsonl"), {scene.secret}).labels
    assert {(tuple(guess for guess, _ in board), word) for board, word in labels} == {((scene.first,), scene.secret)}


def test_a_label_that_the_policy_could_not_say_is_refused(sixty, codec, tokenizer, tmp_path) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path)
    sampling = SECRETS.sampling.model_copy(update={"max_completion_tokens": 4})
    with pytest.raises(ConfigError, match="max_completion_tokens"):
        scene.train(SECRETS.model_copy(update={"sampling": sampling}))


@pytest.fixture
def seen(monkeypatch) -> list:
    """The items that each round would train on."""
    return fitted(monkeypatch)
