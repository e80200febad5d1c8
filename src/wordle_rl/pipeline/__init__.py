"""A whole run: words -> solver -> traces -> SFT -> GRPO, expert iteration, DPO or distillation -> evaluation -> report.

chain.py        `Pipeline`: the stages, in order, in a run directory
work.py         what the stages of a run share, and how long they took
stages.py       teacher games, SFT, RL
evaluation.py   evaluations of the models, results and report
memory.py       memory of a stage, before and after
push.py         push models to the hub while a run trains
"""

from wordle_rl.pipeline.chain import Pipeline
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.pipeline.stages import finish_model

__all__ = ["HubPusher", "Pipeline", "finish_model"]
