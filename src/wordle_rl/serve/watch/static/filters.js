// Which games are shown: a form, and a histogram whose bars filter too. The choice lives in the address.

const FAULTS = {
  malformed: ["no guess in the reply", (turn) => outcomeOf(turn) === "malformed"],
  unlisted: ["not in the word list", (turn) => outcomeOf(turn) === "unlisted"],
  wrong_length: ["wrong length", (turn) => outcomeOf(turn) === "wrong_length"],
  hard_mode: ["leaves out a hint", (turn) => outcomeOf(turn) === "hard_mode"],
  repeated: ["said before", (turn, i, turns) => turns.slice(0, i).some((other) => other.guess && other.guess === turn.guess)],
  clues: ["against the clues", (turn, i, turns) => Boolean(turn.guess) && !turn.given && turn.violates_clues !== false && (turn.violates_clues ?? !fitsBefore(turn, turns.slice(0, i)))],
};
const fitsBefore = (turn, before) => before.every((other) => !isScored(other) || other.guess.length !== turn.guess.length || scoreGuess(turn.guess, other.guess) === other.marks);
const FILTERS = ["result", "used", "fault", "part", "stage", "word", "low", "high"];
const PARTS = { train: "training", val: "validation", test: "held out" };

class Filters {
  constructor(form, plot, onchange) {
    this.form = form;
    this.plot = plot;
    this.onchange = onchange;
    options(form.elements.fault, [["", "any"], ...Object.entries(FAULTS).map(([id, [label]]) => [id, label])], "");
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.onchange(this.read()));
  }
  read() {
    const fields = this.form.elements;
    return Object.fromEntries(FILTERS.filter((name) => fields[name]).map((name) => [name, fields[name].value.trim()]));
  }
  // Take over what the address says, and offer only what the games have.
  write(state, games, partOf) {
    const fields = this.form.elements;
    const most = Math.max(6, ...games.map(usedTurns));
    options(fields.used, [["", "any"], ...Array.from({ length: most }, (_, i) => [String(i + 1), String(i + 1)])], state.used ?? "");
    const stages = [...new Set(games.map((game) => game.stage).filter(Boolean))];
    options(fields.stage, [["", "any"], ...stages.map((stage) => [stage, stage])], state.stage ?? "");
    fields.stage.closest("label").hidden = stages.length < 2;
    fields.part.closest("label").hidden = !games.some((game) => partOf(game));
    for (const name of ["result", "fault", "part", "word"]) if (document.activeElement !== fields[name]) fields[name].value = state[name] ?? "";
  }
  chosen(state, games, partOf) {
    const word = (state.word ?? "").toLowerCase();
    const fault = FAULTS[state.fault]?.[1];
    return games.filter((game) =>
      (!state.result || resultOf(game) === state.result) &&
      (!state.used || usedTurns(game) === Number(state.used)) &&
      (!state.stage || game.stage === state.stage) &&
      (!state.part || partOf(game) === state.part) &&
      (!fault || game.turns.some(fault)) &&
      (!word || game.secret.includes(word) || game.turns.some((turn) => turn.guess?.includes(word))));
  }
  // Bars over rewards, or over turns where there are no rewards. A pressed bar keeps its games alone.
  drawPlot(state, games) {
    const rewards = games.some((game) => Number.isFinite(game.reward));
    const bars = rewards ? rewardBars(games) : turnBars(games);
    const most = Math.max(1, ...bars.map((bar) => bar.size));
    const chosen = (bar) => state.low === String(bar.low) && state.high === String(bar.high);
    fill(this.plot, make("p", { class: "muted", id: "plot-name" }, rewards ? "Reward; press a bar to keep its games" : "Turns used; press a bar to keep its games"),
      make("div", { class: "histogram", role: "group", "aria-labelledby": "plot-name" }, ...bars.map((bar) => {
        const column = make("i", { class: bar.kind });
        column.style.height = (bar.size ? Math.max(3, (100 * bar.size) / most) : 0) + "%";
        const press = () => this.onchange(chosen(bar) ? { low: "", high: "" } : { low: String(bar.low), high: String(bar.high) });
        return make("button", { type: "button", onclick: press, "aria-pressed": String(chosen(bar)), "aria-label": `${bar.name}: ${count(bar.size, "game")}`, title: `${bar.name}: ${count(bar.size, "game")}` },
          make("span", { class: "column" }, column), make("small", {}, bar.label));
      })));
  }
  inBar(state, game) {
    if (!state.low && !state.high) return true;
    const value = Number.isFinite(game.reward) ? game.reward : plotTurns(game);
    return value >= Number(state.low) && (value < Number(state.high) || state.high === "Infinity");
  }
}

const plotTurns = (game) => ({ won: usedTurns(game), lost: 98, error: 99 })[resultOf(game)];

function turnBars(games) {
  const most = Math.max(6, ...games.filter((game) => resultOf(game) === "won").map(usedTurns));
  const bars = Array.from({ length: most }, (_, i) => ({ low: i + 1, high: i + 2, label: String(i + 1), name: `won in ${i + 1}`, kind: "c1" }));
  bars.push({ low: 98, high: 99, label: "lost", name: "lost", kind: "c2" });
  if (games.some((game) => resultOf(game) === "error")) bars.push({ low: 99, high: 100, label: "error", name: "error", kind: "c7" });
  for (const bar of bars) bar.size = games.filter((game) => plotTurns(game) === bar.low).length;
  return bars;
}

function rewardBars(games, number_of_bars = 12) {
  const values = games.map((game) => game.reward).filter(Number.isFinite);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const raw = (high - low) / number_of_bars || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((size) => size * power >= raw * (1 - 1e-9));
  const round = (value) => Number(value.toPrecision(10));
  const first = Math.floor(low / step + 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const [from, to] = [round((first + i) * step), round((first + i + 1) * step)];
    const inside = values.filter((value) => value >= from && value < to).length;
    return { low: from, high: to, label: String(from).replace("-", "−"), name: `reward ${from} to ${to}`, kind: "c0", size: inside };
  });
}
