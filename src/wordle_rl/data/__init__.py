"""Games as training data: stored, filtered, checked, and turned into conversations and rows.

game_record.py      `GameRecord`: one finished game, in every file that holds games
trace_files.py      settings of traces, CSV tables
trace_filter.py     which games of a file a run may train on
dataset.py          traces -> conversations and checked rows; figures of teachers
row_files.py        read rows of CSV, JSON, parquet and plain lists, local or from the hub
readers.py          what rows made elsewhere say: one class per shape of row
"""
