"""The checks, by subject: functions of an `Examiner` that return a `Finding`.

check.py          a check as a value: id, title, what it depends on, how often it errs
reproducible.py   seeds, determinism, isolation, replays
containment.py    secrets in observations, and beside them
rewards.py        well-formed rewards, the solver at the top, idle canaries at the bottom
incentives.py     the lesson of rewards: attribution, training signal, gameability
rules.py          marks, repeated letters, the last turn, the limit of turns, the end
replies.py        replies that are no guess: refusals, prose, thinking
"""
