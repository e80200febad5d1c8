"""Program of each process that trains with FSDP2 on the CPU; `test_sft_launch` starts it with `accelerate launch`.

accelerate gives sharding to processes on GPUs alone: to others it leaves the launch file's plan unread, and they would
train as under DDP. `shard_on_cpu` has them read it; all else is accelerate's, torch's and ours as on a GPU, over gloo.

accelerate launch --config_file configs/accelerate/fsdp2.yaml \
    tests/support/sharded_training.py WORDS GAMES OUT STOP_AFTER
"""

import json
import sys
from pathlib import Path

import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from training_fixtures import StopAt
from two_processes import OPTIMIZER, SIZE

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import RunConfig, SFTSettings
from wordle_rl.data.dataset import Example
from wordle_rl.models.tiny import make_model, make_tokenizer
from wordle_rl.runs import Run
from wordle_rl.runs.distributed import is_first, leave_process_group, num_processes, wait_for_all
from wordle_rl.training.sft import train_sft
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

BATCH, STEPS_PER_EPOCH, EPOCHS = 16, 3, 2


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
    if is_first() and not out.exists():
        Run.create(out, RunConfig(), split_secrets(load_words(words)))
    wait_for_all()
    examples = [Example(**example) for example in json.loads(games.read_text())]
    settings = SFTSettings(
        batch_size=BATCH // num_processes(), epochs=EPOCHS, optimizer=OPTIMIZER, precision="fp32", logging_steps=1,
        save_each_epoch=True,
    )  # fmt: skip
    model = make_model(codec.tokenizer, **SIZE, seed=0)
    progress = StopAt(stop_after) if stop_after else None
    try:
        train_sft(model, codec, examples, settings, Run(out), validation=examples[:5], progress=progress)
    except KeyboardInterrupt:
        if not stop_after:
            raise
    return model


def shares(model: torch.nn.Module) -> dict[str, list[int]]:
    """Name of each weight that is spread -> how many of its numbers this process holds, and of how many."""
    return {n: [p.to_local().numel(), p.numel()] for n, p in model.named_parameters() if hasattr(p, "to_local")}


if __name__ == "__main__":
    shard_on_cpu()
    out = Path(sys.argv[3])
    trained = train(sys.argv[1], Path(sys.argv[2]), out, int(sys.argv[4]))
    kind = AcceleratorState().distributed_type.value
    (out / f"rank{torch.distributed.get_rank()}.json").write_text(json.dumps({"kind": kind, "held": shares(trained)}))
    leave_process_group()
