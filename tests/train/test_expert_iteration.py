"""Laws of expert iteration: the best games are kept as they were sampled, and learning makes them likelier."""

import pytest

torch = pytest.importorskip("torch")

from algorithm_settings import EXPERT_ITERATION as SETTINGS
from contexts import context_for
from round_training import learner_of, playing, token_logprobs
from scripted import say, scripted
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.chat.codec import mask_picture
from wordle_rl.prompt import Shape
from wordle_rl.report.curves import stage_curves
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver
from wordle_rl.train.expert_iteration import best_games, examples_of, train_expert_iteration
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup


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
