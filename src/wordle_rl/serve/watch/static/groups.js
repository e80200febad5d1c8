// A group side by side: games that share a secret and an initial state, with the reward and advantage of every turn.

const groupKey = (game) => (game.group === undefined ? `secret:${game.secret}` : `${game.stage}:${game.step}:${game.group}`);

class GroupsView {
  constructor(store, go) {
    this.go = go;
    byId("group").addEventListener("input", () => go({ group: byId("group").value, game: "", turn: "" }));
    byId("group-whole").addEventListener("change", () => this.draw());
  }
  async show(state, summary, source, known) {
    [this.state, this.known] = [state, known];
    this.groups = groupsOf(known.games);
    this.draw();
  }
  draw() {
    const asked = this.groups.get(this.state.group);
    const isWhole = (games) => games[0].group === undefined || games.length === games[0].group_size;
    const offered = [...this.groups].filter(([, games]) => games.length > 1 && (!byId("group-whole").checked || isWhole(games) || games === asked)).reverse();
    const chosen = options(byId("group"), offered.map(([key, games]) => [key, nameOf(games)]), this.state.group);
    const games = this.groups.get(chosen);
    byId("group").closest("form").hidden = !games && !this.groups.size;
    if (!games) return fill(byId("group-games"), make("p", { class: "muted" }, this.nothing()));
    this.drawGroup(games);
  }
  nothing() {
    return byId("group-whole").checked && [...this.groups.values()].some((games) => games.length > 1)
      ? "No group is recorded whole yet; untick “whole groups only” to see parts of groups."
      : "No two games of this source share a secret and a step. GRPO records a whole group every tenth step.";
  }
  drawGroup(games) {
    const turns = games.flatMap((game) => game.turns);
    const most = (name) => Math.max(0, ...turns.map((turn) => Math.abs(turn[name] ?? 0)));
    const scale = { reward: most("reward"), advantage: most("advantage") };
    const rewards = games.map((game) => game.reward).filter(Number.isFinite);
    const mean = rewards.reduce((sum, value) => sum + value, 0) / rewards.length;
    const std = Math.sqrt(rewards.reduce((sum, value) => sum + (value - mean) ** 2, 0) / rewards.length);
    const won = games.filter((game) => resultOf(game) === "won").length;
    const facts = [`${count(games.length, "game")} of ${games[0].group_size ?? games.length}`, `${won} won`];
    if (rewards.length) facts.push(`reward ${number(mean, 3)} on average, standard deviation ${number(std, 3)}`);
    fill(byId("group-games"), make("h3", {}, games[0].secret.toUpperCase()), make("p", { class: "muted" }, facts.join(" · ") + "."),
      scale.advantage > 0 || games[0].group === undefined ? null : make("p", { class: "missing" }, "Every advantage recorded here is zero: these games teach nothing."),
      make("div", { class: "side" }, ...games.map((game) => this.column(game, scale))));
  }
  column(game, scale) {
    const address = (turn) => this.go.address({ view: "replay", game: game.id, turn, group: "" });
    const number_ = game.game === undefined ? "game" : `game ${game.game}`;
    const rows = game.turns.map((turn, i) => make("li", { class: turn.given ? "given" : "" },
      make("a", { href: address(i + 1), "aria-label": `${number_}, turn ${i + 1}` }, tilesOf(turn, game.secret.length, "small")), make("span", { class: "marks" }, notesOf(turn).join(" · ")),
      gauge("reward", turn.reward, scale.reward), gauge("advantage", turn.advantage, scale.advantage)));
    return make("article", { class: "card" }, make("h4", {}, make("a", { href: address("") }, number_), " ", make("span", { class: resultOf(game) }, endOf(game))),
      Number.isFinite(game.reward) && make("p", { class: "muted" }, `reward ${number(game.reward, 3)}`), make("ol", { class: "turns" }, ...rows));
  }
}

function gauge(name, value, largest) {
  if (!Number.isFinite(value)) return null;
  return make("div", { class: "gauge" }, make("small", {}, name), signedBar(value, largest), make("b", {}, signed(value, 3)));
}

// Groups of a training, or, where games name none, games of the same secret.
function groupsOf(games) {
  const groups = new Map();
  const named = games.filter((game) => game.group !== undefined);
  for (const game of named.length ? named : games) {
    const key = groupKey(game);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(game);
  }
  for (const group of groups.values()) group.sort((a, b) => (a.game ?? 0) - (b.game ?? 0));
  return groups;
}

function nameOf(games) {
  const [first] = games;
  const where = first.group === undefined ? "" : `${first.stage} ${first.step}, group ${first.group}: `;
  const whole = first.group_size && games.length < first.group_size ? `${games.length} of ${first.group_size} games` : count(games.length, "game");
  return `${where}${first.secret.toUpperCase()}, ${whole}`;
}
