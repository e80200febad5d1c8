"""Laws of constrained replies: every guess is a listed word in any tokenizer, and good replies stay as they are."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from chat_families import family_tokenizer
from constrained_games import KINDS, Hasty, codecs_of, hasty, random_model

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.game import Outcome
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import (
    Phase,
    ReplyGrammar,
    ReplyProcessor,
    State,
    WordConstraint,
    make_constraint,
    token_texts,
)
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Guess, Prompter, Style
from wordle_rl.rollout import play

SAMPLING = SamplingSettings(max_completion_tokens=40)


@pytest.fixture(scope="module")
def codecs(small_words) -> dict[str, ChatCodec]:
    return codecs_of(small_words)


def spellings(codec: ChatCodec, text: str, count: int) -> Iterator[list[int]]:
    """The tokenizer's own tokens for a text, and random other ways to cut it into tokens."""
    yield codec.encode(text)
    ids_of = {piece: i for i, piece in enumerate(token_texts(codec.tokenizer))}
    rng = random.Random(text)
    for _ in range(count):
        ids, place = [], 0
        while place < len(text):
            end = rng.choice([end for end in range(place + 1, len(text) + 1) if text[place:end] in ids_of])
            ids.append(ids_of[text[place:end]])
            place = end
        yield ids


def noise(constraint: WordConstraint, vocabulary: int, stops: frozenset[int], seed: int) -> list[int]:
    """A reply drawn from noise by an engine that knows nothing of the constraint but its call."""
    process, rng = ReplyProcessor(constraint), np.random.default_rng(seed)
    ids: list[int] = []
    while len(ids) < 60 and not (ids and ids[-1] in stops):
        logits = process(ids, rng.normal(scale=3.0, size=vocabulary))
        chances = np.exp(logits - logits.max())
        ids.append(int(rng.choice(vocabulary, p=chances / chances.sum())))
    return ids


# --- every guess is a listed word -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", [Style.COMPACT, Style.TEXTARENA, Style.VERIFIERS, Style.SPELLED])
def test_noise_spells_listed_words_only(kind, style, codecs, small_words) -> None:
    codec, prompter = codecs[kind], Prompter(style=style)
    constraint = hasty(codec, small_words, prompter)
    said = set()
    for seed in range(60):
        ids = noise(constraint, len(codec.tokenizer), codec.stop_ids, seed)
        assert ids[-1] in codec.stop_ids
        parsed = prompter.parse(codec.text_of(ids))
        assert isinstance(parsed, Guess)
        assert parsed.word in small_words
        said.add(parsed.word)
    assert len(said) > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", [Style.COMPACT, Style.SPELLED])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_random_model_guesses_listed_words_only(kind, style, temperature, codecs, small_words) -> None:
    codec, prompter = codecs[kind], Prompter(style=style)
    settings = SAMPLING.model_copy(update={"temperature": temperature})
    sampler = TransformersSampler(random_model(codec), codec, settings, 0, hasty(codec, small_words, prompter))
    games = play([InitialState(secret) for secret in small_words.answers[:6]], small_words, prompter, sampler)
    turns = [turn for game in games for turn in game.transcript.own_turns]
    assert {turn.turn.outcome for turn in turns} == {Outcome.SCORED}
    assert len(turns) > 12


def test_a_word_whose_letters_are_no_tokens_leads_into_no_dead_end() -> None:
    texts = ["<guess>", "</guess>", "<end>", "c", "r", "a", "n", "e", "ne", "fu", "zzy", "z", "fuz", "cra"]
    constraint = Hasty(["crane", "fuzzy"], ("<guess>", "</guess>"), texts, [2])
    assert constraint.after(State(Phase.IN_WORD, "fu"), 11) == State(Phase.IN_WORD, "fuz")
    assert constraint.allowed(State(Phase.IN_WORD, "fu")).tolist() == [10]  # a lone z could not be followed by zy
    assert constraint.allowed(State(Phase.BEFORE_WORD)).tolist() == [3, 9, 13]
    replies = (noise(constraint, len(texts), frozenset({2}), seed) for seed in range(20))
    said = {"".join(texts[i] for i in ids) for ids in replies}
    assert said == {"<guess>crane</guess><end>", "<guess>fuzzy</guess><end>"}


