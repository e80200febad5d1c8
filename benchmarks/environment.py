"""Six-turn games a second of the text environment in one process, beside TextArena's.

    python benchmarks/environment.py [--words original] [--games 3000] [--repeats 5] [--drawn] [--json]

A game is made, its prompts are read, six well-formed guesses that all miss are said, and its record is taken. The
replies are written beforehand: only the environment is timed. All games have the same guesses; with `--drawn`
only the first is the same, as a trained model has its opener, and the others are drawn for every game and every repeat,
so that the caches of ours hold little of what is asked for.

TextArena is timed if it can be imported (`pip install textarena`). It normally fetches its words from the network; here
they are laid out for it on disk from our own list, its word tagger calls each a noun, and its dictionary, a set of
words, is ours. Its `reset`, `step` and wrappers are untouched. One of its environments is used for all games, since
making one is slow; ours is made anew for every game.
"""

import argparse
import importlib.util
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from measure import Rate, rate_of, show_rates, take_turns

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.words import WordList, load_words

NUM_TURNS = 6
_Job = Callable[[], float]


def main() -> None:
    """Time every style, then the peer, and print the rates."""
    parser = argparse.ArgumentParser(description="Time the text environment.")
    parser.add_argument("--words", default="default", help="word list: default, original, nyt or a directory")
    parser.add_argument("--games", type=int, default=3000, help="games per repeat")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each job; the median is shown")
    parser.add_argument("--drawn", action="store_true", help="draw all guesses of a game but its first")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    words = load_words(options.words)
    guesses = drawn(words.answers) if options.drawn else itertools.repeat(far_apart(words.answers, NUM_TURNS + 1))
    jobs = {
        f"{style}, {shape}": ours(words, Prompter(style, shape), guesses, options.games)
        for style, shape in itertools.product(Style, Shape)
    }
    with tempfile.TemporaryDirectory() as directory:
        missing = why_no_peer()
        if missing is None:
            jobs |= peers(words, guesses, options.games, Path(directory))
        seconds = take_turns(jobs, options.repeats)
    rates = [rate_of(name, options.games, times, beside(name, seconds)) for name, times in seconds.items()]
    if missing is not None:
        rates.append(Rate("TextArena", 0.0, 0.0, 0.0, 0, missing))
    kind = "drawn but for the opener" if options.drawn else "the same in all games"
    title = f"Six-turn games, {words.name} list, guesses {kind}, {options.games} a repeat"
    show_rates(title, "games", rates, as_json=options.json)


def beside(name: str, seconds: dict[str, list[float]]) -> str:
    """Note of a row: the speed of ours on TextArena's wording, in multiples of the peer's."""
    if not name.startswith("TextArena"):
        return "all lost"
    own = statistics.median(seconds[f"{Style.TEXTARENA}, {Shape.TRANSCRIPT}"])
    return f"all lost; ours is {statistics.median(seconds[name]) / own:.1f} x"


