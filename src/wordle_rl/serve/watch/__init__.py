"""Watch and play in the browser: the page and its server side.

run_files.py    games of run directories, read while they grow
review.py       candidates, information and the solver's guess for every turn
players.py      the players to watch
live_game.py    a player's game as events
hand_play.py    games played by hand
requests.py     bodies of requests
page.py         the page as one HTML file
export.py       the page with the games of a run inside
app.py          `create_watch_app`
commands.py     the command `watch`

static/ holds the page's HTML, CSS and JavaScript; there is no build step.
"""
