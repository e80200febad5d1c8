"""Laws of DPO on guesses: the better reply to the same prompt is chosen, token for token, and becomes likelier."""

import copy
import math
from itertools import permutations
from typing import NamedTuple

import pytest
import torch
from algorithm_settings import DPO as SETTINGS
from algorithm_settings import train_by
from round_training import games_of, gradient_norm, learner_of, playing, setup_for, token_logprobs
from scripted import say
from training_fixtures import compact, fast, make_run, rows, small_model

from wordle_rl.config.model import LoraSettings
from wordle_rl.config.stages import DPOSettings
from wordle_rl.policy.adapters import add_adapters
from wordle_rl.prompt import Shape
from wordle_rl.train.dpo import DPO, Reply, pairs_of
from wordle_rl.train.example import Example
from wordle_rl.train.loss import PreferenceLoss
from wordle_rl.train.scored_games import Scored, boards_of


class Pair(NamedTuple):
    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]

    def examples(self) -> list[Example]:
        size = len(self.prompt_ids)
        return [Example(self.prompt_ids + ids, [0] * size + [1] * len(ids)) for ids in self[1:]]


class Script:
    """Two games: one finds the secret at the second turn, one never. Boards are then asked for four guesses each."""

    def __init__(self, words) -> None:
        self.secret, self.first, self.second, self.third = words.answers[:4]

    def __call__(self, game_id: int, turns: tuple) -> str | None:
        if not turns:
            return say([self.first, self.first, "zzzzz", self.second][game_id % 4])
        return say([self.secret, self.second, "zzzzz", self.third][game_id % 4])

    def games(self, words, codec, shape=Shape.TRANSCRIPT) -> list[Scored]:
        return games_of(words, codec, [self.secret] * 2, self, compact(shape, max_turns=3))


@pytest.fixture
def script(sixty) -> Script:
    return Script(sixty)


@pytest.fixture
def train(tokenizer, codec, sixty, script, monkeypatch):
    """Trains by DPO; the model, the pairs of each round, and a copy of the policy that each was trained with."""
    pairs: list[list[Pair]] = []
    policies: list[torch.nn.Module] = []
    batches = DPO.batches

    def listen(method, games, number):
        pairs.append([pair_of(*item) for item in games.items])
        policies.append(copy.deepcopy(method.stage.training.learner.model))
        return batches(method, games, number)

    def run(directory, settings=SETTINGS, shape=Shape.TRANSCRIPT, model=None):
        learner = learner_of(model or small_model(tokenizer), codec)
        setup = setup_for(sixty, compact(shape, max_turns=3), sixty.answers[:1])
        train_by(settings, learner, setup, make_run(directory, sixty), open_policy=playing(script, codec))
        return learner.model, pairs, policies

    monkeypatch.setattr(DPO, "batches", listen)
    return run


def pair_of(chosen, rejected) -> Pair:
    """The pair that two rows were made of."""
    first = [*chosen.loss_mask].index(1)
    pair = Pair([*chosen.token_ids[:first]], [*chosen.token_ids[first:]], [*rejected.token_ids[first:]])
    assert pair.examples() == [chosen, rejected]
    return pair


def update(**changes: object) -> DPOSettings:
    return SETTINGS.model_copy(update=changes)


def test_the_best_sound_reply_is_set_against_those_worse_by_the_margin_the_worst_first() -> None:
    a, b, c = Reply((1,), 0.9, True), Reply((2,), 0.5, True), Reply((3,), 0.1, False)
    assert pairs_of([c, a, b], 0.1, 9) == [(a, c), (a, b)]
    assert pairs_of([c, a, b], 0.1, 1) == [(a, c)]
    assert pairs_of([c, a, b], 0.5, 9) == [(a, c)]
    assert pairs_of([a, a, a], 0.1, 9) == []
    unsound = Reply((4,), 5.0, False)
    assert pairs_of([unsound, b, c], 0.1, 9) == [(b, c)]
    assert pairs_of([unsound, c], 0.1, 9) == []


def test_guesses_are_weighed_by_the_solver(script, train, codec, solver, tmp_path) -> None:
    everything, others = solver.candidates([]), solver.words.answers[4:]
    regret = {word: solver.regret(word, everything) for word in others}
    bits = {word: solver.information_of(word, everything) for word in others}
    script.first, script.second = next(  # the one gives away less, the other tells more
        (a, b) for a, b in permutations(others, 2) if regret[a] < regret[b] - 0.01 and bits[a] < bits[b] - 0.01
    )
    _, [pairs], _ = train(tmp_path, update(pairs_per_board=9, margin=0.001))
    assert len({tuple(pair.prompt_ids) for pair in pairs}) == 3  # two games, whose first board is the same
    opening = codec.prompt_ids(compact(max_turns=3).opening())
    at_opening = [pair for pair in pairs if pair.prompt_ids == opening]
    assert {codec.text_of(pair.chosen_ids) for pair in at_opening} == {say(script.first)}
    assert codec.text_of(at_opening[0].rejected_ids) == say("zzzzz")
    assert not [pair for pair in pairs if "zzzzz" in codec.text_of(pair.chosen_ids)]


