"""Laws of hindsight labels: on every board but the empty one the word that would have won, learnt from losses too."""

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from expert_iteration_settings import SETTINGS
from scripted import say, scripted
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.config import ConfigError, ExpertIterationTraining, RunConfig
from wordle_rl.env import WordleEnv
from wordle_rl.evaluate.strata import shown_in
from wordle_rl.game import score_guess
from wordle_rl.prompt import Shape
from wordle_rl.rl.rounds.expert_iteration import train_expert_iteration
from wordle_rl.rl.setup import GameSetup
from wordle_rl.solver import Solver
from wordle_rl.words.split import split_secrets

SECRETS = ExpertIterationTraining.model_validate(
    SETTINGS.model_dump(exclude_unset=True, exclude={"keep_per_group"}) | {"labels": "secret", "group_size": 2}
)
CLUES = SECRETS.model_copy(update={"labels": "clues"})


class Scene:
    """One group of two games of three turns: one is won in the third, one is lost."""

    def __init__(self, words, codec, tokenizer, directory, shape=Shape.TRANSCRIPT, strict_fraction=0.0) -> None:
        self.words, self.codec, self.directory = words, codec, directory
        self.model, self.run = small_model(tokenizer), make_run(directory, words)
        self.split = split_secrets(words, strict_fraction=strict_fraction)
        self.secret, self.first, self.second, self.third = self.split.train[:4]
        self.prompter = compact(shape, max_turns=3)
        self.setup = GameSetup(
            context_for(words, self.prompter, Solver(words, use_cache=False), self.split), [self.secret]
        )

    def script(self, game_id: int, turns: tuple) -> str:
        return say([[self.first, self.second, self.secret], [self.first, self.third, self.second]][game_id][len(turns)])

    def train(self, settings=SECRETS, says=None) -> None:
        train_expert_iteration(
            self.model, self.codec, self.setup, settings, self.run, make_sampler=scripted(says or self.script)
        )

    def logprob(self, *guesses: str) -> float:
        """Log-probability of naming the secret after these guesses."""
        game = WordleEnv(self.secret, self.words, self.prompter)
        for guess in guesses:
            game.step(say(guess))
        prompt = list(self.codec.prompt_ids(game.conversation))
        reply = list(self.codec.reply_ids(say(self.secret)))
        with torch.no_grad():
            logits = self.model.eval()(input_ids=torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
        return float(logits.log_softmax(-1)[range(len(reply)), reply].sum())


@pytest.mark.parametrize("shape", Shape)
def test_every_board_but_the_empty_one_is_labelled_with_the_secret(
    shape, sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, shape)
    scene.train()
    [examples] = seen
    assert len(examples) == (2 if shape is Shape.TRANSCRIPT else 4), (
        "the boards of a game are one row where they can be"
    )
    reply = list(codec.reply_ids(say(scene.secret)))
    learnt = [[i for i, m in zip(e.token_ids, e.loss_mask, strict=True) if m] for e in examples]
    assert learnt == [reply * (2 if shape is Shape.TRANSCRIPT else 1)] * len(examples)
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["labels"], row["win_rate"], row["own_examples"]) == (4.0, 0.5, float(len(examples)))


@pytest.mark.parametrize("shape", Shape)
def test_one_round_makes_the_secret_likelier_where_it_was_missed(shape, sixty, codec, tokenizer, tmp_path) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, shape)
    boards = [(scene.first,), (scene.first, scene.third)]
    before = [scene.logprob(*board) for board in boards]
    scene.train()
    after = [scene.logprob(*board) for board in boards]
    assert all(new > old + 0.1 for new, old in zip(after, before, strict=True))


