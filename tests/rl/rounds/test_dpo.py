"""Laws of DPO on guesses: the better reply to the same prompt is chosen, token for token, and becomes likelier."""

import os
import signal
from itertools import permutations

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from dpo_settings import SETTINGS, Script
from grpo_training import close
from scripted import say, scripted
from training_fixtures import compact, make_run, rows, small_model, weights_of

import wordle_rl.rl.rounds.dpo as dpo_module
from wordle_rl.config import DPOTraining
from wordle_rl.prompt import Shape
from wordle_rl.rl.rounds.dpo import PairTrainer, Reply, compared, pairs_of, train_dpo
from wordle_rl.rl.setup import GameSetup, boards_of


@pytest.fixture
def script(sixty) -> Script:
    return Script(sixty)


class Training:
    """Runs `train_dpo` and keeps the rows each round trained on, the batches TRL made of them, and the reference."""

    def __init__(self, tokenizer, codec, words, solver, script, monkeypatch) -> None:
        self.script = script
        self.tokenizer, self.codec, self.words, self.solver = tokenizer, codec, words, solver
        self.rows: list[list[dict]] = []
        self.batches: list[dict] = []
        self.reference = None
        training = self

        class Showing(PairTrainer):
            def __init__(self, *args, **kwargs) -> None:
                super().__init__(*args, **kwargs)
                training.rows.append(list(kwargs["train_dataset"]))
                training.reference = kwargs["ref_model"]

            def compute_loss(self, model, inputs, *args, **kwargs):
                training.batches.append(inputs)
                return super().compute_loss(model, inputs, *args, **kwargs)

        monkeypatch.setattr(dpo_module, "PairTrainer", Showing)

    def __call__(self, directory, settings=SETTINGS, shape=Shape.TRANSCRIPT, model=None, progress=None):
        model = model or small_model(self.tokenizer)
        setup = GameSetup(context_for(self.words, compact(shape, max_turns=3), self.solver), self.words.answers[:1])
        run, says = make_run(directory, self.words), scripted(self.script)
        train_dpo(model, self.codec, setup, settings, run, progress=progress, make_sampler=says)
        return model


@pytest.fixture
def train(tokenizer, codec, sixty, solver, script, monkeypatch) -> Training:
    return Training(tokenizer, codec, sixty, solver, script, monkeypatch)


def update(**changes: object) -> DPOTraining:
    return SETTINGS.model_copy(update=changes)


def logprob(model, prompt_ids: list[int], completion: list[int]) -> float:
    """Log-probability of a reply, without any trainer."""
    ids = torch.tensor([[*prompt_ids, *completion]])
    with torch.no_grad():
        scores = model(input_ids=ids).logits[0, len(prompt_ids) - 1 : -1].log_softmax(-1)
    return float(scores.gather(1, ids[0, len(prompt_ids) :, None]).sum())


def test_the_best_sound_reply_is_set_against_those_worse_by_the_margin_the_worst_first() -> None:
    a, b, c = Reply((1,), 0.9, True), Reply((2,), 0.5, True), Reply((3,), 0.1, False)
    assert pairs_of([c, a, b], 0.1, 9) == [(a, c), (a, b)]
    assert pairs_of([c, a, b], 0.1, 1) == [(a, c)]
    assert pairs_of([c, a, b], 0.5, 9) == [(a, c)]
    assert pairs_of([a, a, a], 0.1, 9) == []
    unsound = Reply((4,), 5.0, False)
    assert pairs_of([unsound, b, c], 0.1, 9) == [(b, c)]
    assert pairs_of([unsound, c], 0.1, 9) == []


@pytest.mark.parametrize("shape", Shape)
def test_boards_are_the_prompts_of_the_replies(shape, script, sixty, codec) -> None:
    won, _ = script.games(sixty, codec, shape)
    first, second = boards_of(won)
    prompter = compact(shape, max_turns=3)
    assert list(first[0].prompt_ids) == codec.prompt_ids(prompter.opening())
    assert list(second[0].prompt_ids) == codec.prompt_ids(
        prompter.state(second[0].turns) if shape is Shape.STATE else prompter.opening(second[0].turns)
    )
    assert [board.turns for board, _, _ in (first, second)] == [
        (),
        (won.trajectory.transcript.turns[0].turn,),
    ]
    assert [codec.text_of(reply) for _, reply, _ in (first, second)] == [say(script.first), say(script.secret)]


def test_games_of_a_group_are_compared_where_they_part(script, sixty, codec) -> None:
    won, lost = script.games(sixty, codec)
    [(board, replies)] = compared([won, lost])
    assert len(board.turns) == 1
    found = {codec.text_of(reply.token_ids): reply.value for reply in replies}
    assert found == {say(script.secret): won.reward.total, say(script.second): lost.reward.total}
    [(_, replies)] = compared([won, lost, won, lost])
    assert {codec.text_of(reply.token_ids): reply.value for reply in replies} == found


