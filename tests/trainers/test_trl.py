"""Laws of TRL's `environment_factory` over our server: a group shares its game, rewards and masks agree with ours."""

import json
import math
from functools import partial

import pytest

pytest.importorskip("openenv")
torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from chat_families import family_config, family_tokenizer
from other_loops import SETTINGS, TASK, ours, replies_of, say
from wordle_server import wordle_server

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.prompt import Guess, Style
from wordle_rl.serve.openenv_client import WordleState
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.trainers.games import LoopSettings, game_source
from wordle_rl.trainers.trl import TOOL_PROMPT, WordleToolEnvironment, prompter_of

pytestmark = pytest.mark.filterwarnings("default")
ROW = {"prompt": [], "other": 1, **TASK.model_dump(mode="json")}


def words_of(kind: str) -> list[str]:
    """The guesses of a game as tool calls make them: without thinking."""
    source = game_source(SETTINGS)
    parsed = [source.context.prompter.parse(reply) for reply in replies_of(kind, source)]
    return [guess.word for guess in parsed if isinstance(guess, Guess)]


@pytest.mark.parametrize("kind", ["won", "lost"])
def test_the_reward_is_the_rubrics(game_server: str, kind: str) -> None:
    environment = WordleToolEnvironment(game_server)
    environment.reset(**ROW)
    told = [environment.guess(word) for word in words_of(kind)]
    assert told[-1] == ("The game is over: solved." if kind == "won" else "The game is over: out of turns.")
    assert math.isclose(environment.get_reward(), ours(kind).reward.total, abs_tol=1e-9)


def test_a_group_shares_secret_and_prefix_guesses(game_server: str) -> None:
    group = [WordleToolEnvironment(game_server) for _ in range(3)]
    openings = [environment.reset(**ROW) for environment in group]
    assert len(set(openings)) == 1
    assert all(say(word) in openings[0] for word in TASK.given)
    assert {environment.guess(words_of("won")[-1]) for environment in group} == {"The game is over: solved."}
    seeded = {environment.reset(prompt=[], seed=3, max_given=2) for environment in group}
    assert len(seeded) == 1


def test_a_game_that_the_model_left_is_forfeited(game_server: str) -> None:
    """Else a game of one good guess could pay more than one played to its end."""
    left, played = WordleToolEnvironment(game_server), WordleToolEnvironment(game_server)
    left.reset(**ROW)
    played.reset(**ROW)
    left.guess(words_of("lost")[0])
    for word in words_of("lost"):
        played.guess(word)
    assert left.get_reward() < played.get_reward()
    assert left.get_reward() == left.get_reward()


def test_a_session_plays_one_game_after_another(game_server: str) -> None:
    environment = WordleToolEnvironment(game_server, style="symbols", reward="sparse")
    source = game_source(LoopSettings(reward_preset="sparse"))
    won_at_once = source.open(TASK).step(replies_of("won", source)[-1]).reward
    for _ in range(2):
        assert "⬛" in environment.reset(**ROW)
        environment.guess(words_of("won")[-1])
        assert environment.guess("crane") == "The game is over. Call no tool."
        assert math.isclose(environment.get_reward(), won_at_once, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("style", "thinking"),
    [*((style, "optional") for style in Style), ("english", "required"), ("textarena", "required")],
)
def test_guesses_are_written_as_the_server_reads_them(style: str, thinking: str) -> None:
    game = GameSettings(style=style, thinking="off" if style == Style.SPELLED else thinking)
    with wordle_server(ServeSettings(game=game)) as running:
        environment = WordleToolEnvironment(running.address)
        environment.reset(seed=1)
        environment.guess("crane")
        [turn] = environment._client.state().board
        assert (turn["guess"], turn["outcome"]) == ("crane", "scored")


def test_a_style_that_only_the_server_knows_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"mine:wording.*give one as style"):
        prompter_of(WordleState(style="mine:wording", thinking="off"))


class Scripted:
    """Completions of a trainer's games, by how many tools answered so far."""

    def __init__(self, tokenizer, games: list[list[str]]) -> None:
        self.tokenizer, self.games = tokenizer, games
        self.said: dict[int, list[int]] = {place: [] for place in range(len(games))}
        self.turns = [0] * len(games)
        self.prompts: list[list[int]] = []

    def __call__(self, prompt_ids, *_args, **_kwargs):
        if not self.prompts:
            self.prompts = [list(ids) for ids in prompt_ids]
        waiting = [place for place, turns in enumerate(self.turns) if turns < len(self.games[place])]
        assert len(waiting) == len(prompt_ids)
        found = []
        for place in waiting:
            text = self.games[place][self.turns[place]] + "<|im_end|>"
            found.append(list(self.tokenizer(text, add_special_tokens=False)["input_ids"]))
            self.turns[place] += 1
            self.said[place] += found[-1]
        return found, [[-1.0] * len(ids) for ids in found]


def call(word: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'guess', 'arguments': {'word': word}})}\n</tool_call>"


@pytest.mark.slow
def test_the_trainer_trains_what_was_said_and_nothing_else(game_server: str, tmp_path, monkeypatch) -> None:
    """One step of TRL's own trainer: the tools' words are masked, what is said after the end is not."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    tokenizer = family_tokenizer("qwen3")
    model = AutoModelForCausalLM.from_config(family_config("qwen3", len(tokenizer)))
    row = {"prompt": [{"role": "user", "content": TOOL_PROMPT}], **TASK.model_dump(mode="json")}
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=3000,
            max_steps=1,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            beta=0.0,
            scale_rewards="none",
            loss_type="dr_grpo",
            logging_steps=1,
        ),
        train_dataset=Dataset.from_list([row] * 2),
        processing_class=tokenizer,
        environment_factory=partial(WordleToolEnvironment, game_server),
    )
    won, lost = words_of("won"), words_of("lost")
    script = Scripted(tokenizer, [[*map(call, won), "Found it."], [*map(call, lost), "Out of turns."]])
    trainer._generate_single_turn = script
    kept = {}
    score = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: kept.setdefault("batch", score(inputs))
    trainer.train()
    batch = kept["batch"]
    assert script.prompts[0] == script.prompts[1]
    opening = tokenizer.decode(script.prompts[0])
    assert all(say(word) in opening for word in TASK.given)
    for place in range(2):
        alive = batch["completion_mask"][place].bool()
        ids, mask = batch["completion_ids"][place][alive], batch["tool_mask"][place][alive].bool()
        assert ids[mask].tolist() == script.said[place]
        assert "The game is over" in tokenizer.decode(ids[~mask])
        assert "letters, 6 guesses" not in tokenizer.decode(ids)
    rewards = [ours(kind).reward.total for kind in ("won", "lost")]
    mean = math.fsum(rewards) / 2
    assert torch.allclose(batch["advantages"].squeeze().cpu(), torch.tensor([r - mean for r in rewards]), atol=1e-5)
