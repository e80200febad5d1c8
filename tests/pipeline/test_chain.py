"""Laws of the whole chain in miniature: every figure is there, nothing is done twice, no key is kept."""

import io
import json
import logging
import math
import shutil
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from rich.console import Console
from training_fixtures import NUM_ANSWERS, begun, flipped, rows, write_config

from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import stage_title
from wordle_rl.errors import UserError
from wordle_rl.evaluate.figures import Figures, sampled_part
from wordle_rl.evaluate.players import open_model
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.strata import strata_of_run
from wordle_rl.pipeline import Pipeline, evaluation, finish_model, stages
from wordle_rl.pipeline.stages import load_learner
from wordle_rl.policy.directory import find_model, game_of
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.providers import PROVIDERS
from wordle_rl.report import write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.run_record import read_run
from wordle_rl.runs import RunError, read_object, reset_run, write_json
from wordle_rl.runs.checksums import SEAL_FILE
from wordle_rl.runs.lineage import audit, is_trained, lineage_of
from wordle_rl.train.checkpoints import last_checkpoint
from wordle_rl.train.example import Example
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.words.split import split_secrets

QUIET = Console(quiet=True)
BRIEF = ("--max-completion-tokens", 12)
COSTS = {"seconds", "peak_memory_gib", "memory"}
"""What results hold besides the figures of models."""


