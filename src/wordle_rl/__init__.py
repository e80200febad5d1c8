"""Teach language models to play Wordle, and measure honestly what they learned."""

__version__ = "0.2.0"
