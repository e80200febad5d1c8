"""Teachers: players whose games are trained on.

solver.py          the solver as teacher; misspelt words before its guesses
best_guess.py      the guess that splits the answers into the most classes
pseudo_secrets.py  letters that stand in for an answer as the secret
invented_words.py  invented words as secrets, which teach to spell what the marks say
distribution.py    the solver's label for any board: a guess, or a distribution over words
games.py           the solver teacher's games as traces, with thinking in words
own_teacher.py     games of your own teacher, by import path
llm.py             language models as teachers: requests, budget
collect.py         collect their games, resumed after a stop
"""
