"""Wordle as a service: an OpenEnv server and its client.

commands.py        the commands `serve` and `watch`
serve_settings.py  settings of the server
app.py             the application: routes, what they share
gate.py            who may reach it: names of the server, other sites, token, size of requests
process.py         the process: its socket, deadlines of requests, graceful shutdown
sessions.py        open connections: capacity, idle timeout, shutdown
protocol.py        messages of a session, text in and text out; refusals, with codes and reasons
openenv_client.py  action, observation, state, options of a reset; a typed client
tasks.py           secrets by split and index, opaque ids, difficulty; the game of a reset
environment.py     the games of a session as an OpenEnv environment, with its rubric tree
textarena.py       TextArena's protocol, at /textarena, and its client
notebook.py        drop-in functions for notebooks of TRL and OpenEnv
watch/             the page to watch and play games, at /watch

All but commands.py, serve_settings.py, and the page need openenv, in the extra `serve`.
"""
