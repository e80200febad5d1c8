// The rules once more, for a page without a server: a game by hand over the words in the file. A test holds the marks
// against the package's own. The secret is in this page's memory, so whoever opens the developer tools can find it.

function scoreGuess(secret, guess) {
  const left = [...secret].filter((letter, i) => letter !== guess[i]);
  return [...guess].map((letter, i) => {
    if (secret[i] === letter) return "G";
    const found = left.indexOf(letter);
    if (found < 0) return "X";
    left.splice(found, 1);
    return "Y";
  }).join("");
}

function ignoresHint(guess, turns) {
  for (const turn of turns.filter(isScored)) {
    const revealed = [];
    for (let i = 0; i < turn.guess.length; i++) {
      if (turn.marks[i] === "G" && guess[i] !== turn.guess[i]) return true;
      if (turn.marks[i] !== "X") revealed.push(turn.guess[i]);
    }
    const many = (word, letter) => [...word].filter((other) => other === letter).length;
    if (revealed.some((letter) => many(guess, letter) < many(revealed, letter))) return true;
  }
  return false;
}

const fits = (answer, turns) => turns.filter(isScored).every((turn) => scoreGuess(answer, turn.guess) === turn.marks);

// A game with the answers that the server gives to one.
class LocalGame {
  constructor(words, maxTurns, dictionary, hardMode) {
    this.words = words;
    this.rules = { maxTurns, dictionary, hardMode };
    this.turns = [];
    this.secret = words.answers[Math.floor(Math.random() * words.answers.length)];
  }
  opening() {
    return { candidates: this.words.answers.length, ...this.board() };
  }
  board() {
    const left = this.rules.maxTurns - this.turns.filter((turn) => turn.costs_turn).length;
    const over = left <= 0 || this.turns.at(-1)?.guess === this.secret;
    return { max_turns: this.rules.maxTurns, word_length: this.words.length, turns_left: left, over };
  }
  outcome(guess) {
    if (!/^[a-z]+$/.test(guess)) return "malformed";
    if (guess.length !== this.words.length) return "wrong_length";
    if (!this.words.listed.has(guess)) return "unlisted";
    return this.rules.hardMode && ignoresHint(guess, this.turns) ? "hard_mode" : "scored";
  }
  guess(word) {
    const guess = word.trim().toLowerCase();
    const outcome = this.outcome(guess);
    const marks = outcome === "scored" ? scoreGuess(this.secret, guess) : null;
    const turn = { guess: outcome === "malformed" ? null : guess, marks, outcome, costs_turn: marks !== null || this.rules.dictionary !== "app" };
    this.turns.push(turn);
    const left = this.words.answers.filter((answer) => fits(answer, this.turns)).length;
    const board = this.board();
    return { ...turn, left, ...board, ...(board.over ? { won: guess === this.secret, secret: this.secret } : {}) };
  }
}
