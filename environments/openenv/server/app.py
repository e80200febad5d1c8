"""The application under the name that OpenEnv's tools start: `uvicorn server.app:app`."""

from wordle_rl.serve.app import create_app
from wordle_rl.serve.serve_settings import ServeSettings

app = create_app(ServeSettings(host="0.0.0.0"))
