"""Laws of the checks before a training: each fault is found, named with its mend, and nothing is written."""

import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from chat_families import FAMILIES
from contexts import context_of
from template_checks import codec_of, levels
from tokenizers import normalizers, processors

from wordle_rl.config import (
    ConfigError,
    EvalSettings,
    GameSettings,
    GRPOSettings,
    ModelSettings,
    RunConfig,
    VLLMSettings,
)
from wordle_rl.models.loading import load_numbers
from wordle_rl.models.numbers import Device, ModelNumbers
from wordle_rl.preflight.device import check_memory
from wordle_rl.preflight.findings import Finding, refuse
from wordle_rl.preflight.memory import MemoryEstimate, estimate, stage_works
from wordle_rl.preflight.settings import (
    check_engines,
    check_lengths,
    check_model,
    check_teacher,
    check_teacher_replies,
    check_updates,
)
from wordle_rl.preflight.template import check_stops, check_template, sample_game
from wordle_rl.prompt import Message, Prompter, Shape, Style, Thinking


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("name", FAMILIES)
def test_published_families_pass(name: str, style: Style, shape: Shape, small_words) -> None:
    codec, prompter = codec_of(name), Prompter(style, shape)
    game = sample_game(small_words, prompter)
    vocab_size = len(codec.tokenizer)
    assert check_template(codec, game, prompter.thinking) == []
    notes = check_stops(codec, game, vocab_size)
    assert levels(notes) == (["note"] if name.startswith("gemma") else [])
    assert all("'<eos>', a turn ends with '<end_of_turn>'" in note.message for note in notes)


def test_the_sample_game_is_a_game_by_the_rules(small_words) -> None:
    game = sample_game(small_words, Prompter())
    assert [message["role"] for message in game] == ["system", *["user", "assistant"] * 3]
    for message in game[2::2]:
        assert Prompter(thinking=Thinking.REQUIRED).parse(message["content"]).word in small_words
    alone = sample_game(small_words, Prompter(shape=Shape.STATE))
    assert [message["role"] for message in alone] == ["system", "user", "assistant"]


def test_prompts_that_open_or_close_thoughts_must_suit_the_game() -> None:
    game = [Message(role="user", content="a"), Message(role="assistant", content="b")]
    (opened,) = check_template(codec_of("deepseek-r1"), game, Thinking.OFF)
    assert opened.level == "problem"
    assert 'opens a thought in every prompt, but game.thinking is "off"' in opened.message
    closing = codec_of("qwen3", enable_thinking=False)
    (closed,) = check_template(closing, game, Thinking.REQUIRED)
    assert closed.level == "problem"
    assert "closes every thought" in closed.message
    for codec, thinking in ((closing, Thinking.OFF), (codec_of("deepseek-r1"), Thinking.REQUIRED)):
        assert check_template(codec, game, thinking) == []


def test_a_tokenizer_that_reads_pieces_otherwise_than_the_whole_is_warned_of(small_words) -> None:
    codec = codec_of("qwen2.5")
    codec.tokenizer.backend_tokenizer.normalizer = normalizers.Prepend("_")
    (finding,) = check_template(codec, sample_game(small_words, Prompter()), Thinking.OPTIONAL)
    assert finding.level == "warning"
    assert "turn by turn" in finding.message


PLAIN_END = "{% for m in messages %}{{ m.role + ' ' + m.content + '>' }}{% endfor %}"


def test_a_turn_end_that_replies_hold_is_refused(small_words) -> None:
    game = sample_game(small_words, Prompter())
    codec = codec_of("qwen2.5", PLAIN_END)
    assert codec.frame.turn_end == ">"
    assert "problem" in levels(check_stops(codec, game, 10**6))
    assert "a turn ends with '>', which replies hold too" in check_stops(codec, game, 10**6)[0].message


def test_tokens_that_the_model_does_not_have_are_refused(small_words) -> None:
    codec = codec_of("qwen2.5")
    (finding,) = check_stops(codec, sample_game(small_words, Prompter()), codec.turn_end_ids[0])
    assert finding.level == "problem"
    assert "'<|im_end|>' as token" in finding.message


def test_words_the_tokenizer_cannot_write_are_refused(codec) -> None:
    foreign = [Message(role="user", content="naïve"), Message(role="assistant", content="crane")]
    (finding,) = check_stops(codec, foreign, len(codec.tokenizer))
    assert finding.level == "problem"
    assert "game.style" in finding.message


