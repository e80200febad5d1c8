"""Hindsight labels: the policy learns, at every board of its own games, the word that would have won there.

A win rewards one word, a loss none. But once a game is over its secret is known, and with it the
reward of every word that might have been named: 1 for the secret, 0 for all others. On a board b the expected reward of
winning at once is therefore no more than the policy's probability of the secret, pi(s | b), and its gradient needs no
sampled guess:

    grad E[win now] = grad pi(s | b) = pi(s | b) grad log pi(s | b)

Here log pi(s | b) is trained, the same without the factor, which would all but stop rarely named secrets from gaining.
Averaged over secrets this makes the policy name each word as often as it is the secret of such a board: words that
the clues allow. No solver and no list of candidates is asked; whoever played the game could compute it.

The boards of a game share their prefixes, so they are one row (`training.branches`). The empty board is no board to
learn on: its label would be a secret drawn at random.

Source: hindsight relabelling, Andrychowicz et al. 2017, arXiv:1707.01495; the sum over all actions, Ciosek and Whiteson
2018, arXiv:1801.03326.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path

from wordle_rl.config import ConfigError, ExpertIterationTraining
from wordle_rl.data.dataset import Example
from wordle_rl.rl.rounds.labels import names_strict, record_labels, secret_label
from wordle_rl.rl.rounds.rounds import Numbers, Round, Rounds, Row, fit_round
from wordle_rl.rl.setup import Scored
from wordle_rl.training.branches import branched, takes_branches
from wordle_rl.training.trainer import RunCallback


class RevealedSecrets:
    """Labels the boards of a round's games with their secrets, adds teacher games, and fine-tunes on them.

    Args:
        name: Name of the stage, for the record of labels.
        rounds: The training this is the method of.
        settings: Its settings.

    Raises:
        ConfigError: If a reply does not fit max_completion_tokens.
        RunError: If there are no traces to replay.
    """

    def __init__(self, name: str, rounds: Rounds, settings: ExpertIterationTraining) -> None:
        self._name, self._rounds = name, rounds
        self._one_row = takes_branches(rounds.model)
        self._replies: dict[str, list[int]] = {}
        self._replay = rounds.replay(settings.replay_fraction, settings.groups_per_round * settings.group_size)
        budget = settings.sampling.max_completion_tokens
        longest = max(len(self._reply_ids(word)) for word in rounds.setup.secrets)
        if longest > budget:
            raise ConfigError(
                f"max_completion_tokens {budget} cuts off the label of a board, which takes {longest} tokens; raise it"
            )

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """The boards of the games with their labels, and the teacher games added to them."""
        games = [game for group in played.groups for game in group]
        longest = [self._longest_board(game) for game in games]
        record_labels(
            self._rounds.run,
            self._name,
            played.number,
            (secret_label(game.trajectory.transcript, most) for game, most in zip(games, longest, strict=True)),
        )
        examples: list[Example] = []
        num_labels = 0
        for game, most in zip(games, longest, strict=True):
            reply = self._reply_ids(game.trajectory.transcript.secret)
            for token_ids, forks in _forks(game, most):
                num_labels += len(forks)
                together = [forks] if self._one_row else [[fork] for fork in forks]
                examples += [branched(token_ids, prefixes, reply) for prefixes in together]
        own = len(examples)
        examples += self._replay(len(games), played.number)
        numbers = {
            "labels": float(num_labels),
            "own_examples": float(own),
            "all_examples": float(len(examples)),
        }
        return [asdict(example) for example in examples], numbers

    def fit(self, rows: list[Row], callback: RunCallback, checkpoints: Path, seed: int) -> None:
        """Fine-tune on the rows as SFT does."""
        fit_round(self._rounds, rows, callback, checkpoints, seed)

    def _reply_ids(self, word: str) -> list[int]:
        """Token ids of the bare guess of a word, encoded once."""
        if word not in self._replies:
            self._replies[word] = list(self._rounds.codec.reply_ids(self._rounds.setup.prompter.reply(word, "")))
        return self._replies[word]

    def _longest_board(self, game: Scored) -> int:
        """The number of turns on the last board to train on, before the last guess and any strict word."""
        split = self._rounds.setup.context.split
        *earlier, _ = game.trajectory.transcript.turns
        return sum(1 for _ in takewhile(lambda turn: not names_strict([turn], split), earlier))


def _forks(game: Scored, longest_board: int) -> Iterator[tuple[Sequence[int], list[int]]]:
    """Each token sequence of a game that has boards to learn on, and where in it their prompts end."""
    transcript = game.trajectory.transcript
    num_given = len(transcript.turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        prompt = len(segment.prompt_ids)
        forks = [prompt + start for turn, start, _ in segment.spans if 0 < num_given + turn <= longest_board]
        if forks:
            yield (*segment.prompt_ids, *segment.token_ids), forks
