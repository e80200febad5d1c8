"""GRPO with a critic of turns in place of the group's mean: a trial, which `rl_ablation.py` runs as one of its ways.

    V(board, secret)    win and speed still to come, by the policy's state at the board, the secret, what is known of it
    advantage           generalised advantage estimation over turns (Schulman et al. 2015, arXiv:1506.02438)

The secret is known in training alone, so the critic may see it: it knows which words the policy never finds.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from wordle_rl.config.stages import GRPOSettings
from wordle_rl.rollout import Trajectory
from wordle_rl.train.advantages import TurnValues, returns_to_go
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.play_loop import PlayedGames, Stage
from wordle_rl.train.scored_games import Group

ROWS_PER_PASS = 128
REMEMBERED = 8
"""Steps whose boards the critic learns from, once each step."""
BOARDS_PER_UPDATE = 1024


def advantages_of(rewards: TurnValues, values: Sequence[float], decay: float) -> TurnValues:
    """Return the advantage of each turn: sums of later surprises r + V(next) - V, each turn weighing `decay` as much.

    Nothing is to come after the last turn.

    Examples:
        >>> advantages_of((0.0, 1.0), (0.5, 0.25), 1.0)
        (0.5, 0.75)
        >>> advantages_of((0.0, 1.0), (0.5, 0.25), 0.0)
        (-0.25, 0.75)
    """
    found: list[float] = []
    surprises = [
        reward + after - before for reward, (before, after) in zip(rewards, pairwise((*values, 0.0)), strict=True)
    ]
    later = 0.0
    for surprise in reversed(surprises):
        later = surprise + decay * later
        found.append(later)
    return tuple(reversed(found))


def known_of(trajectory: Trajectory) -> list[list[float]]:
    """Describe every own board of a game: turns gone, places and letters known, letters ruled out, lost turns."""
    transcript = trajectory.transcript
    secret, rows = transcript.secret, []
    places, present, absent = [0.0] * len(secret), set[str](), set[str]()
    unmarked = 0
    for gone, played in enumerate(transcript.turns):
        if not played.is_prefix:
            turns = [float(gone == turn) for turn in range(transcript.rules.max_turns)]
            rows.append([*turns, *places, len(present) / 5, len(absent) / 10, unmarked / 3])
        turn = played.turn
        if turn.marks is None:
            unmarked += 1
            continue
        for place, (letter, mark) in enumerate(zip(turn.guess or "", turn.marks, strict=True)):
            if mark == "G":
                places[place] = 1.0
            (present if letter in secret else absent).add(letter)
    return rows


class Critic(nn.Module):
    """Estimates what a game still earns."""

    def __init__(self, width: int, num_known: int, num_secrets: int) -> None:
        super().__init__()
        self.secret = nn.Embedding(num_secrets, 32)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width + num_known + 32, 128), nn.GELU(), nn.Linear(128, 1))
        nn.init.normal_(self.secret.weight, std=0.1)

    def forward(self, states: Tensor, known: Tensor, secrets: Tensor) -> Tensor:
        """Return values, shape (N,), of boards: states (N, width), known (N, K), secrets (N,)."""
        values: Tensor = self.layers(torch.cat([self.norm(states), known, self.secret(secrets)], dim=1))[:, 0]
        return values


class CriticGRPO(GRPO):
    """GRPO whose advantages come from a critic that learns beside it."""

    def __init__(self, stage: Stage, settings: GRPOSettings, decay: float) -> None:
        super().__init__(stage, settings)
        self._decay = decay
        self._place = {word: place for place, word in enumerate(stage.setup.words.guesses)}
        self._critic: Critic | None = None
        self._boards: deque[tuple[Tensor, ...]] = deque(maxlen=REMEMBERED)

    def next_games(self, number: int) -> PlayedGames:
        """Play, value every board by what the critic knew before these games, then let it learn from them."""
        played = self._games.next(number - 1)
        games = [game for group in played.groups for game in group.games]
        states, known, secrets = self._described([game.trajectory for game in games])
        if self._critic is None:
            torch.manual_seed(self._stage.seed)
            self._critic = Critic(states.shape[1], known.shape[1], len(self._place))
            self._descent = torch.optim.AdamW(self._critic.parameters(), lr=1e-3, weight_decay=0.01)
        with torch.no_grad():
            values = self._critic(states, known, secrets).tolist()
        returns = torch.tensor([value for game in games for value in returns_to_go(game.reward.turn_rewards)])
        explained = 1 - float((returns - torch.tensor(values)).var() / returns.var().clamp(min=1e-9))
        self._boards.append((states, known, secrets, returns))
        self._fit(self._critic)
        groups, first = [], 0
        for group in played.groups:
            scored = []
            for game in group.games:
                rewards = game.reward.turn_rewards
                of_game = values[first : first + len(rewards)]
                first += len(rewards)
                scored.append(replace(game, advantages=advantages_of(rewards, of_game, self._decay)))
            groups.append(Group(scored, group.reward_std, is_constant=False, failed=group.failed))
        valued = replace(played, groups=groups)
        metrics = {**played.metrics, "critic/explained": explained}
        return PlayedGames(valued.items(self._stage.codec), metrics, played.denominators)

    @torch.no_grad()
    def _described(self, games: Sequence[Trajectory]) -> tuple[Tensor, Tensor, Tensor]:
        model = self._stage.training.learner.model
        known = torch.tensor([row for game in games for row in known_of(game)])
        secrets = torch.tensor(
            [self._place[game.transcript.secret] for game in games for _ in game.transcript.own_turns]
        )
        states = []
        for first in range(0, len(games), ROWS_PER_PASS):
            rows, places = [], []
            for row, game in enumerate(games[first : first + ROWS_PER_PASS]):
                (segment,) = game.segments  # a game is one transcript in this wording
                rows.append(torch.tensor([*segment.prompt_ids, *segment.token_ids]))
                places += [(row, len(segment.prompt_ids) + start - 1) for _, start, _ in segment.spans]
            padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
            hidden = model.base_model(input_ids=padded, use_cache=False).last_hidden_state
            states.append(hidden[tuple(torch.tensor(places).T)].float())
        return torch.cat(states), known, secrets

    def _fit(self, critic: Critic) -> None:
        states, known, secrets, returns = (torch.cat(column) for column in zip(*self._boards, strict=True))
        for chosen in torch.randperm(len(returns)).split(BOARDS_PER_UPDATE):
            error = critic(states[chosen], known[chosen], secrets[chosen]) - returns[chosen]
            self._descent.zero_grad()
            error.square().mean().backward()
            self._descent.step()
