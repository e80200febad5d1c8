"""Laws of real chat families: what is trained, what is sampled and what a server renders are the same tokens.

Templates are those their makers publish; tokenizers and models are small ones of each family's kind.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
import torch
from chat_families import FAMILIES, family_config, family_tokenizer, published_template
from sampled_games import check_against_plain_forward
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game, mask_picture
from wordle_rl.chat.templates import ChatTemplateError, changes_of, training_template
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.data.dataset import conversation
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.game import Rules
from wordle_rl.policy.loading import load_codec, load_model, save_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Guess, Message, Prompter, Style, Thinking
from wordle_rl.rollout import play
from wordle_rl.train.example import encode_traces

KEPT = "earlier replies stay as they were spoken"
CHANGES = {
    "qwen3": (KEPT,),
    "qwen2.5": (),
    "gemma3": (KEPT,),
    "llama3": ("the date is fixed", KEPT),
    "deepseek-r1": (KEPT,),
    "gpt-oss": ("the date is fixed", KEPT, "prompts end where the final reply begins"),
    "glm4": (KEPT,),
    "gemma2": ("the system message opens the first user message", KEPT),
    "mistral": (KEPT,),
}


@dataclass(frozen=True)
class Trained:
    """A model as it comes from its makers, loaded, and what is saved of it."""

    name: str
    model: torch.nn.Module
    codec: ChatCodec
    directory: Path

    def served(self, messages: list[Message], *, ask: bool = True) -> list[int]:
        """The tokens a server reads: the saved tokenizer's own rendering, told nothing else."""
        tokenizer = AutoTokenizer.from_pretrained(self.directory)
        return list(tokenizer.apply_chat_template(messages, add_generation_prompt=ask, return_dict=True)["input_ids"])


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory) -> Trained:
    root = tmp_path_factory.mktemp("family")
    tokenizer = family_tokenizer(request.param)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(family_config(request.param, len(tokenizer)))
    model.save_pretrained(root / "published")
    tokenizer.save_pretrained(root / "published")
    model, codec = load_model(ModelSettings(path=str(root / "published")), 0)
    save_model(model, codec, root / "trained")
    return Trained(request.param, model, codec, root / "trained")


TRACE = GameRecord(
    "trace",
    (
        TurnRecord("crane", "YGGXG", thinking="r and a?\nSo crane."),
        TurnRecord("grace", "XGGYG"),
        TurnRecord("trace", "GGGGG", thinking="Only trace fits."),
    ),
)
PROMPTERS = {
    "thinking": Prompter(thinking=Thinking.OPTIONAL),
    "brackets": Prompter(style=Style.TEXTARENA, thinking=Thinking.OPTIONAL),
    "terse": Prompter(style=Style.COMPACT, thinking=Thinking.REQUIRED),
}


def prompts_of(messages: list[Message]) -> list[list[Message]]:
    return [messages[:end] for end, message in enumerate(messages) if message["role"] == "assistant"]


@pytest.mark.parametrize("prompter", PROMPTERS.values(), ids=PROMPTERS)
def test_a_server_reads_what_was_trained_on_every_turn(trained, prompter) -> None:
    messages = conversation(TRACE, prompter)
    ids, _ = encode_game(trained.codec, messages)
    prompts = prompts_of(messages)
    assert len(prompts) == 3
    for prompt in prompts:
        served = trained.served(prompt)
        assert served == trained.codec.prompt_ids(prompt) == trained.codec.rendered_ids(prompt)
        assert served == ids[: len(served)]
    assert trained.served(messages, ask=False)[: len(ids)] == ids


def test_the_mask_is_every_reply_with_its_end_and_nothing_else(trained) -> None:
    messages = conversation(TRACE, PROMPTERS["thinking"])
    picture = mask_picture(trained.codec, *encode_game(trained.codec, messages))
    end = FAMILIES[trained.name].end
    opened = "<think>\n" if trained.name == "deepseek-r1" else ""
    said = [
        "<think>r and a?\nSo crane.</think>\n<guess>crane</guess>",
        "<guess>grace</guess>",
        "<think>Only trace fits.</think>\n<guess>trace</guess>",
    ]
    if opened:
        said = [said[0].removeprefix("<think>"), f"\n</think>\n\n{said[1]}", said[2].removeprefix("<think>")]
    assert [part.split("⟧")[0] for part in picture.split("⟦")[1:]] == [reply + end for reply in said]
    assert all(part.endswith(opened) for part in picture.split("⟦")[:-1])


