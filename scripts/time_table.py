"""Predict the seconds of a GRPO step and of an SFT epoch from what a token costs; compare a run with the prediction.

    python scripts/time_table.py                          # Qwen3 on 1, 8 and 64 GPUs: arithmetic, nothing is measured
    python scripts/time_table.py configs/quickstart.toml  # measures the costs on this machine and predicts the run
    python scripts/time_table.py --check RUN              # the same, beside what metrics.jsonl of a run has

The formula is in `wordle_rl.pipeline.token_costs` and docs/scale.md. Costs are measured with the model that the run's
GRPO starts from, by one step's games. Known costs are given instead, a GPU: `--prefill-tokens-per-s`,
`--decode-tokens-per-s`, `--training-tokens-per-s`, all three; with `--model` they are those of a row of the table.
"""

import argparse
import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from scale_table import GIB, GPU_BYTES, GPUS, MODELS, Model, games_at_once, trainer_bytes

from wordle_rl.config import GRPOTraining, RunConfig, load_config
from wordle_rl.config.files import stored_config
from wordle_rl.pipeline.token_costs import (
    Comparison,
    GameTokens,
    Gpu,
    StepSize,
    TokenCosts,
    compare_epoch,
    compare_steps,
    gpu_costs,
    grpo_step_seconds,
    sft_epoch_seconds,
)
from wordle_rl.runs.files import read_jsonl

