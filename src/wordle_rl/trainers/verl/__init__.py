"""verl, whose engine is Ray: our games, rewards and credit under a trainer for one GPU up to many nodes.

`launch` writes a run's secrets, translates its config to verl's (`settings`), starts `trainer`, and copies the trained
model into the run.
In verl's workers `agent_loop` has `play` ask the server turn by turn; `trainer` credits the turns.
"""
