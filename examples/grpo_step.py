"""One step of multi-turn GRPO, with the functions that `wordle-rl run` calls: play a group, score it, learn from it.

A game is one sequence of tokens. What the environment says is observation, what the policy sampled is action:

    prompt <|reply|> <guess>crane</guess><|end|> cXrGaGnXeG <|reply|> <guess>grape</guess><|end|> ...
    `- observation -' `-------- action --------' `- observation --' `-------- action --------'
    loss mask 0 0 0    1 1 1 1 1 1 1 1            0 0 0 0 0 0 0      1 1 1 1 1 1 1 1

The loss counts actions only, each under everything that stands before it. `wordle_rl.train.grpo` has the loop around
this step, with refills, validation and checkpoints. `python examples/grpo_step.py` takes seconds on a CPU.
"""

import random
from collections.abc import Sequence

import torch

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.config import OptimizerSettings, SamplingSettings
from wordle_rl.data.dataset import Example
from wordle_rl.env import WordleEnv
from wordle_rl.models.tiny import make_model, make_tokenizer
from wordle_rl.prompt import Prompter, Style, Thinking
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import game_advantages
from wordle_rl.train.batch import Batch
from wordle_rl.train.games import Scored
from wordle_rl.train.groups import rows_of
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.logprobs import Scorer, Scores
from wordle_rl.train.loss import CrossEntropy, PolicyLoss, Totals, row_sums
from wordle_rl.words import WordList, load_words

GROUP_SIZE = 8  # games with the same secret; their mean reward is the baseline
MAX_TOKENS = 8  # of a reply


def warm_start(learner: TorchLearner, prompter: Prompter, words: WordList, steps: int = 80) -> None:
    """Teach an untrained model the form of a game by SFT: legal guesses in random order, no skill."""
    rng = random.Random(0)
    learner.start(OptimizerSettings(learning_rate=5e-3, schedule="constant", warmup=0.0), steps)
    for step in range(1, steps + 1):
        games: list[Example] = []
        while len(games) < 16:
            env = WordleEnv(rng.choice(words.answers), words, prompter)
            for guess in rng.sample(words.answers, len(words.answers)):
                if env.step(f"<guess>{guess}</guess>").stop_reason:
                    break
            games.append(Example(*learner.codec.encode_game(env.conversation)))
        learner.update([games], CrossEntropy(), step)


@torch.no_grad()
def logprobs_of(scorer: Scorer, codec: ChatCodec, rows: Sequence[Example]) -> list[float]:
    """Log-probability of all actions of each row."""
    batch = Batch.of(rows, [1.0] * len(rows), codec.pad_id)
    scores = Scores(*scorer(batch))  # of each action, laid end to end: (N,)
    return row_sums(scores.logprobs, batch.rows, batch.num_rows).tolist()


def main() -> list[tuple[float, float, float]]:
    """Take one step, and return of each game the reward and its log-probability before and after the step."""
    few = load_words().answers[::300]
    words = WordList("a few", few, few)
    prompter = Prompter(style=Style.COMPACT, thinking=Thinking.OFF)
    codec = ChatCodec(make_tokenizer())
    model = make_model(codec.tokenizer, hidden_size=64, num_heads=2)
    learner = TorchLearner(model, codec, precision="fp32")
    warm_start(learner, prompter, words)

    # Play: all games of the group in lockstep, one call of the sampler per turn.
    with learner.policy(SamplingSettings(max_completion_tokens=MAX_TOKENS), seed=1) as (sampler, _):
        group = play([InitialState(few[2])] * GROUP_SIZE, words, prompter, sampler)
    segments = [game.segments[0] for game in group]  # in transcript shape a game is one segment
    print(mask_picture(codec, segments[0].token_ids, segments[0].loss_mask))

    # Score, and compare each game with the mean of its group.
    rewards = [PRESETS["sparse"].score(game.transcript, Solver(words, use_cache=False)) for game in group]
    advantages = game_advantages([reward.turn_rewards for reward in rewards])
    scored = [Scored(*each) for each in zip(group, rewards, advantages, strict=True)]
    totals = [reward.total for reward in rewards]
    print("rewards   ", *(f"{total:6.2f}" for total in totals))
    print("advantages", *(f"{turns[0]:6.2f}" for turns in advantages))

    # Rows: token ids, loss mask, and the advantage of its turn on every action.
    rows = [row for game in scored for row in rows_of(game, codec)]
    # A constant divisor (Dr. GRPO): dividing by a game's own length would favour long losses.
    loss = PolicyLoss("dr_grpo", longest=prompter.rules.max_turns * MAX_TOKENS)
    counts = [sum(row.loss_mask) for row in rows]
    weights = loss.token_weights(counts, Totals(num_tokens=sum(counts), num_rows=len(rows)))
    batch = Batch.of(rows, weights, codec.pad_id)

    # Learn. `learner.update([rows], loss, step)` is this, with micro-batches, clipping and several processes.
    scorer = Scorer(model)
    before = logprobs_of(scorer, codec, rows)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.0)
    value, _figures = loss(Scores(*scorer(batch)), batch)
    value.backward()
    optimizer.step()
    after = logprobs_of(scorer, codec, rows)
    print(f"loss {value.item():.4f}")
    for name, place in (("best", totals.index(max(totals))), ("worst", totals.index(min(totals)))):
        print(f"log-probability of the {name} game: {before[place]:.3f} -> {after[place]:.3f}")
    return list(zip(totals, before, after, strict=True))


if __name__ == "__main__":
    torch.set_num_threads(1)  # more would only wait for each other over a model this small
    main()
