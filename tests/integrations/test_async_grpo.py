"""Laws of the asynchronous trainer's rollouts: our games token for token, our rewards, and settings it would follow."""

import asyncio
import inspect
import queue
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from datasets import Dataset
from training_fixtures import rows, write_config

from wordle_rl.config import ConfigError, RunConfig, SamplingSettings, load_config
from wordle_rl.integrations import async_grpo as module
from wordle_rl.integrations import async_rollouts
from wordle_rl.integrations.async_grpo import check_settings, main, train
from wordle_rl.integrations.async_rollouts import WordleRolloutLoop
from wordle_rl.integrations.async_settings import AsyncSettings
from wordle_rl.models.loading import load_model
from wordle_rl.rollout import InitialState, play
from wordle_rl.runs import Run
from wordle_rl.samplers.base import Request
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.training.interrupt import StopRequest

ASYNC = {"grpo__credit": '"game"', "grpo__scale_advantages": "true"}


def settings(directory: Path, word_directory: Path, **changes: str) -> RunConfig:
    return load_config(write_config(directory / "mini.toml", word_directory, **{**ASYNC, **changes}))


@pytest.fixture
def run_directory(finished_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished_run / "sft", tmp_path / "run" / "sft")
    return tmp_path / "run"


class Here(WordleRolloutLoop):
    """A loop whose server is a model in this process."""

    def __init__(self, config: RunConfig, run_directory: Path, sampling: SamplingSettings, max_length: int = 128):
        value, event, box = SimpleNamespace(value=7), threading.Event(), queue.Queue()
        super().__init__(
            config=config,
            run_directory=run_directory,
            max_length=max_length,
            model_name="model",
            dataset=Dataset.from_dict({"prompt": ["crane"]}),
            rollout_buffer=box,
            model_version_value=value,
            heartbeat_value=value,
            failed_event=event,
            exception_info_queue=box,
            metrics_queue=queue.Queue(),
        )
        settings = config.model.model_copy(update={"path": str(run_directory / "sft")})
        self.sampling, self.model = sampling, load_model(settings, 0)[0]
        self.sampler = TransformersSampler(self.model, self.codec, sampling)

    async def _generate_one_turn(self, prompt_ids):
        self.sampler.begin()
        [said] = self.sampler.sample([Request(0, (), (), prompt_ids)])
        return list(said.token_ids), list(said.sampler_logprobs)

    def game(self, secret: str, group_id: int = 0):
        return self._loop.run_until_complete(
            self._generate_one([{"role": "user", "content": secret}], {}, [], group_id)
        )


@pytest.fixture
def here(run_directory):
    """Make loops, closed in the end as TRL closes them."""
    made: list[Here] = []

    def make(config: RunConfig, sampling: SamplingSettings | None = None, max_length: int = 128) -> Here:
        made.append(Here(config, run_directory, sampling or GREEDY, max_length))
        return made[-1]

    yield make
    for loop in made:
        loop._tool_pool.shutdown()
        loop._loop.close()


GREEDY = SamplingSettings(temperature=0.0, max_completion_tokens=12)


def test_a_game_is_the_one_our_rollout_plays_token_for_token(here, word_directory, run_directory, tmp_path) -> None:
    config = settings(tmp_path, word_directory)
    loop = here(config)
    secrets = loop.words.answers[:4]
    own = TransformersSampler(loop.model, loop.codec, GREEDY)
    for secret, game in zip(
        secrets, play([InitialState(s) for s in secrets], loop.words, loop.prompter, own), strict=True
    ):
        messages, said, sequences, *tools, reward = loop.game(secret)
        assert [message["content"] for message in messages] == [turn.reply for turn in game.transcript.own_turns]
        for sequence, segment in zip(sequences, game.segments, strict=True):
            before = [0] * len(segment.prompt_ids)
            assert sequence.input_ids == [*segment.prompt_ids, *segment.token_ids]
            assert sequence.completion_mask == [*before, *segment.loss_mask]
            assert sequence.old_log_probs == pytest.approx([*before, *segment.sampler_logprobs], abs=1e-4)
        assert said == [t for seq in sequences for t, m in zip(seq.input_ids, seq.completion_mask, strict=True) if m]
        rubric = config.rl.reward.schedule().rubric()
        assert reward == pytest.approx(rubric.score(game.transcript, loop._solver).total)
        assert tools == [0, 0]
    written = rows(run_directory / "secrets.jsonl")
    assert [row["secrets"] for row in written] == [[secret] for secret in secrets]
    assert {row["step"] for row in written} == {7}


