"""Games to learn from: played by teachers, kept in files, checked, turned into training rows.

teacher.py       the solver as teacher
best_guess.py    the guess it names
coverage.py      which of its games are kept: those that show rarely shown answers
slips.py         misspelt words before the teacher's
traces.py        a game as a trace; the teacher's thinking in words
trace_files.py   traces on disk, CSV tables
llm_teacher.py   language models as teachers: requests, budget
llm_traces.py    the command that collects their games, and goes on after a stop
claims.py        is what a thought claims true?
dataset.py       traces -> checked examples and rows
preview.py       a few teacher games as token sequences, to be measured before a run
row_files.py     which files rows may replace
given_traces.py  a run's own teacher games, from a file
given_starts.py  boards that groups start from, from a file
imports.py       other people's rows
"""
