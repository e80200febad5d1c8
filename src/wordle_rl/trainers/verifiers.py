"""verifiers 0.4: tasks, and an environment in which the game plays the user. prime-rl uses the same taskset.

`environments/wordle` is the package that verifiers finds by its id:

    pip install ./environments/wordle
    vf-eval wordle-rl-taskset --no-push --model MODEL --client.base-url URL --select.limit 20 --num-rollouts 4
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

from wordle_rl.trainers.games import LoopSettings, game_source, task_of
from wordle_rl.words.split import SplitName


class WordleTaskData(vf.TaskData):
    """A game by its place. It does not hold the secret, so no prompt or trace of a running game does."""

    split: SplitName
    """Part of the split."""
    index: int
    """Position of the secret in its part."""
    given: tuple[str, ...] = ()
    """Prefix guesses; the prompt shows them as turns."""


class WordleTasksetConfig(vf.TasksetConfig):
    """Tasks, under `--env.taskset.*`."""

    split: SplitName = "train"
    """Part of the split whose secrets to play."""
    max_given: int = 0
    """Draw 0 to this many random prefix guesses per task."""
    seed: int = 0
    """Random seed of the prefix guesses."""
    settings: LoopSettings = LoopSettings()
    """Words, rules, wording and reward."""


class WordleTask(vf.Task[WordleTaskData]):
    """One game, played by every rollout of its group."""


class WordleTaskset(vf.Taskset[WordleTask, WordleTasksetConfig]):
    """The secrets of a split, in its own random order."""

    def load(self) -> Iterator[WordleTask]:
        """Yield one task per secret. The wording's system message, if any, becomes the task's system prompt."""
        config = self.config
        source = game_source(config.settings)
        for task in source.tasks(config.split, max_given=config.max_given, seed=config.seed):
            messages = source.open(task).prompt
            system = messages[0]["content"] if messages[0]["role"] == "system" else None
            yield WordleTask(
                WordleTaskData(
                    name=f"wordle-{task.split}-{task.index}",
                    prompt=[dict(message) for message in messages[system is not None :]],
                    system_prompt=system,
                    **task.model_dump(),
                ),
                config.task,
            )


class WordleVerifiersEnvConfig(vf.EnvConfig):
    """The policy's seat, under `--env.agent.*`: a plain chat without tools, run on this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    """The policy."""


class WordleVerifiersEnv(vf.Env[WordleVerifiersEnvConfig]):
    """The game answers as the user until it is over. The trace gets the reward and each component's value."""

    async def run(self, task: WordleTask, agents: vf.Agents) -> None:
        """Play one game.

        A game cut off by a limit of the run is a loss. A game that fails otherwise gets no reward.
        """
        game = game_source(self.taskset.config.settings).open(task_of(task.data.model_dump()))
        turn_rewards: list[float] = []
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                call = interaction.trace.calls[-1]
                overlong = call.finish_reason == "length"
                num_tokens = call.usage.completion_tokens if call.usage else None
                result = game.step(reply_of(segment), num_tokens=num_tokens, overlong=overlong)
                turn_rewards.append(result.reward)
                if result.done:
                    break
                segment = await interaction.turn(result.messages[0]["content"])
        trace = interaction.trace
        if not game.over and trace.is_truncated and turn_rewards:
            turn_rewards[-1] += game.truncate()
        if game.over and game.breakdown is not None:
            trace.record_reward("game", game.breakdown.total)
            trace.record_metrics(game.summary())
            trace.info["turn_rewards"] = turn_rewards
            trace.info["secret"] = game.env.transcript().secret


def reply_of(segment: vf.Segment) -> str:
    """Return a reply as the policy wrote it, with the thinking that a parser removed put back."""
    message = next(m for m in reversed(segment.messages) if isinstance(m, vf.AssistantMessage))
    text = message.content or ""
    return f"<think>{message.reasoning_content}</think>{text}" if message.reasoning_content else text