def tree(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time of change."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(p.relative_to(directory)): (p.stat().st_size, p.stat().st_mtime_ns) for p in files}


def test_results_hold_every_figure_of_both_models_on_every_part(finished_run, sixty) -> None:
    results, split = read_object(finished_run / "results.json"), split_secrets(sixty)
    assert set(results) == {"sft", "grpo", *COSTS}
    sizes = {"all": NUM_ANSWERS, "train": len(split.train), "held_out": len(split.test)}
    sizes |= {part: len(words) for part, words in strata_of_run(finished_run).named().items() if words}
    for name in ("sft", "grpo"):
        assert {part: figures["num_games"] for part, figures in results[name].items()} == sizes
        for figures in results[name].values():
            assert set(figures) == {field.name for field in fields(Figures)}
            assert 0 <= figures["win_rate_low"] <= figures["win_rate"] <= figures["win_rate_high"] <= 1
            assert 1 <= figures["mean_guesses_with_losses"] <= 7
            assert figures["mean_regret"] >= 0


def test_constrained_play_is_shown_apart(finished_run, tmp_path: Path) -> None:
    directory = also(finished_run, tmp_path / "constrained", "constrained")
    before, results = read_object(finished_run / "results.json"), evaluated(directory)
    (directory / "results.json").unlink()
    read = read_run(directory).results
    for name in ("sft", "grpo"):
        assert asdict(read[name]["held_out_constrained"]) == results[name]["held_out_constrained"]
        assert set(read[name]) == {*before[name], "held_out_constrained"}
        limited = results[name].pop("held_out_constrained")
        assert results[name] == before[name]
        assert (limited["num_games"], limited["invalid_rate"]) == (before[name]["held_out"]["num_games"], 0.0)
        assert Evaluation.load(directory / "eval" / f"{name}-constrained.json").constrain == "words"


def test_no_held_out_secret_was_trained_on(finished_run, sixty) -> None:
    split = split_secrets(sixty)
    held_out = {*split.val, *split.test}
    assert not held_out & {row["secret"] for row in rows(finished_run / "traces.jsonl")}
    assert not held_out & {s for row in rows(finished_run / "secrets.jsonl") for s in row["secrets"]}
    assert audit(finished_run).clean
    assert [row["secret"] for row in rows(finished_run / "validation_traces.jsonl")] == list(split.val)
    assert [r["step"] for r in rows(finished_run / "metrics.jsonl") if "validation_loss" in r] == [-(-200 // 32)]


def test_the_same_run_again_does_no_work(finished_run, monkeypatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a finished stage was worked on again")

    for room, name in ((stages, "write_solver_traces"), (stages, "encode_traces"), (evaluation, "evaluate_to_file")):
        monkeypatch.setattr(room, name, refuse)
    before, results = tree(finished_run), read_object(finished_run / "results.json")
    again = Pipeline(load_config(finished_run / "config.json"), finished_run, QUIET)()
    assert again == results == read_object(finished_run / "results.json")
    after = tree(finished_run)
    assert set(before) == set(after)
    rewritten = {name for name in after if after[name] != before[name]}
    assert rewritten <= {"config.json", "manifest.json", "results.json", "strata.json", "report.html"}


@pytest.mark.parametrize("lost", ["grpo/model.safetensors", "grpo"])
def test_a_run_that_has_lost_its_last_model_is_played_by_none_in_its_place(lost, finished_run, tmp_path, cli) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    shutil.rmtree(run / lost) if lost == "grpo" else (run / lost).unlink()
    gone = str(run / "grpo" / "model.safetensors")
    for command in (
        ("eval", "--player", run, "--max-games", 1),
        ("play", "--player", run, "--secret", "crane"),
        ("export", run, "--out", tmp_path / "model"),
    ):
        code, out, err = cli(*command)
        assert (code, out, err.count("\n"), gone in err) == (2, "", 1, True), command
    with pytest.raises(RunError, match=gone):
        open_model(run)
    assert find_model(run / "sft") == run / "sft"


@pytest.mark.parametrize("lost", ["grpo/model.safetensors", "sft/model.safetensors", "sft/chat_template.jinja"])
def test_a_finished_run_that_has_lost_a_file_of_a_model_is_not_called_finished(lost, finished_run, tmp_path) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    config, whole = load_config(run / "config.json"), (run / lost).read_bytes()
    (run / lost).unlink()
    with pytest.raises(RunError, match=str(run / lost)):
        Pipeline(config, run, QUIET)()
    shutil.rmtree(run / "grpo")
    if not lost.startswith("grpo"):
        (run / lost).write_bytes(whole)
    Pipeline(config, run, QUIET)("grpo")
    assert find_model(run) == run / "grpo", "what was deleted on purpose is trained again"


@pytest.mark.parametrize("file", ["model.safetensors", "chat_template.jinja", "wordle_rl.json"])
def test_a_start_of_which_a_byte_has_changed_is_not_trained_further(file, finished_run, tmp_path) -> None:
    config = load_config(finished_run / "config.json")
    run = begun(config, tmp_path / "run", finished_run)
    changed = run / "sft" / file
    damage = flipped if file == "model.safetensors" else lambda content: content.replace(b"e", b"a", 1)
    changed.write_bytes(damage(changed.read_bytes()))
    with pytest.raises(UserError, match=str(changed)):
        Pipeline(config, run, QUIET)("grpo")
    assert not (run / "grpo").exists()


@pytest.mark.parametrize("name", ["traces.jsonl", "validation_traces.jsonl"])
def test_teacher_games_that_have_lost_a_line_train_no_stage(name, finished_run, tmp_path) -> None:
    run = begun(load_config(finished_run / "config.json"), tmp_path / "run", finished_run)
    shutil.rmtree(run / "sft")
    config = load_config(run / "config.json")
    Pipeline(config, run, QUIET)("traces")
    lines = (run / name).read_bytes().splitlines(keepends=True)
    (run / name).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(RunError, match=str(run / name)):
        Pipeline(config, run, QUIET)("sft")
    assert not (run / "sft").exists()
    (run / "traces.json").unlink()  # as one does who changed them on purpose
    assert Pipeline(config, run, QUIET)("sft") is None
    assert is_trained(run / "sft")


def test_a_stage_is_not_trained_again_under_one_that_began_with_its_model(finished_run, tmp_path) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    config, lost = load_config(run / "config.json"), run / "sft" / "wordle_rl.json"
    lost.unlink()
    with pytest.raises(ConfigError, match=f"{lost} is missing.*{run / 'grpo'} was trained"):
        Pipeline(config, run, QUIET)()
    assert not lost.exists()


@pytest.mark.parametrize("damage", ["", "[{", "{}"])
def test_damaged_figures_of_english_are_named(damage, finished_run, tmp_path) -> None:
    config = load_config(finished_run / "config.json")
    run = begun(config, tmp_path / "run", finished_run)
    pretrained = config.model_copy(update={"model": config.model.model_copy(update={"path": str(run / "sft")})})
    (run / "english.json").write_text(damage)
    with pytest.raises(RunError, match=str(run / "english.json")):
        evaluation._english(pretrained, GameContext.of(pretrained), run)


def test_figures_of_english_go_with_the_model_that_they_are_of(finished_run, tmp_path) -> None:
    for number, change in enumerate((lambda run: finish_model(run / "sft", lineage_of(run / "sft")), reset_run)):
        run = Path(shutil.copytree(finished_run, tmp_path / str(number)))
        (run / "english.json").write_text("[]")
        change(run)
        assert not (run / "english.json").exists()


def test_models_of_a_run_from_before_stages_play_where_they_lie(finished_run, sixty, tmp_path, cli) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    stored = read_object(run / "config.json")
    del stored["stages"]
    write_json(run / "config.json", stored | {"algorithm": "grpo"})
    code, _, err = cli("play", "--player", run / "sft", "--secret", sixty.answers[0], *BRIEF)
    assert code == 0, err
    code, _, err = cli("eval", "--player", run, *BRIEF)
    assert (code, "before runs had stages" in err) == (2, True), err


@pytest.mark.parametrize("stage", ["grpo", "expert_iteration"])
def test_every_model_on_the_way_says_how_it_is_played(
    stage, finished_run, word_directory, sixty, tmp_path, cli
) -> None:
    """Copied out of its run, a checkpoint or a round's model is asked as its training asked it."""
    changes = {"save_steps": 1} if stage == "grpo" else {"rounds": 2, "groups_per_round": 2}
    stored = load_config(finished_run / "config.json")
    own = stored.settings_of(stage).model_copy(update={"save_total_limit": 2, **changes})
    config = stored.model_copy(update={"stages": ("sft", stage), stage: own})
    run = begun(config, tmp_path / "run", finished_run)
    Pipeline(config, run, QUIET)(stage)
    model = Path(shutil.copytree(last_checkpoint(run / stage / "checkpoints"), tmp_path / "kept"))
    assert game_of(model) == config.game
    asked = ("play", "--player", model, "--secret", sixty.answers[0], "--words", word_directory, *BRIEF)
    code, _, err = cli(*asked)
    assert (code, "style" in err) == (0, False)
    for name in ("wordle_rl.json", SEAL_FILE):
        (model / name).unlink()
    code, _, err = cli(*asked)
    assert (code, all(word in err for word in ("english", "transcript", "optional"))) == (0, True), err
    code, _, err = cli("eval", "--player", model, "--max-games", 1, "--style", "compact", *BRIEF)
    assert (code, "thinking" in err) == (0, False)


def test_a_run_without_its_last_model_yet_says_which_plays(finished_run, sixty, tmp_path, cli) -> None:
    run = begun(load_config(finished_run / "config.json"), tmp_path / "run", finished_run)
    code, _, err = cli("play", "--player", run, "--secret", sixty.answers[0], *BRIEF)
    assert code == 0
    assert str(run / "sft") in err


def test_stages_stop_where_told_and_go_on_later(word_directory, tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, stages='["sft"]'))
    directory = tmp_path / "run"
    assert Pipeline(config, directory, QUIET)("traces") is None
    files = {"config.json", "manifest.json", "timings.json", "traces.json", "traces.jsonl", "validation_traces.jsonl"}
    assert {path.name for path in directory.iterdir()} == files
    traces = tree(directory)["traces.jsonl"]
    assert Pipeline(config, directory, QUIET)("sft") is None
    assert (directory / "sft" / "model.safetensors").is_file()
    assert not (directory / "results.json").exists()
    assert set(Pipeline(config, directory, QUIET)()) == {"sft", *COSTS}
    assert tree(directory)["traces.jsonl"] == traces


@pytest.mark.parametrize("limit", [1, 2, 0])
def test_a_disk_without_room_for_the_models_is_refused_before_anything_is_written(
    limit, word_directory, tmp_path: Path, monkeypatch
) -> None:
    changes = {"sft__save_steps": "1", "sft__save_total_limit": str(limit)}
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, **changes))
    model = load_numbers(config.model).num_parameters * 4
    steps = math.ceil(config.traces.num_games / config.sft.batch_size) * config.sft.epochs
    kept = limit or steps
    needed = model + (kept + 1) * 3 * model  # the model, and checkpoints with two more numbers a weight
    usage = shutil.disk_usage(tmp_path)
    for free, refused in ((needed - 1, True), (needed, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        if refused:
            with pytest.raises(ConfigError, match=str(tmp_path / "run")):
                Pipeline(config, tmp_path / "run", QUIET)("sft")
            assert not (tmp_path / "run").exists()
        else:
            Pipeline(config, tmp_path / "run", QUIET)("sft")
            assert (tmp_path / "run" / "sft" / "model.safetensors").is_file()


def test_play_trains_on_the_secrets_kept_from_the_teacher(word_directory, sixty, tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, traces__rl_only_fraction="0.3"))
    directory = tmp_path / "run"
    Pipeline(config, directory, QUIET)("grpo")
    train = split_secrets(sixty).train
    kept = {*train[-int(0.3 * len(train)) :]}
    taught = {row["secret"] for row in rows(directory / "traces.jsonl")} & set(sixty.answers)
    assert taught == {*train} - kept
    played = {secret for row in rows(directory / "secrets.jsonl") for secret in row["secrets"]}
    assert played
    assert played <= kept


@pytest.mark.parametrize("name", ["expert_iteration", "dpo", "distill"])
def test_another_stage_follows_sft_and_is_reported_by_its_name(name, finished_run, tmp_path: Path) -> None:
    stored = load_config(finished_run / "config.json")
    own = stored.settings_of(name).model_copy(update={"rounds": 2, "groups_per_round": 8})
    config = stored.model_copy(update={"stages": ("sft", name), name: own})
    directory = begun(config, tmp_path / "run", finished_run)
    results = Pipeline(config, directory, QUIET)()
    assert set(results) == {"sft", name, *COSTS}
    assert results[name]["all"]["num_games"] == NUM_ANSWERS
    assert results["seconds"][name] > 0
    assert [row["step"] for row in rows(directory / "metrics.jsonl") if row["stage"] == name] == [1, 2]
    found = audit(directory)
    assert (found.clean, found.num_secrets["secrets.jsonl"]) == (True, 16)
    assert find_model(directory) == directory / name
    assert f"{stage_title(name)} minus SFT" in (directory / "report.html").read_text()


def test_a_chain_of_three_stages_stops_where_told_and_each_is_a_model(word_directory, sixty, tmp_path, cli) -> None:
    file, run = tmp_path / "chain.toml", tmp_path / "run"
    rounds = {"rounds": "1", "groups_per_round": "4", "group_size": "2"}
    changes = {f"expert_iteration__{name}": text for name, text in rounds.items()}
    write_config(file, word_directory, stages='["sft", "expert_iteration", "grpo"]', **changes)
    assert cli("run", file, "--out", run, "--until", "expert_iteration")[0] == 0
    assert is_trained(run / "expert_iteration")
    assert not (run / "grpo").exists()
    assert not (run / "results.json").exists()
    before = tree(run / "expert_iteration")
    assert cli("run", file, "--out", run)[0] == 0
    assert before.items() <= tree(run / "expert_iteration").items(), "but for its card nothing is done again"

    chain = ["sft", "expert_iteration", "grpo"]
    assert all(is_trained(run / stage) for stage in chain)
    assert [name for name in read_object(run / "results.json") if name not in COSTS] == chain
    assert [*dict.fromkeys(row["stage"] for row in rows(run / "metrics.jsonl"))] == chain
    drawn = {row["stage"]: set(row["secrets"]) for row in rows(run / "secrets.jsonl")}
    assert set(drawn) == {"expert_iteration", "grpo"}
    assert set().union(*drawn.values()) <= {*split_secrets(sixty).train}
    found = read_run(run)
    assert [*found.results] == [*found.evaluations] == [*found.metrics] == chain
    assert "GRPO minus expert iteration" in (run / "report.html").read_text()
    assert cli("report", run, "--audit")[0] == 0

    out = tmp_path / "played.json"
    assert cli("eval", "--player", run / "expert_iteration", "--words", word_directory, "--out", out)[0] == 0
    own, played = (Evaluation.load(path) for path in (run / "eval" / "expert_iteration.json", out))
    replies = {record.secret: [turn.reply for turn in record.turns] for record in own.records}
    assert all([turn.reply for turn in record.turns] == replies[record.secret] for record in played.records)


def test_a_stage_starts_from_the_model_of_the_one_before(finished_run, tmp_path, monkeypatch) -> None:
    stored = load_config(finished_run / "config.json")
    asked = {"stages": ["sft", "grpo", "grpo_2"], "grpo_2": {"steps": 1, "groups_per_step": 1, "group_size": 2}}
    (tmp_path / "run.json").write_text(json.dumps(stored.stored() | asked))
    config = load_config(tmp_path / "run.json")
    directory = begun(config, tmp_path / "run", finished_run)
    shutil.copytree(finished_run / "grpo", directory / "grpo")
    for name in ("metrics.jsonl", "secrets.jsonl", "games.jsonl"):
        shutil.copy(finished_run / name, directory)
    started = []

    def loading(config: RunConfig, model: ModelSettings, *more: object):
        started.append(Path(model.path))
        return load_learner(config, model, *more)

    monkeypatch.setattr(stages, "load_learner", loading)
    Pipeline(config, directory, QUIET)("grpo_2")
    assert started == [directory / "grpo"]
    assert find_model(directory) == directory / "grpo_2"
    first, *_, last = rows(directory / "secrets.jsonl")
    assert (first["stage"], last["stage"]) == ("grpo", "grpo_2")
    assert first["secrets"] != last["secrets"], "each has a seed of its own"
    assert audit(directory).clean


def also(run: Path, directory: Path, *kinds: str) -> Path:
    """A copy of a finished run whose settings now ask for other play too."""
    shutil.copytree(run, directory)
    settings = read_object(directory / "config.json")
    settings["eval"]["also"], settings["max_batch_size"] = kinds, 20
    write_json(directory / "config.json", settings)
    return directory


@pytest.fixture
def sampled_run(finished_run, tmp_path: Path) -> Path:
    return also(finished_run, tmp_path / "sampled", "sampled")


def evaluated(directory: Path) -> dict:
    return Pipeline(load_config(directory / "config.json"), directory, QUIET)()


def test_every_secret_is_played_once_more_at_temperature_1(sampled_run, finished_run, sixty) -> None:
    before = read_object(finished_run / "results.json")
    results, split = evaluated(sampled_run), split_secrets(sixty)
    for name in ("sft", "grpo"):
        stored = Evaluation.load(sampled_run / "eval" / f"{name}-sampled.json")
        assert (stored.conditions.temperature, stored.conditions.seed, stored.constrain) == (1.0, 0, "none")
        assert sorted(record.secret for record in stored.records) == list(sixty.answers)
        greedy = {part: figures for part, figures in results[name].items() if not part.endswith("_sampled")}
        assert greedy == before[name]
        assert results[name].keys() == {*greedy, *map(sampled_part, greedy)}
        for part in ("all", "train", "held_out"):
            assert results[name][sampled_part(part)] == asdict(stored.figures(split.named(part)))
    (sampled_run / "results.json").unlink()
    read = read_run(sampled_run).results
    assert {name: set(parts) for name, parts in read.items()} == {name: set(results[name]) for name in ("sft", "grpo")}
    assert asdict(read["sft"]["all_sampled"]) == results["sft"]["all_sampled"]


def test_stopped_sampled_play_resumes_after_whole_batches_with_fresh_draws(sampled_run, monkeypatch) -> None:
    seeds, finished = [], []
    open_player, make_counter = evaluation.open_player, evaluation.game_counter

    def noting(asked, seed):
        if asked.player.is_sampled:
            seeds.append(seed)
        return open_player(asked, seed)

    def stopping_counter(*arguments):
        count = make_counter(*arguments)

        def stop(record) -> None:
            count(record)
            finished.append(record)
            if len(finished) == 25:
                raise KeyboardInterrupt

        return stop

    monkeypatch.setattr(evaluation, "open_player", noting)
    monkeypatch.setattr(evaluation, "game_counter", stopping_counter)
    with pytest.raises(KeyboardInterrupt):
        evaluated(sampled_run)
    path = sampled_run / "eval" / "sft-sampled.json"
    journal = evaluation.journal_path(path)
    kept = [row for row in rows(journal)[1:] if row.pop("occurrence") == 0]
    assert len(kept) == 20
    evaluated(sampled_run)
    assert seeds == [0, 20, 0]
    stored = read_object(path)["records"]
    assert (len(stored), stored[:20]) == (NUM_ANSWERS, kept)
    assert not journal.exists()


NAMES = sorted({
    *(provider.key_name for provider in PROVIDERS.values()), "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY",
    "WORDLE_RL_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN",
})  # fmt: skip


@pytest.mark.slow
def test_no_key_of_the_environment_is_found_anywhere(word_directory, tmp_path, monkeypatch, capsys, caplog) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, f"canary-of-{name.lower()}-0123456789abcdef")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OPENAI_API_KEY=canary-of-a-file-0123456789abcdef\n")
    caplog.set_level(logging.DEBUG)
    said, run = io.StringIO(), tmp_path / "run"
    Pipeline(load_config(write_config(tmp_path / "mini.toml", word_directory)), run, Console(file=said))()
    write_report(run)
    assert write_cards(run)
    (run / "results.json").write_text("{")
    with pytest.raises(RunError) as damaged:
        write_report(run)
    written = [path for path in run.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert [path.name for path in written if b"canary-of" in path.read_bytes()] == []
    captured = capsys.readouterr()
    for text in (said.getvalue(), captured.out, captured.err, caplog.text, repr(damaged.value)):
        assert "canary-of" not in text


ROWS = [[Example([5, 6, 7, 8], [0, 1, 1, 1])]]


@pytest.mark.parametrize("stage", ["grpo", "expert_iteration", "dpo", "distill"])
def test_only_grpo_divides_logits_by_the_temperature_of_play(stage, finished_run, tmp_path, monkeypatch) -> None:
    stored = load_config(finished_run / "config.json")
    cold = stored.settings_of(stage).model_copy(update={"temperature": 0.25})
    config = stored.model_copy(update={"stages": ("sft", stage), stage: cold})
    found = []

    def loading(*arguments: object) -> None:
        found.append(load_learner(*arguments).evaluate(ROWS, CrossEntropy())["loss"])
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "load_learner", loading)
    with pytest.raises(KeyboardInterrupt):
        Pipeline(config, begun(config, tmp_path / "run", finished_run), QUIET)(stage)
    model = config.model_at(finished_run / "sft")
    plain = load_learner(config, model, config.seed).evaluate(ROWS, CrossEntropy())["loss"]
    assert (found == [pytest.approx(plain, rel=1e-6)]) == (stage != "grpo")
