// Replay: the games of a source as a list, and one of them turn by turn.

const PAGE = 40;

class ReplayView {
  constructor(store, go) {
    this.store = store;
    this.go = go;
    this.list = byId("games");
    this.viewer = byId("viewer");
    this.shown = PAGE;
    this.filters = new Filters(byId("filters"), byId("plot"), (change) => {
      this.shown = PAGE;
      go({ ...change, game: "", turn: "" }, true);
    });
    byId("more").addEventListener("click", () => {
      this.shown += PAGE;
      this.draw();
    });
    byId("order").addEventListener("input", () => go({ order: byId("order").value }, true));
    byId("follow").addEventListener("change", () => this.draw());
    document.addEventListener("keydown", (event) => this.heard(event));
  }
  async show(state, summary, source, known) {
    [this.state, this.summary, this.source, this.known] = [state, summary, source, known];
    if (this.seen !== summary.name + source) this.shown = PAGE;
    this.seen = summary.name + source;
    this.draw();
  }
  draw() {
    const { state, known } = this;
    const partOf = partsOf(this.summary);
    this.filters.write(state, known.games, partOf);
    byId("order").value = state.order ?? "";
    const passing = this.filters.chosen(state, known.games, partOf);
    this.filters.drawPlot(state, passing);
    this.chosen = ordered(passing.filter((game) => this.filters.inBar(state, game)), state.order);
    const skipped = known.skipped ? ` The first ${(known.skipped / 1e6).toFixed(1)} MB of the file are left out.` : "";
    fill(byId("games-count"), `${this.chosen.length.toLocaleString("en")} of ${count(known.games.length, "game")}.${skipped}`);
    fill(byId("faults"), ...known.faults.slice(0, 5).map((fault) => make("li", {}, fault)));
    const follows = byId("follow").checked && this.chosen.length;
    const wanted = follows ? newest(this.chosen) : known.games.find((game) => String(game.id) === state.game);
    this.game = wanted ?? this.chosen[0];
    fill(this.list, ...this.chosen.slice(0, this.shown).map((game) => this.row(game)));
    byId("more").hidden = this.chosen.length <= this.shown;
    this.drawGame();
  }
  row(game) {
    const facts = [game.step !== undefined && `${game.stage} ${game.step}`, game.group !== undefined && `group ${game.group}`, Number.isFinite(game.reward) && `reward ${number(game.reward)}`];
    const address = this.go.address({ game: game.id, turn: "" });
    return make("li", {}, make("a", { href: address, "aria-current": game === this.game ? "true" : undefined }, miniBoard(game, game.secret.length),
      make("span", {}, make("b", {}, game.secret.toUpperCase()), " ", make("span", { class: resultOf(game) }, endOf(game)), make("small", {}, facts.filter(Boolean).join(" · ")))));
  }
  heard(event) {
    if (byId("replay").hidden || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const moves = { ArrowLeft: () => this.turnTo(this.turn - 1), ArrowRight: () => this.turnTo(this.turn + 1), j: () => this.step(1), k: () => this.step(-1) };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }
  step(by) {
    const next = this.chosen[this.chosen.indexOf(this.game) + by];
    if (next) this.go({ game: next.id, turn: "" });
  }
  turnTo(turn) {
    if (this.game && turn >= 1 && turn <= this.game.turns.length) this.go({ game: this.game.id, turn }, true);
  }
  async drawGame() {
    const game = this.game;
    if (!game) return fill(this.viewer, make("p", { class: "muted" }, "No game passes the filters."));
    const last = game.turns.length;
    this.turn = Math.min(last, Math.max(1, Number(this.state.turn) || last));
    this.drawTurns(game, this.reviews?.game === game ? this.reviews.found : []);
    if (this.reviews?.game === game) return;
    try {
      const found = await this.store.review(this.summary.name, game.turns, this.summary.max_turns);
      this.reviews = { game, found };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.reviews = { game, found: [], refused: error.message };
    }
    if (game === this.game) this.drawTurns(game, this.reviews.found);
  }
  drawTurns(game, reviews) {
    const end = make("span", { class: resultOf(game) }, endOf(game));
    const facts = [game.stage && `${game.stage}, step ${game.step}`, game.alpha < 1 && `weights ${Math.round(100 * game.alpha)} % of the way`, game.group !== undefined && `group ${game.group}, game ${game.game} of ${game.group_size}`,
      Number.isFinite(game.reward) && `reward ${number(game.reward, 3)}`, partsOf(this.summary)(game) && `${PARTS[partsOf(this.summary)(game)]} word`, game.error, game.stop_reason];
    const group = game.group === undefined ? null : make("a", { href: this.go.address({ view: "groups", group: groupKey(game), game: "", turn: "" }) }, "the whole group");
    const turns = game.turns.map((turn, i) => this.turnRow(game, turn, i, reviews[i]));
    fill(this.viewer, make("h3", {}, game.secret.toUpperCase() + " ", end), make("p", { class: "muted" }, facts.filter(Boolean).join(" · "), group && " · ", group),
      this.controls(game), make("ol", { class: "turns" }, ...turns), this.everywhere(game), this.reviews?.refused && make("p", { class: "missing" }, this.reviews.refused),
      this.known.player && make("p", { class: "muted" }, "Played by " + this.known.player));
  }
  // The games of this secret in all sources of the run, asked for only when wanted: an evaluation holds thousands of games.
  everywhere(game) {
    if (this.told?.secret === game.secret && this.told.run === this.summary.name) return this.told.element;
    const show = async () => {
      const { summary } = this;
      const games = await gamesOfSecret(this.store, summary, game.secret);
      const rows = games.map(({ source, label, game: other }) => make("li", {}, make("a", { href: this.go.address({ source, game: other.id, turn: "" }) },
        miniBoard(other, other.secret.length), make("span", {}, make("b", {}, label), " ", make("span", { class: resultOf(other) }, endOf(other))))));
      const element = make("div", {}, make("h4", {}, `${game.secret.toUpperCase()}, round by round`), make("ol", { class: "list" }, ...rows));
      this.told = { secret: game.secret, run: summary.name, element };
      this.drawGame();
    };
    return make("p", {}, button("this word, round by round", () => show().catch(complain)));
  }
  controls(game) {
    const move = (label, turn, name) => button(label, () => this.turnTo(turn), { "aria-label": name, disabled: turn < 1 || turn > game.turns.length || turn === this.turn });
    return make("div", { class: "controls" }, move("«", 1, "first turn"), move("‹", this.turn - 1, "turn before"), make("span", { "aria-live": "polite" }, `turn ${this.turn} of ${game.turns.length}`),
      move("›", this.turn + 1, "next turn"), move("»", game.turns.length, "last turn"));
  }
  turnRow(game, turn, index, review) {
    const isNow = index + 1 === this.turn;
    const row = make("li", { class: (index + 1 > this.turn ? "ahead " : "") + (turn.given ? "given" : ""), "aria-current": isNow ? "step" : undefined },
      make("a", { class: "jump", href: this.go.address({ game: game.id, turn: index + 1 }), "aria-label": `turn ${index + 1}` }, String(index + 1)), tilesOf(turn, game.secret.length),
      make("span", { class: "marks" }, [...notesOf(turn), Number.isFinite(turn.regret) && `regret ${number(turn.regret)}`, Number.isFinite(turn.reward) && `reward ${signed(turn.reward)}`,
        Number.isFinite(turn.advantage) && `advantage ${signed(turn.advantage)}`].filter(Boolean).join(" · ")));
    if (isNow) row.append(this.details(turn, review));
    return row;
  }
  details(turn, review) {
    const thought = thoughtOf(turn);
    const components = Object.entries(turn.components ?? {}).filter(([, value]) => value);
    return make("div", { class: "detail" }, thought && make("blockquote", {}, thought), reviewOf(review, turn),
      components.length > 0 && make("p", { class: "muted" }, "components before weights: " + components.map(([name, value]) => `${name} ${number(value, 4)}`).join(", ")),
      turn.reply && make("pre", {}, turn.reply));
  }
}

// In the order of training: a stage's own games by step, then the evaluations of its model.
async function gamesOfSecret(store, summary, secret) {
  const found = [];
  for (const { id } of summary.sources.filter((source) => source.id !== "traces")) {
    const { games } = await store.games(summary.name, id);
    const evaluated = id.startsWith("eval/") ? id.slice(5) : "";
    for (const game of games.filter((each) => each.secret === secret)) {
      const stage = game.stage ?? evaluated.split("-")[0];
      const label = evaluated ? `${evaluated}, evaluated` : `${stage}, step ${game.step}`;
      found.push({ source: id, game, label, place: [summary.stages.indexOf(stage.split("/")[0]), evaluated ? Infinity : game.step] });
    }
  }
  return found.sort((a, b) => a.place[0] - b.place[0] || (a.place[1] === b.place[1] ? 0 : a.place[1] - b.place[1]));
}

const newest = (games) => games.reduce((best, game) => (game.id > best.id ? game : best));
const regretOf = (game) => game.turns.reduce((sum, turn) => sum + (turn.regret ?? 0), 0);
const ORDERS = {
  newest: (a, b) => b.id - a.id,
  most: (a, b) => plotTurns(b) - plotTurns(a),
  reward: (a, b) => (a.reward ?? 0) - (b.reward ?? 0),
  regret: (a, b) => regretOf(b) - regretOf(a),
  word: (a, b) => (a.secret < b.secret ? -1 : 1),
};
const ordered = (games, order) => (ORDERS[order] ? [...games].sort(ORDERS[order]) : games);

const PARTS_OF = new WeakMap();
function partsOf(summary) {
  if (!PARTS_OF.has(summary)) PARTS_OF.set(summary, new Map(Object.entries(summary.split).flatMap(([part, words]) => words.map((word) => [word, part]))));
  return (game) => PARTS_OF.get(summary).get(game.secret);
}
