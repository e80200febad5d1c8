"""What each command does and prints, once its arguments are read.

console.py      where commands print
words.py        words, solve
data.py         traces, analyze, dataset, import
training.py     run, preflight
evaluating.py   eval, compare; what `eval` was asked for: eval_request.py
finished.py     report, card, push, audit, merge, consolidate
play.py         play
"""
