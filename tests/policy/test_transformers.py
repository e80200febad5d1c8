"""Laws of the players: sampled tokens and log-probabilities against plain forward passes without any cache."""

from collections.abc import Callable, Sequence

import pytest

pytest.importorskip("torch")

import torch
from hybrid_models import HYBRID, hybrid_model
from small_models import SLIDING, small_config
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

import wordle_rl.policy.transformers as sampler_module
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import SamplingSettings
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Rules
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import make_constraint
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.word_search import WordSearch, opening_of
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.rollout import InitialState, Trajectory, play
from wordle_rl.words import WordList


@pytest.fixture(scope="module")
def codec(tokenizer) -> ChatCodec:
    """A codec for which every fourth token ends a reply, so that random models speak at many lengths."""
    codec = ChatCodec(tokenizer)
    codec.stop_ids |= frozenset(range(1, len(tokenizer), 4))
    return codec


TOLERANCE = 1e-4
COMPACT = Prompter(style=Style.COMPACT)
# Games of one to six own turns: rows of different lengths, leaving one after the other.
GIVEN = ("speed", "abbey", "civic", "these", "lymph")
STARTS = [InitialState("crane", GIVEN[:count]) for count in (0, 5, 2, 4, 1, 3, 0, 5)]


def greedy(max_completion_tokens: int = 9, max_batch_size: int = 1024) -> SamplingSettings:
    return SamplingSettings(temperature=0, max_completion_tokens=max_completion_tokens, max_batch_size=max_batch_size)


def tokens_of(trajectories: Sequence[Trajectory]) -> list[list[tuple[int, ...]]]:
    return [[segment.token_ids for segment in trajectory.segments] for trajectory in trajectories]


@torch.no_grad()
def check_against_plain_forward(
    model: PreTrainedModel, trajectories: Sequence[Trajectory], settings: SamplingSettings
) -> int:
    """Read every segment alone and from the start; return how many sampled tokens were checked."""
    checked = 0
    for segment in (segment for trajectory in trajectories for segment in trajectory.segments):
        ids = [*segment.prompt_ids, *segment.token_ids]
        logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0].float()  # (T, V)
        logprobs = (logits / (settings.temperature or 1.0)).log_softmax(-1)
        for place, (token, sampled, logprob) in enumerate(
            zip(segment.token_ids, segment.loss_mask, segment.sampler_logprobs, strict=True)
        ):
            if sampled:
                before = logprobs[len(segment.prompt_ids) + place - 1]
                assert float(before[token]) == pytest.approx(logprob, abs=TOLERANCE)
                assert settings.temperature or float(before.max() - before[token]) <= TOLERANCE
                checked += 1
    return checked


