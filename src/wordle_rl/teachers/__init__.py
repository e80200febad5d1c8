"""Teachers: players whose games are trained on.

solver.py          the solver as teacher; misspelt words before its guesses
best_guess.py      the guess it names
pseudo_secrets.py  letters that stand in for an answer, so that it is shown
invented_words.py  words of no list, which teach to spell what the marks say
distribution.py    what the solver says at boards of others: a guess, or a distribution over words
games.py           the solver teacher's games as traces, with thinking in words
own_teacher.py     games of a teacher of yours, by import path
unfinished.py      those games while they are written, resumed after a stop
llm.py             language models as teachers: requests, budget
collect.py         collection of their games, resumed after a stop
"""
