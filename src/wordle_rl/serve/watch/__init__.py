"""Watch and play in the browser: the page, and what answers it.

run_files.py    games of run directories, read as they grow
review.py       candidates, information and the solver's guess of every turn
players.py      who can be watched
live_game.py    a player's game as events
hand_play.py    games by hand
requests.py     bodies of requests
page.py         the page as one HTML file
export.py       a run's games in that file
app.py          `create_watch_app`
commands.py     watch

static/ holds the page's HTML, CSS and JavaScript; there is no build step.
"""
