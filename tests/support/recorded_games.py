"""The games of `trainers/recorded.json`, as they are made: `python tests/support/recorded_games.py`."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from scripted import scripted

import wordle_rl.trainers.check
from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.env import WordleEnv
from wordle_rl.game import Rules, Turn
from wordle_rl.policy.base import Completion
from wordle_rl.policy.tiny import formula_model, make_tokenizer
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.rollout import play
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import game_advantages
from wordle_rl.train.scored_games import Scored, rows_of
from wordle_rl.trainers.check import GROUP_SIZE, RecordedGame, plain_logprobs
from wordle_rl.words import WordList

FILE = Path(wordle_rl.trainers.check.__file__).with_name("recorded.json")
ANSWERS = ("abide", "crane", "crate", "drape", "grape", "graze", "speed", "these", "trace")
WORDS = WordList("recorded", ANSWERS, (*ANSWERS, "eagle"))
PROMPTER = Prompter(style="compact", thinking="off", rules=Rules(max_turns=3))
RUBRIC = Rubric({"win": 1.0, "speed": 0.5, "format": 0.3}, keep_order=False)
GAMES = (
    ("crane", (), ("t r a c e", "crate", "crane")),
    ("crane", (), ("speed", "qqqqq", "no idea!")),
    ("crane", (), ("crane",)),
    ("grape", ("drape",), ("", "grape")),
    ("grape", ("drape",), ("eagle", "graze")),
    ("grape", ("drape",), ("grape",)),
)
"""Secret, guesses on the board, own replies. Spaced: sampled letter by letter; empty: cut after the opening tag."""


def reply(game_id: int, turns: Sequence[Turn]) -> str | None:
    """The text of a reply."""
    _, board, own = GAMES[game_id]
    said = own[len(turns) - len(board)]
    return said if "!" in said else f"<guess>{said}</guess>" if said else None


class Recorded(scripted(reply)):
    """A sampler that says what `GAMES` holds."""

    def _completion(self, text: str | None) -> Completion:
        if text is None or text.count(" ") != 4:
            return super()._completion(text)
        whole = text.replace(" ", "")
        ids = [*(token for letter in whole for token in self.codec.encode(letter)), self.codec.reply_ids(whole)[-1]]
        return Completion(whole, tuple(ids), (0.0,) * len(ids))


def record() -> list[RecordedGame]:
    """Play the games and score them."""
    codec = ChatCodec(make_tokenizer())
    model, solver, games = formula_model(codec.tokenizer), Solver(WORDS), []
    starts = [InitialState(secret, board) for secret, board, _ in GAMES]
    played = play(starts, WORDS, PROMPTER, Recorded(None, codec))
    for first in range(0, len(played), GROUP_SIZE):
        group = played[first : first + GROUP_SIZE]
        rewards = [RUBRIC.score(game.transcript, solver) for game in group]
        credited = game_advantages([reward.turn_rewards for reward in rewards])
        for place, scored in enumerate(map(Scored, group, rewards, credited), start=first):
            (row,) = rows_of(scored, codec)
            # The sampler was up to 0.4 nats away, so that ratios leave the clip range on both sides.
            near = [
                logprob + 0.4 * math.sin(7 * i + place)
                for i, logprob in enumerate(plain_logprobs(model, row.token_ids))
            ]
            row = replace(row, sampler_logprobs=[value * m for value, m in zip(near, row.loss_mask, strict=True)])
            env = WordleEnv(starts[place].secret, WORDS, PROMPTER, starts[place].prefix_guesses)
            for turn in scored.trajectory.transcript.own_turns:
                env.step(turn.reply)
            prompt = len(scored.trajectory.segments[0].prompt_ids)
            games.append(RecordedGame(first // GROUP_SIZE, env.conversation, prompt, row, scored.reward.total))
    return games


def write() -> None:
    rows = [asdict(game) for game in record()]
    for row in rows:
        row["messages"] = [dict(message) for message in row["messages"]]
        row["row"]["sampler_logprobs"] = [round(value, 6) for value in row["row"]["sampler_logprobs"]]
    FILE.write_text(json.dumps(rows, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(write())
