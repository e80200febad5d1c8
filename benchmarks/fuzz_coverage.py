"""Coverage-guided fuzzing of the readers: inputs that reach new code are kept and changed further.

    python benchmarks/fuzz_coverage.py replies|words|jsonl|traces|config --seconds 180 [--corpus DIRECTORY]

`replies` holds the parser against the second one of `reply_grammar.py`. The others must give content, or one line that
says what is wrong: WordListError, RunError or ConfigError. Anything else ends the run, with the input in a file
crash-*. `make fuzz` runs all five.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["wordle_rl"]):
    from wordle_rl.config.base import ConfigError
    from wordle_rl.config.files import load_config
    from wordle_rl.data.game_record import read_traces
    from wordle_rl.prompt import Guess, Thinking, parse_reply
    from wordle_rl.runs import RunError, read_jsonl
    from wordle_rl.words import WordListError
    from wordle_rl.words.list_files import read_word_files

from reply_grammar import read_reply

_MODES = [(thinking, brackets) for thinking in Thinking for brackets in (False, True)]
_GAME = '{"secret": "crane", "turns": [{"guess": "slate", "marks": "XXGXG", "taught": true}], "teacher": "m"}'
_SEEDS = {
    "replies": ["<guess>crane</guess>", "<think>a</think><guess> CRANE </guess>", "[crane]", "<think><guess>slate"],
    "words": ["crane\nslate\n", "\ufeffcrane\r\nslate", "answer,guess\ncrane,slate\n", "word\ncrane\n"],
    "jsonl": ['{"a": 1}\n{"b": [null, 1.5, "x"]}\n', "{}\n{", '{"a": NaN}\n'],
    "traces": [f"{_GAME}\n"],
    "config": [
        "[sft]\nepochs = 2\n",
        'stages = ["dpo"]\n[dpo]\ngroup_size = 4\n',
        "[grpo.reward.weights]\nwin = 1.0\n",
    ],
}


def replies(data: bytes) -> None:
    """Both readers agree, in every mode."""
    text = data.decode("utf-8", errors="surrogateescape" if data[:1] == b"s" else "replace")
    for thinking, brackets in _MODES:
        parsed = parse_reply(text, thinking, brackets=brackets)
        found = (parsed.word, parsed.thinking) if isinstance(parsed, Guess) else None
        expected = read_reply(text, thinking.value, brackets=brackets)
        if found != expected:
            raise AssertionError(f"{text!r} in {thinking.value}, brackets {brackets}: {found} for {expected}")


def _of_file(read: Callable[[Path], object], suffix: str, *told: type[Exception]) -> Callable[[bytes], None]:
    """A target that reads the data from a file and takes these errors, of one line, for an answer."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-")) / f"input{suffix}"

    def target(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
        except told as error:
            if "\n" in str(error):
                raise AssertionError(f"an error of several lines: {error}") from error

    return target


_TARGETS: dict[str, Callable[[bytes], None]] = {
    "replies": replies,
    "words": _of_file(read_word_files, ".csv", WordListError),
    "jsonl": _of_file(lambda path: list(read_jsonl(path)), ".jsonl", RunError),
    "traces": _of_file(lambda path: list(read_traces(path)), ".jsonl", RunError),
    "config": _of_file(load_config, ".toml", ConfigError),
}


def main() -> None:
    """Fuzz one reader for so many seconds; libFuzzer prints what it did."""
    parser = argparse.ArgumentParser(description="Fuzz a reader.")
    parser.add_argument("target", choices=sorted(_TARGETS))
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--corpus", type=Path, help="keep what reaches new code here, and begin with it")
    asked = parser.parse_args()
    corpus = asked.corpus or Path(tempfile.mkdtemp(prefix="corpus-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(_SEEDS[asked.target]):
        (corpus / f"seed-{number}").write_text(text, encoding="utf-8")
    limits = [f"-max_total_time={asked.seconds}", "-max_len=2048", "-timeout=20", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], str(corpus), *limits, "-print_final_stats=1"], _TARGETS[asked.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
