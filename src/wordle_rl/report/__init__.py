"""Output about runs and evaluations: terminal, page, model card, hub.

terminal.py       tables and boards in the terminal
controls.py       figures of learning by play beside their controls
claims.py         strata and controls in the terminal
read.py           content of a run directory, and what is missing in it
html/             one self-contained page per run
card.py           model card (README.md) of a trained model
card_sections.py  the sections of its text
card_metadata.py  its front matter
hub.py            upload to the Hugging Face hub: files, errors
"""

from wordle_rl.report.html.page import write_report
from wordle_rl.report.read import ReportError, RunRecord, read_run

__all__ = ["ReportError", "RunRecord", "read_run", "write_report"]
