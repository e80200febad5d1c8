"""Laws of sampling: tokens and log-probabilities against plain forward passes without any cache."""

from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from round_training import token_logprobs
from sampled_games import TOLERANCE, check_against_plain_forward
from scripted import asked_of, opened
from small_models import HYBRID, SLIDING, hybrid_model, small_config
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
)

import wordle_rl.policy.transformers as sampler_module
from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.play import evaluate, record_of
from wordle_rl.game import Rules
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import make_constraint
from wordle_rl.policy.kv_cache import GROUPED, GameCache, next_logits, sampling_mode
from wordle_rl.policy.next_token import draw, pick
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.word_search import WordSearch, opening_of
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.rollout import Trajectory, play


@pytest.fixture(scope="module")
def codec(tokenizer) -> ChatCodec:
    """A codec for which every fourth token ends a reply, so that random models speak at many lengths."""
    codec = ChatCodec(tokenizer)
    codec.stop_ids |= frozenset(range(1, len(tokenizer), 4))
    return codec


COMPACT = Prompter(style=Style.COMPACT)
# Games of one to six own turns: rows of different lengths, leaving one after the other.
GIVEN = ("speed", "abbey", "civic", "these", "lymph")
STARTS = [InitialState("crane", GIVEN[:count]) for count in (0, 5, 2, 4, 1, 3, 0, 5)]


def greedy(max_completion_tokens: int = 9, max_batch_size: int = 1024) -> SamplingSettings:
    return SamplingSettings(temperature=0, max_completion_tokens=max_completion_tokens, max_batch_size=max_batch_size)


def tokens_of(trajectories: Sequence[Trajectory]) -> list[list[tuple[int, ...]]]:
    return [[segment.token_ids for segment in trajectory.segments] for trajectory in trajectories]


