"""Teach language models to play Wordle, and measure honestly what they learned."""

__version__ = "0.1.0"
