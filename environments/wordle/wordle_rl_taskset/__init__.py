"""Taskset that verifiers finds under the id `wordle-rl-taskset`; all of it is wordle_rl's own."""

from wordle_rl.trainers.verifiers import WordleTaskset, WordleVerifiersEnv

__all__ = ["WordleTaskset", "WordleVerifiersEnv"]
