"""Laws of distilling a distribution: what is learnt, token by token, is the teacher's distribution over words."""

import math
from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from distill_settings import PURE, Stumbling, change, games_of, labelled, train
from hypothesis import given
from hypothesis import strategies as st
from round_training import gradient_norm, learner_of, token_logprobs
from scripted import say
from training_fixtures import compact, fast, rows, small_model

from wordle_rl.config import RLOptimizerSettings
from wordle_rl.data.dataset import Example
from wordle_rl.game import Rules
from wordle_rl.prompt import Shape
from wordle_rl.runs import write_jsonl
from wordle_rl.teachers.distribution import SolverDistribution
from wordle_rl.train.distill import Label, examples_of, next_token_targets
from wordle_rl.train.logprobs import Scorer, Scores
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.train.micro_batches import Batch
from wordle_rl.train.scored_games import boards_of

END = 9


@st.composite
def tries(draw: st.DrawFn) -> tuple[list[list[int]], list[float]]:
    """Different replies of few tokens, of different lengths, and their chances."""
    bodies = draw(st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=8, unique_by=tuple))
    weights = draw(st.lists(st.floats(0.01, 1), min_size=len(bodies), max_size=len(bodies)))
    return [[*body, END] for body in bodies], [weight / sum(weights) for weight in weights]


@given(tries())
def test_at_every_node_chances_sum_to_1_and_along_a_reply_they_multiply_to_its_own(trie) -> None:
    replies, chances = trie
    for drawn, reply in enumerate(replies):
        targets = next_token_targets(replies, chances, drawn)
        assert [sum(chance for _, chance in target) for target in targets] == pytest.approx([1.0] * len(reply))
        along = math.prod(dict(target)[token] for token, target in zip(reply, targets, strict=True))
        assert along == pytest.approx(chances[drawn])
        for place, target in enumerate(targets):
            begun = [other for other in replies if other[:place] == reply[:place]]
            assert {token for token, _ in target} == {other[place] for other in begun}


