"""Who plays: the `Sampler` protocol and its backends. Each backend is imported from its own module."""

from wordle_rl.samplers.base import Completion, Request, Sampler

__all__ = ["Completion", "Request", "Sampler"]