def test_a_training_variant_marks_the_same_tokens_itself(trained) -> None:
    if KEPT not in CHANGES[trained.name]:
        assert "generation %}" not in str(trained.codec.tokenizer.chat_template)
        return
    messages = conversation(TRACE, PROMPTERS["thinking"])
    own = trained.codec.tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    assert (own["input_ids"], own["assistant_masks"]) == encode_game(trained.codec, messages)


def test_sft_and_sampling_begin_with_the_same_tokens_and_the_cache_reads_as_from_scratch(trained, small_words) -> None:
    prompter = Prompter(rules=Rules(max_turns=3))
    sampler = TransformersSampler(trained.model, trained.codec, SamplingSettings(max_completion_tokens=7), 0)
    games = play([InitialState("crane"), InitialState("fuzzy")], small_words, prompter, sampler)
    (example,) = encode_traces([TRACE], prompter, trained.codec, 10**6).examples
    assert check_against_plain_forward(trained.model, games) > 20
    for (segment,) in (game.segments for game in games):
        assert list(segment.prompt_ids) == example.token_ids[: len(segment.prompt_ids)]
        assert len(segment.spans) == 3


def test_saving_keeps_the_training_template_and_names_every_stop(trained) -> None:
    again = load_codec(ModelSettings(path=str(trained.directory)))
    assert again.tokenizer.chat_template == trained.codec.tokenizer.chat_template
    assert (again.frame, again.stop_ids) == (trained.codec.frame, trained.codec.stop_ids)
    stops = GenerationConfig.from_pretrained(trained.directory).eos_token_id
    assert set(stops if isinstance(stops, list) else [stops]) == trained.codec.stop_ids
    family = FAMILIES[trained.name]
    assert set(again.tokenizer.convert_ids_to_tokens(sorted(again.stop_ids))) == {family.end, family.eos}


def test_only_templates_that_need_it_are_changed(trained) -> None:
    template = str(trained.codec.tokenizer.chat_template)
    assert changes_of(template) == CHANGES[trained.name]
    assert (template == published_template(FAMILIES[trained.name].template)) == (not CHANGES[trained.name])


# --- one by one -----------------------------------------------------------------------------------------------------


USER = Message(role="user", content="b")


def variant(name: str, **variables: object) -> PreTrainedTokenizerBase:
    tokenizer = family_tokenizer(name)
    tokenizer.chat_template = training_template(tokenizer, variables)
    return tokenizer


def rendered(tokenizer: PreTrainedTokenizerBase, messages: list[Message], **variables: object) -> str:
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **variables))


def test_template_variables_are_saved_as_defaults_and_may_still_be_overridden() -> None:
    tokenizer, prompt = variant("qwen3", enable_thinking=False), Prompter().opening()
    assert rendered(tokenizer, prompt).endswith("<think>\n\n</think>\n\n")
    assert rendered(tokenizer, prompt, enable_thinking=True).endswith("<|im_start|>assistant\n")
    bridge = ChatCodec(tokenizer).frame.bridge_tail
    assert bridge.endswith("<think>\n\n</think>\n\n")
    changed = str(tokenizer.chat_template)
    assert training_template(tokenizer, {"enable_thinking": False}) == training_template(tokenizer) == changed


def test_llama_names_today_and_its_variant_one_date_for_ever() -> None:
    today = datetime.now().strftime("%d %b %Y")  # as the template asks
    prompt = Prompter().opening()
    assert f"Today Date: {today}" in rendered(family_tokenizer("llama3"), prompt)
    assert "Today Date: 26 Jul 2024\n\nFind the secret" in rendered(variant("llama3"), prompt)
    assert "Today Date: 1 May 2025" in rendered(variant("llama3", date_string="1 May 2025"), prompt)


