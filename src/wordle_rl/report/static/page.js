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

function boardRow(turn) {
  const row = make("li", turn.given ? "given" : "");
  const guess = turn.guess ?? "";
  for (let i = 0; i < guess.length; i++) {
    const mark = turn.marks ? turn.marks[i] : "";
    const tile = make("b", "tile " + (mark ? mark.toLowerCase() : "none"), guess[i].toUpperCase());
    if (mark) tile.title = guess[i] + ": " + MARKS[mark];
    row.append(tile);
  }
  const regret = turn.regret >= 0.005 && "regret " + turn.regret.toFixed(2);
  const notes = [turn.marks, OUTCOMES[turn.outcome], turn.repeated && "repeated", turn.given && "given", regret];
  row.append(make("span", "marks", notes.filter(Boolean).join(" · ")));
  return row;
}

function replies(game) {
  const details = make("details");
  details.append(make("summary", "", "replies" + (game.reward === undefined ? "" : " and rewards")));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    game.turns.forEach((turn, index) => {
      const facts = ["turn " + (index + 1)];
      if (turn.violates_clues) facts.push("contradicts earlier clues");
      for (const name of ["reward", "advantage"]) if (turn[name] !== undefined) facts.push(name + " " + turn[name]);
      for (const [name, share] of Object.entries(turn.components ?? {})) facts.push(name + " " + share);
      details.append(make("p", "muted", facts.join(" · ")));
      details.append(make("pre", "", turn.reply ?? "<guess>" + turn.guess + "</guess>"));
    });
  });
  return details;
}

function replayLink(source, game) {
  const { watch } = document.getElementById("games").dataset;
  if (!watch) return "";
  const link = make("a", "", "replay");
  const name = ["training", "validation"].includes(source.id) ? "games" : "eval/" + source.id;
  link.href = watch + new URLSearchParams({ view: "replay", source: name, game: game.id });
  return link;
}

function gameCard(source, game) {
  const card = make("article", "card game");
  const heading = make("h3", "", game.secret);
  heading.append(make("span", "", { won: "✓ won in " + game.turns_used, lost: "✗ lost", error: "error" }[game.result]));
  const facts = [PARTS[game.part], game.error];
  if (game.step !== undefined) facts.push("step " + game.step);
  if (game.percent_of_way !== undefined) facts.push("weights " + game.percent_of_way + " % of the way");
  if (game.reward !== undefined) facts.push("reward " + game.reward);
  const board = make("ol", "board");
  board.append(...game.turns.map(boardRow));
  card.append(heading, make("p", "muted", facts.filter(Boolean).join(" · ")), board, replies(game), replayLink(source, game));
  return card;
}

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
    shown = sources.find((candidate) => candidate.id === field("source"));
    const word = field("word").trim().toLowerCase();
    chosen = shown.games.filter(
      (game) =>
        (field("result") === "" || game.result === field("result")) &&
        (field("part") === "" || game.part === field("part")) &&
        (word === "" || game.secret.includes(word) || game.turns.some((turn) => turn.guess?.includes(word))),
    );
    list.replaceChildren();
    showMore();
    document.getElementById("count").textContent = chosen.length + " of " + shown.games.length + " games.";
    document.getElementById("note").textContent = shown.note;
  }
  form.addEventListener("input", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", showMore);
  document.getElementById("games").hidden = false;
  choose();
}

const { sources } = JSON.parse(document.getElementById("data").textContent);
if (sources.length) showGames(sources);
