"""Laws of DPO on guesses: the better reply to the same prompt is chosen, token for token, and becomes likelier."""

import copy
import math
from itertools import permutations
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")

from algorithm_settings import DPO as SETTINGS
from contexts import context_for
from round_training import gradient_norm, learner_of, playing, token_logprobs
from scripted import say, scripted
from training_fixtures import compact, fast, make_run, rows, small_model

import wordle_rl.train.round_loop as rounds_module
from wordle_rl.config import DPOTraining, LoraSettings
from wordle_rl.data.dataset import Example
from wordle_rl.policy.adapters import add_adapters
from wordle_rl.prompt import Shape
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver
from wordle_rl.train.dpo import Reply, pairs_of, train_dpo
from wordle_rl.train.loss import PreferenceLoss
from wordle_rl.train.scored_games import Scored, boards_of
from wordle_rl.train.starts import GameSetup


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
        played = play([InitialState(self.secret)] * 2, words, compact(shape, max_turns=3), scripted(self)(None, codec))
        return [Scored(t, PRESETS["sparse"].score(t.transcript, Solver(words)), ()) for t in played]


@pytest.fixture
def script(sixty) -> Script:
    return Script(sixty)


class Training:
    """Runs `train_dpo` and keeps the pairs of each round, and a copy of the policy that they were trained with."""

    def __init__(self, tokenizer, codec, words, solver, script, monkeypatch) -> None:
        self.script = script
        self.tokenizer, self.codec, self.words, self.solver = tokenizer, codec, words, solver
        self.pairs: list[list[Pair]] = []
        self.policies: list[torch.nn.Module] = []
        fit = rounds_module.fit

        def listen(loop, items, *args, **options) -> bool:
            self.pairs.append([pair_of(*item) for item in items])
            self.policies.append(copy.deepcopy(loop.learner.model))
            return fit(loop, items, *args, **options)

        monkeypatch.setattr(rounds_module, "fit", listen)

    def __call__(self, directory, settings=SETTINGS, shape=Shape.TRANSCRIPT, model=None):
        model = model or small_model(self.tokenizer)
        setup = GameSetup(context_for(self.words, compact(shape, max_turns=3), self.solver), self.words.answers[:1])
        learner, run = learner_of(model, self.codec), make_run(directory, self.words)
        says = playing(self.script, self.codec)
        train_dpo(learner, setup, settings, run, open_policy=says)
        return model


def pair_of(chosen, rejected) -> Pair:
    """The pair that two rows were made of."""
    prompts = []
    for example in (chosen, rejected):
        first = [*example.loss_mask].index(1)
        assert all(example.loss_mask[first:])
        prompts.append([*example.token_ids[:first]])
    assert prompts[0] == prompts[1]
    replies = [[*example.token_ids[len(prompts[0]) :]] for example in (chosen, rejected)]
    return Pair(prompts[0], *replies)


@pytest.fixture
def train(tokenizer, codec, sixty, solver, script, monkeypatch) -> Training:
    return Training(tokenizer, codec, sixty, solver, script, monkeypatch)


def update(**changes: object) -> DPOTraining:
    return SETTINGS.model_copy(update=changes)


def logprob(model, prompt_ids: list[int], completion: list[int]) -> float:
    """Log-probability of a reply, without any trainer."""
    with torch.no_grad():
        return float(token_logprobs(model, prompt_ids, completion).sum())


def test_the_best_sound_reply_is_set_against_those_worse_by_the_margin_the_worst_first() -> None:
    a, b, c = Reply((1,), 0.9, True), Reply((2,), 0.5, True), Reply((3,), 0.1, False)
    assert pairs_of([c, a, b], 0.1, 9) == [(a, c), (a, b)]
    assert pairs_of([c, a, b], 0.1, 1) == [(a, c)]
    assert pairs_of([c, a, b], 0.5, 9) == [(a, c)]
    assert pairs_of([a, a, a], 0.1, 9) == []
    unsound = Reply((4,), 5.0, False)
    assert pairs_of([unsound, b, c], 0.1, 9) == [(b, c)]
    assert pairs_of([unsound, c], 0.1, 9) == []


