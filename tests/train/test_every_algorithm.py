"""Laws of every algorithm: what a training leaves, and that one that was stopped or killed resumes to the same bits."""

import itertools
import json
import math
import signal
from pathlib import Path

import pytest
import torch
from algorithm_settings import DISTILL, DPO, EXPERT_ITERATION, GRPO, SFT, train_by
from grpo_by_hand import Player
from grpo_training import Training
from lora_training import LORA, save_base
from round_training import playing, setup_for
from scripted import say
from training_fixtures import StopAt, compact, fast, make_run, rows, same_bits, small_model, weights_of

from wordle_rl.config.model import ModelSettings
from wordle_rl.config.stages import RoundSettings, SFTSettings, StageSettings
from wordle_rl.policy.loading import load_model
from wordle_rl.report.curves import stage_curves
from wordle_rl.runs import RunError, read_object
from wordle_rl.runs.checksums import write_record
from wordle_rl.train import training_loop
from wordle_rl.train.checkpoints import STATE_FILE, last_checkpoint, last_place
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy

UNLIKE = ("seconds", "step_time", "resident_memory_gib", "staleness")
"""Numbers that may differ: times, memory, and of games ahead, which a resume plays again, how many steps."""
TWO_ROUNDS = {"rounds": 2, "groups_per_round": 4}
AHEAD = {"batches_ahead": 3, "engine": "http://localhost:1"}


def of(settings: StageSettings, **changes: object) -> StageSettings:
    return settings.model_copy(update=changes)


CASES: dict[str, tuple[StageSettings, int | str]] = {
    "sft, in an epoch of four steps": (SFT, 3),
    "sft, at its end": (SFT, 4),
    "sft, a row every three steps": (of(SFT, logging_steps=3), 5),
    "sft, muon": (of(SFT, optimizer=fast("muon")), 6),
    "sft, adapters": (SFT, 6),
    "sft, dropout": (SFT, 6),
    "sft, validated": (of(SFT, validations_per_epoch=2), 4),
    "sft, a model per epoch, micro-batches": (of(SFT, save_each_epoch=True), 4),
    "grpo": (GRPO, 2),
    "grpo, refills": (of(GRPO, max_refills=2), 2),
    "grpo, probes, micro-batches": (of(GRPO, probe_every_steps=2, prioritized_fraction=1.0), 2),
    "grpo, three updates a batch": (of(GRPO, updates_per_batch=3), 2),
    "grpo, a penalty to the start": (of(GRPO, beta=0.5), 2),
    "grpo, adapters and a penalty": (of(GRPO, beta=0.5), 2),
    "grpo, belief, the gradient's noise": (of(GRPO, belief_weight=0.5, gradient_noise_every=2), 2),
    "grpo, games ahead": (of(GRPO, **AHEAD), 2),
    "expert_iteration": (of(EXPERT_ITERATION, **TWO_ROUNDS), "win_rate"),
    "expert_iteration, labels": (of(EXPERT_ITERATION, **TWO_ROUNDS, labels="secret"), "round 1: step 2"),
    "expert_iteration, two updates a batch": (
        of(EXPERT_ITERATION, **TWO_ROUNDS, updates_per_batch=2),
        "round 2: step 1",
    ),
    "dpo": (of(DPO, **TWO_ROUNDS), "win_rate"),
    "dpo, adapters": (of(DPO, **TWO_ROUNDS), "round 2: step 1"),
    "distill": (of(DISTILL, **TWO_ROUNDS), "round 2: playing"),
    "distill, distributions": (of(DISTILL, **TWO_ROUNDS, targets="distribution"), "round 2: step 1"),
}
"""Settings, and the step or the note of the progress at which Ctrl-C is pressed."""


