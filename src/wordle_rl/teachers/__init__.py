"""Teachers: players whose games are trained on.

solver.py           the solver as teacher; misspelt words before its guesses
made_up_secrets.py  letters that stand in for an answer as the secret; invented words
distribution.py     the solver's label for any board: a guess, or a distribution over words
games.py            the solver teacher's games as traces, with thinking in words; files of traces
own_teacher.py      games of your own teacher, by import path
llm.py              language models as teachers: requests, budget
collect.py          collect their games, resumed after a stop
"""
