// The address says what is shown; a run that grows is read again every few seconds.

const POLL_MS = 2500;
const VIEWS = ["play", "watch", "replay", "groups", "compare"];

function readState() {
  const state = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!VIEWS.includes(state.view)) state.view = state.game || state.run ? "replay" : "";
  return state;
}

function complain(error) {
  const known = error instanceof Refused || error instanceof TypeError;
  fill(byId("alert"), make("p", { class: "missing", role: "alert" }, known && error instanceof TypeError ? "The server cannot be reached." : error.message));
  byId("alert").dataset.shown = String(Date.now());
  if (!known) throw error;
}

async function main() {
  const store = await openStore();
  let state = readState();
  const address = (change) => {
    const kept = { ...state, ...change };
    const pairs = Object.entries(kept).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    return "#" + new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]));
  };
  const go = (change, replace = false) => {
    const wanted = address(change);
    if (wanted === location.hash) return;
    if (!replace) return void (location.hash = wanted);
    history.replaceState(null, "", wanted);
    state = readState();
    redraw();
  };
  go.address = address;
  const views = { play: new PlayView(store), watch: new WatchView(store), replay: new ReplayView(store, go), groups: new GroupsView(store, go), compare: new CompareView(store, go) };

  function frame(runs) {
    const shown = runs.length ? VIEWS : ["play", "watch"];
    const offered = shown.filter((view) => view !== "watch" || store.canWatch);
    if (!offered.includes(state.view)) state.view = runs.length ? "replay" : "play";
    for (const link of byId("views").querySelectorAll("a")) {
      const { view } = link.dataset;
      link.hidden = !offered.includes(view);
      link.href = "#" + new URLSearchParams({ view, ...(state.run ? { run: state.run } : {}), ...(state.source ? { source: state.source } : {}) });
      if (view === state.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const view of VIEWS) byId(view).hidden = view !== state.view;
    byId("which").hidden = ["play", "watch"].includes(state.view);
  }

  function offer(summary) {
    const sources = summary.sources.map((each) => [each.id, each.label]);
    const played = summary.sources.find((each) => each.id.startsWith("eval/")); // that of the last stage comes first
    const preferred = state.view === "groups" ? "games" : (played?.id ?? "games");
    return options(byId("source"), sources, state.source ?? preferred);
  }

  function tellLive(summary) {
    const row = summary.metrics.at(-1) ?? {};
    const names = ["win_rate", "reward", "greedy_win_rate", "loss"].filter((name) => Number.isFinite(row[name]));
    const values = names.map((name) => `${name.replaceAll("_", " ")} ${number(row[name], 3)}`);
    const facts = [row.stage && `${row.stage}, step ${row.step}`, ...values, `written ${ago(Date.now() / 1000 - summary.updated)}`];
    const curve = curveOf(summary.metrics);
    fill(byId("live"), make("span", {}, facts.filter(Boolean).join(" · ")), curve);
  }

  let drawing = 0;
  async function draw() {
    const turn = ++drawing;
    const runs = await store.runs();
    if (turn !== drawing) return;
    frame(runs);
    const view = views[state.view];
    if (["play", "watch"].includes(state.view)) return view.show(state);
    state.run = options(byId("run"), runs.map((run) => [run, run]), state.run);
    const { summary } = await store.run(state.run);
    const source = offer(summary);
    byId("views").querySelector("[data-view=groups]").hidden = !summary.has_groups && state.view !== "groups";
    tellLive(summary);
    byId("report").href = `runs/${encodeURIComponent(state.run)}/report.html`;
    const known = await store.games(state.run, source);
    if (turn === drawing) await view.show(state, summary, source, known);
  }
  function redraw() {
    draw().catch(complain);
  }

  async function poll() {
    if (!document.hidden && store.canWatch && !["play", "watch"].includes(state.view) && state.run) {
      const { summary, isNew } = await store.run(state.run);
      tellLive(summary);
      if (isNew) await draw();
      if (Date.now() - Number(byId("alert").dataset.shown ?? 0) > 8000) fill(byId("alert"));
    }
  }
  const again = () => poll().catch(complain).finally(() => setTimeout(again, POLL_MS));

  window.addEventListener("hashchange", () => {
    state = readState();
    fill(byId("alert"));
    redraw();
  });
  byId("run").addEventListener("input", () => go({ run: byId("run").value, source: "", game: "", turn: "", group: "", pair: "" }));
  byId("source").addEventListener("input", () => go({ source: byId("source").value, game: "", turn: "", group: "", pair: "", low: "", high: "" }));
  byId("report").hidden = !store.canWatch;
  byId("follow").closest("label").hidden = !store.canWatch;
  const contrast = byId("contrast");
  const paint = () => document.documentElement.classList.toggle("contrast", contrast.checked);
  contrast.checked = setting("contrast") === "1";
  contrast.addEventListener("change", () => [paint(), setting("contrast", contrast.checked ? "1" : "0")]);
  paint();
  document.querySelector(".choose").open = innerWidth > 700;
  await draw();
  document.body.dataset.ready = "1";
  if (store.canWatch) again();
}

// The latest values of the metric that tells most, as a small curve.
function curveOf(rows) {
  const name = ["win_rate", "reward", "loss"].find((each) => rows.filter((row) => Number.isFinite(row[each])).length > 1);
  if (!name) return null;
  const values = rows.map((row) => row[name]).filter(Number.isFinite);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, i) => `${((118 * i) / (values.length - 1) + 1).toFixed(1)},${(high > low ? 23 - (22 * (value - low)) / (high - low) : 12).toFixed(1)}`);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 120 24");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${name.replaceAll("_", " ")} from ${number(values[0], 3)} to ${number(values.at(-1), 3)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  line.setAttribute("class", "line s0");
  svg.append(line);
  return svg;
}

main().catch(complain);