def sharpened(model: PreTrainedModel) -> PreTrainedModel:
    """Scale random weights until choices depend on what was read."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    return model.eval()


ARCHITECTURES: dict[str, Callable[[dict[str, object]], PreTrainedModel]] = {
    "llama": lambda size: LlamaForCausalLM(LlamaConfig(**size)),
    "qwen2": lambda size: Qwen2ForCausalLM(Qwen2Config(**size)),
    "qwen2-sliding": lambda size: Qwen2ForCausalLM(
        Qwen2Config(**size, use_sliding_window=True, sliding_window=12, max_window_layers=0)
    ),
    "gemma3-wide": lambda size: Gemma3ForCausalLM(
        Gemma3TextConfig(**size, head_dim=16, sliding_window=512, layer_types=SLIDING)
    ),
    "gemma3-narrow": lambda size: Gemma3ForCausalLM(
        Gemma3TextConfig(**size, head_dim=16, sliding_window=12, layer_types=SLIDING)
    ),
    "gemma3-outgrown": lambda size: Gemma3ForCausalLM(
        Gemma3TextConfig(**size, head_dim=16, sliding_window=70, layer_types=SLIDING)
    ),
    "gemma4-shared": lambda size: Gemma4ForCausalLM(
        Gemma4TextConfig(
            **size | {"num_hidden_layers": 4},
            head_dim=16,
            global_head_dim=16,
            layer_types=SLIDING * 2,
            num_kv_shared_layers=2,  # they have no keys and values of their own
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=size["vocab_size"],
        )
    ),
}


# --- the transformers sampler ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("max_batch_size", [3, 1024])
def test_cached_sampling_equals_plain_forward_passes(
    tiny_model: PreTrainedModel,
    codec: ChatCodec,
    small_words: WordList,
    temperature: float,
    shape: Shape,
    max_batch_size: int,
) -> None:
    settings = SamplingSettings(temperature=temperature, max_completion_tokens=9, max_batch_size=max_batch_size)
    prompter = Prompter(style=Style.COMPACT, shape=shape)
    sampler = TransformersSampler(tiny_model, codec, settings, seed=1)
    trajectories = play(STARTS, small_words, prompter, sampler)
    assert check_against_plain_forward(tiny_model, trajectories, settings) > 80
    overlong = [turn.overlong for trajectory in trajectories for turn in trajectory.transcript.own_turns]
    lengths = {turn.num_tokens for trajectory in trajectories for turn in trajectory.transcript.own_turns}
    assert {True, False} <= set(overlong)
    assert len(lengths) > 2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_architecture_samples_as_it_reads(architecture: str, codec: ChatCodec, small_words: WordList) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = sharpened(ARCHITECTURES[architecture](small_config(codec)))
    settings = greedy()
    trajectories = play(STARTS, small_words, COMPACT, TransformersSampler(model, codec, settings))
    assert check_against_plain_forward(model, trajectories, settings) > 60


def test_batches_that_are_joined_stay_within_the_window(codec: ChatCodec) -> None:
    """A long game that hears little and a short one that hears much need more columns together than each alone."""
    size = small_config(codec) | {"head_dim": 16, "layer_types": SLIDING, "max_position_embeddings": 256}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = sharpened(Gemma3ForCausalLM(Gemma3TextConfig(**size, sliding_window=64)))
    said = {}
    for batch_size in (1, 2):
        sampler = TransformersSampler(model, codec, greedy(4, max_batch_size=batch_size))
        sampler.begin()
        firsts = [[10 + place % 50 for place in range(length)] for length in (45, 46, 8, 9)]
        replies = sampler.sample([Request(game, (), (), ids) for game, ids in enumerate(firsts)])
        heard = {0: [11] * 4, 2: [12] * 40}
        prompts = {game: [*firsts[game], *replies[game].token_ids, *ids] for game, ids in heard.items()}
        said[batch_size] = sampler.sample([Request(game, (), (), ids) for game, ids in prompts.items()])
    for alone, together in zip(*said.values(), strict=True):
        assert together.token_ids == alone.token_ids
        assert together.sampler_logprobs == pytest.approx(alone.sampler_logprobs, abs=1e-4)


def test_a_turn_reads_only_what_is_new(tiny_model: PreTrainedModel, codec: ChatCodec, small_words: WordList) -> None:
    sampler = TransformersSampler(tiny_model, codec, greedy())
    [segment] = play(STARTS[:1], small_words, COMPACT, sampler)[0].segments
    # The last token of the game is sampled but never read.
    read = tokens_read(tiny_model, sampler, STARTS[:1], small_words, COMPACT)
    assert read == len(segment.prompt_ids) + len(segment.token_ids) - 1


def tokens_read(model: PreTrainedModel, sampler: TransformersSampler, starts: list[InitialState], *game: object) -> int:
    """Play, and count the tokens that went through the model."""
    read: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _, __, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        play(starts, *game, sampler)  # type: ignore[arg-type]
    finally:
        hook.remove()
    return sum(read)


def test_games_that_go_alike_are_read_once(
    tiny_model: PreTrainedModel, codec: ChatCodec, small_words: WordList
) -> None:
    counts = [
        tokens_read(
            tiny_model, TransformersSampler(tiny_model, codec, greedy()), STARTS[:1] * copies, small_words, COMPACT
        )
        for copies in (1, 7)
    ]
    assert counts[0] == counts[1]


def test_games_that_part_ways_sample_as_they_read(
    tiny_model: PreTrainedModel, codec: ChatCodec, small_words: WordList
) -> None:
    settings = SamplingSettings(temperature=0.3, max_completion_tokens=9)
    starts = [InitialState(secret, GIVEN[:2]) for secret in ("crane", "trace") for _ in range(12)]
    sampler = TransformersSampler(tiny_model, codec, settings)
    trajectories = play(starts, small_words, COMPACT, sampler)
    assert check_against_plain_forward(tiny_model, trajectories, settings) > 100
    apart = tokens_read(tiny_model, sampler, starts, small_words, COMPACT)
    assert apart < sum(len(s.prompt_ids) + len(s.token_ids) for t in trajectories for s in t.segments)
    assert len({segment.token_ids for t in trajectories for segment in t.segments}) > 3


def test_a_long_beginning_that_all_prompts_share_is_read_once(
    tiny_model: PreTrainedModel, codec: ChatCodec, small_words: WordList
) -> None:
    settings = greedy(3)
    sampler = TransformersSampler(tiny_model, codec, settings)
    prompter = Prompter(shape=Shape.STATE, rules=Rules(2))
    starts = [InitialState("crane", (word,)) for word in ("speed", "abbey", "civic")]
    trajectories = play(starts, small_words, prompter, sampler)
    assert check_against_plain_forward(tiny_model, trajectories, settings) >= 3
    prompts = [segment.prompt_ids for trajectory in trajectories for segment in trajectory.segments]
    read = tokens_read(tiny_model, sampler, starts, small_words, prompter)
    assert read < 0.6 * sum(len(prompt) for prompt in prompts)


def test_a_seed_repeats_its_games_and_seeds_differ(
    tiny_model: PreTrainedModel, codec: ChatCodec, small_words: WordList
) -> None:
    def games(seed: int) -> list[list[tuple[int, ...]]]:
        torch.manual_seed(len(str(seed)))  # the global stream must not matter
        settings = SamplingSettings(max_completion_tokens=5)
        return tokens_of(play(STARTS, small_words, COMPACT, TransformersSampler(tiny_model, codec, settings, seed)))

    assert games(7) == games(7)
    assert games(7) != games(8)


def test_a_game_that_sat_out_a_turn_is_read_again(tiny_model: PreTrainedModel, codec: ChatCodec) -> None:
    prompts = [codec.encode(text) for text in ("5x6", "5x6aGbXcY")]
    requests = [Request(i, (), (), prompt) for i, prompt in enumerate(prompts)]
    for max_batch_size in (1, 2):
        sampler = TransformersSampler(tiny_model, codec, greedy(max_batch_size=max_batch_size))
        first = sampler.sample(requests)
        longer = [
            Request(i, (), (), [*prompt, *done.token_ids, *codec.encode("xG")])
            for i, (prompt, done) in enumerate(zip(prompts, first, strict=True))
        ]
        sampler.sample(longer[:1])
        assert sampler.sample(longer[1:]) == TransformersSampler(tiny_model, codec, greedy()).sample(longer[1:])


def test_what_drops_out_in_training_stays_in_play(codec: ChatCodec, small_words: WordList) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = sharpened(LlamaForCausalLM(LlamaConfig(**small_config(codec), attention_dropout=0.5)))
    trajectories = play(STARTS, small_words, COMPACT, TransformersSampler(model.train(), codec, greedy()))
    assert check_against_plain_forward(model.eval(), trajectories, greedy()) > 60


@pytest.mark.parametrize("architecture", HYBRID)
def test_models_with_other_layers_sample_as_they_read(
    architecture: str, codec: ChatCodec, small_words: WordList
) -> None:
    model = hybrid_model(architecture, codec)
    model.generation_config.repetition_penalty = 5.0  # what its makers advise changes nothing
    settings = SamplingSettings(temperature=1.0, max_completion_tokens=6, max_batch_size=5)
    trajectories = play(STARTS, small_words, COMPACT, TransformersSampler(model, codec, settings, seed=3))
    assert check_against_plain_forward(model, trajectories, settings) > 60
    assert model.generation_config.repetition_penalty == 5.0


@torch.no_grad()
def test_words_are_searched_in_models_with_other_layers(codec: ChatCodec, small_words: WordList) -> None:
    model, whole = hybrid_model("qwen3.5", codec), ChatCodec(codec.tokenizer)
    constraint = make_constraint(small_words, COMPACT, whole)
    prompts = [whole.encode(text) for text in ("5x6", "5x6 crane", "5x6")]
    openings = [opening_of(prompt, whole.reply_ids(COMPACT.reply("crane")), constraint.grammar) for prompt in prompts]
    search = WordSearch(model, constraint, whole.stop_ids, whole.pad_id, beam=16)
    for opening, ending in zip(openings, search.search(openings, 40, 64), strict=True):
        logits = model(torch.tensor([[*opening.token_ids, *ending.token_ids]]), use_cache=False).logits[0]
        logprobs = logits.log_softmax(-1)[len(opening.token_ids) - 1 : -1]  # (ending, vocabulary)
        expected = logprobs[range(len(ending.token_ids)), list(ending.token_ids)].tolist()
        assert ending.logprobs == pytest.approx(expected, abs=TOLERANCE)
        assert COMPACT.parse(whole.text_of(ending.token_ids)).word in small_words


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama", "qwen3.5"])
def test_when_memory_runs_out_fewer_games_are_played_at_once_and_they_are_the_same(
    architecture: str, codec: ChatCodec, small_words: WordList, monkeypatch
) -> None:
    if architecture in HYBRID:
        model = hybrid_model(architecture, codec)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = sharpened(ARCHITECTURES[architecture](small_config(codec)))
    expected = tokens_of(play(STARTS, small_words, COMPACT, TransformersSampler(model, codec, greedy(6))))
    forward = type(model).forward
    largest = []

    def scarce(self, input_ids=None, **inputs):
        if len(input_ids) > 3:
            raise torch.OutOfMemoryError("out of memory")
        largest.append(len(input_ids))
        return forward(self, input_ids=input_ids, **inputs)

    monkeypatch.setattr(type(model), "forward", scarce)
    sampler = TransformersSampler(model, codec, greedy(6))
    assert tokens_of(play(STARTS, small_words, COMPACT, sampler)) == expected
    assert 1 < max(largest) <= 3
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(torch.OutOfMemoryError):
        TransformersSampler(model, codec, greedy(6)).sample([Request(0, (), (), codec.encode("5x6"))])


def test_an_evaluation_plays_as_many_games_at_once_as_memory_has_room_for(
    tiny_model: PreTrainedModel, codec: ChatCodec, small_words: WordList, monkeypatch
) -> None:
    sampler = TransformersSampler(tiny_model, codec, greedy(6))
    at_once = []
    sample = sampler.sample
    monkeypatch.setattr(sampler, "sample", lambda requests: at_once.append(len(requests)) or sample(requests))
    for free, most in ((10**12, 8), (0, 1)):
        at_once.clear()
        monkeypatch.setattr(sampler_module, "free_memory", lambda _device, free=free: free)
        conditions = EvalConditions.of(COMPACT, sampler)
        planned = Evaluation("x", "x", (), COMPACT.rules, small_words.fingerprint, (), conditions)
        evaluate(planned, [start.secret for start in STARTS], small_words, COMPACT, sampler)
        assert max(at_once) == most
