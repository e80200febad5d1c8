"""Thin adapters to trainers with a loop of their own. They may import everything, and nothing imports them.

games.py        games by split and index, rewarded turn by turn; shared by the files below
gymnasium.py    Gymnasium: `Wordle-v0`
verifiers.py    verifiers 0.4, and so prime-rl: taskset and environment
skyrl.py        SkyRL: a `BaseTextEnv`, and rows
skyrl_train.py  launch of SkyRL's trainer: configuration, data, environment
nemo_gym.py     NeMo Gym: a resources server, and rows
token_env.py    games over token ids, without any package
tinker.py       Tinker: the same in its cookbook's types
trl.py          TRL's `environment_factory` over the OpenEnv server
verl/           verl on Ray: GRPO and PPO on one GPU up to many machines
"""
