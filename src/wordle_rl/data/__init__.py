"""Games as training data: stored, filtered, checked, turned into rows and token sequences.

trace.py            `Trace`: one teacher game as a row
trace_files.py      traces on disk, CSV tables
trace_filter.py     a run's teacher games from a file: which may be trained on
thinking_checks.py  claims of a thought against the board
dataset.py          traces -> checked examples and rows
external.py         other people's rows
"""