class Scene:
    """Trains a case in a directory of its own; unbroken trainings are kept."""

    def __init__(self, examples, tokenizer, codec, words, directory: Path) -> None:
        self.examples, self.tokenizer, self.codec, self.words = examples[:60], tokenizer, codec, words
        self.directory = directory
        self.whole: dict[str, dict] = {}
        self.told: dict[str, list[tuple[int, int, str]]] = {}  # progress of the unbroken trainings

    def __call__(self, case: str, name: str, seed: int = 0, prepare=None, **options) -> dict:
        """The weights it ends with, from a model of this seed, to which `prepare` did something."""
        settings, _ = CASES[case]
        model = self.adapted(seed) if "adapters" in case else small_model(self.tokenizer, seed)
        setup = setup_for(self.words, compact(max_turns=3), self.words.answers[:9])  # few, so that `says` wins some
        if "dropout" in case:
            model.config.attention_dropout = model.model.layers[0].self_attn.attention_dropout = 0.3
        if isinstance(settings, RoundSettings):
            options["open_policy"] = playing(self.says, self.codec)
        if "ahead" in case:
            script = [("crane", "no idea", "speed"), ("a b", "speed", "crane"), (None, None, "speed")]
            options["engine"] = Player(self.codec, script)
        if "validated" in case:
            options["validation"] = self.examples[:6]
        if prepare is not None:
            prepare(model)
        micro = 2 if "micro" in case and "grpo" in case else 8 if "micro" in case else 0
        learner = TorchLearner(model, self.codec, precision="fp32", micro_batch_size=micro)
        run = make_run(self.place(case, name), self.words)
        train_by(settings.model_copy(update=options.pop("changes", {})), learner, setup, run, self.examples, **options)
        return weights_of(model)

    def says(self, game_id: int, turns: tuple) -> str:
        """A word by game and turn; every third game is read badly at first."""
        return "zz" if not turns and game_id % 3 == 0 else say(self.words.answers[(game_id * 7 + len(turns)) % 9])

    def adapted(self, seed: int):
        """A model with adapters of their own seed on one base."""
        base = self.directory / "base"
        if not base.exists():
            save_base(base, self.codec, num_hidden_layers=1)
        return load_model(ModelSettings(path=str(base), lora=LORA), seed)[0]

    def place(self, case: str, name: str) -> Path:
        return self.directory / case / name

    def unbroken(self, case: str) -> dict:
        if case not in self.whole:
            told = self.told[case] = []
            self.whole[case] = self(case, "whole", progress=lambda *now: told.append(now))
        return self.whole[case]

    def check(self, case: str, name: str, weights: dict) -> None:
        """Compare weights, lines and files with those of an unbroken training."""
        assert same_bits(self.unbroken(case), weights)
        whole, broken = (self.place(case, each) for each in ("whole", name))
        for file in whole.glob("*.jsonl"):
            assert alike(broken / file.name, UNLIKE) == alike(file, UNLIKE), file.name
        assert contents(broken) == contents(whole)


def alike(path: Path, unlike: tuple[str, ...]) -> list[dict]:
    return [{name: value for name, value in row.items() if not name.startswith(unlike)} for row in rows(path)]


def contents(run: Path) -> dict[str, bytes]:
    """The files that a training leaves, but for its lines."""
    found = [path for path in run.rglob("*") if path.is_file() and path.parent != run]
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in found}


def saved_weights(directory: Path) -> dict:
    return weights_of(load_model(ModelSettings(path=str(directory)), 0)[0])


def newest(directory: Path) -> Path:
    """The newest checkpoint of a stage."""
    found = last_checkpoint(directory / "checkpoints")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def scene(examples, tokenizer, codec, sixty, tmp_path_factory) -> Scene:
    return Scene(examples, tokenizer, codec, sixty, tmp_path_factory.mktemp("broken"))


OF_GAMES = {"loss", "win_rate", "format_compliance", "cumulative_wins", "reward"}
LINES = {
    "sft, at its end": {"loss", "grad_norm", "learning_rate", "epoch", "num_tokens", "mean_token_accuracy", "seconds"},
    "grpo": OF_GAMES
    | {"grad_norm", "reward_std", "reward/scripted:said", "seconds/rollout", "seconds/update", "step_time"},
    "expert_iteration": OF_GAMES | {"kept_games", "own_examples", "all_examples", "seconds/play", "step_time"},
    "dpo": OF_GAMES | {"pairs", "margin", "rewards/margins", "rewards/accuracies", "seconds/play", "step_time"},
    "distill": OF_GAMES | {"boards", "labels", "new_boards", "agreement_rate", "seconds/play", "step_time"},
}
"""What every line of metrics.jsonl holds."""


