"""Application, at the place where OpenEnv's tools look for it."""
