"""Laws of expert iteration: the best games are kept as they were sampled, and learning makes them likelier."""

from dataclasses import replace

import pytest
import torch
from algorithm_settings import EXPERT_ITERATION as SETTINGS
from algorithm_settings import train_by
from grpo_training import turns_of
from reward_games import SOLVER, WORDS, play
from round_training import games_of, learner_of, playing, setup_for, token_logprobs
from scripted import say
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.chat.masks import mask_picture
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import ExpertIterationSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.env import WordleEnv
from wordle_rl.game import score_guess, violates_clues
from wordle_rl.prompt import Shape
from wordle_rl.report.curves import stage_curves
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import Trajectory
from wordle_rl.train.expert_iteration import best_games, examples_of
from wordle_rl.train.hindsight_labels import boards_to_teach
from wordle_rl.train.scored_games import Scored
from wordle_rl.words.split import Split, split_secrets


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

    def games(self, words, codec, shape=Shape.TRANSCRIPT) -> list[Scored]:
        return games_of(words, codec, [self.secret] * 5, self, compact(shape, max_turns=3), "strict_xml")


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
    [clean], [broken] = examples_of(games[1]), examples_of(games[2])
    [segment] = games[1].trajectory.segments
    assert clean.token_ids == [*segment.prompt_ids, *segment.token_ids]
    assert clean.loss_mask == [*[0] * len(segment.prompt_ids), *segment.loss_mask]
    picture = mask_picture(codec, broken.token_ids, broken.loss_mask)
    assert picture.count("⟦") == 1
    assert f"⟦{say(group.secret)}" in picture
    assert say("zzzzz") in picture


def test_a_reply_cut_at_its_limit_is_not_learnt_though_its_guess_was_read(group, sixty, codec) -> None:
    game = group.games(sixty, codec)[1]
    first, *others = game.trajectory.transcript.turns
    cut = replace(game.trajectory.transcript, turns=(first._replace(overlong=True), *others))
    [example] = examples_of(replace(game, trajectory=replace(game.trajectory, transcript=cut)))
    assert mask_picture(codec, example.token_ids, example.loss_mask).count("⟦") == 1


def train(model, codec, words, directory, says, settings=SETTINGS, shape=Shape.TRANSCRIPT):
    """Train on games in which the policy says what `says` has it say."""
    setup = setup_for(words, compact(shape, max_turns=3), words.answers[:1])
    learner, player = learner_of(model, codec), playing(says, codec)
    train_by(settings, learner, setup, make_run(directory, words), open_policy=player)
    return model


@torch.no_grad()
def logprob(model, examples) -> float:
    """Log-probability of the trained tokens."""
    return sum(
        float(token_logprobs(model, e.token_ids[:1], e.token_ids[1:]) @ torch.tensor(e.loss_mask[1:]).float())
        for e in examples
    )


@pytest.mark.parametrize("shape", Shape)
def test_one_round_raises_the_probability_of_the_kept_game(shape, group, sixty, codec, tokenizer, tmp_path) -> None:
    kept = [*examples_of(group.games(sixty, codec, shape)[1])]
    before = logprob(small_model(tokenizer), kept)
    after = logprob(train(small_model(tokenizer), codec, sixty, tmp_path, group, shape=shape), kept)
    assert after > before + 0.1
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["stage"], row["step"], row["kept_games"], row["win_rate"]) == ("expert_iteration", 1, 1.0, 0.8)
    assert row["own_examples"] == row["all_examples"] == (1.0 if shape is Shape.TRANSCRIPT else 2.0)
    assert row["loss"] > 0
    assert rows(tmp_path / "secrets.jsonl")[0]["secrets"] == [group.secret]


def test_a_round_counts_the_steps_that_were_not_finite(group, sixty, codec, tokenizer, tmp_path) -> None:
    model, calls = small_model(tokenizer), []

    def poison(gradient):
        calls.append(1)
        return gradient if len(calls) == 2 else torch.full_like(gradient, float("nan"))

    model.model.layers[0].mlp.up_proj.weight.register_hook(poison)
    train(model, codec, sixty, tmp_path, group, SETTINGS.model_copy(update={"epochs": 4}))
    assert len(calls) == 4
    [row] = rows(tmp_path / "metrics.jsonl")
    assert row["skipped_steps"] == 3
    assert stage_curves({"expert_iteration": [row]}, "expert_iteration").num_skipped == 3


# --- hindsight labels: on every board but the empty one the word that would have won ---