def test_cut_replies_are_left_out_where_that_is_asked_for(here, word_directory, sixty, tmp_path) -> None:
    short = SamplingSettings(temperature=0.0, max_completion_tokens=2)
    kept, masked = (
        here(settings(tmp_path, word_directory, grpo__mask_overlong=on), short).game(sixty.answers[0])[2]
        for on in ("false", "true")
    )
    assert [sequence.input_ids for sequence in kept] == [sequence.input_ids for sequence in masked]
    assert sum(sum(sequence.completion_mask) for sequence in kept) > 0
    assert sum(sum(sequence.completion_mask) for sequence in masked) == 0


def test_a_game_never_asks_for_more_than_the_server_takes(here, word_directory, tmp_path) -> None:
    config = settings(tmp_path, word_directory)
    loop = here(config, max_length=40)
    _, _, [sequence], *_ = loop.game(loop.words.answers[0])
    assert len(sequence.input_ids) <= 40


def test_a_group_shares_its_board_and_groups_differ(here, word_directory, tmp_path) -> None:
    loop = here(settings(tmp_path, word_directory, **{"rl.starts__max_prefix_guesses": "3"}))
    secret = loop.words.answers[0]
    assert loop._start(secret, 5) == loop._start(secret, 5)
    assert len({loop._start(secret, group).prefix_guesses for group in range(20)}) > 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"grpo__credit": '"turn"'}, "grpo.credit"),
        ({"grpo__scale_advantages": "false"}, "grpo.scale_advantages"),
        ({"game__shape": '"state"'}, "game.shape"),
        ({"grpo__loss_type": '"grpo"'}, "grpo.loss_type"),
        ({"grpo__prioritized_fraction": "0.5"}, "grpo.prioritized_fraction"),
        ({"grpo__max_refills": "1"}, "grpo.max_refills"),
        ({"grpo__max_importance_ratio": "2.0"}, "grpo.max_importance_ratio"),
        ({"grpo__beta": "0.1"}, "grpo.beta"),
        (
            {"grpo__turn_candidates": "2", "grpo__credit": '"guess"', "grpo__scale_advantages": "false"},
            "turn_candidates",
        ),
        ({"grpo__validate_every_steps": "2"}, "grpo.validate_every_steps"),
        ({"grpo__probe_every_steps": "2"}, "grpo.probe_every_steps"),
        ({"traces__rl_only_fraction": "0.2"}, "traces.rl_only_fraction"),
        ({"grpo__steps": "0"}, "algorithm"),
        ({"grpo__engine": '"transformers"'}, "grpo.engine"),
        ({"grpo.vllm__sleep": "true"}, "grpo.vllm"),
        ({"grpo.sampling__max_batch_size": "8"}, "rl.sampling.max_batch_size"),
        ({"grpo__sample_games": "2"}, "rl.sample_games"),
        ({"grpo.reward__preset": '"shaped_curriculum"'}, "rl.reward"),
    ],
)
def test_a_setting_that_would_not_be_followed_is_refused(changes, named, word_directory, tmp_path) -> None:
    check_settings(settings(tmp_path, word_directory))
    with pytest.raises(ConfigError, match=named) as caught:
        check_settings(settings(tmp_path, word_directory, **changes))
    assert "\n" not in str(caught.value)


