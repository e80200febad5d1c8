"""Training: one loss, one loop, and a page for each algorithm.

The algorithms:

    sft.py                cross-entropy on a teacher's games
    grpo.py               multi-turn GRPO
    rounds.py             alternate between playing a batch of games and learning from it:
      expert_iteration.py   the policy's best games
      hindsight.py          its boards, labelled with the secret revealed at the end
      dpo.py                pairs of its guesses on the same board
      distill.py            its boards, labelled by a teacher

Shared parts:

    loss.py               cross-entropy, policy gradient, preferences: functions of log-probabilities
    learner.py            model and optimizer: `update(rows, loss, step)`
    capabilities.py       features that depend on a learner's library
    loop.py               metrics, Ctrl-C, bad steps, checkpoints
    batch.py              rows as tensors
    logprobs.py           log-probabilities of trained tokens
    prefixes.py, prefix_attention.py, shared_forward.py   compute common prefixes once
    optimizer.py, muon.py AdamW, Muon, schedules
    checkpoints.py        checkpoint directories
    advantages.py         from rewards to advantages
    groups.py, scoring.py, candidates.py   games of a GRPO step
    initial_states.py, prefix_guesses.py, starts_file.py   where games begin
    validation.py, selection.py            which weights are kept
    vllm.py               vLLM as the player

Begin with loss.py and grpo.py.
"""
