// Boards: tiles, turns, meters. A row of marks is told by letters, colours, an outline for Y, and words for a reader.

const MARKS = { G: "right place", Y: "elsewhere", X: "no copy left" };
const OUTCOMES = {
  scored: "", malformed: "no guess in the reply", wrong_length: "wrong length", unlisted: "not in the word list",
  hard_mode: "leaves out a hint",
};
const FAILURES = {
  no_guess: "no guess outside the thinking", several_guesses: "more than one guess", text_outside_tags: "text before the guess",
  text_after_guess: "text after the guess", thinking_unclosed: "thinking left open", thinking_missing: "no thinking",
  thinking_not_allowed: "thinking is not allowed", not_a_word: "the guess is no word",
};
const outcomeOf = (turn) => turn.outcome ?? "scored";
const isScored = (turn) => outcomeOf(turn) === "scored" && Boolean(turn.marks);

function resultOf(game) {
  if (game.error || game.stop_reason === "request_failed") return "error";
  const won = game.won ?? (game.turns.length > 0 && /^G+$/.test(game.turns.at(-1).marks ?? ""));
  return won ? "won" : "lost";
}
const usedTurns = (game) => game.turns_used ?? game.turns.filter((turn) => turn.costs_turn !== false).length;
const STOPS = { nothing_fits: "stopped: no answer fits", token_budget: "stopped: out of tokens" };
function endOf(game) {
  const result = resultOf(game);
  if (result === "lost" && STOPS[game.stop_reason]) return STOPS[game.stop_reason];
  return result === "won" ? "✓ won in " + usedTurns(game) : result === "lost" ? "✗ lost" : "error";
}

function tile(letter, mark, size = "") {
  return make("b", { class: `tile ${mark ? mark.toLowerCase() : "none"} ${size}` }, letter ? letter.toUpperCase() : "");
}

function spell(turn) {
  if (!turn.guess) return OUTCOMES[outcomeOf(turn)] || "no guess";
  const word = turn.guess.toUpperCase();
  if (!isScored(turn)) return `${word}: ${OUTCOMES[outcomeOf(turn)] || "not scored"}`;
  return `${word}: ` + [...turn.guess].map((letter, i) => `${letter} ${MARKS[turn.marks[i]]}`).join(", ");
}

// The tiles of one turn; `width` empty tiles stand for a reply without a guess.
function tilesOf(turn, width, size = "") {
  const letters = [...(turn.guess ?? "").slice(0, 12).padEnd(turn.guess ? 0 : width)];
  const tiles = letters.map((letter, i) => tile(letter.trim(), isScored(turn) ? turn.marks[i] : "", size));
  return make("span", { class: "tiles" }, make("span", { class: "hidden" }, spell(turn)), make("span", { "aria-hidden": "true" }, ...tiles));
}

function emptyTiles(width, letters = "") {
  return make("span", { class: "tiles", "aria-hidden": "true" }, make("span", {}, ...Array.from({ length: width }, (_, i) => tile(letters[i] ?? "", "", letters[i] ? "typed" : "empty"))));
}

function miniBoard(game, width) {
  return make("span", { class: "mini", "aria-hidden": "true" }, ...game.turns.slice(0, 8).map((turn) =>
    make("span", {}, ...Array.from({ length: width }, (_, i) => make("i", { class: isScored(turn) ? turn.marks[i]?.toLowerCase() : "none" })))));
}

// --- what a turn says beside its tiles ---

function notesOf(turn) {
  const notes = [isScored(turn) ? "" : OUTCOMES[outcomeOf(turn)], FAILURES[turn.failure], turn.given && "given", turn.repeated && "said before"];
  if (turn.violates_clues) notes.push("against the clues");
  if (turn.costs_turn === false) notes.push("cost no turn");
  if (turn.taught === false) notes.push("not taught");
  return notes.filter(Boolean);
}

// A bar from the middle: to the right what is above zero.
function signedBar(value, largest) {
  const share = largest > 0 ? Math.min(1, Math.abs(value) / largest) * 50 : 0;
  const bar = make("i", { class: value < 0 ? "minus" : "plus" });
  bar.style.width = share + "%";
  bar.style[value < 0 ? "right" : "left"] = "50%";
  return make("span", { class: "signed", "aria-hidden": "true" }, bar);
}

function meter(value, most, name) {
  const bar = make("i", { class: name });
  bar.style.width = (most > 0 ? Math.min(1, value / most) * 100 : 0) + "%";
  return make("span", { class: "meter", "aria-hidden": "true" }, bar);
}

// Candidates and information of one turn, as the server or the export reviewed it.
function reviewOf(review, turn) {
  if (!review || review.candidates === undefined) return null;
  const most = Math.max(review.best_bits ?? 0, review.bits ?? 0, 0.01);
  const rows = [];
  if (review.bits !== null && review.bits !== undefined) {
    rows.push(make("dt", {}, turn.guess), make("dd", {}, meter(review.bits, most, "c0"), number(review.bits) + " bits"));
  }
  if (review.best) {
    rows.push(make("dt", {}, review.best), make("dd", {}, meter(review.best_bits, most, "c1"), `${number(review.best_bits)} bits, the solver's guess`));
  }
  const left = review.left === review.candidates ? count(review.left, "candidate") : `${review.candidates.toLocaleString("en")} → ${count(review.left, "candidate")}`;
  const some = review.some?.length && review.some.length < 24 ? ": " + review.some.join(", ") : "";
  return make("div", { class: "review" }, make("p", {}, left + some), make("dl", { class: "bars" }, ...rows));
}

function likelyBars(likely, chosen) {
  if (!likely?.length) return null;
  const rest = Math.max(0, 1 - likely.reduce((sum, each) => sum + each.probability, 0));
  const rows = likely.flatMap((each) => [
    make("dt", { class: each.guess === chosen ? "chosen" : "" }, each.guess, each.listed ? null : make("small", {}, " unlisted")),
    make("dd", {}, meter(each.probability, 1, each.guess === chosen ? "c1" : "c0"), percent(each.probability)),
  ]);
  return make("div", {}, make("h3", {}, `Its ${likely.length} likeliest guesses`), make("dl", { class: "bars" }, ...rows),
    make("p", { class: "muted" }, `all else ${percent(rest)}; at temperature 1, given what it said before`));
}

function thoughtOf(turn) {
  const thought = turn.thinking ?? /<think>([^]*?)<\/think>/.exec(turn.reply ?? "")?.[1] ?? "";
  return thought.trim();
}
