// Play by hand, with the keyboard or the keys on the screen.

const ROWS = ["qwertyuiop", "asdfghjkl", "↵zxcvbnm⌫"];

class PlayView {
  constructor(store) {
    this.store = store;
    this.root = byId("play");
    this.board = byId("play-board");
    this.letters = "";
    this.turns = [];
    byId("play-new").addEventListener("click", () => {
      this.board.focus(); // or Enter would press the button again
      this.begin().catch(complain);
    });
    byId("play-give").addEventListener("change", () => this.draw());
    document.addEventListener("keydown", (event) => this.heard(event));
    byId("keys").replaceChildren(...ROWS.map((row) => make("div", {}, ...[...row].map((key) => this.key(key)))));
  }
  key(key) {
    const names = { "↵": ["Enter", "enter"], "⌫": ["Backspace", "delete"] };
    const [pressed, label] = names[key] ?? [key, key];
    const clicked = (event) => {
      if (event.detail) event.currentTarget.blur(); // clicked with a pointer: Enter of the keyboard is not for this key
      this.press(pressed);
    };
    return button(key === "↵" ? "enter" : key, clicked, { "data-key": pressed, "aria-label": label });
  }
  show() {
    if (!this.game) this.begin().catch(complain);
  }
  async begin() {
    const strict = byId("play-strict").checked;
    this.game = await this.store.openGame(strict ? "strict" : "app", byId("play-hard").checked);
    this.state = this.game;
    [this.letters, this.turns, this.ended, this.review] = ["", [], null, null];
    this.told("");
    this.draw();
  }
  heard(event) {
    const busy = event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, a, summary");
    if (this.root.hidden || busy || (event.target.closest("button") && ["Enter", " "].includes(event.key))) return;
    if (/^[a-zA-Z]$/.test(event.key) || ["Enter", "Backspace"].includes(event.key)) {
      event.preventDefault();
      this.press(event.key);
    }
  }
  press(key) {
    if (!this.state || this.state.over || this.waiting) return;
    if (key === "Enter") this.enter().catch(complain);
    else if (key === "Backspace") this.letters = this.letters.slice(0, -1);
    else if (this.letters.length < this.state.word_length) this.letters += key.toLowerCase();
    this.draw();
  }
  async enter() {
    if (this.letters.length < this.state.word_length) return this.told("Not enough letters.");
    this.waiting = true;
    try {
      const turn = await this.game.guess(this.letters);
      this.state = turn;
      this.turns.push(turn);
      const refused = turn.costs_turn === false;
      this.told(isScored(turn) ? spell(turn) : `${this.letters.toUpperCase()} is ${OUTCOMES[turn.outcome]}${refused ? "." : ", and costs the turn."}`);
      if (!refused) this.letters = "";
      if (turn.over) await this.end(turn);
    } finally {
      this.waiting = false;
      this.draw();
    }
  }
  async end(turn) {
    this.ended = turn;
    const word = turn.secret.toUpperCase();
    const used = this.turns.filter((each) => each.costs_turn !== false).length;
    this.told(turn.won ? `${word} found in ${used}.` : `Not found: the word was ${word}.`);
    this.review = await this.store.review("", this.turns, turn.max_turns);
  }
  told(text) {
    byId("play-told").textContent = text;
    say(text);
  }
  draw() {
    if (!this.state) return;
    const { word_length: width, max_turns: most, over } = this.state;
    const played = this.turns.map((turn, i) => [turn, i]).filter(([turn]) => turn.costs_turn !== false);
    const hints = byId("play-give").checked;
    const rows = played.map(([turn, i]) =>
      make("li", {}, tilesOf(turn, width, "large"), hints && make("small", { class: "marks" }, count(turn.left, "candidate")), this.ended && reviewOf(this.review?.[i], turn)));
    for (let row = played.length; row < most && !over; row++) {
      rows.push(make("li", {}, row === played.length ? emptyTiles(width, this.letters) : emptyTiles(width)));
    }
    fill(this.board, ...rows);
    this.colour();
  }
  colour() {
    const known = {};
    for (const turn of this.turns.filter(isScored)) {
      [...turn.guess].forEach((letter, i) => {
        const better = { G: 3, Y: 2, X: 1 };
        if (!(better[known[letter]] >= better[turn.marks[i]])) known[letter] = turn.marks[i];
      });
    }
    for (const key of byId("keys").querySelectorAll("button")) {
      const mark = known[key.dataset.key];
      key.className = mark ? mark.toLowerCase() : "";
      if (mark) key.setAttribute("aria-label", `${key.dataset.key}, ${MARKS[mark]}`);
      else if (key.dataset.key.length === 1) key.setAttribute("aria-label", key.dataset.key);
    }
  }
}
