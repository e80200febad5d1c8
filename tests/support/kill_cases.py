"""The commands that are killed: each a few seconds long, and with every kind of file that it may write."""

_PLAYED = {"rl__sample_games": "3"}
TRAININGS: dict[str, dict[str, str]] = {
    "sft": {
        "sft__epochs": "2.0",
        "sft__save_steps": "3",
        "sft__logging_steps": "2",
        "sft__save_each_epoch": "true",
        "sft__validations_per_epoch": "2",
    },
    "grpo": {
        **_PLAYED,
        "grpo__steps": "5",
        "grpo__save_steps": "2",
        "grpo__validate_every_steps": "3",
        "grpo__interpolation_alphas": "[0.5, 1.0]",
        "grpo__probe_every_steps": "4",
        "grpo__prioritized_fraction": "0.5",
        "rl.reward__preset": '"sparse"',
        "rl.reward__then_preset": '"solver"',
        "rl.reward__threshold": "0.02",
    },
    "expert_iteration": {
        **_PLAYED,
        "algorithm": '"expert_iteration"',
        "expert_iteration__rounds": "3",
        "expert_iteration__groups_per_round": "8",
    },
    "dpo": {
        **_PLAYED,
        "algorithm": '"dpo"',
        "dpo__rounds": "3",
        "dpo__groups_per_round": "8",
        "dpo__boards_per_round": "16",
    },
    "dagger": {
        **_PLAYED,
        "algorithm": '"dagger"',
        "dagger__rounds": "3",
        "dagger__groups_per_round": "16",
        "dagger__keep_rounds": "1",
    },
}
"""Settings of each training that differ from those of `write_config`."""
