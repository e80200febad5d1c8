"""Play secrets, keep every game, measure, and compare players on the same words.

    players.py       players by name: solver, random, a model or run directory, openai:MODEL, module:attribute
    asked.py         Asked: what an evaluation asks, as one value; its key is that of the journal
    options.py       what `play` and `eval` are asked by, in words of the command line
    records.py       Evaluation (every game, saved as JSON or CSV), EvalConditions: prompting and sampling of a player
    figures.py       Figures, the distribution of rewards
    results_table.py the one table of results
    leaderboard.py   the board: figures of players with their conditions, a file that others add to
    play.py          evaluate(): plays what is asked, and returns what is measured of each game
    journal.py       an evaluation, its file and its journal, from which a stopped one resumes
    eval_secrets.py  secrets outside the split, and boards with earlier turns
    strata.py        held-out secrets by what training games showed of them
    entropy.py       the temperature at which one model is as random as another
    forgetting.py    how much plain English a model has lost
    stats.py         intervals and tests
    compare.py       compare(): two evaluations; compare_all(): any number; a run's curve and those of its preset

A game that could not be finished because a request failed is an error. Errors are counted apart, are left out of every
other figure, and are never losses. A game cut short by a token budget is a loss.
"""
