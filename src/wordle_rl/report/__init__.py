"""Output about runs and evaluations: terminal, page, model card, hub.

terminal.py       boards, games and tables in the terminal
controls.py       results of RL beside their controls
run_record.py     read a run directory, and note what is missing
page.py           one self-contained page per run, with static/page.html as template
curves.py         which metrics share a chart, and what they mean
svg.py            charts as SVG, with matplotlib
card.py           model card (README.md) of a trained model, with static/card.md as template
hub.py            push to the Hugging Face hub: files, errors
"""

from wordle_rl.report.page import write_report
from wordle_rl.report.run_record import ReportError, RunRecord, read_run

__all__ = ["ReportError", "RunRecord", "read_run", "write_report"]
