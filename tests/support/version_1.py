"""The config.json of a run of version 1 of the settings, as 0.1.0 and early 0.2.0 stored it."""

from typing import Any

OPTIMIZER = {
    "name": "adamw", "learning_rate": 3e-05, "muon_learning_rate": 0.02, "weight_decay": 0.0, "max_grad_norm": 1.0,
    "warmup_share": 0.03, "warmup_steps": 0, "schedule": "constant", "max_bad_steps": 5,
}  # fmt: skip
REWARD = {
    "preset": "sparse", "weights": {}, "then_preset": None, "then_weights": {}, "over_steps": 0, "threshold": 0.9,
    "keep_order": True,
}  # fmt: skip
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "max_completion_tokens": 512, "max_batch_size": 1024}
PLAY = {
    "max_given": 0, "reward": REWARD, "sampling": SAMPLING, "optimizer": OPTIMIZER, "precision": "auto",
    "gradient_checkpointing": False, "sample_games": 4,
}  # fmt: skip
ROUNDS = {**PLAY, "rounds": 4, "groups_per_round": 128, "epochs": 1.0, "batch_size": 64} | {
    "gradient_accumulation_steps": 1
}
DEFAULTS: dict[str, Any] = {
    "words": {"source": "default", "split_seed": 0},
    "game": {
        "max_turns": 6, "dictionary": "strict", "hard_mode": False, "max_refusals": 10, "style": "english",
        "shape": "transcript", "thinking": "optional", "system_prompt": None,
    },
    "model": {
        "path": "tiny", "hidden_size": 192, "num_layers": 2, "num_heads": 6, "num_kv_heads": 1,
        "intermediate_size": 512, "max_length": 1024, "template_kwargs": {}, "attn_implementation": None,
        "dtype": "float32", "lora": {"rank": 0, "alpha": 0, "dropout": 0.0, "target_modules": "all-linear"},
        "load_in_4bit": False, "liger_kernels": False,
    },
    "traces": {
        "file": None, "num_games": 100_000, "outside_rate": 0.5, "outside_choice": 1, "rl_only_share": 0.0,
        "slip_rate": 0.0, "narrate": False,
        "teacher": {
            "opener": None, "random_opener_rate": 0.5, "noise_rate": 0.25, "outside_noise_rate": 0.25,
            "stray_rate": 0.05, "reveal_rate": 0.0, "probe_gain": 0, "max_turns": 6,
        },
    },
    "sft": {
        "epochs": 1.0, "batch_size": 256, "gradient_accumulation_steps": 1, "max_length": 1024,
        "optimizer": {**OPTIMIZER, "learning_rate": 0.0003, "schedule": "cosine"}, "precision": "auto",
        "gradient_checkpointing": False, "save_steps": 0, "logging_steps": 10, "validations_per_epoch": 1,
        "save_each_epoch": False, "compile": False,
    },
    "algorithm": "grpo",
    "grpo": {
        **PLAY, "steps": 100, "groups_per_step": 32, "group_size": 16, "micro_batch_size": 0, "outside_rate": 0.0,
        "credit": "turn", "scale_advantages": False, "loss_type": "dapo", "sequence_importance": False,
        "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0, "mask_overlong": False, "engine": "transformers",
        "vllm": {"gpu_memory_share": 0.3, "tensor_parallel_size": 1, "max_length": 0, "sleep": False},
        "max_importance_ratio": None, "focus": 0.5, "scout_every_steps": 0, "turn_candidates": 1, "max_refills": 1,
        "save_steps": 0, "validate_every_steps": 0, "candidate_shares": [1.0],
    },
    "expert_iteration": {**ROUNDS, "group_size": 8, "keep_per_group": 1, "replay_share": 0.25},
    "dpo": {
        **ROUNDS, "group_size": 4, "judge": "regret", "boards_per_round": 512, "guesses_per_board": 8, "margin": 0.1,
        "pairs_per_board": 2, "beta": 0.1, "loss_type": "sigmoid", "sft_weight": 0.0,
    },
    "dagger": {
        **ROUNDS, "groups_per_round": 2048, "group_size": 1, "outside_rate": 0.5, "keep_rounds": 3,
        "replay_share": 0.25,
    },
    "starts_file": None,
    "starts_share": 0.5,
    "eval": {
        "max_games": 0, "max_batch_size": 1024, "regret": True, "engine": "transformers",
        "max_completion_tokens": 512, "base": False, "constrained": False,
    },
    "seed": 0,
    "report_to": [],
}  # fmt: skip
"""Every setting of version 1, at its default."""


def version_1(**changes: Any) -> dict[str, Any]:
    """Stored settings of version 1; sections of `changes` are laid over the defaults."""
    return _merged(DEFAULTS, changes)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {name: _merged(below[name], above[name]) for name in below if isinstance(above.get(name), dict)}
    return {**below, **above, **both}
