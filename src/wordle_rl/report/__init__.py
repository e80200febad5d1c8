"""One self-contained HTML page per run: figures, curves, and every evaluated game to browse.

    read.py      what is in a run directory, and what is missing
    charts.py    curves and bars as inline SVG and HTML
    sections.py  the parts of the page that are figures
    curves.py    the curves of each stage, and what they are
    games.py     the games, packed small for the browser
    page.py      write_report(): all of it in one file

Nothing on the page comes from elsewhere or asks the network for anything. Whatever a model wrote is shown as text.
"""

from wordle_rl.report.page import write_report
from wordle_rl.report.read import ReportError, RunRecord, read_run

__all__ = ["ReportError", "RunRecord", "read_run", "write_report"]