SECRETS = ExpertIterationSettings.model_validate(
    SETTINGS.model_dump(exclude_unset=True, exclude={"keep_per_group"}) | {"labels": "secret", "group_size": 2}
)
MISTAKES = SECRETS.model_copy(update={"labels": "mistakes"})


class Scene:
    """One group of two games of three turns: one is won in the third turn, one is lost."""

    def __init__(self, words, codec, tokenizer, directory, shape=Shape.TRANSCRIPT) -> None:
        self.words, self.codec, self.directory = words, codec, directory
        self.model, self.run = small_model(tokenizer), make_run(directory, words)
        self.secret, self.first, second, third = split_secrets(words).train[:4]
        self.games = [[self.first, second, self.secret], [self.first, third, second]]
        self.prompter = compact(shape, max_turns=3)
        self.setup = setup_for(words, self.prompter, [self.secret])

    def train(self, settings=SECRETS) -> None:
        player = playing(lambda game_id, turns: say(self.games[game_id][len(turns)]), self.codec)
        train_by(settings, learner_of(self.model, self.codec), self.setup, self.run, open_policy=player)

    def prompt(self, *guesses: str) -> list[int]:
        """The prompt after these guesses."""
        game = WordleEnv(self.secret, self.words, self.prompter)
        for guess in guesses:
            game.step(say(guess))
        return list(self.codec.prompt_ids(game.conversation))


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("settings", [SECRETS, MISTAKES], ids=["secret", "mistakes"])
def test_every_board_is_labelled_with_the_secret_or_with_its_guess_if_that_is_no_mistake(
    settings, shape, sixty, codec, tokenizer, tmp_path, seen
) -> None:
    """The empty board, which contradicts no word, is labelled with its guess alone."""
    scene = Scene(sixty, codec, tokenizer, tmp_path, shape)
    scene.train(settings)
    places = [(game[turn], game[:turn]) for game in scene.games for turn in range(3)]
    kept = [place for place in places if settings is MISTAKES and fits(*place, scene)]
    taught = [(scene.secret, board) for guess, board in places if board and (guess, board) not in kept]
    if settings is MISTAKES:
        assert [guess for guess, board in kept if not board] == [scene.first] * 2
        assert scene.secret in [guess for guess, _ in kept]
        assert len(taught) > 0
    [items] = seen
    learnt = [turn for item in items for example in item for turn in turns_of(example)]
    expected = [(tuple(scene.prompt(*board)), tuple(codec.reply_ids(say(word)))) for word, board in kept + taught]
    assert sorted(learnt) == sorted(expected)
    if shape is Shape.TRANSCRIPT:
        assert len(items) == 2, "a game shares a batch"
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["labels"], row.get("own_guesses", 0.0)) == (len(taught), len(kept))
    record = rows(tmp_path / "labels.jsonl")
    on_record = [turn["guess"] for game in record for turn in game["turns"] if turn.get("taught", True)]
    assert settings is SECRETS or sorted(on_record) == sorted(guess for guess, _ in kept)
    assert sum(len(game["boards_taught"]) for game in record) == len(taught)


def fits(guess: str, earlier: list[str], scene: Scene) -> bool:
    """True if a guess could be the secret by the marks of earlier ones."""
    return all(score_guess(guess, word) == score_guess(scene.secret, word) for word in earlier)


@pytest.mark.parametrize(
    ("labels", "corrected", "kept"),
    [("secret", {1, 2, 3, 4, 5}, set()), ("mistakes", {1, 2, 3, 4}, {0, 5}), ("refused", {1, 4}, {0, 2, 3, 5})],
)
def test_what_counts_as_a_mistake(labels, corrected, kept) -> None:
    """Refused strings and repeats always; THESE and NYMPH, ruled out by marks, unless only what is refused counts."""
    game = play("grape", "drape", "qqqqq", "these", "nymph", "these", "grape")
    shown = [played.turn for played in game.turns]
    assert [violates_clues(shown[at].guess, shown[:at]) for at in (2, 3, 5)] == [True, True, False]
    split = Split(WORDS.answers, (), (), 0, WORDS.fingerprint)
    scored = Scored(Trajectory(game), PRESETS["sparse"].score(game, SOLVER), ())
    assert boards_to_teach(scored, split, labels) == (corrected, kept)


def test_a_label_that_the_policy_could_not_say_is_refused(sixty, codec, tokenizer, tmp_path) -> None:
    scene = Scene(sixty, codec, tokenizer, tmp_path)
    scene.setup = replace(scene.setup, sampling=SamplingSettings(max_completion_tokens=4))
    with pytest.raises(ConfigError, match="max_completion_tokens"):
        scene.train()