@pytest.mark.parametrize("judge", ["regret", "information"])
def test_guesses_are_weighed_by_the_solver(judge, script, train, solver, tmp_path) -> None:
    everything, others = solver.candidates([]), solver.words.answers[4:]
    regret = {word: solver.regret(word, everything) for word in others}
    bits = {word: solver.information_of(word, everything) for word in others}
    script.first, script.second = next(  # the one gives away less, the other tells more
        (a, b) for a, b in permutations(others, 2) if regret[a] < regret[b] - 0.01 and bits[a] < bits[b] - 0.01
    )
    train(tmp_path, update(judge=judge, pairs_per_board=9, margin=0.001))
    text_of = train.codec.text_of
    assert len({tuple(row["prompt_ids"]) for row in train.rows[0]}) == 3  # two games, whose first board is the same
    opening = train.codec.prompt_ids(compact(max_turns=3).opening())
    at_opening = [row for row in train.rows[0] if row["prompt_ids"] == opening]
    best = script.first if judge == "regret" else script.second
    assert {text_of(row["chosen_ids"]) for row in at_opening} == {say(best)}
    assert text_of(at_opening[0]["rejected_ids"]) == say("zzzzz")
    assert not [row for row in train.rows[0] if "zzzzz" in text_of(row["chosen_ids"])]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("judge", ["regret", "information", "outcome"])
def test_one_round_raises_the_chosen_reply_and_lowers_the_rejected(shape, judge, script, train, tmp_path) -> None:
    before = small_model(train.tokenizer)
    after = train(tmp_path, update(judge=judge, pairs_per_board=1, batch_size=64), shape)
    assert train.rows[0]
    gains = {"chosen": 0.0, "rejected": 0.0}
    for row in train.rows[0]:
        for name in gains:
            ids = row[f"{name}_ids"]
            gains[name] += logprob(after, row["prompt_ids"], ids) - logprob(before, row["prompt_ids"], ids)
    assert gains["chosen"] > 0.01
    assert gains["rejected"] < -0.01
    [line] = rows(tmp_path / "metrics.jsonl")
    assert (line["stage"], line["step"], line["pairs"]) == ("dpo", 1, len(train.rows[0]))
    assert line["margin"] >= 0.1
    assert {"loss", "rewards/margins", "rewards/accuracies", "seconds/play"} <= set(line)


def test_the_trainer_sees_the_tokens_that_were_sampled(script, train, tmp_path) -> None:
    """TRL neither tokenises nor cuts what it is given; padding alone is added, on the right."""
    train(tmp_path, update(pairs_per_board=9))
    seen = set()
    for batch in train.batches:
        for ids, alive, mask in zip(
            batch["input_ids"].tolist(),
            batch["attention_mask"].tolist(),
            batch["completion_mask"].tolist(),
            strict=True,
        ):
            length = sum(alive)
            assert alive == [1] * length + [0] * (len(ids) - length)
            assert not any(mask[length:])
            start = mask.index(1)
            assert mask[start:length] == [1] * (length - start)
            seen.add((tuple(ids[:start]), tuple(ids[start:length])))
    sampled = {
        (tuple(row["prompt_ids"]), tuple(row[name])) for row in train.rows[0] for name in ("chosen_ids", "rejected_ids")
    }
    assert seen == sampled
    end = train.codec.turn_end_ids[0]
    assert all(reply[-1] == end for _, reply in seen)


def test_the_reference_is_the_model_it_began_with_in_every_round(script, train, tmp_path) -> None:
    before = weights_of(small_model(train.tokenizer))
    after = train(tmp_path, update(rounds=2))
    assert close(before, weights_of(train.reference))
    assert not close(before, weights_of(after), 1e-4)
    first, second = (row["rewards/margins"] for row in rows(tmp_path / "metrics.jsonl"))
    assert second > first


def test_the_likelihood_of_chosen_replies_can_be_held_up(script, train, tmp_path) -> None:
    models = [train(tmp_path / str(weight), update(sft_weight=weight)) for weight in (0.0, 5.0)]
    gained = [sum(logprob(m, r["prompt_ids"], r["chosen_ids"]) for r in train.rows[0]) for m in models]
    assert gained[1] > gained[0]


@pytest.mark.parametrize("moment", ["round 2: step 1", "win_rate"])
def test_interrupted_and_resumed_equals_uninterrupted(moment, script, train, tmp_path) -> None:
    """Between two steps of a round, and between two rounds; the reference is handed in again, the weights are not."""
    settings = update(rounds=2, pairs_per_board=9)
    whole = train(tmp_path / "whole", settings)

    def stopping(_done: int, _total: int, note: str) -> None:
        if note.startswith(moment) and not pressed:
            pressed.append(note)
            os.kill(os.getpid(), signal.SIGINT)

    pressed: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", settings, progress=stopping)
    assert pressed
    resumed = train(tmp_path / "broken", settings)
    assert close(weights_of(whole), weights_of(resumed))
    assert [row["step"] for row in rows(tmp_path / "broken" / "metrics.jsonl")] == [1, 2]
    assert (tmp_path / "broken" / "dpo" / "model.safetensors").is_file()
