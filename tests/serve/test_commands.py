"""Laws of the command without its extra: help is there, and serving says what to install."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"openenv", "uvicorn", "fastapi", "starlette", "prometheus_client", "websockets"}:
            raise ModuleNotFoundError(name + " is not installed", name=name)

sys.meta_path.insert(0, Refusing())
from wordle_rl.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["serve", "--help"], 0), (["serve"], 2)])
def test_the_command_needs_its_extra_only_to_serve(arguments, code) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    if code:
        assert 'pip install "wordle-rl[serve]"' in " ".join(done.stderr.split())
    else:
        assert "serve" in done.stdout
