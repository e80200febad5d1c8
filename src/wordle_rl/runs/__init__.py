"""Run directories: files, metrics, manifest, lineage of models, logs, progress, several processes.

files.py        atomic writes; JSON with size limits
store.py        append-only files of JSON lines: one writer, repaired after a kill, rewound to a checkpoint
run.py          `Run`: one directory with its settings, manifest, metrics and models
provenance.py   the manifest: versions, git commit, words, split, hardware, command
lineage.py      what is stored beside a model: its game, and the secrets of every training in its past
audit.py        proof that no held-out word was trained on
game_traces.py  games as conversations, for trackers
trackers.py     metrics and sample games in experiment trackers
progress.py     progress bars, rates as percent
distributed.py  several processes, one run: ranks, barriers, sharding
"""

from wordle_rl.runs.files import (
    MAX_OBJECT_BYTES,
    RunError,
    bounded_lines,
    is_number,
    json_line,
    parse_json,
    read_jsonl,
    read_jsonl_offsets,
    read_object,
    without_lone_surrogates,
    write_json,
    write_jsonl,
    write_text_atomically,
)
from wordle_rl.runs.run import (
    BOARDS_FILE,
    BY_TURN,
    CHOICE_FILE,
    CONTROLS,
    LABELS_FILE,
    LOCK_FILE,
    OWN_TEACHER_FILE,
    PASS_AT,
    STEPS,
    VALIDATED,
    VALIDATION_GAMES_FILE,
    VALIDATION_SECRETS_FILE,
    BufferedRun,
    Run,
    check_place,
    check_removable,
    is_run,
    parts_of,
    reset_run,
    trained_model,
)
from wordle_rl.runs.store import append_jsonl, exclusive_lock

__all__ = [
    "BOARDS_FILE",
    "BY_TURN",
    "CHOICE_FILE",
    "CONTROLS",
    "LABELS_FILE",
    "LOCK_FILE",
    "MAX_OBJECT_BYTES",
    "OWN_TEACHER_FILE",
    "PASS_AT",
    "STEPS",
    "VALIDATED",
    "VALIDATION_GAMES_FILE",
    "VALIDATION_SECRETS_FILE",
    "BufferedRun",
    "Run",
    "RunError",
    "append_jsonl",
    "bounded_lines",
    "check_place",
    "check_removable",
    "exclusive_lock",
    "is_number",
    "is_run",
    "json_line",
    "parse_json",
    "parts_of",
    "read_jsonl",
    "read_jsonl_offsets",
    "read_object",
    "reset_run",
    "trained_model",
    "without_lone_surrogates",
    "write_json",
    "write_jsonl",
    "write_text_atomically",
]
