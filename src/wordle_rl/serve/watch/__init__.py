"""Watch and play in the browser: the page and its server side.

run_files.py    games of run directories, read while they grow
review.py       candidates, information and the solver's guess for every turn
live_games.py   the players to watch, their games as events, and games by hand
watch_page.py   the page as one HTML file, with or without the games of a run
watch_app.py    the application behind the page, and its requests

static/ holds the page's HTML, CSS and JavaScript; there is no build step.
"""
