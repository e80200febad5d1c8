"""The application under the name that OpenEnv's tools start: `uvicorn server.app:app`."""

from wordle_rl.serve.app import create_app
from wordle_rl.serve.serve_settings import ServeSettings

# A Space's proxy calls it by the name of the Space.
app = create_app(ServeSettings(host="0.0.0.0", host_names=("*",)))
