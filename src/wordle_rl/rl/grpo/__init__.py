"""Multi-turn GRPO.

train.py                 train_grpo(): model, data, trainer, run to the end
rollouts.py              the games of a step: drawn, played, scored, laid out as rows
trainer.py               loss and optimizer step
branching.py             several guesses for every turn
micro_batches.py         rows of similar length share a backward pass
vllm.py                  a vLLM engine beside the training
checkpoint_selection.py  which weights of a run are kept
"""
