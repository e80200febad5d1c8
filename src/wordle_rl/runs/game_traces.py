"""Sample games as conversations with facts, as trackers show rollouts (`trackio.Trace`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt import Message, Prompter, Shape

Game = Mapping[str, Any]


def messages_of(game: Game, prompter: Prompter) -> list[dict[str, str]]:
    """Rebuild the conversation of a game, prefix guesses included.

    Args:
        game: A row of games.jsonl.
        prompter: Wording of its prompts. In state shape, the whole game is restated before each reply.
    """
    turns = [_turn(turn) for turn in game["turns"]]
    replies = [_reply(turn, prompter) for turn in game["turns"]]
    if prompter.shape is Shape.STATE:
        messages = [_plain(message) for message in prompter.state([])]
        for number, reply in enumerate(replies, start=1):
            messages.append({"role": "assistant", "content": reply})
            if number < len(turns):
                messages.append(_plain(prompter.state(turns[:number])[-1]))
        return messages
    messages = [_plain(message) for message in prompter.opening()]
    for number, reply in enumerate(replies, start=1):
        messages.append({"role": "assistant", "content": reply})
        if number < len(turns):
            messages.append(_plain(prompter.feedback(turns[:number])))
    return messages


def facts_of(game: Game) -> dict[str, Any]:
    """Return result, reward and origin of a game, and what each turn earned; `status` is `error` without a result."""
    facts = {name: value for name, value in game.items() if name != "turns"}
    kept = ("guess", "marks", "outcome", "given", "reward", "advantage", "components")
    facts["turns"] = [{name: turn[name] for name in kept if name in turn} for turn in game["turns"]]
    failed = "error" in game or game.get("stop_reason") == "request_failed"
    return {**facts, "environment": "wordle", "status": "error" if failed else "ok"}


def _plain(message: Message) -> dict[str, str]:
    return {"role": message["role"], "content": message["content"]}


def _turn(turn: Game) -> Turn:
    outcome = Outcome(turn.get("outcome", Outcome.SCORED))
    return Turn(turn.get("guess"), turn.get("marks"), outcome, turn.get("costs_turn", True))


def _reply(turn: Game, prompter: Prompter) -> str:
    reply = turn.get("reply")
    return reply if isinstance(reply, str) else prompter.reply(turn.get("guess") or "")
