"""Laws of greedy guesses limited to listed words: the likeliest word is named, in any tokenizer."""

from collections.abc import Sequence

import pytest

pytest.importorskip("torch")

import torch
from constrained_games import KINDS, codecs_of, hasty

import wordle_rl.policy.base as base_module
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import SamplingSettings
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import ReplyProcessor, make_constraint
from wordle_rl.policy.tiny import make_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.word_search import WordSearch, opening_of
from wordle_rl.prompt import Guess, Prompter, Style
from wordle_rl.rollout import InitialState, play
from wordle_rl.words import WordList

SAMPLING = SamplingSettings(max_completion_tokens=40)


@pytest.fixture(scope="module")
def codecs(small_words: WordList) -> dict[str, ChatCodec]:
    return codecs_of(small_words)


def random_model(codec: ChatCodec, seed: int = 0):
    return make_model(
        codec.tokenizer, hidden_size=32, num_layers=1, num_heads=2, num_kv_heads=1, intermediate_size=48, seed=seed
    ).eval()


def logprobs_of(model, prompt: Sequence[int], reply: Sequence[int]) -> list[float]:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *reply]])).logits[0].float().log_softmax(-1)
    return [float(logits[len(prompt) + place - 1, token]) for place, token in enumerate(reply)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", [Style.COMPACT, Style.SPELLED])
def test_no_listed_word_is_likelier_than_the_one_that_is_found(
    kind: str, style: Style, codecs: dict[str, ChatCodec], small_words: WordList
) -> None:
    codec, prompter = codecs[kind], Prompter(style=style)
    constraint = make_constraint(small_words, prompter, codec)
    model = random_model(codec)
    replies = [codec.reply_ids(prompter.reply(word)) for word in small_words.guesses]
    prompts = [codec.encode(text) for text in ("5x6", "5x6 crane", "a", "5x6")]
    openings = [opening_of(prompt, replies[0], constraint.grammar) for prompt in prompts]
    search = WordSearch(model, constraint, codec.stop_ids, codec.pad_id, beam=5000)
    found = search.search([opening for opening in openings if opening], 40, max_rows=15_000)
    assert len(found) == len(prompts)
    assert found[0] == found[3]
    for prompt, opening, ending in zip(prompts, openings, found, strict=True):
        assert opening is not None
        assert ending is not None
        said = [*opening.token_ids[len(prompt) :], *ending.token_ids]
        guess = prompter.parse(codec.text_of(said))
        assert isinstance(guess, Guess)
        assert guess.word in small_words
        assert ending.logprobs == pytest.approx(logprobs_of(model, opening.token_ids, ending.token_ids), abs=1e-4)
        before = opening.num_reply_tokens
        plain = [reply for reply in replies if reply[:before] == said[:before]]
        likeliest = max(sum(logprobs_of(model, prompt, reply)[before:]) for reply in plain)
        assert sum(ending.logprobs) >= likeliest - 1e-4


def test_a_greedy_reply_names_a_likelier_word_than_token_by_token(
    codecs: dict[str, ChatCodec], small_words: WordList, monkeypatch
) -> None:
    monkeypatch.setattr(base_module, "WORD_BEAM", 2000)  # a model without training spells in any way
    codec, prompter = codecs["tiny"], Prompter(style=Style.COMPACT)
    greedy = SAMPLING.model_copy(update={"temperature": 0.0})
    gains = []
    for seed in range(6):
        model, constraint = random_model(codec, seed), hasty(codec, small_words, prompter)
        prompt, by_token = codec.encode("5x6"), []
        while not by_token or by_token[-1] not in codec.stop_ids:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([[*prompt, *by_token]])).logits[0, -1].float()
            by_token.append(int(ReplyProcessor(constraint)(by_token, logits).argmax()))
        [completion] = TransformersSampler(model, codec, greedy, 0, constraint).sample([Request(0, (), (), prompt)])
        opening = opening_of(prompt, by_token, constraint.grammar)
        assert opening is not None
        kept = opening.num_reply_tokens
        assert completion.token_ids[:kept] == tuple(by_token[:kept])
        named = sum(logprobs_of(model, prompt, completion.token_ids)[kept:])
        gains.append(named - sum(logprobs_of(model, prompt, by_token)[kept:]))
    assert min(gains) > -1e-4
    assert max(gains) > 0.01


def test_games_go_on_from_the_word_that_was_found(codecs: dict[str, ChatCodec], small_words: WordList) -> None:
    """The cache holds what was drawn token by token, the board what was said."""
    codec, prompter = codecs["tiny"], Prompter(style=Style.COMPACT)
    greedy = SAMPLING.model_copy(update={"temperature": 0.0})

    def guesses(secrets: Sequence[str]) -> list[list[str | None]]:
        sampler = TransformersSampler(random_model(codec), codec, greedy, 0, hasty(codec, small_words, prompter))
        games = play([InitialState(secret) for secret in secrets], small_words, prompter, sampler)
        return [[turn.turn.guess for turn in game.transcript.own_turns] for game in games]

    secrets = small_words.answers[:5]
    assert guesses(secrets) == [found for secret in secrets for found in guesses([secret])]


def test_where_no_word_is_short_enough_the_reply_stays(codecs: dict[str, ChatCodec], small_words: WordList) -> None:
    codec, prompter = codecs["tiny"], Prompter(style=Style.COMPACT)
    constraint = make_constraint(small_words, prompter, codec)
    reply = codec.reply_ids(prompter.reply("crane"))
    opening = opening_of(codec.encode("5x6"), reply, constraint.grammar)
    assert opening is not None
    search = WordSearch(random_model(codec), constraint, codec.stop_ids, codec.pad_id, beam=2000)
    assert search.search([opening], 4, 64) == [None]
    assert search.search([opening], 8, 64) != [None]
    assert opening_of((), codec.encode("I say crane"), constraint.grammar) is None
