"""Multi-turn GRPO.

    train.py                 train_grpo(): puts the parts together, runs to the end
    rollouts.py              the games of a step: draw, play, score, lay out
    play.py                  the games of some groups
    branching.py             several guesses for every turn
    score.py                 rewards and advantages of a group
    layout.py                games as rows of tokens, loss masks, advantages
    probes.py                every secret played greedily, for its priority
    trainer.py               loss and optimizer step
    gather.py                metrics and states of several processes as one
    micro_batches.py         rows of similar length share a backward pass
    vllm.py                  a vLLM engine colocated with the training
    vllm_server.py           a vLLM server that gets the weights of each step
    checkpoint_selection.py  which weights of a run are kept

Begin with train.py, rollouts.py and trainer.py.
"""
