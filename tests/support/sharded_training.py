"""Program of each of two processes that fine-tune together; `test_sft_launch` starts it with `accelerate launch`.

accelerate gives sharding to processes on GPUs alone: to others it leaves the launch file's plan unread, and they would
train as under DDP. `shard_on_cpu` has them read it; all else is accelerate's, torch's and ours as on a GPU, over gloo.

accelerate launch --config_file scripts/launch/fsdp2.yaml \
    tests/support/sharded_training.py WORDS GAMES OUT STOP_AFTER
"""

import json
import sys
from pathlib import Path

import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from torchrun import leave, shared_run
from training_fixtures import StopAt, fast, small_model, training_of

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.stages import SFTSettings
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.runs.distributed import num_processes
from wordle_rl.train import logprobs
from wordle_rl.train.example import Example
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.sft import train_sft
from wordle_rl.words import load_words

BATCH, STEPS_PER_EPOCH, EPOCHS = 16, 3, 2
LAST_BATCH = 5
"""Games left for the last step of an epoch: fewer than one of two processes takes."""


def shard_on_cpu() -> None:
    """Have accelerate shard over processes on the CPU where the launch file says FSDP."""
    begin = AcceleratorState.__init__

    def begin_sharded(self, *args, fsdp_plugin=None, **kwargs) -> None:
        begin(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:  # as for GPUs in there
            self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = begin_sharded


def train(words: str, games: Path, out: Path, stop_after: int = 0) -> torch.nn.Module:
    """Two epochs of SFT on given games, a whole model kept after each; Ctrl-C after some steps, if any are named."""
    codec = ChatCodec(make_tokenizer())
    run = shared_run(out, load_words(words))
    examples = [Example(**example) for example in json.loads(games.read_text())]
    settings = SFTSettings(
        batch_size=BATCH // num_processes(), epochs=EPOCHS, optimizer=fast(), logging_steps=1, save_each_epoch=True
    )
    model = small_model(codec.tokenizer)
    progress = StopAt(stop_after) if stop_after else None
    try:
        learner = TorchLearner(model, codec, precision="fp32")
        training = training_of(learner, run, "sft", progress=progress)
        train_sft(training, examples, settings, validation=examples[:21])
    except KeyboardInterrupt:
        if not stop_after:
            raise
    return model


def shares(model: torch.nn.Module) -> dict[str, list[int]]:
    """Name of each weight that is spread -> how many of its numbers this process holds, and of how many."""
    return {n: [p.to_local().numel(), p.numel()] for n, p in model.named_parameters() if hasattr(p, "to_local")}


if __name__ == "__main__":
    shard_on_cpu()
    logprobs.PIECE_BYTES = 1  # as a large vocabulary would have it
    out = Path(sys.argv[3])
    trained = train(sys.argv[1], Path(sys.argv[2]), out, int(sys.argv[4]))
    kind, held = AcceleratorState().distributed_type.value, shares(trained)
    facts = {"kind": kind, "world_size": torch.distributed.get_world_size(), "held": held}
    leave(out, facts, None if held else trained.state_dict())
