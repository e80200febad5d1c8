"""Laws of expert iteration: the best games are kept as they were sampled, and learning makes them likelier."""

import pytest

torch = pytest.importorskip("torch")

from algorithm_settings import EXPERT_ITERATION as SETTINGS
from contexts import context_for
from round_training import fitted, learner_of, playing, token_logprobs
from scripted import say, scripted
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.chat.codec import mask_picture
from wordle_rl.config import ConfigError, ExpertIterationTraining
from wordle_rl.env import WordleEnv
from wordle_rl.evaluate.strata import shown_in
from wordle_rl.game import score_guess
from wordle_rl.prompt import Shape
from wordle_rl.report.curves import stage_curves
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver
from wordle_rl.train.expert_iteration import best_games, examples_of, train_expert_iteration
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup
from wordle_rl.words.split import split_secrets


class Group:
    """Five games for one secret: won in three, in two, in two with a broken rule, in two as before, lost."""

    def __init__(self, words) -> None:
        self.secret, self.first, self.second, self.third = words.answers[:4]
        opening = [self.first, self.first, "zzzzz", self.first, self.first]
        self.lines = [[word, self.secret, self.secret] for word in opening]
        self.lines[0][1] = self.second
        self.lines[4][1:] = [self.second, self.third]

    def __call__(self, game_id: int, turns: tuple) -> str:
        return say(self.lines[game_id % 5][len(turns)])

    def games(self, words, codec, shape=Shape.TRANSCRIPT, script=None) -> list[Scored]:
        sampler = scripted(script or self)(None, codec)
        starts = [InitialState(self.secret)] * 5
        played = play(starts, words, compact(shape, max_turns=3), sampler)
        return [Scored(t, PRESETS["strict_xml"].score(t.transcript, Solver(words)), ()) for t in played]


@pytest.fixture(scope="session")
def group(sixty) -> Group:
    return Group(sixty)


def test_the_won_games_with_the_fewest_guesses_are_kept_each_once(group, sixty, codec) -> None:
    games = group.games(sixty, codec)
    assert [game.trajectory.transcript.won for game in games] == [True, True, True, True, False]
    assert games[2].reward.total < games[1].reward.total
    for count, kept in ((1, [1]), (2, [1, 2]), (3, [1, 2, 0]), (9, [1, 2, 0])):
        assert [games.index(game) for game in best_games(games, count)] == kept
    assert best_games(games[4:], 3) == []


def test_a_game_is_learnt_as_sampled_but_for_the_reply_that_broke_a_rule(group, sixty, codec) -> None:
    games = group.games(sixty, codec)
    secret = group.secret
    [clean], [broken] = list(examples_of(games[1])), list(examples_of(games[2]))
    [segment] = games[1].trajectory.segments
    assert clean.token_ids == [*segment.prompt_ids, *segment.token_ids]
    assert clean.loss_mask == [*[0] * len(segment.prompt_ids), *segment.loss_mask]
    assert mask_picture(codec, clean.token_ids, clean.loss_mask).count("⟦") == 2
    picture = mask_picture(codec, broken.token_ids, broken.loss_mask)
    assert picture.count("⟦") == 1
    assert f"⟦<guess>{secret}</guess>" in picture
    assert "⟦<guess>zzzzz" not in picture
    assert "zzzzz" in picture


def test_a_reply_cut_at_its_limit_is_not_learnt(group, sixty, codec) -> None:
    cut = group.games(sixty, codec, script=lambda game_id, turns: group(game_id, turns) if turns else None)
    [example] = list(examples_of(cut[1]))
    assert cut[1].trajectory.transcript.won
    assert mask_picture(codec, example.token_ids, example.loss_mask).count("⟦") == 1


def train(model, codec, words, directory, settings=SETTINGS, shape=Shape.TRANSCRIPT, *, says, progress=None):
    """Train on games in which the policy says what `says` has it say."""
    setup = GameSetup(context_for(words, compact(shape, max_turns=3), Solver(words)), words.answers[:1])
    run = make_run(directory, words)
    learner, player = learner_of(model, codec), playing(says, codec)
    train_expert_iteration(learner, setup, settings, run, progress=progress, open_policy=player)
    return model


def logprob(model, examples) -> float:
    """Log-probability of the trained tokens."""
    with torch.no_grad():
        scores = [token_logprobs(model, e.token_ids[:1], e.token_ids[1:]) for e in examples]
    return float(sum(s @ torch.tensor(e.loss_mask[1:], dtype=s.dtype) for s, e in zip(scores, examples, strict=True)))


@pytest.mark.parametrize("shape", Shape)
def test_one_round_raises_the_probability_of_the_kept_game(shape, group, sixty, codec, tokenizer, tmp_path) -> None:
    kept = [*examples_of(group.games(sixty, codec, shape)[1])]
    before = logprob(small_model(tokenizer), kept)
    after = logprob(train(small_model(tokenizer), codec, sixty, tmp_path, shape=shape, says=group), kept)
    assert after > before + 0.1
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["stage"], row["step"], row["kept_games"], row["win_rate"]) == ("expert_iteration", 1, 1.0, 0.8)
    assert row["own_examples"] == row["all_examples"] == (2.0 if shape is Shape.STATE else 1.0)
    assert row["loss"] > 0
    assert rows(tmp_path / "secrets.jsonl")[0]["secrets"] == [group.secret]


def test_a_round_counts_the_steps_that_were_not_finite(group, sixty, codec, tokenizer, tmp_path) -> None:
    model, calls = small_model(tokenizer), []

    def poison(gradient):
        calls.append(1)
        return gradient if len(calls) == 2 else torch.full_like(gradient, float("nan"))

    model.model.layers[0].mlp.up_proj.weight.register_hook(poison)
    train(model, codec, sixty, tmp_path, SETTINGS.model_copy(update={"epochs": 4}), says=group)
    assert len(calls) == 4
    [row] = rows(tmp_path / "metrics.jsonl")
    assert row["skipped_steps"] == 3
    assert stage_curves({"expert_iteration": [row]}, "expert_iteration").num_skipped == 3


# --- hindsight labels: on every board but the empty one the word that would have won ---


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
