"""Training: one loss, one loop, and a page for each algorithm.

The algorithms:

    sft.py                    cross-entropy on a teacher's games
    play_loop.py              the loop of all others: play a batch of games, learn from it, save
      grpo.py                   multi-turn GRPO
        grpo_rollouts.py          the games of a step: draw, play, score, refill; play one step ahead
        turn_candidates.py        several candidate guesses per turn
      round_method.py           what the next four share: long rounds, each with its own optimizer
        teacher_replay.py         teacher games beside those of a round
        expert_iteration.py       the policy's best games
        hindsight_labels.py       its boards, labelled with the secret revealed at the end
        dpo.py                    pairs of its guesses on the same board
        distill.py                its boards, labelled by a teacher
    algorithms.py             their table: where a new one is entered

Shared parts:

    example.py                what is trained on: a sequence of tokens; teacher games as such
    loss.py                   cross-entropy, policy gradient, preferences: functions of log-probabilities
    learner.py                model and optimizer: `update(rows, loss, step)`
    training_loop.py          metrics, Ctrl-C, bad steps, checkpoints
    micro_batches.py          rows as tensors
    logprobs.py               log-probabilities of trained tokens
    prefix_sharing.py         compute common prefixes once
    optimizer.py              AdamW, Muon, schedules
    checkpoints.py            checkpoint directories
    checkpoint_selection.py   validation, and which weights are kept
    advantages.py             from rewards to advantages
    scored_games.py           rewards, advantages and metrics of games; games as rows of tokens
    starts.py, starts_file.py where games begin: prefix guesses, secrets by priority (drawn in boards.py)
    weight_sync.py            vLLM as the player, with the weights of each step

Begin with loss.py, play_loop.py and grpo.py.
"""