def test_a_template_without_system_messages_is_given_the_rules_by_the_user() -> None:
    prompt = Prompter().opening()
    with pytest.raises(ChatTemplateError):
        ChatCodec(family_tokenizer("gemma2")).prompt_ids(prompt)
    text = rendered(variant("gemma2"), prompt)
    assert text.startswith("<bos><start_of_turn>user\nFind the secret")
    assert text.count("<start_of_turn>") == 2
    assert "\n\nA new game" in text


def test_a_system_message_stays_where_the_game_began() -> None:
    """Mistral's own template moves it to the last user message."""
    game = prompts_of(conversation(TRACE, Prompter()))[1]
    stock, ours = rendered(family_tokenizer("mistral"), game), rendered(variant("mistral"), game)
    assert stock.startswith("<s>[INST]A new game")
    assert ours.startswith(f"<s>[INST]{game[0]['content']}\n\n{game[1]['content']}[/INST]")
    assert ours.count(game[0]["content"]) == 1


def test_a_thought_opened_by_the_prompt_is_part_of_the_reply() -> None:
    codec = ChatCodec(variant("deepseek-r1"))
    prompt = codec.tokenizer.decode(codec.prompt_ids(Prompter().opening()))
    assert prompt.endswith("<｜Assistant｜><think>\n")
    completion = codec.encode("a or o?\n</think>\n\n<guess>crane</guess>") + list(codec.turn_end_ids)
    reply = codec.text_of(completion)
    assert Prompter(thinking=Thinking.REQUIRED).parse(reply) == Guess("crane", "a or o?")
    assert codec.reply_ids(reply) == completion
    hasty = codec.reply_ids("<guess>crane</guess>")
    assert codec.text_of(hasty) == "<think>\n\n</think>\n\n<guess>crane</guess>"
    assert Prompter().parse(codec.text_of(hasty)) == Guess("crane")


def test_gpt_oss_is_asked_for_its_final_reply_and_closes_it_as_it_was_made_to() -> None:
    codec, asked = ChatCodec(variant("gpt-oss")), "<|start|>assistant<|channel|>final<|message|>"
    assert codec.tokenizer.decode(codec.prompt_ids(Prompter().opening())).endswith(asked)
    assert codec.tokenizer.decode(codec.bridge_ids(USER)) == f"<|start|>user<|message|>b<|end|>{asked}"
    assert codec.frame.turn_end == "<|return|>"


def test_glm_ends_its_turn_with_the_tag_of_the_next_speaker() -> None:
    codec = ChatCodec(variant("glm4"))
    assert codec.frame.turn_end == "<|user|>"
    assert codec.tokenizer.decode(codec.bridge_ids(USER)) == "\nb<|assistant|>"
    assert codec.taught("<guess>crane</guess>", Thinking.OPTIONAL) == "\n<think></think>\n<guess>crane</guess>"


def test_what_a_server_hands_back_without_the_opened_tag_is_rendered_the_same() -> None:
    tokenizer = variant("deepseek-r1")
    whole, rest = "<think>\na?\n</think>\n\n<guess>crane</guess>", "a?\n</think>\n\n<guess>crane</guess>"
    first, second = (
        rendered(tokenizer, [USER, Message(role="assistant", content=said), USER]) for said in (whole, rest)
    )
    assert first == second


@pytest.mark.parametrize("name", ["gemma3", "qwen3"])
def test_replies_that_arrive_in_parts_are_rendered_the_same(name) -> None:
    tokenizer = variant(name)
    game = prompts_of(conversation(TRACE, Prompter()))[-1]
    in_parts = [
        message if at < 2 else {**message, "content": [{"type": "text", "text": message["content"]}]}
        for at, message in enumerate(game)
    ]
    assert rendered(tokenizer, in_parts) == rendered(tokenizer, game)


def test_a_template_that_never_renders_twice_alike_is_refused() -> None:
    restless = "{{ range(99999) | random }}{% for m in messages %}{{ m.role + m.content }}<|im_end|>{% endfor %}"
    with pytest.raises(ChatTemplateError):
        training_template(family_tokenizer("qwen3", restless))
