"""Training: one loss, one loop, and a page for each algorithm.

The algorithms:

    sft.py                cross-entropy on a teacher's games
    grpo.py               multi-turn GRPO
    rounds.py             the loop of those that play a batch of games, then learn from it:
      expert_iteration.py   the policy's best games
      hindsight.py          its boards, labelled with the secret that its game revealed
      dpo.py                pairs of its guesses at the same board
      distill.py            its boards, labelled by a teacher

What they share:

    loss.py               cross-entropy, policy gradient, preferences: functions of log-probabilities
    learner.py            model and optimizer: `update(rows, loss, step)`
    capabilities.py       what a run asks of a learner's library
    loop.py               metrics, Ctrl-C, bad steps, checkpoints
    batch.py              rows as tensors
    logprobs.py           log-probabilities of trained tokens
    prefixes.py, prefix_attention.py, shared_forward.py   common prefixes are computed once
    optimizer.py, muon.py AdamW, Muon, schedules
    checkpoints.py        directories of checkpoints
    advantages.py         from rewards to advantages
    groups.py, scoring.py, candidates.py   games of a GRPO step
    initial_states.py, prefix_guesses.py, starts_file.py   where games begin
    validation.py, selection.py            which weights are kept
    vllm.py               vLLM as the player of a training

Begin with loss.py and grpo.py.
"""