GAME = GameTokens(prompt=704, turns=6, reply=512, feedback=64)
"""A game of 4,096 tokens, the longest that the recipe for verl has room for."""
STEP = StepSize(groups=512, group_size=8, scorings=1)
SFT_GAMES = 10_000
RATES = ("prefill", "decode", "training")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what is asked for."""
    options = parser().parse_args(arguments)
    known = known_costs(options)
    if options.check:
        print("\n".join(check_lines(options.check, known, options.prompt_tokens, options.feedback_tokens)))
    elif options.config:
        print("\n".join(prediction_lines(load_config(options.config), options.turns, options.reply_tokens)))
    else:
        models = {options.model: MODELS[options.model]} if options.model else MODELS
        print("\n".join(gpu_table(models, gpu_of(options), known)))


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description="Predict seconds from what a token costs.")
    made.add_argument("config", nargs="?", type=Path, help="measure its costs here, and predict")
    made.add_argument("--check", type=Path, metavar="RUN", help="compare with this run's metrics.jsonl")
    made.add_argument("--model", choices=list(MODELS), help="one row of the GPU table")
    made.add_argument("--turns", type=float, help="turns of a game; default: those of the measured games")
    made.add_argument("--reply-tokens", type=float, help="tokens of a reply; default: those of the measured games")
    made.add_argument("--prompt-tokens", type=float, help="of a game, where costs are given with --check")
    made.add_argument("--feedback-tokens", type=float, help="between two replies, where costs are given with --check")
    for name in RATES:
        made.add_argument(f"--{name}-tokens-per-s", type=float, help="of one device")
    for field in dataclasses.fields(Gpu):
        flag = f"--gpu-{field.name.replace('_', '-')}"
        made.add_argument(flag, type=float, default=field.default, help="default: %(default)s")
    return made


def known_costs(options: argparse.Namespace) -> TokenCosts | None:
    """The costs that were given; None: to be measured or worked out.

    Raises:
        SystemExit: If some of the three are missing, or they are those of no model.
    """
    rates = [getattr(options, f"{name}_tokens_per_s") for name in RATES]
    if not any(rates):
        return None
    if not all(rates):
        raise SystemExit("--prefill-, --decode- and --training-tokens-per-s belong together; give all three, above 0")
    if options.check and not (options.prompt_tokens and options.feedback_tokens):
        raise SystemExit("metrics.jsonl has no prompts; give --prompt-tokens and --feedback-tokens of a game, too")
    if options.config or not (options.check or options.model):
        raise SystemExit("costs that are given are those of one model; name it by --model, or a run by --check")
    prefill_s, decode_s, training_s = (1 / rate for rate in rates)
    return TokenCosts(prefill_s, decode_s, training_s, training_s)


def gpu_of(options: argparse.Namespace) -> Gpu:
    """The GPU that was described."""
    return Gpu(**{field.name: getattr(options, f"gpu_{field.name}") for field in dataclasses.fields(Gpu)})


def gpu_table(models: dict[str, Model], gpu: Gpu, known: TokenCosts | None = None) -> Iterator[str]:
    """Seconds of a step of 512 x 8 games of 4,096 tokens and of an epoch of SFT, by model and GPUs, in markdown."""
    headings = ("model", "GPUs", "games at once on each", "rollout, s", "log-probabilities, s", "training, s")
    yield f"| {' | '.join(headings)} | step, min | SFT, s |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, model in models.items():
        for gpus in GPUS:
            held = trainer_bytes(model, gpus)
            if held > GPU_BYTES:
                yield f"| {name} | {gpus} | does not fit: {held / GIB:.0f} GiB | – | – | – | – | – |"
                continue
            at_once = min(games_at_once(model, 1), STEP.groups * STEP.group_size // gpus)
            costs = gpu_costs(gpu, model.parameters, model.cache_bytes, GAME, gpus=gpus, games_at_once=at_once)
            if known:
                costs = divided(known, gpus)
            parts = grpo_step_seconds(costs, GAME, STEP)
            training = parts["training"] + parts["update"]
            epoch = sft_epoch_seconds(costs, SFT_GAMES, GAME.length)
            seconds = " | ".join(f"{part:,.0f}" for part in (parts["rollout"], parts["logprobs"], training))
            yield f"| {name} | {gpus} | {at_once} | {seconds} | {sum(parts.values()) / 60:,.1f} | {epoch:,.0f} |"


def divided(costs: TokenCosts, devices: int) -> TokenCosts:
    """Costs of several devices that share the work."""
    return TokenCosts(*(seconds / devices for seconds in dataclasses.astuple(costs)))


def prediction_lines(config: RunConfig, turns: float | None, reply: float | None) -> Iterator[str]:
    """The costs on this machine, and what they make of a config."""
    settings = grpo_of(config)
    costs, game, teacher = measured_here(config, None)
    game = dataclasses.replace(game, turns=turns or game.turns, reply=reply or game.reply)
    yield from cost_lines(costs, game)
    parts = grpo_step_seconds(costs, game, StepSize.of(settings))
    named = ", ".join(f"{part} {seconds:.2f} s" for part, seconds in parts.items() if seconds)
    yield f"GRPO step: {sum(parts.values()):.2f} s ({named}), {settings.steps} of them"
    if config.sft.epochs:
        epoch = sft_epoch_seconds(costs, config.traces.num_games, teacher)
        yield f"SFT epoch: {epoch:.1f} s, {config.sft.epochs} of them, {teacher:.1f} tokens a game"


def check_lines(run: Path, known: TokenCosts | None, prompt: float | None, feedback: float | None) -> Iterator[str]:
    """Predicted and measured seconds of a run, and their ratio.

    Raises:
        SystemExit: If the run has nothing to compare with.
    """
    config, rows = stored_config(run / "config.json"), list(read_jsonl(run / "metrics.jsonl"))
    settings = grpo_of(config)
    epoch: Comparison | None = None
    if known is None or prompt is None or feedback is None:
        costs, game, teacher = measured_here(config, run)
        prompt, feedback = game.prompt, game.feedback
        epoch = compare_epoch(rows, costs, config.traces.num_games, teacher)
        yield from cost_lines(costs, game)
    else:
        costs = known
    step = StepSize.of(settings, redrawn=1.0 if settings.max_refills else 0.0)
    found: list[Comparison] = []
    if epoch is None or any(row.get("stage") == "grpo" for row in rows):
        try:
            found = compare_steps(rows, costs, step, prompt, feedback, config.game.max_turns)
        except ValueError as error:
            raise SystemExit(str(error)) from error
    yield "| part | predicted, s | measured, s | ratio |"
    yield "|---|---|---|---|"
    for one in [*found, *([epoch] if epoch else [])]:
        yield f"| {one.part} | {one.predicted_s:.3f} | {one.measured_s:.3f} | {one.ratio:.2f} |"


def cost_lines(costs: TokenCosts, game: GameTokens) -> Iterator[str]:
    """Costs as tokens a second, and the games they were taken from."""
    rates = {"read": costs.prefill_s, "sampled": costs.decode_s, "trained": costs.training_s, "SFT": costs.sft_s}
    yield "tokens a second: " + ", ".join(f"{name} {1 / seconds:,.0f}" for name, seconds in rates.items() if seconds)
    yield (
        f"a game: prompt {game.prompt:.1f} tokens, {game.turns:.2f} turns, {game.reply:.2f} tokens a reply, "
        f"{game.feedback:.2f} of feedback; optimizer {1000 * costs.update_s:.1f} ms a step"
    )


def grpo_of(config: RunConfig) -> GRPOTraining:
    """The config's GRPO settings.

    Raises:
        SystemExit: If it trains otherwise, or samples several candidates a turn.
    """
    settings = config.training
    if not isinstance(settings, GRPOTraining):
        raise SystemExit(f"algorithm {config.algorithm} has no GRPO steps to predict; take a config with grpo")
    if settings.turn_candidates > 1:
        raise SystemExit(f"grpo.turn_candidates {settings.turn_candidates} is not in the formula; set it to 1")
    return settings


def measured_here(config: RunConfig, directory: Path | None) -> tuple[TokenCosts, GameTokens, float]:
    """Costs on this machine, tokens of a played game, and of a teacher game.

    The model is that of a run's `directory`/sft where it is there; else that of `model.path`.
    """
    from wordle_rl.config.context import GameContext
    from wordle_rl.models.loading import load_model
    from wordle_rl.pipeline.cost_probe import measure
    from wordle_rl.preflight.teacher_sample import teacher_examples

    trained = directory / "sft" if directory and config.start == "sft" else None
    model_settings = config.model_at(trained) if trained and trained.is_dir() else config.model
    context = GameContext.of(config)
    model, codec = load_model(model_settings, config.seed)
    examples = teacher_examples(config, context, codec)
    probe = measure(model, codec, context, grpo_of(config), config.sft, examples, seed=config.seed)
    return probe.costs, probe.game, statistics.fmean(len(example.token_ids) for example in examples)


if __name__ == "__main__":
    main()
