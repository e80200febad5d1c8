"""Laws of the drop-in functions: strict where the original guesses."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from textarena_games import new_game, recorded, replayed
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.policy.tiny import make_model, make_tokenizer
from wordle_rl.serve.notebook import (
    NO_GUESS,
    extract_feedback_counts,
    extract_guess,
    extract_wordle_feedback,
    generate_rollout_completions,
)


@pytest.mark.parametrize(
    ("completion", "guess"),
    [
        ("[crane]", "[crane]"),
        ("<think>\n\n</think>\n\n[crane]", "[crane]"),
        ("a or o? [slate]</think>[crane]", "[crane]"),
        ("<think>[slate]?</think>[crane]", "[crane]"),
        ("<think>[slate]", NO_GUESS),
        ("My guess is [crane].", NO_GUESS),
        ("I would say crane", NO_GUESS),
        ("[planes]", "[planes]"),
        ("[crane] [slate]", NO_GUESS),
        ("", NO_GUESS),
    ],
)
def test_a_completion_has_one_guess_or_none(completion: str, guess: str) -> None:
    assert extract_guess(completion) == guess


@given(st.text(alphabet="abz[]<>/thinkG \n", max_size=40))
def test_a_guess_is_bracketed_letters_and_is_read_back_as_itself(completion: str) -> None:
    guess = extract_guess(completion)
    assert guess == NO_GUESS or guess[1:-1].isalpha()
    assert extract_guess(guess) == guess


def test_what_stands_for_no_guess_is_no_word() -> None:
    game = new_game("crane")
    game.step(NO_GUESS)
    assert game.env.turns[-1].guess is None


@pytest.mark.parametrize("name", recorded())
def test_feedback_is_that_of_the_last_turn_or_none(name: str) -> None:
    ours, _ = replayed(recorded()[name])
    turn = ours.env.turns[-1]
    repeated = turn.guess in {earlier.guess for earlier in ours.env.turns[:-1]}
    marks = "" if turn.marks is None or repeated else turn.marks
    observation = SimpleNamespace(messages=[SimpleNamespace(content=ours.history)])
    counts = extract_feedback_counts(extract_wordle_feedback(observation))
    assert counts == (marks.count("G"), marks.count("Y"))


# --- generate_rollout_completions: one completion a prompt, of exactly the tokens it is given ---


PROMPT = "a guess?<|reply|>"


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> GRPOTrainer:
    tokenizer = make_tokenizer()
    config = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("grpo")),
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=5,
        temperature=0.7,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
    )
    return GRPOTrainer(
        model=make_model(tokenizer, hidden_size=32, num_heads=2),
        processing_class=tokenizer,
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        train_dataset=Dataset.from_dict({"prompt": ["a", "b"]}),
        args=config,
        rollout_func=lambda prompts, trainer: {},
    )


def test_token_ids_are_taken_as_they_are_and_text_is_tokenized_without_additions(trainer: GRPOTrainer) -> None:
    ids = trainer.processing_class(PROMPT, add_special_tokens=False)["input_ids"]
    chat = [{"role": "user", "content": "a guess?"}]
    outputs = generate_rollout_completions(trainer, [ids, PROMPT, chat, ids[:3]])
    assert [output["prompt_ids"] for output in outputs] == [ids, ids, ids, ids[:3]]
    for output in outputs:
        assert 1 <= len(output["completion_ids"]) == len(output["logprobs"]) <= 5
        kept = trainer.processing_class.decode(output["completion_ids"], skip_special_tokens=True)
        assert output["text"] == kept


def test_log_probabilities_are_the_models_at_the_temperature_of_sampling(trainer: GRPOTrainer) -> None:
    for output in generate_rollout_completions(trainer, [PROMPT, "another one, longer?<|reply|>"]):
        ids = torch.tensor([output["prompt_ids"] + output["completion_ids"]])
        with torch.no_grad():
            logprobs = (trainer.model.eval()(ids).logits[0, :-1] / 0.7).log_softmax(-1)
        first = len(output["prompt_ids"]) - 1
        expected = [float(logprobs[first + i, token]) for i, token in enumerate(output["completion_ids"])]
        assert output["logprobs"] == pytest.approx(expected, abs=1e-5)


def test_the_sampled_tokens_and_log_probabilities_of_vllm_are_handed_on() -> None:
    def answer(prompts, images, num_generations):
        assert (prompts, images, num_generations) == ([[5], [6, 7]], None, 1)
        best = [[[-0.5], [-0.25, -3.0]] for _ in prompts]
        return prompts, [[9, 10] for _ in prompts], best, [[[9], [10, 4]] for _ in prompts]

    vllm = SimpleNamespace(generate=answer)
    trainer = SimpleNamespace(processing_class=make_tokenizer(), use_vllm=True, vllm_generation=vllm)
    outputs = generate_rollout_completions(trainer, [[5], [6, 7]])
    assert [(output["completion_ids"], output["logprobs"]) for output in outputs] == [([9, 10], [-0.5, -0.25])] * 2
