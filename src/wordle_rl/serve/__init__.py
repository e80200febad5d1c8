"""Wordle as a service: an OpenEnv server and its client.

settings.py      every setting of the server
app.py           the application: routes, and what they share
server.py        the process: sockets, limits, an end that finishes turns in progress
commands.py      serve
games.py         what sessions share; the game that a reset asks for
tasks.py         secrets by split and index, opaque ids, difficulty
environment.py   one session's games, as OpenEnv asks for them
types.py         action, observation, state, options of a reset
rewards.py       the rubric tree
sessions.py      open connections: capacity, idleness, their end
openenv_routes.py  OpenEnv's HTTP routes, for both protocols
protocol.py      OpenEnv's messages as text in and text out
batch.py         many games of one session in one message
errors.py        refusals, with codes and reasons
auth.py          token, and pages of other sites
metrics.py       Prometheus metrics
client.py        a typed client
textarena/       TextArena's protocol, at /textarena
watch/           the page to watch and play on, at /watch

Needs the extra `serve`, but for settings.py and commands.py, which import without it.
"""