def test_guesses_are_weighed_by_the_solver(script, train, solver, tmp_path) -> None:
    everything, others = solver.candidates([]), solver.words.answers[4:]
    regret = {word: solver.regret(word, everything) for word in others}
    bits = {word: solver.information_of(word, everything) for word in others}
    script.first, script.second = next(  # the one gives away less, the other tells more
        (a, b) for a, b in permutations(others, 2) if regret[a] < regret[b] - 0.01 and bits[a] < bits[b] - 0.01
    )
    train(tmp_path, update(pairs_per_board=9, margin=0.001))
    text_of = train.codec.text_of
    assert len({tuple(pair.prompt_ids) for pair in train.pairs[0]}) == 3  # two games, whose first board is the same
    opening = train.codec.prompt_ids(compact(max_turns=3).opening())
    at_opening = [pair for pair in train.pairs[0] if pair.prompt_ids == opening]
    assert {text_of(pair.chosen_ids) for pair in at_opening} == {say(script.first)}
    assert text_of(at_opening[0].rejected_ids) == say("zzzzz")
    assert not [pair for pair in train.pairs[0] if "zzzzz" in text_of(pair.chosen_ids)]


@pytest.mark.parametrize("shape", Shape)
def test_one_round_raises_the_chosen_reply_and_lowers_the_rejected(shape, script, train, tmp_path) -> None:
    before = small_model(train.tokenizer)
    after = train(tmp_path, update(pairs_per_board=1, batch_size=64), shape)
    assert train.pairs[0]
    gains = {"chosen": 0.0, "rejected": 0.0}
    for pair in train.pairs[0]:
        for name, ids in (("chosen", pair.chosen_ids), ("rejected", pair.rejected_ids)):
            gains[name] += logprob(after, pair.prompt_ids, ids) - logprob(before, pair.prompt_ids, ids)
    assert gains["chosen"] > 0.01
    assert gains["rejected"] < -0.01
    [line] = rows(tmp_path / "metrics.jsonl")
    assert (line["stage"], line["step"], line["pairs"]) == ("dpo", 1, len(train.pairs[0]))
    assert line["margin"] >= 0.1
    assert {"loss", "rewards/margins", "rewards/accuracies", "seconds/play"} <= set(line)


def test_pairs_are_the_tokens_that_were_sampled_under_the_prompt_they_were_sampled_for(script, train, tmp_path) -> None:
    train(tmp_path, update(pairs_per_board=9))
    codec, prompter = train.codec, compact(max_turns=3)
    boards = {board.prompt_ids for game in script.games(train.words, codec) for board, _, _ in boards_of(game)}
    words = (script.secret, script.first, script.second, script.third, "zzzzz")
    sampled = {tuple(codec.reply_ids(say(word))) for word in words}
    assert tuple(codec.prompt_ids(prompter.opening())) in boards
    assert {tuple(pair.prompt_ids) for pair in train.pairs[0]} == boards
    learnt = {tuple(ids) for pair in train.pairs[0] for ids in (pair.chosen_ids, pair.rejected_ids)}
    assert len(learnt) > 3
    assert learnt <= sampled


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
def test_the_reference_is_the_model_it_began_with_in_every_round(adapters, script, train, tmp_path) -> None:
    """The loss of the second round, which is one step, is that to the start and not to the model of the first round."""

    def start():
        model = small_model(train.tokenizer)
        if adapters:
            with torch.random.fork_rng():
                torch.manual_seed(3)
                model = add_adapters(model, LoraSettings(rank=2), "some/base")
                for weight in model.parameters():
                    if weight.requires_grad:
                        torch.nn.init.normal_(weight, std=0.1)  # trained before, so that it is not the base
        return model

    settings = update(rounds=2, batch_size=64, pairs_per_board=9)
    train(tmp_path, settings, model=start())
    first, second = rows(tmp_path / "metrics.jsonl")
    assert len(train.pairs) == 2
    by_hand, margins = hand_loss(train.policies[1], start(), train.pairs[1], settings.beta)
    assert second["loss"] == pytest.approx(by_hand.item(), rel=1e-5)
    assert second["rewards/margins"] == pytest.approx(sum(margins) / len(margins), rel=1e-4)
    assert first["loss"] == pytest.approx(math.log(2))
    assert second["loss"] < math.log(2) - 1e-3
