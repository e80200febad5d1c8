"""Replies played by our own rollout and by somebody else's loop."""

from dataclasses import dataclass

from scripted import say, scripted

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rollout import Trajectory, play
from wordle_rl.trainers.games import BoardTask, GameSource, LoopSettings, game_source

GIVEN = ("crane", "moist")
SETTINGS = LoopSettings(reward_preset="strict_xml")
TASK = BoardTask(split="train", index=7, given=GIVEN)
KINDS = ("won", "lost", "messy")


def replies_of(kind: str, source: GameSource, task: BoardTask = TASK) -> list[str]:
    """Replies of a game that is won at its second own turn, lost by rights, or full of replies that break a rule."""
    secret = source.context.split.named(task.split)[task.index]
    assert secret not in (*task.given, "pulpy", "fjord", "house", "stone", "bulky", "light")
    if kind == "won":
        return [f"<think>Try the vowels.</think>{say('house')}", say(secret)]
    turns = source.context.prompter.rules.max_turns - len(task.given)
    if kind == "lost":
        return [say(word) for word in ("pulpy", "fjord", "house", "stone", "bulky", "light")][:turns]
    messy = ["I guess house", say("zzzzz"), f"<think>hm</think>{say('light')}", say("house") + " done", "", say("cat")]
    return messy[:turns]


@dataclass(frozen=True)
class Ours:
    """A game by our own rollout and rubric."""

    trajectory: Trajectory
    reward: RewardBreakdown

    @property
    def ids(self) -> list[int]:
        """All tokens of the game."""
        (segment,) = self.trajectory.segments
        return [*segment.prompt_ids, *segment.token_ids]

    @property
    def mask(self) -> list[int]:
        """1 on what the policy sampled."""
        (segment,) = self.trajectory.segments
        return [0] * len(segment.prompt_ids) + list(segment.loss_mask)


def ours(
    kind: str,
    settings: LoopSettings = SETTINGS,
    task: BoardTask = TASK,
    codec: ChatCodec | None = None,
    *,
    from_messages: bool = False,
) -> Ours:
    """The game by our own rollout and rubric.

    With `from_messages` the first prompt is that of messages alone. Whoever only has those cannot write the empty
    thought of Qwen3's template before a given guess, as the rollout does.
    """
    source = game_source(settings)
    secret = source.context.split.named(task.split)[task.index]
    start = InitialState(secret, task.given, tuple(source.open(task).prompt) if from_messages else ())
    replies = replies_of(kind, source, task)
    sampler = scripted(lambda _, turns: replies[len(turns) - len(task.given)])(None, codec)
    (trajectory,) = play([start], source.context.words, source.context.prompter, sampler)
    return Ours(trajectory, source.rubric.score(trajectory.transcript, source.context.solver))
