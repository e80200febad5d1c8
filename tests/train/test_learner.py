"""The learner: one step of it is the gradient worked out row by row, however the step is cut."""

import gc
import shutil
import weakref
from dataclasses import replace

import pytest
import torch
from constrained_games import KINDS, codecs_of, hasty, random_model
from sampled_games import PADDING, check_sampler_is_trainer, said_by
from small_models import small_config
from training_fixtures import close, fast, small_model, weights_of
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import wordle_rl.train.learner as learner_module
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Request
from wordle_rl.prompt import Prompter
from wordle_rl.train.example import Example
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy, PolicyLoss
from wordle_rl.train.micro_batches import TwoHalves


def llama(codec):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**small_config(codec))).eval()


def started(model, codec, precision: str = "fp32", **options) -> TorchLearner:
    learner = TorchLearner(model, codec, precision=precision, **options)
    learner.start(fast(max_grad_norm=1e9), 10)
    return learner


def padded(codec, architecture: str = "llama", **changes):
    """A model with ids that the tokenizer does not know, random enough that every id is drawn."""
    torch.manual_seed(0)
    vocabulary = {"vocab_size": len(codec.tokenizer) + PADDING}
    config = AutoConfig.for_model(architecture, **{**small_config(codec), **vocabulary, **changes})
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("llama", {}),
        ("cohere", {"logit_scale": 0.5}),
        ("lfm2", {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8}),
    ],
    ids=["cached", "own logits", "by generate"],
)
def test_ids_that_the_tokenizer_does_not_know_are_neither_drawn_nor_learnt(
    architecture, changes, temperature, codec
) -> None:
    model = padded(codec, architecture, **changes)
    check_sampler_is_trainer(TorchLearner(model, codec, precision="fp32", temperature=temperature), codec, temperature)


def test_a_model_that_prefers_unknown_ids_plays_and_learns_by_the_others(codec) -> None:
    """Their rows of the head get no gradient, so they do not gain while others are punished."""
    model, first = padded(codec, tie_word_embeddings=False), len(codec.tokenizer)
    with torch.no_grad():
        model.lm_head.weight[:first] = model.lm_head.weight[:first] * 0.01
    learner = TorchLearner(model, codec, precision="fp32")
    with learner.policy(SamplingSettings(temperature=0.0, max_completion_tokens=10), 0) as (sampler, _):
        [greedy, *_] = said_by(sampler, codec)
    prompt, ids = codec.encode("5x6"), greedy.token_ids
    logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    assert bool((logits.argmax(-1) >= first).any())
    assert logits[:, :first].argmax(-1).tolist() == list(ids)
    row = Example([*prompt, *ids], [0] * len(prompt) + [1] * len(ids))
    learner._scorer(learner._laid_out([[row]], CrossEntropy())[0][0])[0].sum().backward()
    assert float(model.lm_head.weight.grad[first:].abs().max()) == 0
    assert float(model.lm_head.weight.grad[:first].abs().max()) > 0


def test_a_long_gradient_is_shortened_and_keeps_its_direction(tokenizer, codec, examples) -> None:
    """That of the whole step, by plain descent at rate 1: what a step takes off the weights is the gradient."""
    descent = lambda model, _: torch.optim.SGD(model.parameters(), lr=1.0)  # noqa: E731
    steps, norms = [], []
    for longest in (1e6, 1e-3):
        model = small_model(tokenizer)
        before, learner = weights_of(model), TorchLearner(model, codec, precision="fp32", optimizer=descent)
        learner.start(fast(max_grad_norm=longest), 1)
        norms.append(learner.update([examples[:4], examples[4:8]], CrossEntropy(), 1).grad_norm)
        steps.append(torch.cat([(before[name] - weight).flatten() for name, weight in weights_of(model).items()]))
    whole, short = steps
    assert norms == pytest.approx([float(whole.norm())] * 2, rel=1e-4)
    assert torch.allclose(short, whole * 1e-3 / norms[0], atol=1e-7)


