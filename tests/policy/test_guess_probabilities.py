"""Laws of likeliest guesses: each has the probability of its tokens, and no guess of more is missing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import pytest

torch = pytest.importorskip("torch")

from chat_families import family_tokenizer
from small_models import small_config
from training_fixtures import small_model
from transformers import Qwen3Config, Qwen3ForCausalLM
from worded_models import teach_words

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.policy import word_search
from wordle_rl.policy.constrain import token_texts
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.policy.word_search import GuessProbabilities

TAGS = ("<guess>", "</guess>")
PROMPT = [{"role": "user", "content": "5x6"}]


SHARES = {"crane": 0.5, "crate": 0.25, "zzzzz": 0.15, "kudzu": 0.1}


@dataclass(frozen=True)
class Trained:
    model: object
    codec: ChatCodec


@pytest.fixture(scope="module")
def trained() -> Trained:
    """A model that says each of SHARES about so often; one of them is no listed word."""
    codec = ChatCodec(make_tokenizer())
    model = small_model(codec.tokenizer)
    teach_words(model, codec, codec.prompt_ids(PROMPT), SHARES)
    return Trained(model, codec)


def qwen() -> tuple[object, ChatCodec]:
    codec = ChatCodec(family_tokenizer("qwen3"))
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**small_config(codec), head_dim=16)).eval(), codec


def spellings(word: str, texts: Sequence[str]) -> Iterator[list[int]]:
    """All token sequences that spell a word, and begin to close it with their last token."""
    paths: list[tuple[list[int], str]] = [([], "")]
    while paths:
        ids, text = paths.pop()
        for token, more in enumerate(texts):
            longer = text + more
            if not more:
                continue
            spelt = longer.lower()
            if len(longer) - len(longer.lstrip()) <= 2:
                spelt = spelt.lstrip()
            if word.startswith(spelt):
                paths.append(([*ids, token], longer))
            elif spelt.startswith(word):
                rest = spelt[len(word) :].lstrip()
                if TAGS[1].startswith(rest) or rest.startswith(TAGS[1]):
                    yield [*ids, token]


@torch.no_grad()
def probability(model, read: list[int], ids: list[int]) -> float:
    logits = model(input_ids=torch.tensor([read + ids])).logits[0].float().log_softmax(-1)
    return math.exp(sum(float(logits[len(read) + place - 1, token]) for place, token in enumerate(ids)))


def expected(model, codec: ChatCodec, read: list[int], word: str) -> float:
    texts = token_texts(codec.tokenizer)
    return sum(probability(model, read, ids) for ids in spellings(word, texts))


@pytest.fixture
def wide(monkeypatch) -> None:
    """Looks at every token and every beginning: the models of these tests are sure of nothing."""
    for name, value in (("_BEAM", 500), ("_TOKENS_EACH", 4000), ("_LEAST", -math.inf), ("_LEAST_SHARE", 0.001)):
        monkeypatch.setattr(word_search, name, value)


def opened(codec: ChatCodec) -> tuple[list[int], list[int]]:
    """A prompt, and a reply that has begun its guess."""
    return codec.prompt_ids(PROMPT), codec.encode("<guess>")


def test_a_guess_has_the_probability_of_its_tokens(trained: Trained) -> None:
    prompt, begun = opened(trained.codec)
    reply = [*begun, *trained.codec.encode("crane</guess>")]
    found = GuessProbabilities(trained.model, trained.codec, TAGS).likeliest(prompt, reply)
    assert len(found) == 10
    assert [each.probability for each in found] == sorted((each.probability for each in found), reverse=True)
    for each in found[:3]:
        exact = expected(trained.model, trained.codec, prompt + begun, each.guess)
        assert each.probability == pytest.approx(exact, rel=5e-3)


def test_spelled_guesses_are_as_likely_as_all_that_spells_them() -> None:
    codec = ChatCodec(make_tokenizer())
    model = small_model(codec.tokenizer)
    teach_words(model, codec, codec.prompt_ids(PROMPT), SHARES, " ".join)
    prompt = codec.prompt_ids(PROMPT)
    found = GuessProbabilities(model, codec, ("", "")).likeliest(prompt, codec.reply_ids("k u d z u"), 4)
    assert [each.guess for each in found] == sorted(SHARES, key=lambda word: -SHARES[word])
    for each in found:
        cased = product(*((letter, letter.upper()) for letter in each.guess))
        spelt = [codec.reply_ids(space + " ".join(letters)) for letters in cased for space in ("", " ", "\n")]
        assert each.probability == pytest.approx(sum(probability(model, prompt, ids) for ids in spelt), rel=5e-3)
        assert each.probability == pytest.approx(SHARES[each.guess], rel=0.2)


@pytest.mark.slow  # a real tokenizer has many spellings
def test_spellings_in_different_tokens_add_up(wide, monkeypatch) -> None:
    monkeypatch.setattr(word_search, "_MAX_TOKENS", 2)
    model, codec = qwen()
    prompt, begun = opened(codec)
    found = GuessProbabilities(model, codec, TAGS).likeliest(prompt, begun)
    texts = token_texts(codec.tokenizer)
    best = found[0]
    alone = [probability(model, prompt + begun, ids) for ids in spellings(best.guess, texts)]
    assert max(alone) * 1.05 < best.probability <= sum(alone) * 1.001  # longer spellings, of white space, are left out


def test_a_guess_is_weighed_behind_the_thinking_before_it(trained: Trained) -> None:
    codec, prompt = trained.codec, trained.codec.prompt_ids(PROMPT)
    ranking = GuessProbabilities(trained.model, codec, TAGS)
    thought = codec.encode("<think>a<guess>b</think>")
    told = [*thought, *codec.encode("<guess>")]
    found = ranking.likeliest(prompt, [*told, *codec.encode("crane</guess>")])
    assert found == ranking.likeliest([*prompt, *thought], codec.encode("<guess>"))
    assert found != ranking.likeliest(prompt, codec.encode("<guess>"))
    assert ranking.likeliest(prompt, thought) == []
    assert ranking.likeliest(prompt, codec.encode("<think>a<guess>crane</guess>")) == []
    assert ranking.likeliest(prompt, []) == []
