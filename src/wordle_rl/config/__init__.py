"""Every setting: frozen pydantic models, read from TOML, overridden on the command line, stored as JSON.

run.py          `RunConfig`: all sections of a run, and checks across sections
model.py        words, rules and wording, the model
teachers.py     teacher games
training.py     parts of stages: optimizer, sampling, reward, how games pass through the model
stages.py       a class for each kind of stage: SFT, GRPO, expert iteration, DPO, distillation
refusals.py     combinations that cannot work, each with its sentence
evaluation.py   evaluation, in a run and of endpoints
files.py        load_config(), stored_config(): presets, files, overrides, errors in one line
options.py      options that several commands share, with their help
context.py      `GameContext`: words, split, prompts and solver of a config
presets/        ready-made runs by name: `wordle-rl run quickstart`
"""
