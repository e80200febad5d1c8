// Watch a player, turn by turn.

class WatchView {
  constructor(store) {
    this.store = store;
    this.form = byId("watch-form");
    this.turns = byId("watch-turns");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start().catch((error) => error.name !== "AbortError" && complain(error));
    });
    byId("watch-stop").addEventListener("click", () => this.stop());
  }
  async show(state) {
    const players = await this.store.players();
    const about = await this.store.about();
    const fields = this.form.elements;
    options(fields.player, players.map((each) => [each.id, each.label]), fields.player.value || state.player);
    const parts = { train: "a training word", val: "a validation word", test: "a held-out word" };
    options(fields.part, about.parts.map((part) => [part, parts[part]]), fields.part.value);
    fields.secret.maxLength = about.word_length;
    // A visitor sees a game before choosing one.
    if (!this.running) await this.start();
  }
  stop() {
    this.running?.abort();
    byId("watch-stop").hidden = true;
  }
  async start() {
    this.stop();
    const fields = this.form.elements;
    const request = { player: fields.player.value, part: fields.part.value, temperature: Number(fields.temperature.value) };
    if (fields.secret.value.trim()) request.secret = fields.secret.value.trim();
    if (fields.seed.value) request.seed = Number(fields.seed.value);
    const running = (this.running = new AbortController());
    fill(this.turns, make("li", { class: "muted" }, "The player sits down …"));
    fill(byId("watch-about"));
    byId("watch-stop").hidden = false;
    try {
      for await (const event of this.store.watch(request, running.signal)) {
        if (running.signal.aborted) return;
        ({ start: this.begun, turn: this.turn, end: this.end, error: this.error })[event.event].call(this, event);
        if (event.event === "turn" && !matchMedia("(prefers-reduced-motion: reduce)").matches) await new Promise((go) => setTimeout(go, 450));
      }
    } catch (error) {
      fill(this.turns);
      throw error;
    } finally {
      if (running === this.running) byId("watch-stop").hidden = true;
    }
  }
  begun(event) {
    this.width = event.word_length;
    fill(this.turns);
    const prompt = event.prompt.map((message) => make("pre", {}, `${message.role}: ${message.content}`));
    fill(byId("watch-about"), make("p", {}, `${event.player} · ${event.max_turns} turns · words ${event.words} · ${count(event.candidates, "candidate")}`),
      make("details", {}, make("summary", {}, "What it was told"), ...prompt));
  }
  turn(event) {
    const thought = thoughtOf(event);
    const reply = make("details", {}, make("summary", {}, "reply as it came"), make("pre", {}, event.reply));
    const facts = [`turn ${event.turn}`, ...notesOf(event), event.overlong && "cut at the token limit", `${number(event.seconds)} s`].filter(Boolean);
    this.turns.append(make("li", { class: "card" },
      make("div", { class: "head" }, tilesOf(event, this.width, "large"), make("span", { class: "muted" }, facts.join(" · "))),
      thought && make("blockquote", {}, thought), reply,
      make("div", { class: "columns" }, likelyBars(event.likely, event.guess), reviewOf(event, event))));
    say(spell(event));
  }
  end(event) {
    const text = event.won ? `Found ${event.secret.toUpperCase()} in ${event.turns_used}.` : `Not found: ${event.secret.toUpperCase()}.`;
    this.turns.append(make("li", { class: "end" }, make("b", {}, text)));
    say(text);
  }
  error(event) {
    this.turns.append(make("li", { class: "missing", role: "alert" }, event.message));
  }
}
