"""Checks before a training: will this config work?

    question                                             file
    do settings agree with each other?                   the models of config/ (raise ConfigError)
    do settings, model and prompts agree?                model_fit.py  check_model() and others
    does the chat template keep turns, do replies end?   template.py   check_template(), check_stops()
    does everything fit into memory?                     memory.py (arithmetic), device.py (this machine),
                                                         unified_memory.py (a Mac)
    do the teacher's games fit?                          teacher_sample.py
    which checks are there?                              checks.py     CHECKS, the list that `run` and `preflight` share
    can the directory be written, what is left to do?    before_run.py for `run`, which stops at every problem
    how will the first games go?                         report.py     preflight(): CHECKS, and a few games

A check of values returns `Finding`s (findings.py: problem, warning, note). If nothing can go on without it, it raises
`ConfigError`; `refuse()` turns problems into one.
"""