def test_a_setting_that_would_be_followed_may_be_given(word_directory, tmp_path) -> None:
    followed = {
        "loss_type": '"bnpo"',
        "prioritized_fraction": "0.0",
        "epsilon": "0.1",
        "max_refills": "0",
        "max_importance_ratio": "0.0",
    }
    followed["sample_games"] = "0"
    changes = {f"grpo__{name}": value for name, value in followed.items()} | {"game__shape": '"transcript"'}
    check_settings(settings(tmp_path, word_directory, **changes))
    with pytest.raises(ConfigError, match=r"does not follow grpo\.max_refills") as caught:
        check_settings(settings(tmp_path, word_directory, **changes | {"grpo__max_refills": "1"}))
    assert "; nor " not in str(caught.value), "it alone"


def test_what_is_missing_is_named_in_one_line_and_nothing_is_written(
    word_directory, run_directory, tmp_path, monkeypatch, capsys, serve
) -> None:
    config = str(write_config(tmp_path / "mini.toml", word_directory, **ASYNC))
    given = [config, "--out", str(run_directory)]
    before = sorted(run_directory.rglob("*"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert main(given) == 2
    assert 'pip install "wordle-rl[vllm]"' in capsys.readouterr().err
    monkeypatch.setattr(module, "check_vllm", lambda _: None)
    assert main([config, "--out", str(tmp_path / "empty")]) == 2
    assert "--until sft" in capsys.readouterr().err
    assert main([*given, "--server", "http://127.0.0.1:9"]) == 2
    assert "no vLLM server answers at http://127.0.0.1:9" in capsys.readouterr().err
    other = serve(lambda *_: (404, {})).url.removesuffix("/v1")
    assert main([*given, "--server", other]) == 2
    assert f"serves no model; start it with --served-model-name {run_directory}/sft" in capsys.readouterr().err
    assert sorted(run_directory.rglob("*")) == before


def test_a_server_too_short_for_a_game_is_refused_before_anything_is_written(
    word_directory, run_directory, tmp_path, monkeypatch, capsys, serve
) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory, **ASYNC)
    monkeypatch.setattr(module, "check_vllm", lambda _: None)
    endpoint = serve(lambda *_: (404, {}))
    length = 110

    def tell(handler) -> None:
        handler.reply(200, {"data": [{"id": f"{run_directory}/sft", "max_model_len": length}]})

    monkeypatch.setattr(endpoint.server.RequestHandlerClass, "do_GET", tell)
    before = sorted(run_directory.rglob("*"))
    given = [str(config), "--out", str(run_directory), "--server", endpoint.url.removesuffix("/v1")]
    assert main(given) == 2
    shown = capsys.readouterr().err
    assert "may take 111 tokens with max_completion_tokens 12, the server takes 110" in shown
    assert "--max-model-len" in shown
    assert sorted(run_directory.rglob("*")) == before

    length = 111
    monkeypatch.setattr(module, "make_trainer", trainer_reached)
    with pytest.raises(TrainerReachedError):
        main(given)


class TrainerReachedError(Exception):
    """All checks are past."""


def trainer_reached(*_: object) -> None:
    raise TrainerReachedError


def test_a_model_that_is_there_is_not_trained_over(
    word_directory, run_directory, tmp_path, monkeypatch, capsys
) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory, **ASYNC)
    shutil.copytree(run_directory / "sft", run_directory / "grpo")
    monkeypatch.setattr(module, "check_vllm", lambda _: None)
    assert main([str(config), "--out", str(run_directory)]) == 2
    assert f"remove {run_directory}/grpo to train it again" in capsys.readouterr().err


