"""One step of multi-turn GRPO, written out: sample a group, score it, advantages, loss, step.

A game is one sequence of tokens. What the environment says is observation, what the policy sampled is action:

    prompt <|reply|> <guess>crane</guess><|end|> cXrGaGnXeG <|reply|> <guess>grape</guess><|end|> ...
    `- observation -' `-------- action --------' `- observation --' `-------- action --------'
    loss mask 0 0 0    1 1 1 1 1 1 1 1            0 0 0 0 0 0 0      1 1 1 1 1 1 1 1

The loss counts actions only, each under everything that stands before it. `wordle_rl.rl.grpo` does the same with TRL
and adds refills, micro-batches, validation and checkpoints. `python examples/grpo_step.py` takes seconds on a CPU.
"""

import random

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.config import SamplingSettings
from wordle_rl.env import WordleEnv
from wordle_rl.models.tiny import make_model, make_tokenizer
from wordle_rl.prompt import Prompter, Style, Thinking
from wordle_rl.reward import PRESETS
from wordle_rl.rl.advantages import game_advantages, token_advantages
from wordle_rl.rollout import InitialState, Segment, play
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words

GROUP_SIZE = 8  # games with the same secret; their mean reward is the baseline
CLIP_LOW, CLIP_HIGH = 0.2, 0.28  # how far a step may move a token's probability; the upper bound is looser (DAPO)
MAX_TOKENS = 6 * 8  # most actions of a game: six turns of eight tokens


def warm_start(model: PreTrainedModel, codec: ChatCodec, prompter: Prompter, words: WordList, steps: int = 80) -> None:
    """Teach an untrained model the form of a game by SFT: legal guesses in random order, no skill."""
    rng = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        games: list[tuple[list[int], list[int]]] = []
        while len(games) < 16:
            env = WordleEnv(rng.choice(words.answers), words, prompter)
            for guess in rng.sample(words.answers, len(words.answers)):
                if env.step(f"<guess>{guess}</guess>").stop_reason:
                    break
            games.append(codec.encode_game(env.conversation))
        width = max(len(ids) for ids, _ in games)
        ids = torch.tensor([row + [codec.pad_id] * (width - len(row)) for row, _ in games])  # (B, T)
        loss_mask = torch.tensor([row + [0] * (width - len(row)) for _, row in games]).bool()  # (B, T)
        logits = model(input_ids=ids).logits[:, :-1]  # (B, T - 1, V): the logits at t are about the token at t + 1
        loss = cross_entropy(logits[loss_mask[:, 1:]], ids[:, 1:][loss_mask[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def action_logprobs(model: PreTrainedModel, segment: Segment) -> Tensor:
    """The policy's log-probability of every token after the prompt, 0 on observations."""
    ids = torch.tensor([[*segment.prompt_ids, *segment.token_ids]])  # (1, P + T)
    logits: Tensor = model(input_ids=ids).logits[0, len(segment.prompt_ids) - 1 : -1]  # (T, V)
    logprobs = logits.log_softmax(-1).gather(-1, torch.tensor(segment.token_ids)[:, None])[:, 0]  # (T,)
    return logprobs * torch.tensor(segment.loss_mask)  # (T,)


def grpo_loss(model: PreTrainedModel, segment: Segment, advantages: tuple[float, ...]) -> Tensor:
    """The clipped policy gradient loss of one game, whose turns have these advantages."""
    advantage = torch.tensor(token_advantages(segment, advantages))  # (T,), that of its turn on every action
    # Over the log-probabilities that the tokens were drawn with: 1 in the first step on a game.
    ratio = (action_logprobs(model, segment) - torch.tensor(segment.sampler_logprobs)).exp()  # (T,)
    clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)  # (T,)
    # The smaller of both: clipping takes away what a token could still gain, never what it has to lose.
    gain = torch.minimum(ratio * advantage, clipped * advantage)  # (T,)
    # A constant divisor (Dr. GRPO): dividing by a game's own length would favour long losses.
    return -(gain * torch.tensor(segment.loss_mask)).sum() / (GROUP_SIZE * MAX_TOKENS)


def main() -> list[tuple[float, float, float]]:
    """Take one step, and return of each game the reward and its log-probability before and after the step."""
    few = load_words().answers[::300]
    words = WordList("a few", few, few)
    prompter = Prompter(style=Style.COMPACT, thinking=Thinking.OFF)
    codec = ChatCodec(make_tokenizer())
    model = make_model(codec.tokenizer, hidden_size=64, num_heads=2)
    warm_start(model, codec, prompter, words)

    # Sample: all games of the group in lockstep, one call of the sampler per turn.
    sampler = TransformersSampler(model, codec, SamplingSettings(max_completion_tokens=8), seed=1)
    group = play([InitialState(few[2])] * GROUP_SIZE, words, prompter, sampler)
    segments = [game.segments[0] for game in group]  # in transcript shape a game is one segment
    print(mask_picture(codec, segments[0].token_ids, segments[0].loss_mask))

    # Score, and compare each game with the mean of its group.
    rewards = [PRESETS["sparse"].score(game.transcript, Solver(words, use_cache=False)) for game in group]
    totals = [reward.total for reward in rewards]
    advantages = game_advantages([reward.turn_rewards for reward in rewards])
    print("rewards   ", *(f"{total:6.2f}" for total in totals))
    print("advantages", *(f"{turns[0]:6.2f}" for turns in advantages))

    # Step: no ratio is clipped in this one; a second step on the same games would meet the bounds.
    before = [action_logprobs(model, segment).sum().item() for segment in segments]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.0)
    loss = torch.stack([grpo_loss(model, *game) for game in zip(segments, advantages, strict=True)]).sum()
    loss.backward()
    optimizer.step()
    after = [action_logprobs(model, segment).sum().item() for segment in segments]
    print(f"loss {loss.item():.4f}")
    for name, place in (("best", totals.index(max(totals))), ("worst", totals.index(min(totals)))):
        print(f"log-probability of the {name} game: {before[place]:.3f} -> {after[place]:.3f}")
    return list(zip(totals, before, after, strict=True))


if __name__ == "__main__":
    torch.set_num_threads(1)  # more would only wait for each other over a model this small
    main()
