"""Laws of the clients: ours, typed, and openenv's own play the same games."""

import pytest
from openenv.core.generic_client import GenericEnvClient
from wordle_server import secret_of, wordle_server

from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.reward import PRESETS
from wordle_rl.serve.openenv_client import WordleAction, WordleClient
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.solver import Solver
from wordle_rl.words import load_words


def tagged(word: str) -> WordleAction:
    return WordleAction(message=f"<guess>{word}</guess>")


def test_a_won_game_is_paid_in_full_and_shows_its_secret_at_last(server) -> None:
    secret = secret_of(server.games, 7)
    with WordleClient(server.address).sync() as env:
        begun = env.reset(seed=7)
        assert (begun.done, begun.reward, begun.observation.secret) == (False, None, None)
        assert [message["role"] for message in begun.observation.messages] == ["system", "user"]
        missed = env.step(tagged("fuzzy"))
        assert (missed.reward, missed.done, missed.observation.secret) == (0.0, False, None)
        won = env.step(tagged(secret))
        assert (won.done, won.observation.marks, won.observation.secret) == (True, "GGGGG", secret)
        assert won.observation.stop_reason == "solved"
        assert won.reward == pytest.approx(1.0 + 0.5 * 4 / 5)
        state = env.state()
        assert (state.step_count, state.turns_left, state.stop_reason) == (2, 4, "solved")
        assert [row["guess"] for row in state.board] == ["fuzzy", secret]


def test_messages_and_rewards_are_those_of_the_game_itself(server) -> None:
    words, secret = load_words(), secret_of(server.games, 11)
    own = WordleEnv(secret, words, Prompter())
    unlisted = "<think>hm</think>\n<guess>zzzzz</guess>"
    replies = ["<guess>crane</guess>", "prose", unlisted, *["<guess>mould</guess>"] * 3]
    with WordleClient(server.address).sync() as env:
        result = env.reset(seed=11, reward="notebook")
        paid = []
        for reply in replies:
            assert result.observation.messages == list(own.observation.messages)
            own.step(reply)
            result = env.step(WordleAction(message=reply))
            paid.append(result.reward)
            assert result.observation.turns_left == own.observation.turns_left
    assert result.done
    assert sum(paid) == pytest.approx(PRESETS["notebook"].score(own.transcript(), Solver(words)).total)


def test_openenvs_generic_client_plays(server) -> None:
    with GenericEnvClient(base_url=server.address).sync() as env:
        env.reset(split="train", index=4)
        secret = server.games.offered().context.split.train[4]
        result = env.step({"message": f"<guess>{secret}</guess>"})
        assert result.done
        assert result.reward == pytest.approx(1.5)
        with pytest.raises(RuntimeError, match="over"):
            env.step({"message": "<guess>crane</guess>"})
        assert env.reset().done is False


def test_a_session_chooses_words_rules_wording_start_and_reward(word_directory) -> None:
    settings = ServeSettings(word_lists=(str(word_directory),))
    with wordle_server(settings) as running, WordleClient(running.address).sync() as env:
        (name,) = set(running.games._offers) - {"default"}
        result = env.reset(seed=1, words=name, hard_mode=True, style="compact", reward="strict_xml")
        assert result.observation.messages == [{"role": "user", "content": "5x6"}]
        state = env.state()
        assert (state.words, state.hard_mode, state.style, state.reward) == (name, True, "compact", "strict_xml")
        tasks = running.games.offered(name)
        secret = tasks.secret(tasks.pick("train", None, 1))
        given = [word for word in running.games.offered(name).context.words.answers if word != secret][:2]
        result = env.reset(seed=1, words=name, given=given)
        assert result.observation.turns_left == 4
        assert [row["guess"] for row in env.state().board] == given
        assert env.state().step_count == 0
