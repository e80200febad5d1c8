"""Teachers: players whose games are trained on.

solver.py           the solver as teacher; misspelt words before its guesses
made_up_secrets.py  letters that stand in for an answer as the secret; invented words
distribution.py     the solver's label for any board: a guess, or a distribution over words
games.py            teachers' games as traces, the solver's with thinking in words, your own's; files of traces
llm.py              language models as teachers: requests, budget, games collected and resumed after a stop
"""