def test_a_template_that_leaves_out_the_first_token_of_all_texts_is_warned_of(small_words) -> None:
    codec = codec_of("llama3", "{% for m in messages %}{{ m.role + m.content + '<|eot_id|>' }}{% endfor %}")
    game = sample_game(small_words, Prompter())
    assert check_stops(codec, game, 10**6) == []
    bos = codec.tokenizer.bos_token_id
    codec.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)]
    )
    (finding,) = check_stops(codec, game, 10**6)
    assert finding.level == "warning"
    assert "begin with '<|begin_of_text|>'" in finding.message


def test_all_budgets_are_checked_at_once(small_words, codec) -> None:
    config = RunConfig.model_validate(
        {
            "game": {"style": "compact", "thinking": "off"},
            "model": {"max_length": 64},
            "grpo": {"sampling": {"max_completion_tokens": 3}},
            "eval": {"max_completion_tokens": 40},
        }
    )
    findings = check_model(config, context_of(config, small_words), codec, load_numbers(config.model))
    assert levels(findings) == ["problem"] * 2
    with pytest.raises(ConfigError, match=r"the model takes 64.*; grpo.sampling.max_completion_tokens 3 is too small"):
        refuse(findings)
    refuse([Finding("warning", "wasteful"), Finding("note", "by the way")])


def test_a_game_must_fit_the_engine_that_plays_it(small_words, codec) -> None:
    game = {"style": "compact", "thinking": "off"}
    grpo = {"engine": "vllm", "sampling": {"max_completion_tokens": 12}}

    def found(length: int, **changes: object) -> list[Finding]:
        values = {"game": game, "grpo": {**grpo, "vllm": {"max_length": length}, **changes}}
        config = RunConfig.model_validate(values)
        findings = check_model(config, context_of(config, small_words), codec, load_numbers(config.model))
        return [finding for finding in findings if "engine" in finding.message]

    (problem,) = found(110)
    assert problem.level == "problem"
    assert "may take 111 tokens with grpo.sampling.max_completion_tokens 12, the engine takes 110" in problem.message
    assert "raise grpo.vllm.max_length" in problem.message
    assert not found(111)
    assert not found(0)
    assert not found(110, engine="transformers")
    assert not found(110, steps=0)


def test_teacher_games_that_would_be_left_out_are_told() -> None:
    assert check_teacher([10, 20], 20) == []
    (some,) = check_teacher([10, 20, 30, 40], 20)
    assert (some.level, some.message) == (
        "warning",
        "sft.max_length 20 leaves out 50% of the teacher's games; raise it to 40",
    )
    assert levels(check_teacher([30, 40], 20)) == ["problem"]


def test_budgets_that_cut_the_teacher_s_replies_are_told() -> None:
    lengths = [8] * 19 + [30]
    assert check_teacher_replies(lengths, {"eval.max_completion_tokens": 12}) == []
    longer = [8, 8, 30, 40]
    (some,) = check_teacher_replies(longer, {"eval.max_completion_tokens": 35, "grpo.x": 40})
    assert some.level == "warning"
    assert some.message.startswith("25% of the teacher's replies take more than eval.max_completion_tokens 35")
    assert "95 % take at most 40" in some.message
    assert levels(check_teacher_replies([30, 40, 8], {"a": 12})) == ["problem"]


def needs(weights: int, activations: int) -> MemoryEstimate:
    return MemoryEstimate(weights, 0, 0, 0, activations, 0, 0, 0)


def test_what_is_counted_must_fit_and_what_is_rough_should() -> None:
    gib = 1024**3
    device = Device("the card", 4 * gib)
    assert check_memory({"sft": needs(gib, gib)}, device) == []
    (rough,) = check_memory({"grpo": needs(gib, 4 * gib)}, device)
    assert rough.level == "warning"
    assert "grpo may take about 5.0 GiB, the card has 4.0 GiB; lower grpo.micro_batch_size" in rough.message
    findings = check_memory({"sft": needs(5 * gib, 0), "eval": needs(5 * gib, 0)}, device)
    assert levels(findings) == ["problem", "problem"]
    assert check_memory({"sft": needs(5 * gib, 0)}, Device("unknown", None)) == []


