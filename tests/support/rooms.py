"""The order of the rooms: each may import from those before it. A package is one room."""

ORDER = (
    "words",
    "game",
    "solver",
    "prompt",
    "env",
    "reward",
    "chat",
    "config",
    "runs",
    "samplers",
    "rollout",
    "data",
    "models",
    "teachers",
    "training",
    "rl",
    "evaluate",
    "preflight",
    "report",
    "pipeline",

    "cli",
)
