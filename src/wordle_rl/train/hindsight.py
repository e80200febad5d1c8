"""Hindsight labels: learn from every board of the policy's own games, lost games included.

A finished game reveals its secret, and with it the reward of every word at every board: 1 for the secret, 0 for all
others. On a board b, the expected reward of winning at once is therefore the policy's own probability of the secret,
pi(s | b), and its gradient needs no sampled guess:

    grad E[win now] = grad pi(s | b) = pi(s | b) grad log pi(s | b)

We train log pi(s | b): with the factor pi(s | b), words that are rarely named would hardly gain. No solver and no list
of candidates is asked; whoever played the game can compute the label.

`secret` puts this label on every board but the empty one, where it would be a word drawn at random. Averaged over
secrets the policy then names each word as often as it is the secret of such a board. That spreads its guesses: it never
settles on one good guess for a board, although one is enough.

`mistakes` corrects only what was wrong. A guess that no earlier mark rules out is kept as it was played, the opener
included; where the guess was ruled out, unlisted or malformed, the secret is the label. If games are played at a low
temperature, the kept guesses are mostly the likeliest ones. The policy then settles on one line of play for each board,
boards recur from round to round, and the corrections add up.

The boards of a game share their prefixes, which the learner computes once (`logprobs.py`).

Sources: hindsight relabelling, Andrychowicz et al. 2017, arXiv:1707.01495; the sum over all actions, Ciosek and
Whiteson 2018, arXiv:1801.03326; labels on the boards that the policy itself comes to, Ross et al. 2011,
arXiv:1011.0686.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from wordle_rl.config import ConfigError, ExpertIterationTraining
from wordle_rl.data.dataset import Example
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Outcome, Turn
from wordle_rl.reward.clues import is_consistent
from wordle_rl.train.loop import TrainingLoop
from wordle_rl.train.round_loop import (
    Numbers,
    Round,
    Rounds,
    Row,
    fit_round,
    names_strict,
    record_labels,
    row_of,
    secret_label,
)
from wordle_rl.train.scored_games import Scored


class RevealedSecrets:
    """Label the boards of a round's games, add teacher games, and fine-tune on them.

    Args:
        name: Name of the stage in the record of labels.
        rounds: The training that plays the games.
        settings: Its settings.

    Raises:
        ConfigError: If a label does not fit max_completion_tokens.
        RunError: If there are no traces to replay.
    """

    needs_reference = False

    def __init__(self, name: str, rounds: Rounds, settings: ExpertIterationTraining) -> None:
        self._name, self._rounds, self._settings = name, rounds, settings
        self._keeps_guesses = settings.labels == "mistakes"
        self._replies: dict[str, list[int]] = {}
        self._replay = rounds.replay(settings.replay_fraction, settings.groups_per_round * settings.group_size)
        budget = settings.sampling.max_completion_tokens
        longest = max(len(self._reply_ids(word)) for word in rounds.setup.secrets)
        if longest > budget:
            raise ConfigError(
                f"max_completion_tokens {budget} cuts off the label of a board, which takes {longest} tokens; raise it"
            )

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """Turn the games into rows of boards with their labels, and add teacher games."""
        games = [game for group in played.groups for game in group]
        chosen = [self._labelled(game) for game in games]
        records = (
            secret_label(game.trajectory.transcript, boards, kept)
            for game, (boards, kept) in zip(games, chosen, strict=True)
        )
        record_labels(self._rounds.run, self._name, played.number, records)
        rows: list[Row] = []
        for game, (boards, kept) in zip(games, chosen, strict=True):
            reply = self._reply_ids(game.trajectory.transcript.secret)
            for token_ids, forks, mask in _forks(game, boards, kept):
                rows.append({"token_ids": list(token_ids), "loss_mask": mask, "forks": forks, "label": reply})
        own = len(rows)
        num_labels = sum(len(row["forks"]) for row in rows)
        rows += [row_of(example) for example in self._replay(len(games), played.number)]
        numbers = {
            "labels": float(num_labels),
            **({"own_guesses": float(sum(len(kept) for _, kept in chosen))} if self._keeps_guesses else {}),
            "own_examples": float(own),
            "all_examples": float(len(rows)),
        }
        return rows, numbers

    def fit(self, loop: TrainingLoop, rows: list[Row], seed: int, part: tuple[int, int]) -> bool:
        """Fine-tune on the boards as SFT does; those of a game share a batch, and so their prefixes."""
        return fit_round(loop, [boards_of_row(row) for row in rows], self._settings, seed, part)

    def _reply_ids(self, word: str) -> list[int]:
        if word not in self._replies:
            self._replies[word] = list(self._rounds.codec.reply_ids(self._rounds.setup.prompter.reply(word, "")))
        return self._replies[word]

    def _labelled(self, game: Scored) -> tuple[frozenset[int], frozenset[int]]:
        """The boards that get the secret as their label, and those whose own guess is trained on.

        A board is named by its number of turns. No board follows a strict word, and no strict word is a label.
        """
        transcript, split = game.trajectory.transcript, self._rounds.setup.context.split
        turns = transcript.turns
        num_clean = sum(1 for _ in takewhile(lambda turn: not names_strict([turn], split), turns[:-1]))
        first = len(turns) - len(transcript.own_turns)  # turns before it were given
        boards = frozenset(range(max(1, first), num_clean + 1))
        if not self._keeps_guesses:
            return boards, frozenset()
        # The opener is kept, too: were it left to drift, the policy would one day open with another word and meet
        # boards that none of its games have shown.
        shown = [played.turn for played in turns]
        kept = frozenset(
            board
            for board in range(first, num_clean + 1)
            if _allowed(turns[board], shown[:board]) and not names_strict([turns[board]], split)
        )
        return boards - kept, kept


def boards_of_row(row: Row) -> list[Example]:
    """Make the sequences of a round's row: the label after each board, longest first, then the game itself.

    The game is there if any of its own guesses is trained on. A row without boards is a teacher's game.

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
    """True if a reply was scored and no mark on the board rules its guess out."""
    sound = played.turn.outcome is Outcome.SCORED and not played.overlong
    return sound and is_consistent(played.turn, board)


def _forks(
    game: Scored, boards: frozenset[int], kept: frozenset[int]
) -> Iterator[tuple[Sequence[int], list[int], list[int]]]:
    """Yield each token sequence of a game: its ids, where the prompts of labelled boards end, and its loss mask.

    The mask is 1 on the replies that are kept.
    """
    transcript = game.trajectory.transcript
    first = len(transcript.turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        prompt = len(segment.prompt_ids)
        mask = [0] * (prompt + len(segment.token_ids))
        for turn, start, stop in segment.spans:
            if first + turn in kept:
                mask[prompt + start : prompt + stop] = [1] * (stop - start)
        forks = [prompt + start for turn, start, _ in segment.spans if first + turn in boards]
        if forks or any(mask):
            yield (*segment.prompt_ids, *segment.token_ids), forks, mask
