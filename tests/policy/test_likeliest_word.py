"""Laws of the search for words: greedy guesses name the likeliest listed one, and each guess has its probability."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
import torch
from chat_families import family_tokenizer
from constrained_games import KINDS, codecs_of, hasty, random_model
from round_training import token_logprobs
from small_models import small_config
from training_fixtures import small_model
from transformers import Qwen3Config, Qwen3ForCausalLM
from worded_models import teach_words

import wordle_rl.policy.constrain as constrain_module
from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy import word_search
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import ReplyProcessor, make_constraint, token_texts
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.word_search import GuessProbabilities, WordSearch, opening_of
from wordle_rl.prompt import Guess, Prompter, Style
from wordle_rl.rollout import play

GREEDY = SamplingSettings(temperature=0.0, max_completion_tokens=40)
COMPACT = Prompter(style=Style.COMPACT)


@pytest.fixture(scope="module")
def codecs(small_words) -> dict[str, ChatCodec]:
    return codecs_of(small_words)


@torch.no_grad()
def logprobs_of(model, prompt: Sequence[int], reply: Sequence[int]) -> list[float]:
    return token_logprobs(model, prompt, reply).tolist()


# --- greedy guesses limited to listed words -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", [Style.COMPACT, Style.SPELLED])
def test_no_listed_word_is_likelier_than_the_one_that_is_found(kind, style, codecs, small_words) -> None:
    codec, prompter = codecs[kind], Prompter(style=style)
    constraint = make_constraint(small_words, prompter, codec)
    model = random_model(codec)
    replies = [codec.reply_ids(prompter.reply(word)) for word in small_words.guesses]
    prompts = [codec.encode(text) for text in ("5x6", "5x6 crane", "a", "5x6")]
    openings = [opening_of(prompt, replies[0], constraint.grammar) for prompt in prompts]
    search = WordSearch(model, constraint, codec.stop_ids, codec.pad_id, beam=5000)
    found = search.search(openings, 40, max_rows=15_000)
    assert found[0] == found[3]
    for prompt, opening, ending in zip(prompts, openings, found, strict=True):
        said = [*opening.token_ids[len(prompt) :], *ending.token_ids]
        guess = prompter.parse(codec.text_of(said))
        assert isinstance(guess, Guess)
        assert guess.word in small_words
        assert ending.logprobs == pytest.approx(logprobs_of(model, opening.token_ids, ending.token_ids), abs=1e-4)
        before = opening.num_reply_tokens
        plain = [reply for reply in replies if reply[:before] == said[:before]]
        likeliest = max(sum(logprobs_of(model, prompt, reply)[before:]) for reply in plain)
        assert sum(ending.logprobs) >= likeliest - 1e-4


def test_a_greedy_reply_names_a_likelier_word_than_token_by_token(codecs, small_words, monkeypatch) -> None:
    monkeypatch.setattr(constrain_module, "WORD_BEAM", 2000)  # a model without training spells in any way
    codec, gains = codecs["tiny"], []
    for seed in range(6):
        model, constraint = random_model(codec, seed), hasty(codec, small_words, COMPACT)
        prompt, by_token = codec.encode("5x6"), []
        while not by_token or by_token[-1] not in codec.stop_ids:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([[*prompt, *by_token]])).logits[0, -1].float()
            by_token.append(int(ReplyProcessor(constraint)(by_token, logits).argmax()))
        [completion] = TransformersSampler(model, codec, GREEDY, 0, constraint).sample([Request(0, (), (), prompt)])
        kept = opening_of(prompt, by_token, constraint.grammar).num_reply_tokens
        assert completion.token_ids[:kept] == tuple(by_token[:kept])
        named, drawn = (
            sum(logprobs_of(model, prompt, reply)[kept:]) for reply in (list(completion.token_ids), by_token)
        )
        gains.append(named - drawn)
    assert min(gains) > -1e-4
    assert max(gains) > 0.01


def test_games_go_on_from_the_word_that_was_found(codecs, small_words) -> None:
    """The cache holds what was drawn token by token, the board what was said."""
    codec = codecs["tiny"]

    def guesses(secrets: Sequence[str]) -> list[list[str | None]]:
        sampler = TransformersSampler(random_model(codec), codec, GREEDY, 0, hasty(codec, small_words, COMPACT))
        games = play([InitialState(secret) for secret in secrets], small_words, COMPACT, sampler)
        return [[turn.turn.guess for turn in game.transcript.own_turns] for game in games]

    secrets = small_words.answers[:5]
    assert guesses(secrets) == [found for secret in secrets for found in guesses([secret])]


def test_where_no_word_is_short_enough_the_reply_stays(codecs, small_words) -> None:
    codec = codecs["tiny"]
    constraint = make_constraint(small_words, COMPACT, codec)
    opening = opening_of(codec.encode("5x6"), codec.reply_ids(COMPACT.reply("crane")), constraint.grammar)
    search = WordSearch(random_model(codec), constraint, codec.stop_ids, codec.pad_id, beam=2000)
    assert search.search([opening], 4, 64) == [None]
    assert search.search([opening], 8, 64) != [None]
    assert opening_of((), codec.encode("I say crane"), constraint.grammar) is None


# --- probabilities of guesses ---------------------------------------------------------------------------------------

TAGS = COMPACT.guess_tags
PROMPT = [{"role": "user", "content": "5x6"}]
SHARES = {"crane": 0.5, "crate": 0.25, "zzzzz": 0.15, "kudzu": 0.1}


@pytest.fixture(scope="module")
def taught() -> tuple[object, ChatCodec]:
    """A model that says each of SHARES about so often; one of them is no listed word."""
    codec = ChatCodec(make_tokenizer())
    model = small_model(codec.tokenizer)
    teach_words(model, codec, codec.prompt_ids(PROMPT), SHARES)
    return model, codec


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


def probabilities(model, read: list[int], replies: Iterator[list[int]]) -> list[float]:
    return [math.exp(sum(logprobs_of(model, read, ids))) for ids in replies]


def test_a_guess_has_the_probability_of_its_tokens(taught) -> None:
    model, codec = taught
    prompt, begun = codec.prompt_ids(PROMPT), codec.encode("<guess>")
    found = GuessProbabilities(model, codec, TAGS).likeliest(prompt, [*begun, *codec.encode("crane</guess>")])
    assert len(found) == 10
    assert [each.probability for each in found] == sorted((each.probability for each in found), reverse=True)
    for each in found[:3]:
        exact = probabilities(model, prompt + begun, spellings(each.guess, token_texts(codec.tokenizer)))
        assert each.probability == pytest.approx(sum(exact), rel=5e-3)


def test_spelled_guesses_are_as_likely_as_all_that_spells_them() -> None:
    codec = ChatCodec(make_tokenizer())
    model, prompt = small_model(codec.tokenizer), codec.prompt_ids(PROMPT)
    teach_words(model, codec, prompt, SHARES, " ".join)
    found = GuessProbabilities(model, codec, ("", "")).likeliest(prompt, codec.reply_ids("k u d z u"), 4)
    assert [each.guess for each in found] == sorted(SHARES, key=lambda word: -SHARES[word])
    for each in found:
        cased = product(*((letter, letter.upper()) for letter in each.guess))
        spelt = (codec.reply_ids(space + " ".join(letters)) for letters in cased for space in ("", " ", "\n"))
        assert each.probability == pytest.approx(sum(probabilities(model, prompt, spelt)), rel=5e-3)
        assert each.probability == pytest.approx(SHARES[each.guess], rel=0.2)


@pytest.mark.slow  # a real tokenizer has many spellings
def test_spellings_in_different_tokens_add_up(monkeypatch) -> None:
    # Look at every token and every beginning: a random model is sure of nothing.
    every = {"_BEAM": 500, "_TOKENS_EACH": 4000, "_LEAST": -math.inf, "_LEAST_SHARE": 0.001, "_MAX_TOKENS": 2}
    for name, value in every.items():
        monkeypatch.setattr(word_search, name, value)
    codec = ChatCodec(family_tokenizer("qwen3"))
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**small_config(codec), head_dim=16)).eval()
    prompt, begun = codec.prompt_ids(PROMPT), codec.encode("<guess>")
    best = GuessProbabilities(model, codec, TAGS).likeliest(prompt, begun)[0]
    alone = probabilities(model, prompt + begun, spellings(best.guess, token_texts(codec.tokenizer)))
    assert max(alone) * 1.05 < best.probability <= sum(alone) * 1.001  # longer spellings, of white space, are left out


def test_a_guess_is_weighed_behind_the_thinking_before_it(taught) -> None:
    model, codec = taught
    prompt, begun = codec.prompt_ids(PROMPT), codec.encode("<guess>")
    likeliest = GuessProbabilities(model, codec, TAGS).likeliest
    thought = codec.encode("<think>a<guess>b</think>")
    found = likeliest(prompt, [*thought, *begun, *codec.encode("crane</guess>")])
    assert found == likeliest([*prompt, *thought], begun)
    assert found != likeliest(prompt, begun)
    assert likeliest(prompt, thought) == likeliest(prompt, []) == []
    assert likeliest(prompt, codec.encode("<think>a<guess>crane</guess>")) == []
