"""Run directories: files, metrics, manifest, lineage of models, logs, progress, several processes.

atomic_files.py  atomic writes; JSON with errors in one line
jsonl_store.py   append-only files of JSON lines: one writer, repaired after a kill, rewound to a checkpoint
lock.py          lock files: one process writes a run, or a file of games
run.py           `Run`: one directory with its settings, manifest, metrics and models
checksums.py     size and SHA-256 of saved files, so that a lost or changed one is named
provenance.py    the manifest: versions, git commit, words, split, hardware, command
lineage.py       what a model has met: its lineage, and the audit of a run
trackers.py      sample games in games.jsonl; these and metrics in experiment trackers
foreign_text.py  text of others, harmless on a terminal, in Markdown and in a table
progress.py      progress bars, rates as percent
distributed.py   several processes, one run: ranks, barriers, sharding
"""

# `name as name` marks an explicit re-export, for mypy and ruff alike.
from wordle_rl.runs.atomic_files import RunError as RunError
from wordle_rl.runs.atomic_files import cannot_write as cannot_write
from wordle_rl.runs.atomic_files import check_writable as check_writable
from wordle_rl.runs.atomic_files import is_number as is_number
from wordle_rl.runs.atomic_files import parse_json as parse_json
from wordle_rl.runs.atomic_files import read_json as read_json
from wordle_rl.runs.atomic_files import read_jsonl as read_jsonl
from wordle_rl.runs.atomic_files import read_jsonl_offsets as read_jsonl_offsets
from wordle_rl.runs.atomic_files import read_object as read_object
from wordle_rl.runs.atomic_files import without_lone_surrogates as without_lone_surrogates
from wordle_rl.runs.atomic_files import write_json as write_json
from wordle_rl.runs.atomic_files import write_jsonl as write_jsonl
from wordle_rl.runs.atomic_files import write_text_atomically as write_text_atomically
from wordle_rl.runs.jsonl_store import append_jsonl as append_jsonl
from wordle_rl.runs.lock import LOCK_FILE as LOCK_FILE
from wordle_rl.runs.lock import exclusive_lock as exclusive_lock
from wordle_rl.runs.run import BY_TURN as BY_TURN
from wordle_rl.runs.run import CARD_FILE as CARD_FILE
from wordle_rl.runs.run import CHOICE_FILE as CHOICE_FILE
from wordle_rl.runs.run import CONTROLS as CONTROLS
from wordle_rl.runs.run import ENGLISH_FILE as ENGLISH_FILE
from wordle_rl.runs.run import LABELS_FILE as LABELS_FILE
from wordle_rl.runs.run import OWN_TEACHER_FILE as OWN_TEACHER_FILE
from wordle_rl.runs.run import PASS_AT as PASS_AT
from wordle_rl.runs.run import PLAIN_TEXT_FILE as PLAIN_TEXT_FILE
from wordle_rl.runs.run import TRACES_SEAL_FILE as TRACES_SEAL_FILE
from wordle_rl.runs.run import VALIDATED as VALIDATED
from wordle_rl.runs.run import VALIDATION_GAMES_FILE as VALIDATION_GAMES_FILE
from wordle_rl.runs.run import VALIDATION_SECRETS_FILE as VALIDATION_SECRETS_FILE
from wordle_rl.runs.run import BufferedRun as BufferedRun
from wordle_rl.runs.run import Run as Run
from wordle_rl.runs.run import boards_file as boards_file
from wordle_rl.runs.run import check_place as check_place
from wordle_rl.runs.run import check_removable as check_removable
from wordle_rl.runs.run import has_weights as has_weights
from wordle_rl.runs.run import is_run as is_run
from wordle_rl.runs.run import parts_of as parts_of
from wordle_rl.runs.run import reset_run as reset_run
from wordle_rl.runs.run import stages_at as stages_at
from wordle_rl.runs.run import trained_model as trained_model
