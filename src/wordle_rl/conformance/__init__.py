"""Black-box checks that any Wordle environment can be held against: `wordle-rl conformance URL|module`.

    target.py      an environment as the checks see it: sessions, steps, nothing behind them
    dialects.py    the form of a guess, and reading marks
    games.py       one played game, and the loop that plays it
    players.py     the solver, honest players and canaries
    examiner.py    games that several checks look at, played once
    results.py     findings; the report as JSON
    checks/        the checks, by subject
    suite.py       all checks in order, with what each depends on
    adapters/      environments with other interfaces, made a target
    page.py        the report as a page
    commands.py    the command

A check knows a secret only from having found it: by play from the marks alone. So all of them work on a server that
shows nothing else. Ids are those of OpenEnv's RFC 008 where one says the same; `wordle.*` are the rules of this game.
"""