@pytest.mark.parametrize("case", LINES)
def test_a_training_leaves_its_model_and_a_line_for_every_step_or_round(case, scene) -> None:
    weights, stage = scene.unbroken(case), case.partition(",")[0]
    place, (settings, _) = scene.place(case, "whole"), CASES[case]
    assert same_bits(weights, saved_weights(place / stage))
    assert not (place / stage / "checkpoints").exists()
    count = {"sft": 8, "grpo": 4}.get(stage, 2)
    lines = rows(place / "metrics.jsonl")
    assert [(line["stage"], line["step"]) for line in lines] == [(stage, step) for step in range(1, count + 1)]
    assert LINES[case] - set.intersection(*map(set, lines)) == set()
    done = [now for now, _, _ in scene.told[case]]
    assert done == sorted(done)
    assert {total for _, total, _ in scene.told[case]} == {done[-1]}
    if stage != "sft":
        assert [row["step"] for row in rows(place / "secrets.jsonl")] == list(range(count))
        shown = {row["step"] for row in rows(place / "games.jsonl")}
        assert shown == set(range(count)) if settings.sample_games else not shown


@pytest.mark.parametrize(
    ("case", "changes", "told"),
    [
        ("sft, at its end", {}, "all 8 steps"),
        ("grpo", {}, "all 4 steps"),
        ("expert_iteration", {"rounds": 3}, "all 3 rounds"),
    ],
)
def test_the_time_of_a_stage_is_forecast_once_after_its_second_step(case, changes, told, scene, monkeypatch) -> None:
    monkeypatch.setattr(training_loop, "LINE_EVERY_S", 0)  # what is over within it needs no forecast
    lines: list[str] = []
    scene(case, "forecast", tell=lines.append, changes=changes)
    (line,) = lines
    assert line.startswith(f"{case.partition(',')[0]}: about ")
    assert told in line


@pytest.mark.parametrize("case", CASES)
def test_stopped_and_resumed_has_the_bits_of_unbroken(case, scene) -> None:
    _, moment = CASES[case]
    with pytest.raises(KeyboardInterrupt):
        scene(case, "stopped", progress=StopAt(moment))
    stage = scene.place(case, "stopped") / case.partition(",")[0]
    assert not [*stage.glob("*.safetensors")]
    if isinstance(moment, int):
        assert newest(stage).name == f"checkpoint-{moment}"
    # With another seed every weight must come from the checkpoint. The start is no part of one: it is given again.
    other = 0 if "adapters" in case or "penalty" in case or case == "dpo" else 5
    scene.check(case, "stopped", scene(case, "stopped", seed=other))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Killed(BaseException):
    """The end of a process, as far as a training can tell."""


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("sft", "grpo"))])
def test_killed_and_resumed_has_the_bits_of_unbroken(case, scene) -> None:
    """Killed a step or more after its last checkpoint, all of whose lines are then written again."""
    is_sft = isinstance(CASES[case][0], SFTSettings)
    last, every = (6, 3) if is_sft else (3, 2)

    def kill(done: int, _total: int, _note: str) -> None:
        if done == last:
            raise Killed

    changes = {"save_steps": every}
    with pytest.raises(Killed):
        scene(case, "killed", progress=kill, changes=changes)
    assert newest(scene.place(case, "killed") / case.partition(",")[0]).name == f"checkpoint-{every}"
    scene.check(case, "killed", scene(case, "killed", changes=changes))


def test_a_training_stopped_at_its_last_step_is_only_saved(scene) -> None:
    case, changes = "sft, at its end", {"epochs": 1.5}  # half-way through an epoch
    with pytest.raises(KeyboardInterrupt):
        scene(case, "last", progress=StopAt(6), changes=changes)
    place = scene.place(case, "last")
    stopped = saved_weights(newest(place / "sft"))
    assert same_bits(stopped, scene(case, "last", seed=5, changes=changes))
    assert [row["step"] for row in rows(place / "metrics.jsonl")] == list(range(1, 7))


