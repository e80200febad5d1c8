"""A whole run: words -> solver -> traces -> stages of training -> evaluation -> report.

chain.py        `Pipeline`: the stages, in order, in a run directory
timings.py      time and memory of the parts of a run
stages.py       teacher games, and the stages: SFT, learning by play
evaluation.py   evaluations of the models, results and report
push.py         push models to the hub while a run trains
"""

from wordle_rl.pipeline.chain import Pipeline
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.pipeline.stages import finish_model

__all__ = ["HubPusher", "Pipeline", "finish_model"]
