"""Our games in the loops of other trainers: a file per trainer, all over `games`. Nothing imports this package."""