def test_on_average_over_drawn_words_the_gradient_is_that_of_the_cross_entropy_over_words(codec, tokenizer) -> None:
    """Every word is drawn once and counts by its chance; the other side knows neither trie nor soft targets."""
    model, prompt = small_model(tokenizer), (5, 6, 7)
    words, chances = ("crane", "crate", "slate", "think"), (0.4, 0.3, 0.2, 0.1)
    replies = [codec.reply_ids(say(word)) for word in words]
    scorer, weights = Scorer(model), [*model.parameters()]

    expected_loss, expected = 0.0, [torch.zeros_like(weight) for weight in weights]
    for drawn, chance in enumerate(chances):
        label = Label(prompt, tuple(replies[drawn]), next_token_targets(replies, chances, drawn))
        batch = Batch.of(examples_of([label]), [1.0], codec.pad_id)
        loss, _ = CrossEntropy()(Scores(*scorer(batch)), batch)
        expected_loss += chance * loss.item()
        for total, gradient in zip(expected, torch.autograd.grad(loss, weights), strict=True):
            total += chance * gradient

    whole = -sum(
        chance * token_logprobs(model, prompt, reply).sum() for chance, reply in zip(chances, replies, strict=True)
    )
    assert expected_loss == pytest.approx(whole.item(), rel=1e-5)
    by_words = torch.autograd.grad(whole, weights)
    for one, other in zip(expected, by_words, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert max(float(gradient.abs().max()) for gradient in by_words) > 1e-2


def test_rows_with_distributions_and_rows_without_share_a_batch(sixty, codec, tokenizer) -> None:
    """As labels and teacher games do; against hand arithmetic, token by token."""
    model, learner = small_model(tokenizer), learner_of(small_model(tokenizer), codec)
    hard = Example([5, 6, 7, 8], [0, 1, 0, 1])
    soft = Example([5, 9, 10], [0, 1, 1], soft_targets=[[(9, 0.25), (11, 0.75)], [(10, 1.0)]])
    scores = model(input_ids=torch.tensor([[5, 6, 7, 8], [5, 9, 10, 0]])).logits.log_softmax(-1)
    tokens = [scores[0, 0, 6], scores[0, 2, 8], 0.25 * scores[1, 0, 9] + 0.75 * scores[1, 0, 11], scores[1, 1, 10]]
    loss = -torch.stack(tokens).mean()
    norm = gradient_norm(model, loss)
    learner.start(fast(), 1)
    done = learner.update([[hard, soft]], CrossEntropy(), 1)
    assert done.loss == pytest.approx(loss.item(), rel=1e-5)
    assert done.grad_norm == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize("shape", Shape)
def test_each_label_is_learnt_once_with_its_own_distributions(shape, sixty, codec) -> None:
    prompter = compact(shape)

    def script(game_id: int, turns: tuple) -> str:
        return say(sixty.answers[(7 * game_id + 11 * len(turns)) % 60])

    games = games_of(sixty, codec, sixty.answers[:30], script, prompter)
    _, labels, *_ = labelled(sixty, codec, games, prompter, targets="distribution")
    learnt = []
    for example in examples_of([*labels.values()]):
        places = [place for place, m in enumerate(example.loss_mask) if m]
        learnt += [
            (tuple(example.token_ids[:place]), example.token_ids[place], target)
            for place, target in zip(places, example.soft_targets, strict=True)
        ]
    expected = [
        (label.token_ids[: len(label.prompt_ids) + place], token, label.targets[place])
        for label in labels.values()
        for place, token in enumerate(label.reply_ids)
    ]
    assert sorted(learnt) == sorted(expected)


def test_words_are_drawn_by_their_chances_from_seed_and_board_alone(sixty, codec, solver) -> None:
    game = games_of(sixty, codec, sixty.answers[40:41], Stumbling(sixty))
    others = games_of(sixty, codec, sixty.answers[41:42], Stumbling(sixty))
    said: Counter[str] = Counter()
    for seed in range(100):
        texts, *_ = labelled(sixty, codec, game, targets="distribution", temperature=0.3, seed=seed)
        opening = next(iter(texts))
        said[texts[opening]] += 1
        if seed < 5:
            again, *_ = labelled(sixty, codec, others, targets="distribution", temperature=0.3, seed=seed)
            assert again[opening] == texts[opening], "whatever the secret"
    expected = SolverDistribution(solver, 0.3, Rules())([])
    for word, chance in sorted(zip(expected.words, expected.chances, strict=True), key=lambda pair: -pair[1])[:3]:
        assert said[say(word)] / 100 == pytest.approx(chance, abs=3 * math.sqrt(chance / 100))


def test_agreement_entropy_and_record_are_those_of_the_distribution(sixty, codec, solver) -> None:
    ask = SolverDistribution(solver, 0.1, Rules())

    def likeliest(turns) -> str:
        said = ask(turns)
        return said.words[said.chances.index(max(said.chances))]

    games = games_of(
        sixty, codec, sixty.answers[:10], lambda i, t: say(likeliest(t)) if len(t) != 1 else say(sixty.answers[30 + i])
    )
    _, labels, record, numbers = labelled(sixty, codec, games, targets="distribution")
    boards = [board for game in games for board, _, _ in boards_of(game)]
    guesses = [turn.turn.guess for game in games for turn in game.trajectory.transcript.turns]
    agreed = [ask(board.turns).is_likeliest(guess) for board, guess in zip(boards, guesses, strict=True)]
    assert 0.3 < numbers["agreement_rate"] < 1
    assert numbers["agreement_rate"] == pytest.approx(sum(agreed) / len(agreed))
    different = {board.prompt_ids: board for board in boards}
    entropies = [ask(board.turns).entropy for board in different.values()]
    assert numbers["teacher_entropy"] == pytest.approx(sum(entropies) / len(entropies))
    for row, board, label in zip(record, different.values(), labels.values(), strict=True):
        named = row["turns"][-1]
        assert say(named["guess"]) == codec.text_of(label.reply_ids)
        assert sorted([named["guess"], *named.get("others", ())]) == sorted(ask(board.turns).words)


def test_the_policy_comes_nearer_to_the_teachers_distribution(
    sixty, codec, tokenizer, plain_traces, solver, tmp_path
) -> None:
    """With teacher games beside it, whose tokens are no distributions."""
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() for trace in plain_traces])
    quick = RLOptimizerSettings(learning_rate=1e-2, warmup=0.0, schedule="constant")
    settings = change(
        rounds=2, groups_per_round=12, epochs=8.0, targets="distribution", replay_fraction=0.25, optimizer=quick
    )
    said, prompt = SolverDistribution(solver, 0.1, Rules())([]), codec.prompt_ids(compact().opening())

    def distance(model) -> float:
        """KL divergence of the policy from the teacher at the empty board, over words, in nats."""
        with torch.no_grad():
            scores = [float(token_logprobs(model, prompt, codec.reply_ids(say(word))).sum()) for word in said.words]
        return sum(q * (math.log(q) - p) for q, p in zip(said.chances, scores, strict=True))

    model = small_model(tokenizer)
    before = distance(model)
    after = distance(train(model, codec, sixty, tmp_path, settings, traces=PURE, says=Stumbling(sixty)))
    assert 0 < after < 0.3 * before
    first, second = rows(tmp_path / "metrics.jsonl")
    assert second["loss"] < first["loss"]
    assert {"teacher_entropy", "agreement_rate", "labels", "new_boards"} <= set(first)
