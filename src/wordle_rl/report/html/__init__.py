"""One self-contained HTML page per run: figures, curves, and every evaluated game to browse.

    page.py          write_report(): all of it in one file
    sections.py      tables and figures
    stage_curves.py  training curves of each stage: which plots there are
    charts.py        drawing of lines and bars as inline SVG and HTML
    games.py         the games, packed small for the browser

The page loads nothing from elsewhere. Text written by a model is shown as text.
"""