def test_the_command_takes_a_config_and_options_that_count_more(word_directory, tmp_path, capsys, monkeypatch) -> None:
    config = str(write_config(tmp_path / "mini.toml", word_directory))
    out = ["--out", str(tmp_path / "run")]
    assert main([*out, config]) == 2
    assert "grpo.credit" in capsys.readouterr().err
    followed = ["--grpo.credit", "game", "--grpo.scale-advantages"]
    assert main([*followed, config, *out, "--grpo.engine", "transformers"]) == 2
    shown = capsys.readouterr().err
    assert "grpo.engine: a vLLM server plays; leave it out" in shown, "an option counts as given though it is a default"
    assert "grpo.credit" not in shown
    asked = []
    monkeypatch.setattr(module, "train", lambda config, out, given: asked.append((config, given)) or out)
    assert main([*out, *followed, "--batches-queued", "8", config, "--request-timeout-s=30"]) == 0
    [(run, given)] = asked
    assert (run.grpo.credit, run.grpo.scale_advantages, run.game.style) == ("game", True, "compact")
    assert given == AsyncSettings(batches_queued=8, request_timeout_s=30)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--batches-queued 0", "error: batches_queued: Input should be greater than or equal to 1"),
        ("--batches-queue 3", "error: Unrecognized options: --batches-queue, 3 (did you mean --batches-queued?)"),
        ("--grpo.credits game", "(did you mean --grpo.credit"),
        ("--server=", "error: --server is empty"),
    ],
)
def test_a_wrong_option_of_the_command_is_one_line(options: str, named: str, tmp_path, capsys) -> None:
    assert main(["--out", str(tmp_path / "run"), *options.split()]) == 2
    shown = capsys.readouterr().err
    assert named in shown
    assert shown.count("\n") == 1


def test_how_far_games_run_ahead_and_how_long_is_waited_is_set(
    word_directory, run_directory, tmp_path, monkeypatch
) -> None:
    given: dict[str, object] = {}

    def take(**settings: object) -> None:
        given.update(settings)

    def take_all(**settings: object) -> None:
        take(**settings)
        raise TrainerReachedError

    monkeypatch.setattr(module, "WordleRolloutWorker", take)
    monkeypatch.setattr(module, "AsyncGRPOConfig", take_all)
    config = settings(tmp_path, word_directory)
    asynchronous = AsyncSettings(
        server="http://there", batches_in_play=3, batches_queued=5, max_staleness=6, worker_timeout_s=7,
        heartbeat_timeout_s=8, request_timeout_s=9, weight_sync_timeout_s=10, server_timeout_s=11,
    )  # fmt: skip
    with pytest.raises(TrainerReachedError):
        module.make_trainer(config, Run(run_directory), asynchronous, 128, StopRequest())
    games = config.grpo.groups_per_step * config.training.group_size
    expected = {
        "max_inflight_tasks": 3 * games, "queue_maxsize": 5 * games, "max_staleness": 6, "child_ready_timeout": 7,
        "heartbeat_stale_after_s": 8, "request_timeout": 9, "weight_sync_timeout": 10, "vllm_server_timeout": 11,
        "vllm_server_url": "http://there", "vllm_server_base_url": "http://there",
    }  # fmt: skip
    assert {name: given[name] for name in expected} == expected


def test_a_stopped_asynchronous_training_says_that_it_continues(tmp_path, monkeypatch, capsys) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "train", press)
    assert main(["--out", str(tmp_path / "run")]) == 130
    assert "the same command resumes" in capsys.readouterr().err


def test_trl_still_has_the_seams_that_are_used() -> None:
    loop = async_rollouts._AsyncRolloutLoop
    assert list(inspect.signature(loop._generate_one).parameters) == [
        "self", "prompt", "tool_dict", "tools", "group_id",
    ]  # fmt: skip
    assert asyncio.iscoroutinefunction(loop._generate_one_turn)
    assert list(inspect.signature(loop._generate_one_turn).parameters) == ["self", "prompt_ids"]
    assert "response_template" in inspect.getsource(loop.__init__)
    assert callable(train)
