"""Training by rounds: play a batch of games, select what to learn, fine-tune on it.

    rounds.py            the loop: play, store, train, resume
    expert_iteration.py  SFT on the best games of each group
    hindsight.py         its other labels: the revealed secret on every board
    dpo.py               preference pairs of guesses on the same board
    dagger.py            the solver's guess on the policy's own boards
    replay.py            teacher games added to those of a round

Begin with rounds.py.
"""
