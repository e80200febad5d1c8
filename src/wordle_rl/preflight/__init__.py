"""Will this config work? Every check before a training, and the one place to look for it.

    question                                             asked by
    do the settings agree with each other?               the models of config/ (raise ConfigError)
    do settings, model and prompts agree?                model_fit.py  check_model() and others
    does the chat template keep turns, do replies end?   template.py   check_template(), check_stops()
    does everything fit the memory of this device?       memory.py (arithmetic), device.py (this machine),
                                                         unified_memory.py (a Mac)
    are the teacher's games usable?                      teacher_sample.py
    which of all these are asked, and when?              checks.py     CHECKS, the one list of `run` and `preflight`
    may this directory be written, what is left to do?   before_run.py of `run`, which refuses every problem of CHECKS
    how will the first games go?                         report.py     preflight(): CHECKS, and a few games

Two forms of result: a check of values returns `Finding`s (findings.py: problem, warning, note); a check that nothing
can continue without raises `ConfigError`, and `refuse()` turns problems into one.
"""