@pytest.mark.parametrize("shape", Shape)
def test_with_clues_own_guesses_are_learnt_where_all_earlier_marks_allowed_them(
    shape, sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, shape)
    scene.train(CLUES)
    games = [[scene.first, scene.second, scene.secret], [scene.first, scene.third, scene.second]]
    allowed = [guess for game in games for turn, guess in enumerate(game) if turn and fits(guess, game[:turn], scene)]
    assert scene.secret in allowed
    assert len(allowed) < 4, "one of the guesses that could not be the secret is among these games"
    [examples] = seen
    expected = sorted(list(codec.reply_ids(say(word))) for word in [*allowed, *[scene.secret] * 4])
    learnt = [i for e in examples for i, m in zip(e.token_ids, e.loss_mask, strict=True) if m]
    size = len(expected[0])
    assert sorted(learnt[start : start + size] for start in range(0, len(learnt), size)) == expected
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["labels"], row["own_guesses"]) == (4.0, float(len(allowed)))
    taught = [turn["guess"] for game in rows(tmp_path / "labels.jsonl") for turn in game["turns"] if turn["taught"]]
    assert sorted(taught) == sorted(allowed)
    labels = shown_in(rows(tmp_path / "labels.jsonl"), {scene.secret}).labels
    assert len({board for board, _ in labels}) == 3, "the empty board and those after the end are no labels"


def fits(guess: str, earlier: list[str], scene: Scene) -> bool:
    """True if a guess could be the secret by the marks of earlier ones."""
    return all(score_guess(guess, word) == score_guess(scene.secret, word) for word in earlier)


@pytest.mark.parametrize("settings", [SECRETS, CLUES], ids=["secret", "clues"])
def test_rows_with_branches_and_rows_of_their_own_train_alike(
    settings, sixty, codec, tokenizer, tmp_path, monkeypatch
) -> None:
    whole, split = (Scene(sixty, codec, tokenizer, tmp_path / name) for name in ("whole", "split"))
    whole.train(settings.model_copy(update={"batch_size": 16}))
    monkeypatch.setattr("wordle_rl.rl.rounds.hindsight.takes_branches", lambda _: False)
    split.train(settings.model_copy(update={"batch_size": 16}))
    numbers = [rows(scene.run.directory / "metrics.jsonl")[0]["own_examples"] for scene in (whole, split)]
    assert numbers == [2.0, 4.0 if settings is SECRETS else 6.0]
    for one, other in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_boards_with_a_strict_word_are_left_out_and_the_record_says_what_was_trained(
    sixty, codec, tokenizer, tmp_path, seen
) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path, strict_fraction=0.05)
    strict = scene.split.strict[0]
    lines = [[scene.first, strict, scene.second], [strict, scene.first, scene.secret]]
    scene.train(says=lambda game_id, turns: say(lines[game_id][len(turns)]))
    [[example]] = seen
    assert sum(example.loss_mask) == len(list(codec.reply_ids(say(scene.secret))))
    assert strict not in codec.tokenizer.decode(example.token_ids)
    labels = shown_in(rows(tmp_path / "labels.jsonl"), {scene.secret}).labels
    assert {(tuple(guess for guess, _ in board), word) for board, word in labels} == {((scene.first,), scene.secret)}


def test_a_label_that_the_policy_could_not_say_is_refused(sixty, codec, tokenizer, tmp_path) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path)
    sampling = SECRETS.sampling.model_copy(update={"max_completion_tokens": 4})
    with pytest.raises(ConfigError, match="max_completion_tokens 4 cuts off the label"):
        scene.train(SECRETS.model_copy(update={"sampling": sampling}))


def test_settings_that_do_not_go_with_it_are_refused() -> None:
    given = {"algorithm": "expert_iteration", "game": {"thinking": "off"}, "expert_iteration": {"labels": "secret"}}
    for labels in ("secret", "clues"):
        found = RunConfig.model_validate({**given, "expert_iteration": {"labels": labels}})
        assert found.training.labels == labels
    with pytest.raises(ValueError, match="guesses without thinking"):
        RunConfig.model_validate({**given, "game": {}})
    with pytest.raises(ValueError, match="keep_per_group chooses among wins"):
        RunConfig.model_validate({**given, "expert_iteration": {"labels": "secret", "keep_per_group": 2}})


@pytest.fixture
def seen(monkeypatch) -> list:
    """The examples that each round would train on."""
    found: list = []
    monkeypatch.setattr(
        "wordle_rl.rl.rounds.rounds.fit_games", lambda _model, _codec, examples, *a, **k: found.append(examples)
    )
    return found