@pytest.mark.parametrize("shape", Shape)
def test_one_round_raises_the_chosen_reply_and_lowers_the_rejected(shape, train, tokenizer, tmp_path) -> None:
    before = small_model(tokenizer)
    after, [pairs], _ = train(tmp_path, update(pairs_per_board=1, batch_size=64), shape)
    assert pairs
    gains = torch.zeros(2)
    with torch.no_grad():
        for prompt, *replies in pairs:
            for place, ids in enumerate(replies):
                gains[place] += sum(token_logprobs(after, prompt, ids) - token_logprobs(before, prompt, ids))
    assert gains[0] > 0.01
    assert gains[1] < -0.01
    [line] = rows(tmp_path / "metrics.jsonl")
    assert (line["stage"], line["step"], line["pairs"]) == ("dpo", 1, len(pairs))
    assert line["margin"] >= 0.1


def test_pairs_are_the_tokens_that_were_sampled_under_the_prompt_they_were_sampled_for(
    script, train, codec, sixty, tmp_path
) -> None:
    _, [pairs], _ = train(tmp_path, update(pairs_per_board=9))
    boards = {board.prompt_ids for game in script.games(sixty, codec) for board, _, _ in boards_of(game.trajectory)}
    assert {tuple(pair.prompt_ids) for pair in pairs} == boards
    words = (script.secret, script.first, script.second, script.third, "zzzzz")
    learnt = {tuple(ids) for pair in pairs for ids in (pair.chosen_ids, pair.rejected_ids)}
    assert len(learnt) > 3
    assert learnt <= {tuple(codec.reply_ids(say(word))) for word in words}


def hand_loss(policy, reference, pairs, beta):
    """DPO's loss and the margins, reply by reply."""
    losses, margins = [], []
    for pair in pairs:
        gained = []
        for ids in (pair.chosen_ids, pair.rejected_ids):
            new, old = (token_logprobs(model, pair.prompt_ids, ids) for model in (policy, reference))
            gained.append((new - old.detach()).sum())
        margin = beta * (gained[0] - gained[1])
        losses.append(torch.log1p(torch.exp(-margin)))
        margins.append(float(margin.detach()))
    return torch.stack(losses).mean(), margins


def test_loss_gradient_and_margins_are_those_of_hand_arithmetic(tokenizer, codec) -> None:
    reference, policy = small_model(tokenizer), small_model(tokenizer)
    learner = learner_of(policy, codec)
    learner.remember_start()
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=noise))
    pairs = [Pair([5, 6, 7], [8, 9], [10, 11, 12]), Pair([5, 6, 7], [13], [8, 9]), Pair([9], [10, 11, 12, 13], [14])]
    by_hand, margins = hand_loss(policy, reference, pairs, 0.7)
    assert len({margin > 0 for margin in margins}) == 2
    norm = gradient_norm(policy, by_hand)

    learner.start(fast(), 1)
    rows_of = [[row for pair in some for row in pair.examples()] for some in (pairs[:1], pairs[1:])]
    done = learner.update(rows_of, PreferenceLoss(0.7), 1)
    assert done.loss == pytest.approx(by_hand.item(), rel=1e-5)
    assert done.grad_norm == pytest.approx(norm, rel=1e-4)
    assert done.figures["rewards/margins"] == pytest.approx(sum(margins) / 3, rel=1e-4)
    assert done.figures["rewards/accuracies"] == pytest.approx(sum(margin > 0 for margin in margins) / 3)


@pytest.mark.parametrize("adapters", [False, True], ids=["whole", "adapters"])
def test_the_reference_is_the_model_it_began_with_in_every_round(adapters, train, tokenizer, tmp_path) -> None:
    """The loss of the second round, which is one step, is that to the start and not to the model of the first round."""

    def start():
        model = small_model(tokenizer)
        if adapters:
            with torch.random.fork_rng():
                torch.manual_seed(3)
                model = add_adapters(model, LoraSettings(rank=2), "some/base")
                for weight in model.parameters():
                    if weight.requires_grad:
                        torch.nn.init.normal_(weight, std=0.1)  # trained before, so that it is not the base
        return model

    settings = update(rounds=2, batch_size=64, pairs_per_board=9)
    _, [_, pairs], [_, policy] = train(tmp_path, settings, model=start())
    first, second = rows(tmp_path / "metrics.jsonl")
    by_hand, margins = hand_loss(policy, start(), pairs, settings.beta)
    assert second["loss"] == pytest.approx(by_hand.item(), rel=1e-5)
    assert second["rewards/margins"] == pytest.approx(sum(margins) / len(margins), rel=1e-4)
    assert first["loss"] == pytest.approx(math.log(2))
    assert second["loss"] < math.log(2) - 1e-3
