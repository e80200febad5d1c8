"""Draw `benchmarks/board.json` as the tables of docs/board.md, between its two marks.

python scripts/board.py
"""

from pathlib import Path

from wordle_rl.evaluate.leaderboard import read_board, table_lines

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "board.md"
BEGIN, END = "<!-- rows: python scripts/board.py -->\n", "<!-- end of the rows -->\n"


def drawn(page: str) -> str:
    """The page with the rows of the board between its marks."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    rows = "\n".join(table_lines(read_board(ROOT / "benchmarks" / "board.json")))
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