def test_a_new_start_frees_the_optimizer_of_the_last(tokenizer, codec, examples) -> None:
    learner = started(small_model(tokenizer), codec)
    learner.update([examples[:4]], CrossEntropy(), 1)
    last = weakref.ref(learner._plain_optimizer)
    learner.start(fast(), 10)
    gc.collect()
    assert last() is None
    learner.update([examples[:4]], CrossEntropy(), 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU's memory is kept by torch")
@pytest.mark.parametrize("is_large", [True, False])
def test_a_large_model_gives_its_heap_back_every_sixteenth_step(
    is_large, tokenizer, codec, examples, monkeypatch
) -> None:
    if is_large:
        monkeypatch.setattr(learner_module, "FEW_WEIGHTS", 0)
    released: list[int] = []
    monkeypatch.setattr(learner_module, "release_memory", lambda: released.append(step))
    learner = started(small_model(tokenizer), codec)
    for step in range(1, 33):
        learner.update([examples[:1]], CrossEntropy(), step)
    assert released == ([16, 32] if is_large else [])


def test_bfloat16_is_how_it_computes_not_what_it_keeps(tokenizer, codec, examples) -> None:
    found = {}
    for precision in ("fp32", "bf16"):
        learner = started(small_model(tokenizer), codec, precision)
        found[precision] = learner.update([examples[:8]], CrossEntropy(), 1)
        assert {weight.dtype for weight in learner.model.parameters()} == {torch.float32}
    assert found["bf16"].loss != found["fp32"].loss
    assert found["bf16"].loss == pytest.approx(found["fp32"].loss, rel=0.01)
    assert found["bf16"].grad_norm == pytest.approx(found["fp32"].grad_norm, rel=0.05)


@pytest.mark.slow  # the compiler takes most of a minute
@pytest.mark.filterwarnings("default")  # the compiler warns of itself
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_layers_learn_the_same_and_play_uncompiled(codec, examples) -> None:
    masks = [example.loss_mask for example in examples[:6]]
    rows = [  # advantages of both signs, drawn with a probability of exp(-2)
        Example(e.token_ids, mask, [(1.0 - i) * m for m in mask], [-2.0 * m for m in mask])
        for i, (e, mask) in enumerate(zip(examples, masks, strict=False))
    ]
    found = []
    for compiled in (False, True):
        model = llama(codec)
        learner = started(model, codec, compiled=compiled)
        frames = torch._dynamo.utils.counters["frames"]
        frames.clear()
        updates = [learner.update([rows[:3], rows[3:]], PolicyLoss("dapo"), step) for step in (1, 2)]
        assert (frames["ok"] > 0) is compiled
        assert set(dict(model.named_parameters())) == set(dict(llama(codec).named_parameters()))
        compiled_frames = frames["total"]
        with learner.policy(SamplingSettings(max_completion_tokens=4), 0) as (sampler, _):
            (reply,) = sampler.sample([Request(0, (), (), list(examples[0].token_ids[:3]))])
        assert frames["total"] == compiled_frames
        numbers = [n for u in updates for n in (u.loss, u.grad_norm)] + [sum(reply.sampler_logprobs)]
        found.append((numbers, weights_of(model)))
    (numbers, weights), (other, moved) = found
    assert other == pytest.approx(numbers, rel=1e-3, abs=1e-5)
    assert close(weights, moved, 1e-4)


def played_by(learner: TorchLearner) -> None:
    with learner.policy(SamplingSettings(max_completion_tokens=2), 0) as (sampler, _):
        sampler.sample([Request(0, (), (), learner.codec.encode("guess"))])


def replies_to(prompt: list[int], *replies: list[int]) -> list[Example]:
    return [Example([*prompt, *ids], [0] * len(prompt) + [1] * len(ids)) for ids in replies]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_rows_are_scored_by_their_trained_tokens_in_their_own_order(temperature, codec, monkeypatch) -> None:
    """Six rows, of which four fit at once."""
    monkeypatch.setattr(learner_module, "ROWS_SCORED", 4)
    model = llama(codec)
    learner = TorchLearner(model, codec, precision="fp32", temperature=temperature)
    prompts = [codec.encode(text) for text in ("5x6", "5x6 and more", "5")]
    rows = [row for prompt in prompts for row in replies_to(prompt, codec.reply_ids("c r a n e"), codec.reply_ids("x"))]
    expected = []
    for row in rows:
        with torch.no_grad():
            logprobs = (model(torch.tensor([row.token_ids])).logits[0, :-1] / temperature).log_softmax(-1)
        of_tokens = logprobs.gather(1, torch.tensor(row.token_ids[1:])[:, None])[:, 0]
        expected.append(float(of_tokens[torch.tensor(row.loss_mask[1:], dtype=torch.bool)].sum()))
    assert learner.logprobs(rows) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("is_training", [True, False])
def test_the_mode_of_a_model_is_what_it_was_before_it_learnt_played_or_was_measured(
    is_training, tokenizer, codec, examples
) -> None:
    learner = started(small_model(tokenizer), codec)
    learner.model.train(is_training)
    for act in (
        lambda: learner.update([examples[:2]], CrossEntropy(), 1),
        lambda: learner.evaluate([examples[:2]], CrossEntropy()),
        lambda: learner.logprobs(examples[:2]),
        lambda: played_by(learner),
    ):
        act()
        assert {module.training for module in learner.model.modules()} == {is_training}


@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_limited_to_listed_words_the_trainer_scores_as_the_sampler_draws(kind, temperature, small_words) -> None:
    """To 1e-4, in every tokenizer; and forbidden tokens have no gradient."""
    codec, prompter = codecs_of(small_words)[kind], Prompter()
    model = random_model(codec)
    learner = TorchLearner(
        model, codec, precision="fp32", temperature=temperature, constraint=hasty(codec, small_words, prompter)
    )
    prompt = codec.encode("guess")
    sampling = SamplingSettings(temperature=temperature, max_completion_tokens=60)
    with learner.policy(sampling, 0) as (sampler, _):
        said = sampler.sample([Request(game, (), (), prompt) for game in range(24)])
    guesses = [prompter.parse(str(completion.text)).word for completion in said]
    assert {*guesses} <= {*small_words.guesses}
    assert len({*guesses}) > 3
    rows = [
        replace(
            row, advantages=[1.0] * len(row.token_ids), sampler_logprobs=[0.0] * len(prompt) + [*each.sampler_logprobs]
        )
        for each in said
        for row in replies_to(prompt, [*each.token_ids])
    ]
    assert learner.logprobs(rows) == pytest.approx([sum(each.sampler_logprobs) for each in said], abs=1e-4)
    figures = learner.evaluate([rows], PolicyLoss())
    assert figures["importance_ratio/max"] == pytest.approx(1.0, abs=1e-4)
    free = TorchLearner(model, codec, precision="fp32", temperature=temperature)
    assert sum(free.logprobs(rows)) < sum(learner.logprobs(rows)) - 10  # the limit does limit


def test_the_noise_of_a_gradient_is_that_of_its_two_halves_and_changes_no_step(tokenizer, codec, examples) -> None:
    one, two = examples[:6], examples[6:12]

    def gradient_of(rows: list[Example]) -> torch.Tensor:
        model = small_model(tokenizer)
        tokens = sum(sum(row.loss_mask[1:]) for row in one + two)
        for row in rows:
            logprobs = model(torch.tensor([row.token_ids])).logits[0, :-1].log_softmax(-1)
            mask = torch.tensor(row.loss_mask[1:], dtype=torch.bool)
            (-logprobs.gather(1, torch.tensor(row.token_ids[1:])[:, None])[:, 0][mask].sum() / tokens).backward()
        return torch.cat([weight.grad.flatten() for weight in model.parameters()])

    first, second = gradient_of(one), gradient_of(two)
    halved, whole = (started(small_model(tokenizer), codec) for _ in range(2))
    noise = halved.update(TwoHalves([one[:3], one[3:]], [two], 6), CrossEntropy(), 1).figures
    whole.update([one[:3], one[3:], two], CrossEntropy(), 1)
    close(weights_of(halved.model), weights_of(whole.model))
    between, squares = float(first @ second), float(first @ first + second @ second)
    assert noise["gradient/cosine"] == pytest.approx(float(torch.cosine_similarity(first, second, 0)), rel=1e-3)
    assert noise["gradient/noise_scale"] == pytest.approx(6 * (squares / (2 * between) - 1), rel=1e-3)
    same = halved.update(TwoHalves([one], [one], 6), CrossEntropy(), 2).figures
    assert same["gradient/cosine"] == pytest.approx(1.0)
    assert same["gradient/noise_scale"] == pytest.approx(0.0, abs=1e-3)