def test_an_engine_beside_the_training_takes_its_share_unless_it_sleeps() -> None:
    gib, device = 1024**3, Device("the card", 10 * 1024**3)
    engine = VLLMSettings(gpu_memory_share=0.3)
    training = replace(needs(6 * gib, 2 * gib), engine_weights=gib)
    assert check_memory({"grpo": training}, device) == []
    assert check_memory({"grpo": training}, device, engine.model_copy(update={"sleep": True})) == []
    (rough,) = check_memory({"grpo": training}, device, engine)
    assert rough.level == "warning"
    assert "30% of it vLLM's" in rough.message
    assert check_memory({"sft": training}, device, engine) == []
    (small,) = check_memory({"grpo": replace(needs(gib, 0), engine_weights=3 * gib)}, device, engine)
    assert small.level == "problem"
    assert "grpo.vllm.gpu_memory_share 0.3 leaves vLLM 3.0 GiB" in small.message
    split = engine.model_copy(update={"tensor_parallel_size": 2})
    assert check_memory({"grpo": replace(needs(gib, 0), engine_weights=3 * gib)}, device, split) == []


def test_games_that_vllm_plays_keep_no_cache_in_the_trainer_and_a_second_copy_of_the_weights() -> None:
    config = RunConfig(grpo=GRPOSettings(engine="vllm"))
    lengths = {"teacher_length": 90, "game_length": 90, "num_secrets": 5, "bf16": {"sft": False, "grpo": False}}
    work = stage_works(config, **lengths, eager_attention=True, tiled_sft=False)["grpo"]
    numbers = ModelNumbers(1000, 1000, 2, 2, 1, 8, 16, 32, 100, 4)
    found = estimate(numbers, work)
    assert (found.cache, found.cache_of_a_group, found.engine_weights) == (0, 0, 2000)
    ours = stage_works(RunConfig(), **lengths, eager_attention=True, tiled_sft=False)["grpo"]
    assert estimate(numbers, ours).cache > 0
    assert estimate(numbers, ours).engine_weights == 0


def test_an_engine_that_is_not_installed_is_a_problem(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    asked = RunConfig(grpo=GRPOSettings(engine="vllm"), eval=EvalSettings(engine="vllm"))
    (finding,) = check_engines(asked, adapts=False)
    assert finding.level == "problem"
    assert 'grpo.engine "vllm" and eval.engine "vllm" needs' in finding.message
    assert check_engines(RunConfig(grpo=GRPOSettings(engine="vllm", steps=0)), adapts=False) == []
    assert check_engines(RunConfig(), adapts=True) == []


def test_what_vllm_cannot_evaluate_is_a_problem_before_training() -> None:
    def told(config: RunConfig, *, adapts: bool) -> str:
        return " ".join(finding.message for finding in check_engines(config, adapts=adapts))

    plays = {"eval": EvalSettings(engine="vllm", base=True)}
    assert "not adapters" in told(RunConfig(**plays), adapts=True)
    assert "leave out eval.base" in told(RunConfig(**plays), adapts=False)
    base = RunConfig(**plays, model=ModelSettings(path="elsewhere"))
    assert "eval.base" not in told(base, adapts=False)
    assert "not adapters" not in told(base, adapts=False)


def test_updates_that_16_bits_cannot_hold_are_warned_of() -> None:
    whole = load_numbers(ModelSettings())

    def told(held: int, trained: int, rate: float) -> list[str]:
        optimizers = {"sft": {"optimizer": {"learning_rate": rate}}, "grpo": {"optimizer": {"learning_rate": 1e-3}}}
        numbers = replace(whole, weight_bytes=held, trainable_bytes=trained)
        return [finding.message for finding in check_updates(RunConfig.model_validate(optimizers), numbers)]

    assert told(4, 0, 1e-5) == told(2, 0, 3e-4) == told(2, 4, 1e-5) == [], "whole, quick, adapters"
    [message] = told(2, 0, 1e-5)
    assert message.startswith("sft.optimizer.learning_rate 1e-05 is lost on many weights of 16 bits")


def test_a_game_that_just_fits_is_allowed(sixty, codec) -> None:
    context = context_of(RunConfig(game=GameSettings(style=Style.COMPACT, thinking=Thinking.OFF)), sixty)
    assert not check_lengths(context, codec, 111, {"eval.max_completion_tokens": 12})
    assert not check_lengths(context, codec, None, {"eval.max_completion_tokens": 10_000})
    (problem,) = check_lengths(context, codec, 110, {"eval.max_completion_tokens": 12})
    assert problem.level == "problem"
    assert "may take 111 tokens with eval.max_completion_tokens 12, the model takes 110" in problem.message
