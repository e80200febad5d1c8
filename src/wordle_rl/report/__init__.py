"""Output about runs and evaluations: terminal, page, model card, hub.

terminal.py       tables and boards in the terminal
controls.py       figures of learning by play beside their controls
claims.py         strata and controls in the terminal
read.py           content of a run directory, and what is missing in it
page.py           one self-contained page per run, laid out by static/page.html
page_games.py     every game, packed small for the browser
curves.py         which metrics share a chart, and what each says
plots.py          charts as SVG, by matplotlib
card.py           model card (README.md) of a trained model, laid out by static/card.md
hub.py            upload to the Hugging Face hub: files, errors
"""

from wordle_rl.report.page import write_report
from wordle_rl.report.read import ReportError, RunRecord, read_run

__all__ = ["ReportError", "RunRecord", "read_run", "write_report"]
