"""`report`: a run's page, model cards, audit and plots. `export`: a whole model, here or on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import fill_in
from wordle_rl.config.base import ConfigError
from wordle_rl.config.evaluation import BackendName
from wordle_rl.config.model import GameSettings
from wordle_rl.config.options import Json
from wordle_rl.data.readers import read_rows
from wordle_rl.evaluate.players import reply_bound, words_of
from wordle_rl.evaluate.strata import STRATA_FILE, ShownAudit, audit_shown, store_strata
from wordle_rl.policy.base import find_backend
from wordle_rl.policy.directory import find_model, game_of, settings_of
from wordle_rl.report import read_run, write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.controls import keep_controls
from wordle_rl.report.hub import push
from wordle_rl.report.run_record import read_metrics
from wordle_rl.report.svg import table_plot, wins_plot
from wordle_rl.runs import is_run, write_text_atomically
from wordle_rl.runs.lineage import Audit, lineage_of, save_lineage
from wordle_rl.runs.lineage import audit as audit_run
from wordle_rl.words import WordListError, load_words


def report(
    run: Annotated[Path, tyro.conf.Positional],
    control: tuple[Path, ...] = (),
    cards: bool = False,
    audit: bool = False,
    wins: Path | None = None,
    plot: Path | None = None,
    as_json: Json = False,
) -> None:
    """Write a run's report: curves, distributions and every game, in one HTML file.

    A held-out word is never the secret of a training game, but training may name it as a guess. --audit proves the
    first from the run's records, and counts the words by what training showed of them: their decisive board with the
    word as label, the word elsewhere, or neither. The exit code is 2 if a validation or test secret was trained on, a
    strict word (`words.strict_fraction`) was named, or records are missing.

    Args:
        run: A run directory; with --cards also a single model directory in it, with --plot also a file.
        control: Control runs (SFT alone, with nothing kept from the teacher) and control evaluations (`eval
            --match-entropy-of`). They are copied into the run, and its page and cards show them beside the gain by
            play.
        cards: Instead write the model cards (README.md) of its trained models. Existing cards are replaced.
        audit: Instead prove that no held-out secret was trained on, and count what training showed of them.
        wins: Instead plot the training games won and the win rate by turn to this file (SVG).
        plot: Instead plot every column of numbers over the steps to this file (SVG): of a run, or of any file with a
            column `step`, also another trainer's (CSV, JSON lines, JSON, parquet, trainer_state.json).
    """
    asked = [name for name, given in (("cards", cards), ("audit", audit), ("wins", wins), ("plot", plot)) if given]
    if len(asked) > 1:
        raise ConfigError(f"--{' and --'.join(asked)} are commands of their own; give one of them")
    if control and asked and not cards:
        raise ConfigError(f"--control is for the page and the cards; leave out --{asked[0]}")
    if audit:
        _audit(run, as_json)
    elif cards:
        if control and not is_run(run):
            raise ConfigError(f"{run} is no run, and controls are kept in one; name the run, or leave out --control")
        keep_controls(run, control)
        written = [str(card) for card in write_cards(run)]
        console.show({"cards": written}, (f"card: {card}" for card in written), as_json)
    elif wins is not None:
        # A metrics.jsonl alone will do, such as one copied from another machine.
        metrics = read_metrics(run) if run.is_file() else read_run(run).metrics
        name = (run.resolve().parent if run.is_file() else run.resolve()).name
        write_text_atomically(wins, wins_plot(metrics, f"{name}: wins in training"))
        console.show({"wins": str(wins)}, [f"wins: {wins}"], as_json)
    elif plot is not None:
        table = run / "metrics.jsonl" if run.is_dir() else run
        write_text_atomically(plot, table_plot(read_rows(table), table.name))
        console.show({"plot": str(plot)}, [f"plot: {plot}"], as_json)
    elif run.is_file():
        raise ConfigError(f"{run} is a file, not a run; add --plot curves.svg to draw its columns")
    else:
        _page(run, control, as_json)


def _page(run: Path, control: tuple[Path, ...], as_json: bool) -> None:
    if control:
        keep_controls(run, control)
    # A run writes its strata before it evaluates; here they are made for one that was stopped before.
    if (run / "traces.jsonl").is_file() and not (run / STRATA_FILE).is_file() and is_run(run):
        try:
            store_strata(run)
        except WordListError as error:
            console.messages.print(f"held-out figures are not divided into strata: {error}", soft_wrap=True)
    path = write_report(run)
    console.show({"report": str(path)}, [f"report: {path}"], as_json)


def _audit(run: Path, as_json: bool) -> None:
    found = audit_run(run)
    shown = audit_shown(run)
    told = {"clean": found.clean, **asdict(found), "held_out": asdict(shown)}
    console.show(told, _audit_lines(found, shown), as_json)
    # Shown first, refused afterwards: whoever reads the figures also learns why the exit code is 2.
    if found.strict_leaks:
        word, name = found.strict_leaks[0][1], found.strict_leaks[0][0]
        raise ConfigError(f"training named strict words: {word} in {name}, {len(found.strict_leaks)} in all")
    if not found.clean:
        # By secret, since one leaked word is in most of the records at once.
        records: dict[str, list[str]] = {}
        for name, secret in found.leaks:
            records.setdefault(secret, []).append(name)
        named = ", ".join(f"{secret} ({', '.join(names)})" for secret, names in list(records.items())[:5])
        raise ConfigError(f"training used {len(records)} validation or test secrets: {named}")


_SHOWN_LINES = {
    "board_shown": "their decisive board appears in the training games, with the word as label",
    "board_not_shown": "named in training games, but not on that board",
    "never_said": "never named",
}


def _audit_lines(found: Audit, shown: ShownAudit) -> Iterator[str]:
    for name, count in found.num_secrets.items():
        yield f"{count:>9,} training secrets in {name}"
    # What training showed of held-out words means nothing once they were trained on.
    if not found.clean:
        return
    yield "no validation or test secret is the secret of a training game"
    if found.num_strict:
        yield f"none of the {found.num_strict:,} strict words is named in any record of training"
    yield f"what training games show of the {sum(shown.num_secrets.values()):,} held-out secrets:"
    for name, count in shown.num_secrets.items():
        yield f"{count:>9,} {name.replace('_', ' ')}: {_SHOWN_LINES[name]}"
    for name, (same, won) in shown.own_games.items():
        yield f"{same:>9,} of the {won:,} held-out games that {name} won appear in the training games turn for turn"
    if not shown.complete:
        yield "more may have been shown: by conversations (traces.file), or earlier, to a model trained elsewhere"


def _export_gguf(model: Path, file: Path, dtype: Literal["float32", "bfloat16"]) -> Path:
    # Write a model's GGUF file, and the Modelfile beside it, whose path is returned.
    place = file.with_suffix(".Modelfile")
    if there := next((each for each in (file, place) if each.exists()), None):
        raise ConfigError(f"{there} is there already; name another --gguf")
    try:
        from wordle_rl.policy.gguf_export import modelfile, write_gguf
    except ModuleNotFoundError as error:
        raise ConfigError(f"--gguf needs {error.name}: pip install {error.name}") from None
    from wordle_rl.chat.codec import longest_game
    from wordle_rl.policy.adapters import is_adapter, merged
    from wordle_rl.policy.loading import load_model

    directory = find_model(model)
    words = load_words(words_of(str(model)).source)
    prompter = (game_of(directory) or GameSettings()).prompter(words.word_length)
    limit = reply_bound(str(model), None)
    loaded, codec = load_model(settings_of(directory).model_copy(update={"dtype": "float32"}), 0)
    whole = merged(loaded) if is_adapter(directory) else loaded
    context = longest_game(words, prompter, codec, limit)
    text = modelfile(codec, prompter, limit, context, file.name)
    write_gguf(whole, codec, prompter, lineage_of(directory), dtype, file)
    write_text_atomically(place, text)
    return place


def export(
    model: Annotated[Path, tyro.conf.Positional],
    out: Path | None = None,
    repo: str | None = None,
    gguf: Path | None = None,
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    backend: BackendName = "torch",
    private: bool = False,
    dry_run: bool = False,
    as_json: Json = False,
) -> None:
    """Make a trained model ready for others: a whole directory (--out), a hub repository (--repo), a file for Ollama.

    A whole model is copied. An adapter is merged into its base model; the logits are compared before anything is
    written. FSDP checkpoint shards are gathered. With --backend mlx, an MLX adapter or quantized MLX weights become one
    ordinary model.

    Args:
        model: A model directory, a run (its last model is taken), or a checkpoint such as
            RUN/sft/checkpoints/checkpoint-100.
        out: The new model directory. {model} in its name stands for the model, {time} for the time of the call.
        repo: USER/NAME on the Hugging Face hub, created if missing. The model is pushed with its card, using the token
            of HF_TOKEN or `hf auth login`.
        gguf: A GGUF file for llama.cpp and Ollama (Llama, Qwen2 and Qwen3 families); an adapter is merged first. The
            Modelfile beside it holds the chat template, stops and the system message for `ollama create`.
        dtype: Type of the stored weights. auto: that of the base model; float32 with MLX, and in a GGUF file.
        backend: Library that trained the model.
        private: Create a new repository as private.
        dry_run: With --repo: list the files and send nothing.
    """
    if sum(target is not None for target in (out, repo, gguf)) != 1:
        raise ConfigError("give exactly one of --out DIR, --repo USER/NAME and --gguf FILE")
    if repo is None and (private or dry_run):
        raise ConfigError("--private and --dry-run are for --repo; leave them out")
    if repo is not None and (dtype != "auto" or backend != "torch"):
        raise ConfigError("--repo sends files as they are; convert them with `export --out DIR`, and push DIR")
    if gguf is not None:
        if backend != "torch":
            raise ConfigError(
                f"--gguf takes models of torch; give it what `export --out DIR --backend {backend}` writes"
            )
        gguf = fill_in(gguf, str(model))
        modelfile = _export_gguf(model, gguf, "float32" if dtype == "auto" else dtype)
        lines = [f"model: {gguf}", f"play it by Ollama: ollama create wordle -f {modelfile}"]
        console.show({"gguf": str(gguf), "modelfile": str(modelfile)}, lines, as_json)
        return
    if repo is not None:
        files = push(model, repo, private=private, dry_run=dry_run)
        line = f"{len(files)} files {'would be sent' if dry_run else 'sent'} to {repo}"
        console.show({"repo": repo, "sent": not dry_run, "files": files}, [*files, line], as_json)
        return
    assert out is not None
    out = fill_in(out, str(model))
    from wordle_rl.policy import whole_models as torch_export
    from wordle_rl.policy.adapters import is_adapter

    source, done = model, dict[str, float]()
    if torch_export.is_sharded(model):
        if dtype != "auto" or backend != "torch":
            raise ConfigError(f"{model} holds shards, whose type stays; leave out --dtype and --backend")
        done["num_weights"] = torch_export.consolidate(model, out)
        line = f"{done['num_weights']} weights"
    else:
        source = find_model(model)
        # Nothing to merge or to convert: the files are copied as they are.
        if backend == "torch" and dtype == "auto" and not is_adapter(source):
            torch_export.copy(source, out)
            line = f"copied from {source}"
        else:
            merge = torch_export.merge if backend == "torch" else find_backend(backend).export
            done["difference"] = merge(source, out, dtype)
            line = f"logits differ by {done['difference']:.1e} standard deviations"
    if (lineage := lineage_of(source)) is not None:
        save_lineage(out, lineage)
    console.show({"model": str(out), **done}, [f"model: {out}; {line}"], as_json)
