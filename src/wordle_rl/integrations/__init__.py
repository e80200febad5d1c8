"""Thin adapters to trainers that bring a loop of their own; they may use every room, and no room uses them.

async_grpo.py      TRL's asynchronous GRPO: refusals, trainer, command
async_settings.py  its server, how far games run ahead, time-outs
async_rollouts.py  our games in the process that asks its vLLM server
"""
