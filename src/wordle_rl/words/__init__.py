"""Word lists: load, check, fingerprint.

A word list is two files with one word per line: `answers.txt`, the possible secrets, and `guesses.txt`, all words that
can be played, answers included. A single file can be both, and a CSV works as well. All words have the same length, 3
to 10 letters from a to z. The `default` list is embedded. The published `original` and `nyt` lists are not shipped, but
recognised by hash.

    word_list.py  WordList, checked and fingerprinted
    split.py  split the answers into training, validation, test and strict secrets; words that the prompts contain
    list_files.py  load_words() by name, directory or file; import_words() into the user's cache
"""

from wordle_rl.words.list_files import (
    KNOWN_LISTS,
    KnownList,
    import_words,
    load_words,
    read_word_files,
    read_word_list,
    user_cache_dir,
)
from wordle_rl.words.split import EXAMPLE_WORDS, PROMPT_WORDS
from wordle_rl.words.word_list import MAX_WORD_LENGTH, MIN_WORD_LENGTH, WordList, WordListError

__all__ = [
    "EXAMPLE_WORDS",
    "KNOWN_LISTS",
    "MAX_WORD_LENGTH",
    "MIN_WORD_LENGTH",
    "PROMPT_WORDS",
    "KnownList",
    "WordList",
    "WordListError",
    "import_words",
    "load_words",
    "read_word_files",
    "read_word_list",
    "user_cache_dir",
]
