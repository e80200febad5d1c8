"""Thin adapters to trainers that bring a loop of their own; they may use every room, and no room uses them.

async_grpo.py      TRL's asynchronous GRPO: settings, trainer, command
async_rollouts.py  our games in the process that asks its vLLM server
"""
