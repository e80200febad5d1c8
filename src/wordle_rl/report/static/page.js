"use strict";
// Everything a model wrote goes through textContent; nothing here builds HTML from strings.

const PAGE_SIZE = 24;
const OUTCOMES = {
  malformed: "no guess in the reply", wrong_length: "wrong length", unlisted: "not in the word list",
  hard_mode: "leaves out a hint",
};
const MARKS = { G: "right place", Y: "elsewhere", X: "no copy left" };
const PARTS = { train: "training secret", val: "validation secret", test: "held-out secret" };

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// --- curves: read the values under the pointer ---

// Reads as 0 or 100 only if it is.
function inPercent(rate, digits = 1) {
  const text = (100 * rate).toFixed(digits);
  const isWhole = Math.min(Math.abs(rate), Math.abs(1 - rate)) < 1e-9;
  return !isWhole && [0, 100].includes(Number(text)) ? inPercent(rate, digits + 1) : text;
}

function format(value, percent) {
  if (percent) return inPercent(value) + " %";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

function nearest(steps, step) {
  let best = 0;
  for (let i = 1; i < steps.length; i++) if (Math.abs(steps[i] - step) < Math.abs(steps[best] - step)) best = i;
  return best;
}

function watchChart(svg) {
  const readout = svg.parentElement.querySelector(".readout");
  const [left, right, top, bottom, first, last] = svg.dataset.frame.split(",").map(Number);
  const percent = svg.dataset.percent === "1";
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", top);
  cursor.setAttribute("y2", bottom);
  let series = null;
  svg.addEventListener("pointermove", (event) => {
    series ??= JSON.parse(svg.dataset.series);
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const wanted = first + ((last - first) * (x - left)) / (right - left);
    const lines = series.map((curve) => {
      const place = nearest(curve.x, wanted);
      const name = series.length > 1 ? curve.n + " " : "step " + curve.x[place] + ": ";
      return name + format(curve.y[place], percent);
    });
    const step = series[0].x[nearest(series[0].x, wanted)];
    if (series.length > 1) lines.unshift("step " + step);
    const at = last > first ? left + ((right - left) * (step - first)) / (last - first) : (left + right) / 2;
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    svg.append(cursor);
    readout.textContent = lines.join("\n");
  });
  svg.addEventListener("pointerleave", () => {
    cursor.remove();
    readout.textContent = "";
  });
}

// --- games ---

function boardRow(turn) {
  const row = make("li", turn.h ? "given" : "");
  const guess = turn.g ?? "";
  for (let i = 0; i < guess.length; i++) {
    const mark = turn.m ? turn.m[i] : "";
    const tile = make("b", "tile " + (mark ? mark.toLowerCase() : "none"), guess[i].toUpperCase());
    if (mark) tile.title = guess[i] + ": " + MARKS[mark];
    row.append(tile);
  }
  const notes = [turn.m, OUTCOMES[turn.o], turn.d && "repeated", turn.h && "given", turn.r && "regret " + turn.r.toFixed(2)];
  row.append(make("span", "marks", notes.filter(Boolean).join(" · ")));
  return row;
}

function replies(game) {
  const details = make("details");
  details.append(make("summary", "", "replies" + (game.x === undefined ? "" : " and rewards")));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    game.t.forEach((turn, index) => {
      const facts = ["turn " + (index + 1)];
      if (turn.v) facts.push("contradicts earlier clues");
      if (turn.x !== undefined) facts.push("reward " + turn.x);
      if (turn.a !== undefined) facts.push("advantage " + turn.a);
      for (const [name, share] of Object.entries(turn.c ?? {})) facts.push(name + " " + share);
      details.append(make("p", "muted", facts.join(" · ")));
      details.append(make("pre", "", turn.q ?? (turn.g ? "<guess>" + turn.g + "</guess>" : "(left out)")));
    });
  });
  return details;
}

function replayLink(source, game) {
  const { watch } = document.getElementById("games").dataset;
  if (!watch) return "";
  const link = make("a", "", "replay");
  const name = ["training", "validation"].includes(source.id) ? "games" : "eval/" + source.id;
  link.href = watch + new URLSearchParams({ view: "replay", source: name, game: game.i });
  return link;
}

function gameCard(source, game) {
  const card = make("article", "card game");
  const heading = make("h3", "", game.s);
  const ends = { 1: "✓ won in " + game.n, 0: "✗ lost", "-1": "error" };
  heading.append(make("span", "", ends[game.w]));
  const facts = [PARTS[game.p], game.k !== undefined && "step " + game.k, game.b !== undefined && "weights " + game.b + " % of the way", game.x !== undefined && "reward " + game.x, game.e];
  const board = make("ol", "board");
  board.append(...game.t.map(boardRow));
  card.append(heading, make("p", "muted", facts.filter(Boolean).join(" · ")), board, replies(game), replayLink(source, game));
  return card;
}

const regretOf = (game) => game.t.reduce((sum, turn) => sum + (turn.r ?? 0), 0);
const lengthOf = (game) => (game.w === 1 ? game.n : game.w === 0 ? 99 : -1);
const ORDERS = {
  most: (a, b) => lengthOf(b) - lengthOf(a),
  regret: (a, b) => regretOf(b) - regretOf(a),
  word: (a, b) => (a.s < b.s ? -1 : a.s > b.s ? 1 : 0),
};

function showGames(sources) {
  const form = document.querySelector(".filters");
  const list = document.getElementById("list");
  const more = document.getElementById("more-games");
  const field = (name) => form.elements[name].value;
  let chosen = [];
  let shown = sources[0];
  for (const source of sources) form.elements.source.append(new Option(source.label, source.id));
  form.elements.source.value = sources.find((source) => source.first)?.id ?? sources[0].id;

  function showMore() {
    const from = list.children.length;
    list.append(...chosen.slice(from, from + PAGE_SIZE).map((game) => gameCard(shown, game)));
    more.hidden = list.children.length >= chosen.length;
  }
  function choose() {
    const source = (shown = sources.find((candidate) => candidate.id === field("source")));
    const word = field("word").trim().toLowerCase();
    chosen = source.games.filter(
      (game) =>
        (field("result") === "" || game.w === Number(field("result"))) &&
        (field("part") === "" || game.p === field("part")) &&
        (word === "" || game.s.includes(word) || game.t.some((turn) => turn.g?.includes(word))),
    );
    if (field("order")) chosen = [...chosen].sort(ORDERS[field("order")]);
    list.replaceChildren();
    showMore();
    document.getElementById("count").textContent = chosen.length + " of " + source.games.length + " games.";
    document.getElementById("note").textContent = source.note;
  }
  form.addEventListener("input", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", showMore);
  document.getElementById("games").hidden = false;
  choose();
}

document.querySelectorAll("svg[data-series]").forEach(watchChart);
const { sources } = JSON.parse(document.getElementById("data").textContent);
if (sources.length) showGames(sources);
