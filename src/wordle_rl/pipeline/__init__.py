"""A whole run: words -> solver -> traces -> SFT -> GRPO, expert iteration, DPO or distillation -> evaluation -> report.

chain.py        `Pipeline`: which stages, in which order, in whose directory
work.py         what all stages of a run work with, and how long they took
stages.py       teacher games, SFT, learning by play
evaluation.py   the models' evaluations, results and report
memory.py       memory of a stage, before and after
push.py         models sent to the hub while a run trains
"""

from wordle_rl.pipeline.chain import Pipeline
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.pipeline.stages import finish_model

__all__ = ["HubPusher", "Pipeline", "finish_model"]
