// Where games come from: a server that is asked, or the data in an exported file. Both answer the same questions.

class Refused extends Error {}

const boardKey = (turns) => turns.map((turn) => `${turn.guess ?? ""}.${isScored(turn) ? turn.marks : ""}`).join(",");

class Server {
  constructor() {
    this.sources = new Map();
    this.summaries = new Map();
    this.reviews = new Map();
  }
  canWatch = true;

  async ask(path, init = {}) {
    const response = await fetch(path, init); // a browser asks for the token itself, where the server wants one
    if (response.ok || response.status === 304) return response;
    const told = await response.json().catch(() => ({}));
    throw new Refused(told.error ?? told.message ?? `the server answered ${response.status}`);
  }
  send(path, body) {
    return this.ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  }
  async about() {
    return (this.known ??= await (await this.ask("api/about")).json());
  }
  async players() {
    return (await (await this.ask("api/about")).json()).players;
  }
  async runs() {
    return (await (await this.ask("api/runs")).json()).runs;
  }
  // The summary of a run, and whether it is news.
  async run(name) {
    const known = this.summaries.get(name);
    const headers = known ? { "If-None-Match": known.tag } : {};
    const response = await this.ask("api/runs/" + encodeURIComponent(name), { headers, cache: "no-store" });
    if (response.status === 304) return { summary: known.summary, isNew: false };
    const summary = await response.json();
    this.summaries.set(name, { summary, tag: response.headers.get("ETag") });
    return { summary, isNew: true };
  }
  // All games of a source, what is new appended to what is known.
  async games(run, source) {
    const key = run + "/" + source;
    const about = this.summaries.get(run)?.summary.sources.find((each) => each.id === source);
    if (!about) return { games: [], faults: [] };
    let known = this.sources.get(key);
    const grows = !source.startsWith("eval/");
    if (!known || known.version !== about.version || known.size > about.size || (!grows && known.size !== about.size)) {
      known = { games: [], faults: [], next: 0, skipped: 0, version: about.version, size: 0 };
    }
    while (known.size < about.size) {
      const query = new URLSearchParams({ source, after: known.next });
      const part = await (await this.ask(`api/runs/${encodeURIComponent(run)}/games?${query}`)).json();
      known.games.push(...part.games);
      known.faults.push(...part.faults);
      known.skipped ||= part.skipped;
      known.player = part.player;
      const stuck = part.next === known.next;
      known.next = part.next;
      known.size = grows && !stuck ? part.next : about.size;
    }
    this.sources.set(key, known);
    return known;
  }
  // A game turn by turn as the solver sees it; without a run, one over the server's own words.
  async review(run, turns, maxTurns) {
    const query = new URLSearchParams({ run, board: boardKey(turns), max_turns: maxTurns });
    const key = query.toString();
    if (!this.reviews.has(key)) this.reviews.set(key, (await (await this.ask("api/review?" + key)).json()).turns);
    return this.reviews.get(key);
  }
  // A game of a player, event by event.
  async *watch(request, signal) {
    const response = await this.ask("api/watch", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request), signal,
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (text + value).split("\n");
      text = lines.pop();
      for (const line of lines) yield JSON.parse(line);
    }
  }
  async openGame(dictionary, hardMode) {
    const opened = await (await this.send("api/play", { dictionary, hard_mode: hardMode })).json();
    return { ...opened, guess: async (word) => (await this.send("api/play/" + opened.id, { guess: word })).json() };
  }
}

class ExportedFile {
  constructor(data) {
    this.data = data;
    const { answers, guesses } = data.words;
    this.words = { answers, listed: new Set(guesses), length: answers[0].length };
  }
  canWatch = false;

  async about() {
    return { word_length: this.words.length, max_turns: this.data.run.max_turns, players: [], parts: [], words: "" };
  }
  async runs() {
    return [this.data.run.name];
  }
  async run() {
    const isNew = !this.told;
    this.told = true;
    return { summary: this.data.run, isNew };
  }
  async games(_, source) {
    return this.data.games[source] ?? { games: [], faults: [] };
  }
  async review(_, turns) {
    return turns.map((_, i) => {
      const found = this.data.reviews[boardKey(turns.slice(0, i + 1))];
      if (!found) return {};
      const [candidates, left, bits, best, best_bits] = found;
      return { candidates, left, bits, best, best_bits };
    });
  }
  async openGame(dictionary, hardMode) {
    const game = new LocalGame(this.words, this.data.run.max_turns, dictionary, hardMode);
    return { ...game.opening(), guess: async (word) => game.guess(word) };
  }
}

async function openStore() {
  const packed = byId("data").textContent.trim();
  if (!packed) return new Server();
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new ExportedFile(JSON.parse(await new Response(stream).text()));
}
