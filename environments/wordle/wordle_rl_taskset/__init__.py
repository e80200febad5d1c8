"""Taskset that verifiers finds under the id `wordle-rl-taskset`; all of it is wordle_rl's own."""

from wordle_rl.integrations.verifiers_taskset import WordleTaskset, WordleVerifiersEnv

__all__ = ["WordleTaskset", "WordleVerifiersEnv"]
