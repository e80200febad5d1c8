"""Hindsight labels: the policy learns, at every board of its own games, the word that would have won there.

A win rewards one word, a loss none. But once a game is over its secret is known, and with it the
reward of every word that might have been named: 1 for the secret, 0 for all others. On a board b the expected reward of
winning at once is therefore no more than the policy's probability of the secret, pi(s | b), and its gradient needs no
sampled guess:

    grad E[win now] = grad pi(s | b) = pi(s | b) grad log pi(s | b)

Here log pi(s | b) is trained, the same without the factor, which would all but stop rarely named secrets from gaining.
Averaged over secrets this makes the policy name each word as often as it is the secret of such a board: words that
the clues allow. No solver and no list of candidates is asked; whoever played the game could compute it.

The boards of a game share their prefixes, which the learner computes once (`logprobs.py`). The empty board is no board
to learn on: its label would be a secret drawn at random.

With labels `clues` a game's own guesses are trained on, too, where all earlier marks allowed them: any player can check
that with the board alone. Such guesses are those of the policy, so words that are never a secret stay among them.

Source: hindsight relabelling, Andrychowicz et al. 2017, arXiv:1707.01495; the sum over all actions, Ciosek and Whiteson
2018, arXiv:1801.03326.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from wordle_rl.config import ConfigError, ExpertIterationTraining
from wordle_rl.data.dataset import Example
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Outcome, Turn
from wordle_rl.reward.clues import is_consistent
from wordle_rl.train.games import Scored
from wordle_rl.train.labels import names_strict, record_labels, secret_label
from wordle_rl.train.loop import TrainingLoop
from wordle_rl.train.rounds import Numbers, Round, Rounds, Row, fit_round, row_of


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

    needs_reference = False

    def __init__(self, name: str, rounds: Rounds, settings: ExpertIterationTraining) -> None:
        self._name, self._rounds, self._settings = name, rounds, settings
        self._own_guesses = settings.labels == "clues"
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
            (
                secret_label(game.trajectory.transcript, most, self._learnt_turns(game, most))
                for game, most in zip(games, longest, strict=True)
            ),
        )
        rows: list[Row] = []
        num_labels = num_own = 0
        for game, most in zip(games, longest, strict=True):
            reply = self._reply_ids(game.trajectory.transcript.secret)
            own_turns = self._learnt_turns(game, most)
            num_own += len(own_turns)
            for token_ids, forks, mask in _forks(game, most, own_turns):
                num_labels += len(forks)
                rows.append({"token_ids": list(token_ids), "loss_mask": mask, "forks": forks, "label": reply})
        own = len(rows)
        rows += [row_of(example) for example in self._replay(len(games), played.number)]
        numbers = {
            "labels": float(num_labels),
            **({"own_guesses": float(num_own)} if self._own_guesses else {}),
            "own_examples": float(own),
            "all_examples": float(len(rows)),
        }
        return rows, numbers

    def fit(self, loop: TrainingLoop, rows: list[Row], seed: int, part: tuple[int, int]) -> bool:
        """Fine-tune on the boards as SFT does; those of a game share a batch, and so their prefixes."""
        return fit_round(loop, [boards_of_row(row) for row in rows], self._settings, seed, part)

    def _reply_ids(self, word: str) -> list[int]:
        """Token ids of the bare guess of a word, encoded once."""
        if word not in self._replies:
            self._replies[word] = list(self._rounds.codec.reply_ids(self._rounds.setup.prompter.reply(word, "")))
        return self._replies[word]

    def _learnt_turns(self, game: Scored, longest_board: int) -> frozenset[int]:
        """The own turns whose guesses are trained on: after the first turn of the game, all earlier marks allowed them.

        The last one may be that at the longest board.
        """
        if not self._own_guesses:
            return frozenset()
        transcript, split = game.trajectory.transcript, self._rounds.setup.context.split
        num_given = len(transcript.turns) - len(transcript.own_turns)
        board = [played.turn for played in transcript.turns]
        after_first = [*enumerate(transcript.turns)][max(1, num_given) : longest_board + 1]
        return frozenset(
            number - num_given
            for number, played in after_first
            if _allowed(played, board[:number]) and not names_strict([played], split)
        )

    def _longest_board(self, game: Scored) -> int:
        """The number of turns on the last board to train on, before the last guess and any strict word."""
        split = self._rounds.setup.context.split
        *earlier, _ = game.trajectory.transcript.turns
        return sum(1 for _ in takewhile(lambda turn: not names_strict([turn], split), earlier))


def boards_of_row(row: Row) -> list[Example]:
    """The sequences of a round's row: the label after each board, longest first, and the game with its own guesses.

    A row without boards is a teacher's game.

    Examples:
        >>> row = {"token_ids": [5, 6, 7, 8], "loss_mask": [0, 0, 0, 0], "forks": [2, 3], "label": [1, 0]}
        >>> [example.token_ids for example in boards_of_row(row)]
        [[5, 6, 7, 1, 0], [5, 6, 1, 0]]
    """
    ids, mask = row["token_ids"], row["loss_mask"]
    if "forks" not in row:
        return [Example(ids, mask)]
    label = row["label"]
    boards = [Example([*ids[:fork], *label], [0] * fork + [1] * len(label)) for fork in reversed(row["forks"])]
    return [*boards, *([Example(ids, mask)] if any(mask) else [])]


def _allowed(played: PlayedTurn, board: Sequence[Turn]) -> bool:
    """True if a reply was scored and its guess could have been the secret by all marks before it."""
    sound = played.turn.outcome is Outcome.SCORED and not played.overlong
    return sound and is_consistent(played.turn, board)


def _forks(
    game: Scored, longest_board: int, own_turns: frozenset[int]
) -> Iterator[tuple[Sequence[int], list[int], list[int]]]:
    """Each token sequence of a game that has boards to learn on, where in it their prompts end, and a loss mask of it.

    The mask is 1 on the replies of these own turns.
    """
    transcript = game.trajectory.transcript
    num_given = len(transcript.turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        prompt = len(segment.prompt_ids)
        forks = [prompt + start for turn, start, _ in segment.spans if 0 < num_given + turn <= longest_board]
        mask = [0] * (prompt + len(segment.token_ids))
        for turn, start, stop in segment.spans:
            if turn in own_turns:
                mask[prompt + start : prompt + stop] = [1] * (stop - start)
        if forks:
            yield (*segment.prompt_ids, *segment.token_ids), forks, mask