def test_a_second_interrupt_is_not_held_back(scene) -> None:
    case = "sft, at its end"
    with pytest.raises(KeyboardInterrupt):
        scene(case, "twice", progress=lambda *now: [StopAt(1)(*now), StopAt(1)(*now)])
    assert last_checkpoint(scene.place(case, "twice") / "sft" / "checkpoints") is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_state_of_a_checkpoint_is_taken_over(scene) -> None:
    """Games won so far and the compliance, by which a reward switches, go on from it."""
    with pytest.raises(KeyboardInterrupt):
        scene("grpo", "state", progress=StopAt(2))
    place = scene.place("grpo", "state")
    file = newest(place / "grpo") / STATE_FILE
    state = read_object(file)
    assert len(state["method"]["compliance"]) == 2
    assert state["method"]["priorities"]
    del state["sha256"]
    state["method"]["cumulative_wins"] = 41
    write_record(file, state)
    scene("grpo", "state")
    assert rows(place / "metrics.jsonl")[-1]["cumulative_wins"] == 41


@pytest.mark.parametrize("case", [case for case, (_, moment) in CASES.items() if moment == "round 2: step 1"])
def test_a_round_that_has_lost_its_games_is_played_again_from_the_weights_before_it(case, scene) -> None:
    """Also in its updates, the first of which came after those games."""
    with pytest.raises(KeyboardInterrupt):
        scene(case, "lost", progress=StopAt("round 2: step 1"))
    checkpoints = scene.place(case, "lost") / case.partition(",")[0] / "checkpoints"
    assert last_place(checkpoints) == (1, 1)
    (checkpoints / "round-2.json").unlink()
    other = 0 if "adapters" in case else 5
    scene.check(case, "lost", scene(case, "lost", seed=other))


# --- steps that are not finite: they change nothing, they are counted, and too many of them end the training ---


class Poisoned:
    """Trains a model whose gradient is not a number in given steps, and keeps its weights after each step."""

    def __init__(self, scene, monkeypatch) -> None:
        self.scene, self.patch = scene, monkeypatch
        self.after: dict[int, dict] = {}

    def __call__(self, case: str, bad: set[int], limit=5, save_total_limit=1, **changes) -> None:
        calls = itertools.count(1)

        def prepare(model) -> None:
            self.model, self.after[0] = model, weights_of(model)
            weight = model.model.layers[0].mlp.up_proj.weight
            weight.register_hook(lambda g: torch.full_like(g, float("nan")) if next(calls) in bad else g)

        def keep(done: int, _total: int, _note: str) -> None:
            self.after[done] = weights_of(self.model)

        self.patch.setattr(training_loop, "MAX_BAD_STEPS", limit)
        changes = ({"epochs": 1.0} if case.startswith("sft") else {}) | changes
        options = {"changes": changes, "save_total_limit": save_total_limit}
        self.scene(case, "run", prepare=prepare, progress=keep, **options)


@pytest.fixture
def poisoned(examples, tokenizer, codec, sixty, tmp_path, monkeypatch) -> Poisoned:
    return Poisoned(Scene(examples, tokenizer, codec, sixty, tmp_path), monkeypatch)


ONE_BATCH_A_STEP = pytest.mark.parametrize("case", ["sft, at its end", "grpo"])


