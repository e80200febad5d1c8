"""Laws of the embedded model: nothing a prompt says is unknown to it, and it is an ordinary transformers model."""

import pytest
import torch
from prompt_forms import FORMS
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.game import Dictionary, Outcome, Rules, Turn
from wordle_rl.policy.loading import save_model
from wordle_rl.policy.tiny import END, PAD, REPLY, TAGS, UNKNOWN, make_model
from wordle_rl.prompt import Prompter

SMALL = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "intermediate_size": 24}


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(("style", "thinking"), [form for form in FORMS if form[0] != "letters"])  # it has no ✓
@pytest.mark.parametrize("dictionary", Dictionary)
def test_no_prompt_holds_an_unknown_character(tokenizer, style, thinking, dictionary) -> None:
    prompter = Prompter(style=style, thinking=thinking, rules=Rules(dictionary=dictionary, hard_mode=True))
    turns = [Turn("crane", "GYXYG", Outcome.SCORED)]
    turns += [Turn(None, None, outcome) for outcome in Outcome if outcome.broke_rules]
    messages = [*prompter.opening(turns[:1]), *prompter.state(turns)]
    messages += [prompter.feedback(turns[:count]) for count in range(1, len(turns) + 1)]
    for message in messages:
        ids = ids_of(tokenizer, message["content"])
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == message["content"]


def test_tags_marked_letters_and_ends_are_one_token_each(tokenizer) -> None:
    for text in (*TAGS, "aG", "zX", "mY", END, REPLY, PAD):
        assert len(ids_of(tokenizer, text)) == 1, text
    guess = tokenizer.convert_ids_to_tokens(ids_of(tokenizer, "<guess>crane</guess>"))
    assert guess == ["<guess>", *"crane", "</guess>"]
    assert len(ids_of(tokenizer, "cGrYaXnXeG")) == 5
    assert ids_of(tokenizer, "é") == [tokenizer.convert_tokens_to_ids(UNKNOWN)]
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token) == (END, PAD, UNKNOWN)
    assert len(set(tokenizer.get_vocab().values())) == len(tokenizer) == max(tokenizer.get_vocab().values()) + 1


def test_a_seed_is_the_model_and_the_caller_s_stream_is_left_alone(tokenizer) -> None:
    state = torch.get_rng_state()
    one, same, other = (make_model(tokenizer, seed=seed, **SMALL) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    weights = [model.get_input_embeddings().weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_saved_model_is_an_ordinary_directory(tokenizer, tmp_path) -> None:
    directory = tmp_path / "tiny"
    save_model(make_model(tokenizer, seed=5, **SMALL), ChatCodec(tokenizer), directory)
    assert [*tmp_path.iterdir()] == [directory], "nothing is left of the saving"
    loaded = AutoTokenizer.from_pretrained(directory)
    messages = [{"role": "user", "content": "5x6"}, {"role": "assistant", "content": "<guess>crane</guess>"}]
    ids = loaded.apply_chat_template(messages, return_dict=False)
    assert ids == tokenizer.apply_chat_template(messages, return_dict=False)
    assert (loaded.eos_token_id, loaded.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert loaded.decode(ids) == f"5x6{REPLY}<guess>crane</guess>{END}"
    model = AutoModelForCausalLM.from_pretrained(directory)
    with torch.no_grad():
        expected = make_model(tokenizer, seed=5, **SMALL).eval()(torch.tensor([ids])).logits
        assert torch.equal(model.eval()(torch.tensor([ids])).logits, expected)
