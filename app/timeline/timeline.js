// Asks the server to open updates: one at a time, always the newest wish.

const FRAMES = 100; // playing a whole run shows at most about so many updates
const PAUSE = 250; // at least so many milliseconds between two updates while playing
const LISTEN = "training-lab keys";
const ASKED_AGAIN = 4000; // an answer that does not come in so many milliseconds is asked for again

export default function ({ data, parentElement, setStateValue }) {
  const bar = parentElement.querySelector(".lab-time");
  const part = (name) => bar.querySelector(`.${name}`);
  const { step, last, moments, view } = data;
  const own = (bar.own ??= { wish: step, asked: undefined, timer: undefined, came: 0 });

  const playing = () => own.timer !== undefined;
  const tell = () => {
    for (const name of ["scrub", "exact"]) {
      part(name).max = last;
      if (part(name) !== document.activeElement || name === "scrub" || own.asked === undefined) part(name).value = own.wish;
    }
    part("scrub").setAttribute("aria-valuetext", `update ${own.wish} of 0 to ${last}`);
    part("of").textContent = `of ${(last + 1).toLocaleString("en")}`;
    part("play").textContent = playing() ? "❚❚" : "▶▶";
    part("play").setAttribute("aria-label", playing() ? "pause" : "play");
  };
  const ask = () => {
    if (own.wish === own.shown || own.asked !== undefined) return;
    own.asked = own.wish;
    own.since = performance.now();
    setStateValue("step", own.wish);
  };
  const go = (to) => {
    own.wish = Math.max(0, Math.min(last, to));
    if (own.asked !== undefined && performance.now() - own.since > ASKED_AGAIN) own.asked = undefined;
    ask();
    tell();
  };
  const stop = () => {
    clearTimeout(own.timer);
    own.timer = undefined;
    tell();
  };
  const stride = Math.max(1, Math.ceil((last + 1) / FRAMES));
  const next = () => {
    if (!bar.isConnected || own.wish >= last) return stop();
    own.timer = setTimeout(next, ASKED_AGAIN);
    go(own.wish + stride);
  };
  const play = () => {
    if (playing()) return stop();
    if (own.wish >= last) own.wish = 0;
    own.timer = setTimeout(next, 0);
    tell();
  };
  const jump = (to) => { stop(); go(to); };

  // What the server shows now.
  const waited = performance.now() - (own.since ?? 0);
  if (own.asked === undefined || own.asked === step) {
    const answered = own.asked === step;
    own.asked = undefined;
    own.shown = step;
    if (!answered) own.wish = step;
    if (own.wish !== step) ask();
    else if (playing()) {
      clearTimeout(own.timer);
      own.timer = setTimeout(next, Math.max(0, PAUSE - waited));
    }
  }
  document.documentElement.dataset.openedUpdate = step;
  window.dispatchEvent(new CustomEvent("training-lab:opened", { detail: step }));
  const address = new URL(window.location);
  for (const [name, value, usual] of [["step", String(step), "0"], ["view", view, "accumulator"]]) {
    if (value === usual) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  if (address.href !== window.location.href) history.replaceState(history.state, "", address);

  part("back").onclick = () => jump(own.wish - 1);
  part("forward").onclick = () => jump(own.wish + 1);
  part("play").onclick = play;
  part("scrub").oninput = (event) => jump(Number(event.target.value));
  part("exact").onchange = (event) => jump(Math.round(Number(event.target.value)) || 0);
  part("moments").replaceChildren(
    ...moments.map(({ step: at, what, bad }) => {
      const chip = document.createElement("button");
      chip.className = bad ? "bad" : "";
      chip.textContent = `${bad ? "⚠ " : ""}${what} · ${at.toLocaleString("en")}`;
      chip.setAttribute("aria-pressed", at === step);
      chip.onclick = () => jump(at);
      return chip;
    }),
  );

  const listens = () => localStorage.getItem(LISTEN) !== "off";
  part("listen").checked = listens();
  part("listen").onchange = (event) => localStorage.setItem(LISTEN, event.target.checked ? "on" : "off");
  const press = (event) => {
    const typing = event.target.closest?.("input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable=true]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = part("keys");
    if (event.key === "Escape") keys.open = false;
    if (event.key === "?") keys.open = !keys.open;
    if (!listens()) return;
    if (event.key === ",") jump(own.wish - 1);
    if (event.key === ".") jump(own.wish + 1);
    if (event.key === "p") play();
    if (event.key === "b" && moments.length) jump(moments[0].step);
    if (/^[1-9]$/.test(event.key)) document.querySelectorAll(".st-key-set_view button")[Number(event.key) - 1]?.click();
  };
  const opened = (event) => jump(event.detail);
  own.deaf?.abort(); // what listened for the last call
  own.deaf = new AbortController();
  window.addEventListener("keydown", press, { signal: own.deaf.signal });
  window.addEventListener("training-lab:open", opened, { signal: own.deaf.signal });
  window.addEventListener("pointerdown", ({ target }) => {
    if (!part("keys").contains(target)) part("keys").open = false;
  }, { signal: own.deaf.signal });
  tell();
  return () => own.deaf.abort();
}
