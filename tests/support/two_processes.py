"""What each process of a training on two does; also run in the test's own process, for comparison.

torchrun --nproc-per-node 2 tests/support/two_processes.py WORDS GAMES OUT
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torchrun import leave, shared_run
from training_fixtures import context_for, fast, small_model, training_of

import wordle_rl.train.grpo as grpo_module
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings, SFTSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.runs.distributed import num_processes
from wordle_rl.solver import Solver
from wordle_rl.train.example import Example
from wordle_rl.train.grpo_rollouts import GroupRollouts
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.sft import train_sft
from wordle_rl.train.starts import GameSetup, record_secrets
from wordle_rl.words import load_words

LAST_BATCH = 5
"""Games that are left for the last step of SFT: fewer than one of two processes takes."""
GROUPS, GROUP_SIZE, STEPS, BATCH = 2, 4, 3, 16


@dataclass
class PlayedBefore:
    """Stands in for `Played`: rows of games that were played before."""

    examples: list[Example]
    metrics: dict[str, float]
    denominators: dict[str, int]

    def items(self, _codec, *, mask_overlong: bool) -> list[list[Example]]:
        assert not mask_overlong
        return [[example] for example in self.examples]


class Replaying(GroupRollouts):
    """Hands out games that were played before, each process its part of them."""

    given: list[list[Example]]
    """Rows of each step."""
    last: "Replaying"

    def next(self, step, open_policy=None):
        del open_policy
        rank, count = self._process, self._settings.groups_per_step * GROUP_SIZE
        record_secrets(self._stage.run, "grpo", step, rank, [f"rank{rank}"])
        metrics = {
            "seconds/rollout": 0.0, "seconds/reward": 0.0, "skipped_groups": 1.0,
            "win_rate": float(rank), "format_compliance": 0.5 * rank,
        }  # fmt: skip
        self.starts.picker.update(self._setup.secrets[0], 1.0 + rank)
        self.cumulative_wins += 1
        metrics["cumulative_wins"] = float(self.cumulative_wins)
        Replaying.last = self
        mine = self.given[step][rank * count : (rank + 1) * count]
        return PlayedBefore(mine, metrics, {"win_rate": 3 if rank else 1})


def train_both(words: str, games: Path, out: Path) -> list[torch.nn.Module]:
    """Three steps of SFT and three of GRPO on given games; the models they end with."""
    found = json.loads(games.read_text())
    tokenizer = make_tokenizer()
    codec, word_list = ChatCodec(tokenizer), load_words(words)
    prompter = RunConfig().game.model_copy(update={"style": "compact", "thinking": "off"}).prompter(5)
    run = shared_run(out, word_list)
    processes = num_processes()
    sft = SFTSettings(batch_size=BATCH // processes, epochs=1, optimizer=fast(), logging_steps=1)
    models = [small_model(tokenizer, seed) for seed in (0, 1)]
    learnt, validation = ([Example(**example) for example in found[name]] for name in ("examples", "validation"))
    learners = [TorchLearner(model, codec, precision="fp32", micro_batch_size=GROUP_SIZE) for model in models]
    learners[0].micro_batch_size = 0
    train_sft(training_of(learners[0], run, "sft"), learnt, sft, validation=validation)
    Replaying.given = [[Example(**row) for row in step] for step in found["rows"]]
    grpo_module.GroupRollouts = Replaying  # type: ignore[misc]
    grpo = GRPOSettings(
        steps=STEPS,
        groups_per_step=GROUPS // processes,
        group_size=GROUP_SIZE,
        optimizer=fast(),
        beta=0.1,
        gradient_noise_every=processes - 1,  # two processes exchange the gradients of each half, and learn the same
    )
    context, tokens = context_for(word_list, prompter, Solver(word_list)), SamplingSettings(max_completion_tokens=6)
    setup = GameSetup(context, word_list.answers, sampling=tokens)
    learn_by_play(grpo_module.GRPO, training_of(learners[1], run), setup, grpo)
    return models


if __name__ == "__main__":
    words, games, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    trained = train_both(words, games, out)
    facts = {"world_size": torch.distributed.get_world_size(), "state": Replaying.last.state()}
    leave(out, facts, [model.state_dict() for model in trained])