@pytest.mark.parametrize("between", ["", " ", "\n\t"])
def test_white_space_inside_an_opening_tag_opens_no_way_around(between: str) -> None:
    tags = Prompter(style=Style.VERIFIERS).guess_tags
    grammar = ReplyGrammar(tags, (), words=["crane"])
    assert grammar.follow(grammar.start, f"<guess>{between}[zz") is None
    assert grammar.follow(grammar.start, f"<guess>{between}[crane]</guess>") is not None


# --- what is good stays as it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("style", "reply"),
    [
        (Style.COMPACT, "<guess>crane</guess>"),
        (Style.COMPACT, "<think>so <guess or a [b]</think>\n<guess>fuzzy</guess>"),
        (Style.COMPACT, "<guess> CrAne\n</guess> \n"),
        (Style.VERIFIERS, "<guess> \n [ crane]</guess>"),
        (Style.TEXTARENA, "<think>[zzz] no</think>[crane]"),
        (Style.TEXTARENA, "[ crane]"),
        (Style.SPELLED, "c r a n e"),
        (Style.SPELLED, " C r A n e \n"),
    ],
)
def test_a_good_reply_may_be_said_in_any_tokens(kind, style, reply, codecs, small_words) -> None:
    codec, prompter = codecs[kind], Prompter(style=style)
    assert isinstance(prompter.parse(reply), Guess)
    constraint = make_constraint(small_words, prompter, codec)
    stop = codec.turn_end_ids[0]
    for ids in spellings(codec, reply, 20):
        state = constraint.start
        for token in [*ids, stop]:
            allowed = constraint.allowed(state)
            assert allowed is None or token in allowed
            state = constraint.after(state, token)


@pytest.mark.parametrize("style", [Style.ENGLISH, Style.TEXTARENA, Style.VERIFIERS])
@pytest.mark.parametrize("thought", ["the form is <guess>word</guess>, or [zzzzz], so", None])
def test_a_thought_that_the_prompt_opened_is_free_and_the_guess_after_it_is_not(style, thought, small_words) -> None:
    opened, prompter = ChatCodec(family_tokenizer("deepseek-r1")), Prompter(style=style)
    assert opened.frame.opened == "<think>\n"
    constraint = make_constraint(small_words, prompter, opened)
    said = opened.reply_ids(prompter.reply("crane", thought))
    state, num_limited = constraint.start, 0
    for token in said:
        allowed = constraint.allowed(state)
        assert allowed is None or token in allowed
        num_limited += allowed is not None and len(allowed) < len(opened.tokenizer) // 2
        state = constraint.after(state, token)
    assert num_limited >= len(opened.encode("crane"))
    thinking = opened.encode(f"so {prompter.guess_tags[0]}zz")
    assert np.isfinite(ReplyProcessor(constraint)(thinking, np.zeros(len(opened.tokenizer)))).all()


def test_what_is_left_of_the_probabilities_is_renormalised(codecs, small_words) -> None:
    codec, prompter = codecs["tiny"], Prompter(style=Style.COMPACT)
    constraint = hasty(codec, small_words, prompter)
    model = random_model(codec)
    sampler = TransformersSampler(model, codec, SAMPLING, 0, constraint)
    prompt = codec.encode("5x6")
    [completion] = sampler.sample([Request(0, (), (), prompt)])
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *completion.token_ids]])).logits[0].float()
    state: State | None = constraint.start
    for place, (token, logprob) in enumerate(zip(completion.token_ids, completion.sampler_logprobs, strict=True)):
        here = logits[len(prompt) + place - 1]
        exact = here[token] - here[torch.from_numpy(constraint.allowed(state))].logsumexp(0)
        assert logprob == pytest.approx(float(exact), abs=1e-4)
        state = constraint.after(state, token)
    assert len(completion.token_ids) > 5
