// A page opened from disk may not start a Worker. The search, which wants one, then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inner = frame.contentWindow;
      const receive = (data) => inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.postMessage = (data) => waiting.push(data);
      const script = inner.document.createElement("script");
      script.src = address;
      script.onload = () => { this.postMessage = (data) => setTimeout(receive, 0, data); waiting.forEach(this.postMessage); };
      inner.document.documentElement.append(script);
    }
    terminate() {}
  };
}
