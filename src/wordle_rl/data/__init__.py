"""Games as training data: stored, filtered, checked, and turned into conversations and rows.

game_record.py      `GameRecord`: one finished game, in every file that holds games
trace_files.py      settings of traces, CSV tables
dataset.py          which games a run may train on; traces -> conversations and checked rows; figures of teachers
readers.py          rows made elsewhere, local or from the hub, and what they say: one class per shape of row
"""
