"""Laws of TextArena's own texts as a style: its opening and its answers, and nothing of ours around them."""

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt import Prompter, Style, textarena_texts


def test_the_original_texts_of_textarena_need_no_system_message_and_mark_a_repeated_guess_as_invalid() -> None:
    prompter = Prompter(style=Style.TEXTARENA_ORIGINAL)
    [opening] = prompter.opening()
    assert opening["role"] == "user"
    assert opening["content"] == textarena_texts.opening(5, 6).strip()
    crane = Turn("crane", "XYXXG", Outcome.SCORED)
    again = prompter.feedback([crane, crane])["content"]
    assert "You have already guessed 'crane' before." in again
    assert again.endswith("You have 4 guesses left.")
    history = prompter.state([crane, Turn(None, None, Outcome.MALFORMED)])
    assert [message["role"] for message in history] == ["user"]
    assert history[0]["content"].startswith(opening["content"])
    assert history[0]["content"].count("[GAME] [crane]") == 1
    assert "wrong format" in history[0]["content"]
