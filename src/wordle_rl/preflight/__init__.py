"""Will this config work? Every check before a training, and the one place to look for it.

    question                                             asked by
    do the settings agree with each other?               the models of config/ (raise ConfigError)
    do settings, model and prompts agree?                model_fit.py  check_model() and others
    does the chat template keep turns, do replies end?   template.py   check_template(), check_stops()
    does everything fit the memory of this device?       memory.py (arithmetic), device.py (this machine),
                                                         unified_memory.py (a Mac)
    are the teacher's games usable?                      teacher_sample.py
    is anything missing before `run` starts?             before_run.py (all of the above, first fault refused)
    how will the first games go?                         report.py     preflight(): all of the above, and a few games

Two forms of result: a check of values returns `Finding`s (findings.py: problem, warning, note); a check that nothing
can continue without raises `ConfigError`, and `refuse()` turns problems into one.
"""
