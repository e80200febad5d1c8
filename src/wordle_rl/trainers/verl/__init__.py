"""verl, whose engine is Ray: our games, rewards and credit under a trainer for one GPU up to many nodes.

`launch` writes a run's secrets, hands its config in verl's words (`settings`) to `trainer`, and takes over the model.
In verl's workers `agent_loop` has `play` ask the server turn by turn, and `advantages` credits the turns.
"""
