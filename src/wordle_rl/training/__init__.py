"""Gradient steps: supervised fine-tuning, optimizers, and what every training shares.

sft.py              SFT on teacher games, through TRL's SFTTrainer
prefixes.py         what games of a batch have in common, laid out to be computed once
shared_forward.py   the embedded model's forward pass over such a batch
validation_loss.py  its loss on games that are not trained on
trainer.py          metrics, progress, training to the end from a checkpoint
checkpoints.py      whole checkpoints, the trained model
guard.py            steps with a non-finite loss or gradient
interrupt.py        Ctrl-C
optimizer.py        AdamW or Muon by parameter, learning rate schedules
muon.py             Muon on matrices in groups
"""
