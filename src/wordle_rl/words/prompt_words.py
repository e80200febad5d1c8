"""Words that occur in the prompts of this package, so that no training can avoid them."""

EXAMPLE_WORDS = ("zoo", "jazz", "xylyl", "jujube", "pizzazz", "quizzing", "whizzbang", "razzmatazz")
"""The example word in prompts, for each length.

Small models copy it, and copying must not look like skill. So it is a poor opener (`xylyl` gives 2.2 bits, `crane` 5.7)
and in no known list of answers.
"""

PROMPT_WORDS = frozenset((
    "zoo", "jazz", "xylyl", "jujube", "pizzazz", "quizzing", "whizzbang", "razzmatazz", "few", "many", "with",
    "after", "all", "allowed", "and", "any", "apart", "are", "assistant", "briefly", "but", "compact", "copy",
    "crane", "each", "education", "elsewhere", "english", "every", "exactly", "example", "far", "find", "first",
    "fits", "format", "further", "game", "generation", "gets", "groups", "guess", "guessed", "guesses", "hard",
    "has", "held",
    "hint", "inside", "into", "its", "know", "later", "least", "leaves", "left", "length", "letter", "letters", "list",
    "listed", "mark", "max", "may", "missing", "mode", "more", "most", "must", "new", "none", "not", "notebook",
    "nothing", "number", "off", "one", "only", "open", "optional", "original", "other", "out", "outside", "place",
    "planet", "player", "possible", "prompt", "rain", "readable", "reason", "refused", "relation", "reply", "required",
    "revealed",
    "secret", "several", "shape", "sorts", "spelled", "square", "start", "state", "station", "style", "symbol",
    "symbols", "system",
    "tags", "tea", "tells", "text", "textarena", "than", "that", "the", "their", "them", "then", "think",
    "thinking", "told", "transcript", "turn", "turns", "unclosed", "unknown", "used", "user", "wastes",
    "whether",
    "word", "wordle", "words", "write", "wrong", "you", "your",
))  # fmt: skip
"""Every word of 3 to 10 letters in our prompts, feedback, tags and the solver's thinking; they are never strict words.

Texts of other projects and styles of your own hold others: a run whose prompts name a strict word is refused.
"""
