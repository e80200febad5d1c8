"""Settings of TRL's asynchronous GRPO that a run has no section for: its server, how far games run ahead, time-outs."""

from __future__ import annotations

from pydantic import Field

from wordle_rl.config import Section


class AsyncSettings(Section):
    """The vLLM server that plays, and how far it runs ahead of the trainer."""

    server: str = "http://localhost:8000"
    """Address of the vLLM server."""
    batches_in_play: int = Field(2, ge=1)
    """Games the server plays at the same time, in batches of one step."""
    batches_queued: int = Field(4, ge=1)
    """Finished games that may wait for the trainer, in batches of one step; a full queue holds up the server."""
    max_staleness: int = Field(4, ge=0)
    """Updates by which a game may be older than the weights it trains; older ones are discarded."""
    lookup_timeout_s: int = Field(10, ge=1)
    """Seconds for the server to say, before anything is written, which model it serves."""
    server_timeout_s: float = Field(240.0, ge=1)
    """Seconds for the server to be ready when training begins."""
    worker_timeout_s: int = Field(300, ge=1)
    """Seconds for the process that asks for games to start."""
    heartbeat_timeout_s: int = Field(300, ge=1)
    """Seconds without a sign of life after which that process counts as hung, which ends the training."""
    request_timeout_s: int = Field(120, ge=1)
    """Seconds for the server to answer one turn."""
    weight_sync_timeout_s: int = Field(1800, ge=1)
    """Seconds for the weights to reach the server."""
