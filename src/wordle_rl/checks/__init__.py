"""Checks before a training. Functions of values; each returns its findings.

A problem is what cannot work; a run with one is refused. A warning is what works and wastes. A note is worth knowing.

    findings.py  Finding, refuse()
    settings.py  settings, model, prompts and teacher games together: check_model() and others
    template.py  chat template and stop tokens
    budgets.py   do games fit the model's context?
    memory.py    how much memory a stage takes: estimate()
    device.py    is that much there?
"""