def sharpened(config: PreTrainedConfig) -> PreTrainedModel:
    """A model with random weights, scaled until choices depend on what was read."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    return model.eval()


def gemma3(window: int):
    return lambda size: Gemma3TextConfig(**size, head_dim=16, sliding_window=window, layer_types=SLIDING)


ARCHITECTURES = {
    "llama": lambda size: LlamaConfig(**size),
    "llama-dropout": lambda size: LlamaConfig(**size, attention_dropout=0.5),
    "qwen2": lambda size: Qwen2Config(**size),
    "qwen2-sliding": lambda size: Qwen2Config(**size, use_sliding_window=True, sliding_window=12, max_window_layers=0),
    "gemma3-wide": gemma3(512),
    "gemma3-narrow": gemma3(12),
    "gemma3-outgrown": gemma3(70),
    "gemma4-shared": lambda size: Gemma4TextConfig(
        **size | {"num_hidden_layers": 4}, head_dim=16, global_head_dim=16, layer_types=SLIDING * 2,
        num_kv_shared_layers=2,  # they have no keys and values of their own
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=size["vocab_size"],
    ),
}  # fmt: skip


def model_of(architecture: str, codec: ChatCodec) -> PreTrainedModel:
    if architecture in HYBRID:
        return hybrid_model(architecture, codec)
    return sharpened(ARCHITECTURES[architecture](small_config(codec)))


def tokens_read(model: PreTrainedModel, sampler: TransformersSampler, starts: list[InitialState], *game: object) -> int:
    """Play, and count the tokens that went through the model."""
    read: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _, __, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        play(starts, *game, sampler)
    finally:
        hook.remove()
    return sum(read)


# --- what is sampled ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("max_batch_size", [3, 1024])
def test_cached_sampling_equals_plain_forward_passes(
    tiny_model, codec, small_words, temperature, shape, max_batch_size
) -> None:
    settings = SamplingSettings(temperature=temperature, max_completion_tokens=9, max_batch_size=max_batch_size)
    prompter = Prompter(style=Style.COMPACT, shape=shape)
    games = play(STARTS, small_words, prompter, TransformersSampler(tiny_model, codec, settings, seed=1))
    assert check_against_plain_forward(tiny_model, games, temperature) > 80
    turns = [turn for game in games for turn in game.transcript.own_turns]
    assert {turn.overlong for turn in turns} == {True, False}
    assert len({turn.num_tokens for turn in turns}) > 2


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *HYBRID])
def test_any_architecture_samples_as_it_reads(architecture, codec, small_words) -> None:
    model = model_of(architecture, codec).train()  # what drops out in training stays in play
    model.generation_config.repetition_penalty = 5.0  # what its makers advise changes nothing
    settings = greedy()
    if architecture in HYBRID:
        settings = SamplingSettings(temperature=1.0, max_completion_tokens=6, max_batch_size=5)
    games = play(STARTS, small_words, COMPACT, TransformersSampler(model, codec, settings, seed=3))
    assert check_against_plain_forward(model.eval(), games, settings.temperature) > 60
    assert model.generation_config.repetition_penalty == 5.0


def test_what_cannot_be_is_never_drawn() -> None:
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0], [0.0, 0.0, 0.0, 0.0, 1e-30]]).repeat(2000, 1)
    drawn = pick(probabilities, torch.Generator().manual_seed(0)).view(-1, 2)
    assert set(drawn[:, 0].tolist()) == {1, 3}
    assert set(drawn[:, 1].tolist()) == {4}
    assert 0.2 < float((drawn[:, 0] == 1).float().mean()) < 0.3


def test_a_large_vocabulary_is_drawn_from_as_its_probabilities_say() -> None:
    columns = {3: 0.5, 700: 0.2, 1023: 0.0, 1024: 1e-30, 1290: 0.3}  # of 1,300: two whole blocks and a part of one
    probabilities = torch.zeros(1, 1300)
    probabilities[0, list(columns)] = torch.tensor([*columns.values()])
    single = torch.zeros(1, 1300).index_fill_(1, torch.tensor([1024]), 1e-30)
    drawn = pick(torch.cat([probabilities, single]).repeat(20_000, 1), torch.Generator().manual_seed(0)).view(-1, 2)
    assert set(drawn[:, 1].tolist()) == {1024}
    counts = Counter(drawn[:, 0].tolist())
    assert set(counts) == {3, 700, 1290}
    for column, count in counts.items():
        assert count / 20_000 == pytest.approx(columns[column], abs=0.015)  # four standard deviations


def test_the_logprob_of_a_drawn_token_is_that_of_the_tempered_logits() -> None:
    logits = torch.randn(64, 1300, generator=torch.Generator().manual_seed(0)) * 3
    ids, logprobs = draw(logits, SamplingSettings(temperature=0.1), torch.Generator().manual_seed(0))
    assert logprobs.tolist() == pytest.approx((logits / 0.1).log_softmax(-1)[range(64), ids].tolist(), abs=1e-5)


def test_a_seed_repeats_its_games_and_seeds_differ(tiny_model, codec, small_words) -> None:
    def games(seed: int) -> list[list[tuple[int, ...]]]:
        torch.manual_seed(len(str(seed)))  # the global stream must not matter
        settings = SamplingSettings(max_completion_tokens=5)
        return tokens_of(play(STARTS, small_words, COMPACT, TransformersSampler(tiny_model, codec, settings, seed)))

    assert games(7) == games(7)
    assert games(7) != games(8)


@torch.no_grad()
def test_words_are_searched_in_models_with_other_layers(codec, small_words) -> None:
    model, whole = hybrid_model("qwen3.5", codec), ChatCodec(codec.tokenizer)
    constraint = make_constraint(small_words, COMPACT, whole)
    prompts = [whole.encode(text) for text in ("5x6", "5x6 crane", "5x6")]
    openings = [opening_of(prompt, whole.reply_ids(COMPACT.reply("crane")), constraint.grammar) for prompt in prompts]
    search = WordSearch(model, constraint, whole.stop_ids, whole.pad_id, beam=16)
    for opening, ending in zip(openings, search.search(openings, 40, 64), strict=True):
        expected = token_logprobs(model, opening.token_ids, ending.token_ids)
        assert ending.logprobs == pytest.approx(expected.tolist(), abs=TOLERANCE)
        assert COMPACT.parse(whole.text_of(ending.token_ids)).word in small_words


# --- the cache ------------------------------------------------------------------------------------------------------


def test_batches_that_are_joined_stay_within_the_window(codec) -> None:
    """A long game that hears little and a short one that hears much need more columns together than each alone."""
    size = small_config(codec) | {"head_dim": 16, "layer_types": SLIDING, "max_position_embeddings": 256}
    model = sharpened(Gemma3TextConfig(**size, sliding_window=64))
    said = []
    for batch_size in (1, 2):
        sampler = TransformersSampler(model, codec, greedy(4, max_batch_size=batch_size))
        firsts = [[10 + place % 50 for place in range(length)] for length in (45, 46, 8, 9)]
        replies = sampler.sample([Request(game, (), (), ids) for game, ids in enumerate(firsts)])
        heard = {0: [11] * 4, 2: [12] * 40}
        prompts = {game: [*firsts[game], *replies[game].token_ids, *ids] for game, ids in heard.items()}
        said.append(sampler.sample([Request(game, (), (), ids) for game, ids in prompts.items()]))
    for alone, together in zip(*said, strict=True):
        assert together.token_ids == alone.token_ids
        assert together.sampler_logprobs == pytest.approx(alone.sampler_logprobs, abs=TOLERANCE)


@pytest.mark.parametrize("copies", [1, 7])
def test_a_turn_reads_only_what_is_new_and_games_that_go_alike_are_read_once(
    copies, tiny_model, codec, small_words
) -> None:
    sampler = TransformersSampler(tiny_model, codec, greedy())
    [segment] = play(STARTS[:1], small_words, COMPACT, sampler)[0].segments
    read = tokens_read(tiny_model, sampler, STARTS[:1] * copies, small_words, COMPACT)
    assert read == len(segment.prompt_ids) + len(segment.token_ids) - 1  # the last token is sampled but never read


def test_games_that_part_ways_sample_as_they_read(tiny_model, codec, small_words) -> None:
    starts = [InitialState(secret, GIVEN[:2]) for secret in ("crane", "trace") for _ in range(12)]
    sampler = TransformersSampler(tiny_model, codec, SamplingSettings(temperature=0.3, max_completion_tokens=9))
    games = play(starts, small_words, COMPACT, sampler)
    assert check_against_plain_forward(tiny_model, games, 0.3) > 100
    segments = [segment for game in games for segment in game.segments]
    apart = tokens_read(tiny_model, sampler, starts, small_words, COMPACT)
    assert apart < sum(len(segment.prompt_ids) + len(segment.token_ids) for segment in segments)
    assert len({segment.token_ids for segment in segments}) > 3


def test_a_long_beginning_that_all_prompts_share_is_read_once(tiny_model, codec, small_words) -> None:
    sampler = TransformersSampler(tiny_model, codec, greedy(3))
    prompter = Prompter(shape=Shape.STATE, rules=Rules(2))
    starts = [InitialState("crane", (word,)) for word in ("speed", "abbey", "civic")]
    games = play(starts, small_words, prompter, sampler)
    assert check_against_plain_forward(tiny_model, games, 0) >= 3
    read = tokens_read(tiny_model, sampler, starts, small_words, prompter)
    assert read < 0.6 * sum(len(segment.prompt_ids) for game in games for segment in game.segments)


def test_a_game_that_sat_out_a_turn_is_read_again(tiny_model, codec) -> None:
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


def two_layers(codec: ChatCodec, attention: str) -> LlamaForCausalLM:
    model = LlamaForCausalLM(LlamaConfig(**small_config(codec)))
    model.set_attn_implementation(attention)
    return model


@torch.no_grad()
def test_padding_does_not_spoil_its_row_in_bfloat16(codec) -> None:
    model, mask = two_layers(codec, "eager"), torch.tensor([[0, 0, 1, 1], [1] * 4])
    with torch.autocast("cpu", torch.bfloat16), sampling_mode(model):
        logits = model(torch.randint(4, len(codec.tokenizer), mask.shape), attention_mask=mask).logits
    assert logits[mask.bool()].isfinite().all()


@torch.no_grad()
def test_under_autocast_a_cache_is_in_the_smaller_type_and_gives_the_same_logits(codec) -> None:
    model = two_layers(codec, "sdpa")
    ids, alive = torch.randint(4, len(codec.tokenizer), (3, 9)), torch.ones(3, 9, dtype=torch.long)
    with torch.autocast("cpu", torch.bfloat16), sampling_mode(model):
        plain = model(ids).logits[:, -1].float()
        cache = GameCache.of_model(model, rows=3)
        next_logits(model, cache, ids[:, :5], alive[:, :5])
        logits = next_logits(model, cache, ids[:, 5:], alive[:, 5:])
    assert {layer.keys.dtype for layer in cache.cache.layers} == {torch.bfloat16}
    assert torch.equal(logits, plain)


@pytest.mark.parametrize("own", ["eager", "sdpa"])
def test_a_model_gets_its_own_attention_back(own, codec) -> None:
    model = two_layers(codec, own)
    with pytest.raises(KeyboardInterrupt, match=GROUPED), sampling_mode(model):
        raise KeyboardInterrupt(model.config._attn_implementation)
    assert model.config._attn_implementation == own


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama", "qwen3.5"])
def test_when_memory_runs_out_fewer_games_are_played_at_once_and_they_are_the_same(
    architecture, codec, small_words, monkeypatch
) -> None:
    model = model_of(architecture, codec)
    expected = tokens_of(play(STARTS, small_words, COMPACT, TransformersSampler(model, codec, greedy(6))))
    forward = type(model).forward
    largest, room = [], 3

    def scarce(self, input_ids=None, **inputs):
        if len(input_ids) > room:
            raise torch.OutOfMemoryError("out of memory")
        largest.append(len(input_ids))
        return forward(self, input_ids=input_ids, **inputs)

    monkeypatch.setattr(type(model), "forward", scarce)
    sampler = TransformersSampler(model, codec, greedy(6))
    assert tokens_of(play(STARTS, small_words, COMPACT, sampler)) == expected
    assert 1 < max(largest) <= 3
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        TransformersSampler(model, codec, greedy(6)).sample([Request(0, (), (), codec.encode("5x6"))])


@pytest.mark.parametrize(("free", "most"), [(10**12, 8), (0, 1)])
def test_an_evaluation_plays_as_many_games_at_once_as_memory_has_room_for(
    free, most, tiny_model, codec, small_words, monkeypatch
) -> None:
    sampler = TransformersSampler(tiny_model, codec, greedy(6))
    at_once = []
    sample = sampler.sample
    monkeypatch.setattr(sampler, "sample", lambda requests: at_once.append(len(requests)) or sample(requests))
    monkeypatch.setattr(sampler_module, "free_memory", lambda _device: free)
    player = PlayerSpec(sampling=sampler.settings)
    asked = asked_of(small_words, [start.secret for start in STARTS], COMPACT, player=player, batch_size=len(STARTS))
    evaluate(asked, opened(sampler), record_of)
    assert max(at_once) == most
