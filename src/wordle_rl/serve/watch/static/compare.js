// Two sources on the same secrets: who wins what, and both boards of a secret side by side.

const KINDS = {
  all: "all", first: "won by the first alone", second: "won by the second alone", both: "won by both", neither: "lost by both",
  faster: "first in fewer turns", slower: "second in fewer turns",
};

class CompareView {
  constructor(store, go) {
    this.store = store;
    this.go = go;
    for (const name of ["run2", "source2", "kind"]) byId(name).addEventListener("input", () => go({ [name]: byId(name).value, pair: "", ...(name === "run2" ? { source2: "" } : {}) }));
    byId("pairs-more").addEventListener("click", () => {
      this.shown += PAGE;
      this.draw();
    });
  }
  async show(state, summary, source, known) {
    const runs = await this.store.runs();
    const other = options(byId("run2"), runs.map((run) => [run, run]), state.run2 ?? summary.name);
    const second = (await this.store.run(other)).summary;
    const offered = second.sources.filter((each) => !each.id.includes("traces"));
    const different = offered.find((each) => each.id.startsWith("eval/") && (each.id !== source || other !== summary.name)) ?? offered[0];
    const source2 = options(byId("source2"), offered.map((each) => [each.id, each.label]), state.source2 || different?.id);
    options(byId("kind"), Object.entries(KINDS), state.kind ?? "all");
    this.names = [`${summary.name} ${source}`, `${other} ${source2}`];
    this.pairs = pairsOf(known.games, (await this.store.games(other, source2)).games);
    this.state = state;
    this.shown = PAGE;
    this.draw();
  }
  draw() {
    const kinds = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, this.pairs.filter((pair) => isOf(pair, kind))]));
    const counted = Object.entries(KINDS).map(([kind, label]) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: this.go.address({ kind, pair: "" }) }, label)), make("td", {}, kinds[kind].length.toLocaleString("en"))));
    fill(byId("pairs-count"), ...counted);
    const chosen = kinds[byId("kind").value];
    const pair = chosen.find((each) => each.key === this.state.pair) ?? chosen[0];
    fill(byId("pairs"), ...chosen.slice(0, this.shown).map((each) => make("li", {}, make("a", { href: this.go.address({ pair: each.key }), "aria-current": each === pair ? "true" : undefined },
      make("b", {}, each.games[0].secret.toUpperCase()), ...each.games.map((game) => make("span", { class: resultOf(game) }, endOf(game)))))));
    byId("pairs-more").hidden = chosen.length <= this.shown;
    fill(byId("pair"), pair ? make("div", { class: "side two" }, ...pair.games.map((game, i) => this.column(game, this.names[i])))
      : make("p", { class: "muted" }, this.pairs.length ? "No secret of this kind." : "The two sources have no secret in common."));
  }
  column(game, name) {
    const rows = game.turns.map((turn) => make("li", {}, tilesOf(turn, game.secret.length), make("span", { class: "marks" }, [...notesOf(turn), Number.isFinite(turn.regret) && `regret ${number(turn.regret)}`].filter(Boolean).join(" · ")),
      thoughtOf(turn) && make("details", {}, make("summary", {}, "thinking"), make("blockquote", {}, thoughtOf(turn)))));
    return make("article", { class: "card" }, make("h3", {}, name), make("p", {}, make("b", {}, game.secret.toUpperCase()), " ", make("span", { class: resultOf(game) }, endOf(game))), make("ol", { class: "turns" }, ...rows));
  }
}

// Games of the same secret, the n-th of the one with the n-th of the other; errors are no games.
function pairsOf(first, second) {
  const keyed = (games) => {
    const seen = new Map();
    return new Map(games.filter((game) => resultOf(game) !== "error").map((game) => {
      const place = (seen.get(game.secret) ?? 0) + 1;
      seen.set(game.secret, place);
      return [`${game.secret}-${place}`, game];
    }));
  };
  const others = keyed(second);
  return [...keyed(first)].filter(([key]) => others.has(key)).map(([key, game]) => ({ key, games: [game, others.get(key)] }));
}

function isOf({ games }, kind) {
  const [first, second] = games.map((game) => resultOf(game) === "won");
  const [used, used2] = games.map((game) => plotTurns(game));
  return { all: true, first: first && !second, second: second && !first, both: first && second, neither: !first && !second,
    faster: first && second && used < used2, slower: first && second && used > used2 }[kind];
}