@ONE_BATCH_A_STEP
def test_a_bad_step_changes_no_weight_and_is_counted_anew_after_a_good_one(case, poisoned) -> None:
    poisoned(case, bad={2, 4}, limit=2, save_steps=1, save_total_limit=0)
    place, stage = poisoned.scene.place(case, "run"), case.partition(",")[0]
    after = poisoned.after
    assert [same_bits(after[step], after[step + 1]) for step in range(4)] == [False, True, False, True]
    found = rows(place / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert [row.get("skipped_steps", 0) for row in found] == [0, 1, 0, 1]
    assert {"loss", "grad_norm"} <= {*found[1]["not_finite"]}, "nothing was learnt from its loss"
    assert not {"loss", "grad_norm"} & {*found[1]}
    assert "not_finite" not in found[2]
    assert [stage_curves({stage: some}, stage).num_skipped for some in (found, found[:1])] == [2, 0]
    assert all(weight.isfinite().all() for weight in saved_weights(place / stage).values())
    kept = sorted(path.name for path in (place / stage / "checkpoints").glob("checkpoint-*"))
    assert kept == ["checkpoint-1", "checkpoint-3", "checkpoint-4"], "none of a bad step but the last"


@ONE_BATCH_A_STEP
def test_too_many_in_a_row_stop_training_and_keep_the_last_good_checkpoint(case, poisoned) -> None:
    place, stage = poisoned.scene.place(case, "run"), case.partition(",")[0]
    with pytest.raises(RunError, match=rf"\b{stage}\b.*\bcheckpoint-1\b"):
        poisoned(case, bad={2, 3, 4}, limit=2, save_steps=1)
    [kept] = (place / stage / "checkpoints").glob("checkpoint-*")
    assert kept.name == "checkpoint-1"
    assert same_bits(saved_weights(kept), poisoned.after[1])
    assert not (place / stage / "model.safetensors").exists()
    assert sum(row.get("skipped_steps", 0) for row in rows(place / "metrics.jsonl")) == 2


@pytest.mark.parametrize(
    ("save_steps", "checkpoint", "lines"), [(0, 3, [(3, 2, False)]), (1, 1, [(1, 0, False), (3, 2, True)])]
)
def test_too_many_leave_the_good_weights_though_no_checkpoint_was_due_and_a_line_with_the_means_of_good_steps(
    save_steps, checkpoint, lines, poisoned
) -> None:
    place = poisoned.scene.place("sft, at its end", "run")
    with pytest.raises(RunError, match=rf"\bcheckpoint-{checkpoint}\b"):
        poisoned("sft, at its end", bad={2, 3}, limit=2, logging_steps=10, save_steps=save_steps)
    assert newest(place / "sft").name == f"checkpoint-{checkpoint}"
    assert same_bits(saved_weights(newest(place / "sft")), poisoned.after[1])
    found = rows(place / "metrics.jsonl")
    assert [(row["step"], row.get("skipped_steps", 0), "not_finite" in row) for row in found] == lines


def test_too_many_stop_a_round_though_a_good_step_would_come_after_them(poisoned) -> None:
    with pytest.raises(RunError, match=r"\bexpert_iteration\b"):
        poisoned("expert_iteration", bad={2, 3}, limit=2, epochs=4)
    assert not (poisoned.scene.place("expert_iteration", "run") / "metrics.jsonl").exists()


def test_a_loss_that_is_not_finite_is_bad_though_its_gradient_is_finite(poisoned, monkeypatch) -> None:
    compute, calls = CrossEntropy.__call__, itertools.count(1)

    def infinite_once(self, *args):
        loss, figures = compute(self, *args)
        return loss + (float("inf") if next(calls) == 2 else 0.0), figures

    monkeypatch.setattr(CrossEntropy, "__call__", infinite_once)
    poisoned("sft, at its end", bad=set())
    assert same_bits(poisoned.after[1], poisoned.after[2])
    found = rows(poisoned.scene.place("sft, at its end", "run") / "metrics.jsonl")
    assert found[1]["skipped_steps"] == 1
    assert "loss" in found[1]["not_finite"]
    assert "loss" not in found[1], "no other step's loss is written in its place"
    assert json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("amount", [math.inf, -math.inf, math.nan])
def test_a_game_whose_reward_is_not_finite_is_no_sample(amount, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    training, model, calls = Training(tokenizer, codec, sixty, monkeypatch), small_model(tokenizer), itertools.count()
    training.pay = lambda *_: amount if (call := next(calls)) == 20 else call % 3 / 2
    training(tmp_path, GRPO.model_copy(update={"steps": 2}), model=model)
    found = rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2]
    assert sum(row.get("failed_games", 0) for row in found) == 1
    assert not any(row.get("skipped_steps") or row.get("not_finite") for row in found)
    assert all(weight.isfinite().all() for weight in weights_of(model).values())