def far_apart(answers: Sequence[str], count: int) -> list[str]:
    """Words from all over the list, one of which may turn out to be the secret and is then left out."""
    return [answers[i * len(answers) // count] for i in range(count)]


def drawn(answers: Sequence[str]) -> Iterator[list[str]]:
    """Words for one game after the other: the same opener, then any; one of them may turn out to be the secret."""
    rng = random.Random(0)
    opener, others = answers[0], answers[1:]
    while True:
        yield [opener, *rng.sample(others, NUM_TURNS)]


def misses(guesses: Sequence[str], secret: str) -> list[str]:
    """Six of the guesses, none of them the secret."""
    return [guess for guess in guesses if guess != secret][:NUM_TURNS]


def ours(words: WordList, prompter: Prompter, guesses: Iterator[Sequence[str]], num_games: int) -> _Job:
    """A job that plays games in the given style and shape and returns the seconds it took."""
    secrets = list(itertools.islice(itertools.cycle(words.answers), num_games))

    def job() -> float:
        scripts = [[prompter.reply(guess) for guess in misses(next(guesses), secret)] for secret in secrets]
        lost = characters = 0
        started = time.perf_counter()
        for secret, script in zip(secrets, scripts, strict=True):
            env = WordleEnv(secret, words, prompter)
            for reply in script:
                for message in env.observation.messages:
                    characters += len(message["content"])
                env.step(reply)
            transcript = env.transcript()
            lost += transcript.stop_reason is StopReason.OUT_OF_TURNS and transcript.turns_used == NUM_TURNS
        elapsed = time.perf_counter() - started
        if lost != num_games or not characters:
            raise RuntimeError(f"{num_games - lost} of {num_games} games were not six lost turns")
        return elapsed

    return job


def why_no_peer() -> str | None:
    """Reason why TextArena cannot be timed; None if it can."""
    absent = [module for module in ("textarena", "nltk") if importlib.util.find_spec(module) is None]
    return f"not installed ({', '.join(absent)} missing); pip install textarena" if absent else None


def peers(words: WordList, guesses: Iterator[Sequence[str]], num_games: int, directory: Path) -> dict[str, _Job]:
    """TextArena's Wordle as it is, and in the wrappers that make its observations text."""
    import nltk  # type: ignore[import-not-found, import-untyped, unused-ignore]  # an optional peer

    lay_out_words(words, directory)
    nltk.data.path.insert(0, str(directory))
    from textarena.envs.Wordle.env import WordleEnv as PeerEnv
    from textarena.wrappers import ActionFormattingWrapper, LLMObservationWrapper

    class OfflinePeer(PeerEnv):  # type: ignore[misc]  # its class is not typed
        """TextArena's game with our dictionary; the original constructor asks the network for its own."""

        def __init__(self) -> None:
            self.word_length, self.num_guesses = words.word_length, NUM_TURNS
            self._listed = frozenset(words.guesses)
            self._load_word_list()

        def _check_word(self, word: str) -> bool:
            return word in self._listed

    def wrapped() -> Any:
        return ActionFormattingWrapper(LLMObservationWrapper(OfflinePeer()))

    return {
        "TextArena, bare": peer(OfflinePeer, guesses, num_games),
        "TextArena, text in, text out": peer(wrapped, guesses, num_games),
    }


def peer(make: Callable[[], Any], guesses: Iterator[Sequence[str]], num_games: int) -> _Job:
    """A job that plays games in one of TextArena's environments and returns the seconds it took."""

    def job() -> float:
        env = make()
        of_games = [next(guesses) for _ in range(num_games)]
        lost = characters = 0
        started = time.perf_counter()
        for words in of_games:
            if hasattr(env, "env"):  # its wrapper gathers observations for ever, so it is put on afresh
                env.env.full_observations.clear()
            env.reset(num_players=1)
            done = False
            for guess in misses(words, env.state.game_state["secret_word"]):
                _, observation = env.get_observation()
                characters += len(observation)
                done, _ = env.step(f"[{guess}]")
            rewards, _ = env.close()
            lost += done and rewards[0] < 1 and len(env.state.game_state["guess_history"]) == NUM_TURNS
        elapsed = time.perf_counter() - started
        if lost != num_games or not characters:
            raise RuntimeError(f"{num_games - lost} of {num_games} TextArena games were not six lost turns")
        return elapsed

    return job


def lay_out_words(words: WordList, directory: Path) -> None:
    """Write the word lists, and a tagger to which all of them are nouns, where NLTK looks for its data."""
    corpus = directory / "corpora" / "words"
    corpus.mkdir(parents=True)
    (corpus / "en").write_text("\n".join(words.guesses), encoding="utf-8")
    (corpus / "en-basic").write_text("\n".join(words.answers), encoding="utf-8")
    tagger = directory / "taggers" / "averaged_perceptron_tagger_eng"
    tagger.mkdir(parents=True)
    nouns = dict.fromkeys([*words.guesses, "test"], "NN")
    for part, content in (("weights", {}), ("tagdict", nouns), ("classes", ["NN"])):
        path = tagger / f"averaged_perceptron_tagger_eng.{part}.json"
        path.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main()
