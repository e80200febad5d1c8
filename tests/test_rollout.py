"""Laws of rollouts: what stands in a trajectory's tokens, who is asked when, and how a game may end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import pytest

pytest.importorskip("transformers")

from chat_families import family_tokenizer
from scripted import ScriptedSampler, say

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import Segment, mask_picture, mask_without_overlong
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason
from wordle_rl.game import Outcome, Rules, Turn, score_guess
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.rollout import Trajectory, groups_of, open_game, pass_at, play, play_alone
from wordle_rl.train.example import encode_traces
from wordle_rl.words import WordList

COMPACT = Prompter(style=Style.COMPACT)
COMPACT_STATE = Prompter(style=Style.COMPACT, shape=Shape.STATE)
COMPACT_SPOKEN = Prompter(style=Style.COMPACT, shape=Shape.SPOKEN)


@dataclass
class TokenScript:
    """A token sampler that says `script[game_id][turn]`; a reply that ends in `…` is cut at its token limit.

    The log-probability of a game's n-th sampled token is -n/8, so that every token can be told apart.
    """

    codec: ChatCodec
    script: dict[int, Sequence[str]]
    asked: list[list[int]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    begun: int = 0

    def begin(self) -> None:
        self.begun += 1
        self.turns: dict[int, int] = {}
        self.tokens: dict[int, int] = {}

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        self.asked.append([request.game_id for request in requests])
        self.requests += requests
        return [self._say(request.game_id) for request in requests]

    def _say(self, game_id: int) -> Completion:
        turn = self.turns[game_id] = self.turns.get(game_id, -1) + 1
        text = self.script[game_id][turn]
        if text.startswith("error: "):
            return Completion("", error=text.removeprefix("error: "))
        overlong = text.endswith("…")
        ids = self.codec.encode(text.removesuffix("…")) if overlong else self.codec.reply_ids(text)
        first = self.tokens.get(game_id, 0)
        self.tokens[game_id] = first + len(ids)
        logprobs = tuple(-(first + n) / 8 for n in range(1, len(ids) + 1))
        return Completion(self.codec.text_of(ids), tuple(ids), logprobs, overlong)


def picture(codec: ChatCodec, segment: Segment) -> str:
    ids = [*segment.prompt_ids, *segment.token_ids]
    return mask_picture(codec, ids, [*[0] * len(segment.prompt_ids), *segment.loss_mask])


def check_tokens(codec: ChatCodec, trajectory: Trajectory) -> None:
    """Spans, mask, log-probabilities and replies of every segment tell the same story."""
    own = trajectory.transcript.own_turns
    told: list[int] = []
    n = 0
    for segment in trajectory.segments:
        assert len(segment.token_ids) == len(segment.loss_mask) == len(segment.sampler_logprobs)
        inside = {place for _, start, stop in segment.spans for place in range(start, stop)}
        assert [place in inside for place in range(len(segment.token_ids))] == [m == 1 for m in segment.loss_mask]
        for turn, start, stop in segment.spans:
            told.append(turn)
            assert codec.text_of(segment.token_ids[start:stop]) == own[turn].reply
            assert own[turn].num_tokens == stop - start
        for sampled, logprob in zip(segment.loss_mask, segment.sampler_logprobs, strict=True):
            n += sampled
            assert logprob == (-n / 8 if sampled else 0.0)
        assert segment.spans[-1][2] == len(segment.token_ids)
    assert told == list(range(len(own)))


def test_in_spoken_shape_each_turn_is_asked_and_trained_without_earlier_thinking(codec, small_words) -> None:
    """Thoughts that are closed, cut off or missing; a prefix guess is a turn as any other."""
    script = {0: ["<think>abbey</think><guess>crate</guess>", "<think>abb…", say("trace"), say("crane")]}
    sampler = TokenScript(codec, script)
    [trajectory] = play([InitialState("crane", ("speed",))], small_words, COMPACT_SPOKEN, sampler)
    assert [picture(codec, segment) for segment in trajectory.segments] == [
        (before := "5x6<|reply|><guess>speed</guess><|end|>sXpXeYeXdX<|reply|>")
        + "⟦<think>abbey</think><guess>crate</guess><|end|>⟧",
        (before := before + "<guess>crate</guess><|end|>cGrGaGtXeG<|reply|>") + "⟦<think>abb⟧",
        (before := before + "<|end|>!<|reply|>") + "⟦<guess>trace</guess><|end|>⟧",
        before + "<guess>trace</guess><|end|>tXrGaGcYeG<|reply|>⟦<guess>crane</guess><|end|>⟧",
    ]
    asked = [list(request.prompt_ids) for request in sampler.requests]
    ids = [[*segment.prompt_ids, *segment.token_ids] for segment in trajectory.segments]
    assert [row[: len(prompt)] for row, prompt in zip(ids, asked, strict=True)] == asked
    assert [len(row) - len(prompt) for row, prompt in zip(ids, asked, strict=True)] == [
        turn.num_tokens for turn in trajectory.transcript.own_turns
    ]
    check_tokens(codec, trajectory)


def test_the_mask_marks_exactly_what_was_sampled(codec: ChatCodec, small_words: WordList) -> None:
    sampler = TokenScript(codec, {0: [say("crate"), "well…", say("trace"), say("crane")]})
    [trajectory] = play([InitialState("crane")], small_words, COMPACT, sampler)
    [segment] = trajectory.segments
    assert picture(codec, segment) == (
        "5x6<|reply|>⟦<guess>crate</guess><|end|>⟧cGrGaGtXeG<|reply|>⟦well⟧<|end|>!<|reply|>"
        "⟦<guess>trace</guess><|end|>⟧tXrGaGcYeG<|reply|>⟦<guess>crane</guess><|end|>⟧"
    )
    assert [span[0] for span in segment.spans] == [0, 1, 2, 3]
    assert [turn.overlong for turn in trajectory.transcript.turns] == [False, True, False, False]
    check_tokens(codec, trajectory)


def test_replies_without_a_closing_token_are_left_out_of_a_mask() -> None:
    """Picture: `a` sampled, `E` the closing token, `.` not sampled; three replies, the second one cut."""
    tokens, mask = "aaE..aaa..aE", "111001110011"
    ids = tuple(9 if token == "E" else 5 for token in tokens)
    spans = ((0, 0, 3), (1, 5, 8), (2, 10, 12))
    segment = Segment((1,), ids, tuple(map(int, mask)), (0.0,) * len(ids), spans)
    assert "".join(map(str, mask_without_overlong(segment, frozenset({9})))) == "111000000011"


def test_given_turns_belong_to_the_prompt(codec: ChatCodec, small_words: WordList) -> None:
    sampler = TokenScript(codec, {0: [say("trace"), say("crane")]})
    [trajectory] = play([InitialState("crane", ("crate",))], small_words, COMPACT, sampler)
    assert picture(codec, trajectory.segments[0]) == (
        "5x6<|reply|><guess>crate</guess><|end|>cGrGaGtXeG<|reply|>"
        "⟦<guess>trace</guess><|end|>⟧tXrGaGcYeG<|reply|>⟦<guess>crane</guess><|end|>⟧"
    )
    check_tokens(codec, trajectory)


@pytest.mark.parametrize("prompter", [COMPACT, COMPACT_STATE])
def test_a_prompt_of_the_start_s_own_is_all_that_the_policy_is_shown(codec, small_words, prompter) -> None:
    sampler = TokenScript(codec, {0: [say("crane")]})
    own = ({"role": "system", "content": "rules"}, {"role": "user", "content": "play"})
    [trajectory] = play([InitialState("crane", ("crate",), own)], small_words, prompter, sampler)
    ids = codec.prompt_ids(own)
    [segment] = trajectory.segments
    assert [*segment.prompt_ids, *segment.token_ids] == [*ids, *codec.reply_ids(say("crane"))]
    assert [played.turn.marks for played in trajectory.transcript.turns] == ["GGGXG", "GGGGG"]


def test_the_state_shape_makes_one_segment_a_turn(codec: ChatCodec, small_words: WordList) -> None:
    sampler = TokenScript(codec, {0: [say("trace"), "hm…", say("crane")]})
    [trajectory] = play([InitialState("crane", ("crate",))], small_words, COMPACT_STATE, sampler)
    assert [picture(codec, segment) for segment in trajectory.segments] == [
        "5x6\ncGrGaGtXeG<|reply|>⟦<guess>trace</guess><|end|>⟧",
        "5x6\ncGrGaGtXeG\ntXrGaGcYeG<|reply|>⟦hm⟧",
        "5x6\ncGrGaGtXeG\ntXrGaGcYeG\n!<|reply|>⟦<guess>crane</guess><|end|>⟧",
    ]
    check_tokens(codec, trajectory)


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("shape", Shape)
def test_a_sampler_is_shown_the_tape_and_nothing_else(codec, small_words, style: Style, shape: Shape) -> None:
    prompter = Prompter(style=style, shape=shape)
    sampler = TokenScript(codec, {0: [prompter.reply("speed"), "so…", prompter.reply("crane")]})
    [trajectory] = play([InitialState("crane", ("abbey",))], small_words, prompter, sampler)
    seen = iter(sampler.requests)
    for segment in trajectory.segments:
        for _, start, _ in segment.spans:
            request = next(seen)
            assert [*segment.prompt_ids, *segment.token_ids[:start]] == list(request.prompt_ids)
            if not start:
                assert codec.prompt_ids(request.messages) == list(request.prompt_ids)
    assert next(seen, None) is None
    assert [len(request.turns) for request in sampler.requests] == [1, 2, 3]
    check_tokens(codec, trajectory)


def test_solved_games_leave_the_batch_at_once(codec: ChatCodec, small_words: WordList) -> None:
    script = {0: [say("crane")], 1: [say("speed")] * 6, 2: [say("speed"), say("abbey")]}
    finished: dict[int, Trajectory] = {}
    sampler, starts = TokenScript(codec, script), [InitialState(secret) for secret in ("crane", "crane", "abbey")]
    trajectories = play(starts, small_words, COMPACT, sampler, on_finished=finished.__setitem__)
    assert (sampler.asked, sampler.begun) == ([[0, 1, 2], [1, 2], [1], [1], [1], [1]], 1)
    assert list(finished) == [0, 2, 1]
    assert all(trajectories[game_id] is trajectory for game_id, trajectory in finished.items())
    told = [(trajectory.transcript.secret, trajectory.transcript.won) for trajectory in trajectories]
    assert told == [("crane", True), ("crane", False), ("abbey", True)]
    for trajectory in trajectories:
        check_tokens(codec, trajectory)


def test_free_refusals_are_turns_of_the_tape(codec: ChatCodec, small_words: WordList) -> None:
    prompter = Prompter(style=Style.COMPACT, rules=Rules(max_turns=1, dictionary="app", max_refusals=1))
    sampler = TokenScript(codec, {0: [say("qqqqq"), say("crane")]})
    [trajectory] = play([InitialState("crane")], small_words, prompter, sampler)
    assert trajectory.transcript.won
    assert [turn.turn.outcome for turn in trajectory.transcript.turns] == [Outcome.UNLISTED, Outcome.SCORED]
    check_tokens(codec, trajectory)


@pytest.mark.parametrize("prompter", [COMPACT, COMPACT_STATE, COMPACT_SPOKEN])
@pytest.mark.parametrize("turns", [0, 2])
def test_a_player_that_cannot_be_asked_is_an_error_and_no_loss(codec, small_words, prompter, turns: int) -> None:
    script = {0: [*[say("speed")] * turns, "error: connection refused"], 1: [say("speed")] * 6}
    failed, lost = play([InitialState("crane")] * 2, small_words, prompter, TokenScript(codec, script))
    assert (failed.error, failed.transcript.stop_reason) == ("connection refused", StopReason.REQUEST_FAILED)
    assert (lost.error, lost.transcript.stop_reason) == (None, StopReason.OUT_OF_TURNS)
    assert len(failed.transcript.turns) == turns
    assert sum(len(segment.spans) for segment in failed.segments) == turns
    check_tokens(codec, failed)


@pytest.mark.parametrize("prompter", [COMPACT, COMPACT_STATE, COMPACT_SPOKEN])
def test_a_prompt_beyond_its_bound_truncates_the_game(codec, small_words, prompter: Prompter) -> None:
    script = {0: [say("speed"), say("abbey"), say("crane")], 1: [say("crane")]}
    free = TokenScript(codec, script)
    play([InitialState("crane")], small_words, prompter, free)
    lengths = [len(request.prompt_ids) for request in free.requests]
    for bound, turns in [(lengths[0] - 1, 0), (lengths[0], 1), (lengths[2] - 1, 2), (lengths[2], 3)]:
        sampler = TokenScript(codec, script)
        cut, _ = play([InitialState("crane")] * 2, small_words, prompter, sampler, max_prompt_tokens=bound)
        assert len(cut.transcript.turns) == turns
        ended = StopReason.SOLVED if turns == 3 else StopReason.TOKEN_BUDGET if turns else StopReason.REQUEST_FAILED
        assert cut.transcript.stop_reason is ended
        # Without a turn it was never played, and is no loss.
        assert (cut.error is None) == (turns > 0)
        assert all(len(request.prompt_ids) <= bound for request in sampler.requests)
        check_tokens(codec, cut)


@pytest.mark.parametrize("prompter", [COMPACT, COMPACT_STATE, COMPACT_SPOKEN])
def test_a_game_is_truncated_where_it_should_stop(codec: ChatCodec, small_words: WordList, prompter: Prompter) -> None:
    asked = []

    def should_stop(secret: str, board: Sequence[Turn], replies: int) -> bool:
        asked.append((secret, [turn.guess for turn in board]))
        assert replies == len(board)
        return secret == "crane" and len(board) == 2

    script = {0: [say("speed"), say("abbey"), say("crane")], 1: [say("speed"), say("abbey"), say("trace")]}
    starts = [InitialState("crane"), InitialState("trace")]
    stopped, solved = play(starts, small_words, prompter, TokenScript(codec, script), should_stop=should_stop)
    assert stopped.transcript.stop_reason is StopReason.NOT_NEEDED
    assert [played.turn.guess for played in stopped.transcript.turns] == ["speed", "abbey"]
    assert solved.transcript.won
    assert ("trace", ["speed", "abbey"]) in asked
    assert ("trace", ["speed", "abbey", "trace"]) not in asked, "a solved game is over anyway"
    check_tokens(codec, stopped)


def test_players_that_read_words_leave_no_tokens(small_words: WordList) -> None:
    class Speaker(ScriptedSampler):
        def sample(self, requests: Sequence[Request]) -> list[Completion]:
            assert all(not request.prompt_ids and request.messages for request in requests)
            return super().sample(requests)

    [trajectory] = play([InitialState("crane")], small_words, Prompter(), Speaker({0: [say("crane")]}))
    assert trajectory.segments == ()
    assert trajectory.transcript.turns[0].num_tokens is None
    assert trajectory.transcript.won


def test_groups_share_secret_and_start_and_keep_their_order(codec: ChatCodec, small_words: WordList) -> None:
    starts = [InitialState("crane")] * 2 + [InitialState("speed")] * 2 + [InitialState("speed", ("abbey",))] * 2
    sampler = TokenScript(codec, {i: [say(start.secret)] for i, start in enumerate(starts)})
    trajectories = play(starts, small_words, COMPACT, sampler)
    assert groups_of(trajectories, 2) == [trajectories[0:2], trajectories[2:4], trajectories[4:6]]
    assert groups_of([], 4) == []
    for games, size, named in (
        (trajectories, 4, "groups of 4"), (trajectories, 0, "groups of 0"), (trajectories[1:3], 2, "secret"),
        (trajectories[3:5], 2, "prefix guesses"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=named):
            groups_of(games, size)


@pytest.mark.parametrize("num_games", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_all_choices_of_k_games_that_hold_a_win(num_games: int) -> None:
    for num_wins in range(num_games + 1):
        games = [True] * num_wins + [False] * (num_games - num_wins)
        for k in range(1, num_games + 1):
            chosen = [any(games[place] for place in places) for places in combinations(range(num_games), k)]
            assert pass_at(num_games, num_wins, k) == pytest.approx(sum(chosen) / len(chosen))
    for num_wins, k in ((-1, 1), (num_games + 1, 1), (0, 0), (0, num_games + 1)):
        with pytest.raises(ValueError, match="pass@"):
            pass_at(num_games, num_wins, k)


@pytest.mark.parametrize("thinking", Thinking)
@pytest.mark.parametrize("shape", Shape)
def test_a_board_that_is_given_reads_as_the_same_board_learnt_from_a_teacher(small_words, thinking, shape) -> None:
    """Also where the template writes a thought of its own before each reply."""
    codec, (first, secret) = ChatCodec(family_tokenizer("qwen3")), small_words.answers[:2]
    prompter = Prompter(Style.COMPACT, shape, thinking)
    turns = (TurnRecord(first, score_guess(secret, first), taught=False), TurnRecord(secret, "GGGGG"))
    [learnt] = encode_traces([GameRecord(secret, turns)], prompter, codec, 10_000).examples
    opened = open_game(0, InitialState(secret, (first,)), small_words, prompter, codec)
    ids = opened.all_ids()
    assert list(learnt.token_ids[: len(ids)]) == ids
    assert 1 not in learnt.loss_mask[: len(ids)]
    assert learnt.loss_mask[len(ids)] == 1


@pytest.mark.parametrize("limit", [None, 5.0])
def test_a_player_s_own_timeout_is_not_taken_for_ours(small_words, limit: float | None) -> None:
    async def ask(_request: Request) -> Completion:
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs"):
        asyncio.run(play_alone(0, InitialState(small_words.answers[0]), small_words, COMPACT, ask, limit))
