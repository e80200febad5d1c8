"""Games as training data: stored, filtered, checked, turned into rows and token sequences.

game_record.py      `GameRecord`: one finished game, in every file that holds games
trace_files.py      settings of traces, CSV tables
trace_filter.py     a run's teacher games from a file: which may be trained on
summaries.py        figures of teachers
thinking_checks.py  claims of a thought against the board
dataset.py          traces -> checked examples and rows
row_files.py        rows of CSV, JSON, parquet and plain lists, and of the hub's data sets
external.py         other people's rows as rows of ours
chat_rows.py        conversations of one's own as games to fine-tune on
"""
