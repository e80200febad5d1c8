"""One GRPO training in miniature, and a step that is checked by hand."""

import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from contexts import context_for
from group_games import Schedule
from training_fixtures import compact, fast, make_run, small_model

import wordle_rl.rl.grpo.rollouts as rollouts_module
import wordle_rl.rl.grpo.train as grpo_module
from wordle_rl.config import GRPOTraining, SamplingSettings
from wordle_rl.prompt import Shape
from wordle_rl.rl.grpo.layout import lay_out
from wordle_rl.rl.grpo.rollouts import GroupRollouts
from wordle_rl.rl.grpo.train import train_grpo
from wordle_rl.rl.grpo.trainer import WordleGRPOTrainer
from wordle_rl.rl.setup import GameSetup
from wordle_rl.solver import Solver

TOKENS = SamplingSettings(max_completion_tokens=6)


SETTINGS = GRPOTraining(
    steps=2,
    groups_per_step=2,
    group_size=4,
    sampling=TOKENS,
    optimizer=fast(),
    precision="fp32",
    sample_games=1,
    max_refills=0,
)


def by_length(_transcript, turn) -> float:
    return len(turn.reply) % 5 / 4


class Training:
    """Runs `train_grpo` and keeps its rollouts, its batches and the rows it was given."""

    def __init__(self, tokenizer, codec, words, monkeypatch) -> None:
        self.tokenizer, self.codec, self.words = tokenizer, codec, words
        self.all_rollouts: list[GroupRollouts] = []
        self.given: list[dict] = []
        self.games: list[list] = []
        self.batches: list[dict] = []
        self.parts: list[dict] = []
        self.forwards: list[tuple[float, float, float]] = []
        self.pay = by_length
        training = self

        def listen(games, *args, **kwargs):
            training.games.append(games)
            training.given.append(lay_out(games, *args, **kwargs))
            return training.given[-1]

        class Paying(GroupRollouts):
            def __init__(self, *args, **kwargs) -> None:
                super().__init__(*args, **kwargs)
                if training.pay is not None:
                    self.schedule = Schedule(training.pay)
                training.all_rollouts.append(self)

        class Showing(WordleGRPOTrainer):
            def _generate_and_score_completions(self, inputs):
                output = super()._generate_and_score_completions(inputs)
                ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
                attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
                with torch.no_grad():
                    logprobs = self._get_per_token_logps_and_entropies(
                        self.model, ids, attention, output["completion_ids"].shape[1]
                    )[0]
                training.batches.append({**output, "policy_logprobs": logprobs})
                return output

            def _prepare_inputs(self, *args):
                training.parts.append(super()._prepare_inputs(*args))
                return training.parts[-1]

            def compute_loss(self, *args, **kwargs):
                started = time.perf_counter()
                loss = super().compute_loss(*args, **kwargs)
                elapsed = time.perf_counter() - started
                loss_mask = training.parts[-1]["completion_mask"] * training.parts[-1]["tool_mask"]
                training.forwards.append((elapsed, float(loss_mask.sum()), self._metrics["train"]["entropy"][-1]))
                return loss

        monkeypatch.setattr(rollouts_module, "lay_out", listen)
        monkeypatch.setattr(grpo_module, "GroupRollouts", Paying)
        monkeypatch.setattr(grpo_module, "WordleGRPOTrainer", Showing)

    def __call__(self, directory: Path, settings=SETTINGS, shape=Shape.TRANSCRIPT, model=None, progress=None):
        model = model or small_model(self.tokenizer)
        setup = GameSetup(
            context_for(self.words, compact(shape, max_turns=3), Solver(self.words, use_cache=False)),
            self.words.answers,
        )
        train_grpo(model, self.codec, setup, settings, make_run(directory, self.words), progress=progress)
        return model


def close(a: dict, b: dict, tolerance: float = 1e-6) -> bool:
    return all(torch.allclose(a[name], b[name], atol=tolerance) for name in a)


def logprob(model, segments) -> float:
    """Log-probability of all tokens a policy sampled in a game, one segment at a time and without any trainer."""
    total = 0.0
    for segment in segments:
        ids = torch.tensor([[*segment.prompt_ids, *segment.token_ids]])
        with torch.no_grad():
            scores = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        first = len(segment.prompt_ids)
        for place, m in enumerate(segment.loss_mask):
            if m:
                total += float(scores[first + place - 1, segment.token_ids[place]])
    return total


def update(settings: GRPOTraining, **changes: object) -> GRPOTraining:
    return settings.model_copy(update=changes)
