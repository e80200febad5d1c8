"""One process of a GRPO training whose games a vLLM server plays; `test_weight_sync` starts two of them.

Games of the first process end after one turn, those of the second after three: they ask different numbers of times.

torchrun --nproc-per-node 2 tests/support/served_training.py WORDS SERVER OUT
"""

import sys
from pathlib import Path

import pytest
import torch
from fake_vllm import fake_vllm
from fake_vllm_server import without_nccl
from grpo_training import Schedule
from torchrun import leave, shared_run
from training_fixtures import compact, context_for, fast, small_model, training_of

import wordle_rl.train.grpo as grpo_module
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.policy.vllm_server import ServerSampler
from wordle_rl.runs.distributed import is_first
from wordle_rl.solver import Solver
from wordle_rl.train.grpo_rollouts import GroupRollouts
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.weight_sync import open_engine
from wordle_rl.words import load_words

STEPS, TURNS = 3, 3


class Paying(GroupRollouts):
    """Rewards that differ within a group of games that nobody wins."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.schedule = Schedule()
        if is_first():  # its games end after a turn, so that processes play different numbers of turns
            self.should_stop = lambda *_: True


def train(words: str, server: str, out: Path) -> tuple[torch.nn.Module, list[int]]:
    """Train a model from nothing; it, and the number of requests of each call to the sampler."""
    asked: list[int] = []
    sample = ServerSampler.sample

    def counted(self, requests):
        asked.append(len(requests))
        return sample(self, requests)

    ServerSampler.sample = counted  # type: ignore[method-assign]
    grpo_module.GroupRollouts = Paying  # type: ignore[misc]
    tokenizer, word_list = make_tokenizer(), load_words(words)
    model, run = small_model(tokenizer), shared_run(out, word_list)
    settings = GRPOSettings(
        steps=STEPS, groups_per_step=1, group_size=4, optimizer=fast(), max_refills=0, engine=server
    )
    context = context_for(word_list, compact(max_turns=TURNS), Solver(word_list))
    learner = TorchLearner(model, ChatCodec(tokenizer), precision="fp32")
    setup = GameSetup(context, word_list.answers, sampling=SamplingSettings(max_completion_tokens=6))
    engine = open_engine(learner, settings, setup)
    learn_by_play(grpo_module.GRPO, training_of(learner, run), setup, settings, engine=engine)
    engine.close()
    return model, asked


if __name__ == "__main__":
    sys.modules["vllm"] = fake_vllm()
    out = Path(sys.argv[3])
    with pytest.MonkeyPatch.context() as patch:
        without_nccl(patch)
        trained, asked = train(sys.argv[1], sys.argv[2], out)
    leave(out, asked, trained.state_dict())
