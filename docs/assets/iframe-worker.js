// Search of a site that was opened from the file system. Browsers start no worker from a `file:` address, so the search
// script runs in a hidden frame instead. The plugin `offline` would load such a script from another host; it finds this
// one by its name. Only what the search of Material for MkDocs uses is here: postMessage, and "message" events.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><body>");
      inside.document.close();
      // The script says `postMessage(answer)`, as in a worker.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = address;
      inside.document.body.append(script);
      this.inside = inside;
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
