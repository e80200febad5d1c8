"""Games of a language model teacher against a fake endpoint."""

import pytest

pytest.importorskip("openai")
from fake_endpoint import KEY, FakeEndpoint, chat

from wordle_rl.config import LLMTeacherSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.policy.providers import Endpoint
from wordle_rl.teachers.llm import Job, LLMTeacher, Tally


def secret_of(body: dict) -> str:
    """Games of these tests tell their secret by the seed they send; a real teacher is never told."""
    return SECRETS[body["seed"]]


SECRETS = ["crane", "grape", "abbey", "civic", "pesto", "kudzu"]


def winner(_number: int, body: dict):
    return chat(f"<think>it is</think><guess>{secret_of(body)}</guess>", usage=(100, 10))


def teacher(endpoint: FakeEndpoint, words, **settings: object) -> LLMTeacher:
    fields = {"model": "m", "max_retries": 2, "send_seed": True, "timeout_s": 5.0} | settings
    return LLMTeacher(words, Endpoint(endpoint.url, "OPENAI_API_KEY", KEY), LLMTeacherSettings(**fields))


def play(teacher: LLMTeacher, count: int = 1) -> tuple[Tally, list[GameRecord]]:
    games: list[GameRecord] = []
    tally = teacher.play([Job(SECRETS[i % len(SECRETS)], i % len(SECRETS)) for i in range(count)], games.append)
    return tally, games
