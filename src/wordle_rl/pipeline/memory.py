"""Memory of a stage: what the device has, what was in use before, and the peak.

On a GPU this is what torch has reserved, including its cache, as `nvidia-smi` shows it. Elsewhere it is the resident
memory of the process. torch is not imported here; a run that trains has already imported it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from wordle_rl.runs.provenance import main_memory_bytes, peak_memory_gib, resident_memory_gib

_GIB = 1024**3


@dataclass(frozen=True)
class MemoryNow:
    """Memory of this process, in GiB.

    Attributes:
        device: Name of the GPU, or `main memory`.
        total_gib: Memory of the device; 0: unknown.
        taken_gib: Memory in use now.
        peak_gib: Peak: on a GPU since `memory_now(reset_peak=True)`, elsewhere since the process began.
    """

    device: str
    total_gib: float
    taken_gib: float
    peak_gib: float

    def line(self) -> str:
        """Describe the device and the memory in use, for the start of a stage.

        Examples:
            >>> MemoryNow("NVIDIA A100", 40.0, 10.5, 10.5).line()
            'NVIDIA A100: 40.000 GiB in all, 10.500 GiB reserved'
        """
        return f"{self.device}: {self.total_gib:.3f} GiB in all, {self.taken_gib:.3f} GiB reserved"


@dataclass(frozen=True)
class StageMemory:
    """Memory before and after a stage."""

    before: MemoryNow
    after: MemoryNow

    @property
    def grown_gib(self) -> float:
        """Peak minus memory in use before."""
        return max(0.0, self.after.peak_gib - self.before.taken_gib)

    def line(self, stage: str, seconds: float) -> str:
        """Describe time and peak memory of a stage.

        Examples:
            >>> before, after = (MemoryNow("GPU", 40.0, 10.0, peak) for peak in (10.0, 36.0))
            >>> StageMemory(before, after).line("grpo", 90.0)
            'grpo: 90.0 s (1.50 min); peak 36.000 GiB, 90.0 % of GPU; 26.000 GiB of it for the stage, 65.0 %'
        """
        return (
            f"{stage}: {seconds:.1f} s ({seconds / 60:.2f} min); peak {self.after.peak_gib:.3f} GiB, "
            f"{self._share(self.after.peak_gib)} % of {self.after.device}; {self.grown_gib:.3f} GiB of it for the "
            f"stage, {self._share(self.grown_gib)} %"
        )

    def row(self) -> dict[str, Any]:
        """Return the figures for timings.json and results.json."""
        return {
            "device": self.after.device,
            "total_gib": round(self.after.total_gib, 3),
            "reserved_before_gib": round(self.before.taken_gib, 3),
            "peak_gib": round(self.after.peak_gib, 3),
            "peak_percent": self._percent(self.after.peak_gib),
        }

    def _share(self, gib: float) -> str:
        percent = self._percent(gib)
        return "–" if percent is None else f"{percent:.1f}"

    def _percent(self, gib: float) -> float | None:
        return round(100 * gib / self.after.total_gib, 1) if self.after.total_gib else None


def memory_now(*, reset_peak: bool = False) -> MemoryNow:
    """Measure the memory of this process on its device; `reset_peak` restarts the peak of a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        total = (main_memory_bytes() or 0) / _GIB
        return MemoryNow("main memory", total, resident_memory_gib() or 0.0, peak_memory_gib())
    if reset_peak:
        torch.cuda.reset_peak_memory_stats()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return MemoryNow(
        str(properties.name),
        properties.total_memory / _GIB,
        torch.cuda.memory_reserved() / _GIB,
        torch.cuda.max_memory_reserved() / _GIB,
    )
