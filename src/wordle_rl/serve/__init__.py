"""Wordle as a service: an OpenEnv server and its client.

settings.py      settings of the server
app.py           the application: routes, and what they share
server.py        the process: sockets, limits, graceful shutdown
commands.py      the command `serve`
games.py         what sessions share; creates the game of a reset
tasks.py         secrets by split and index, opaque ids, difficulty
environment.py   the games of a session as an OpenEnv environment
types.py         action, observation, state, options of a reset
rewards.py       the rubric tree
sessions.py      open connections: capacity, idle timeout, shutdown
openenv_routes.py  OpenEnv's HTTP routes, for both protocols
protocol.py      OpenEnv's messages, text in and text out
batch.py         many games of a session in one message
errors.py        refusals, with codes and reasons
auth.py          token, and protection against other sites
metrics.py       Prometheus metrics
client.py        a typed client
textarena/       TextArena's protocol, at /textarena
watch/           the page to watch and play games, at /watch

All but settings.py and commands.py need the extra `serve`.
"""
