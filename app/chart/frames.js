// Figures with frames have a slider of their own; playing them never asks the server. What is remembered between two
// calls lies on the element: which frame is shown, and the timer that plays. A figure may say in `layout.meta` how many
// milliseconds a frame is shown, which is shown first (else the last), and the layout of a narrow screen.
const EVERY = 180;
const NARROW = 600;

function merge(into, from) {
  for (const [name, value] of Object.entries(from)) {
    const nested = value && typeof value === "object" && !Array.isArray(value);
    into[name] = nested ? merge({ ...into[name] }, value) : value;
  }
  return into;
}

// What a frame changes: fields of traces, the layout, and how many entries of the first trace are shown.
function put(frame, traces, layout) {
  frame.traces?.forEach((trace, i) => Object.assign(traces[trace], frame.data[i]));
  const { meta, ...changes } = frame.layout;
  merge(layout, changes);
  if (meta.shown) traces[0].y = traces[0].y.slice(0, meta.shown);
}

function controls(figure, frames, meta, show) {
  const bar = figure.querySelector(".frames");
  bar.hidden = !frames.length;
  if (!frames.length) return () => 0;
  const [back, play, forward, range, told] = ["back", "play", "forward"]
    .map((name) => bar.querySelector(`.${name}`))
    .concat(bar.querySelector("input"), bar.querySelector("output"));
  const last = frames.length - 1;
  if (figure.dataset.frames !== String(frames.length)) delete figure.dataset.at;
  figure.dataset.frames = frames.length;
  const at = () => Math.min(Number(figure.dataset.at ?? meta.start ?? last), last);
  const playing = () => figure.timer !== undefined;
  const stop = () => {
    clearInterval(figure.timer);
    figure.timer = undefined;
    tell();
  };
  const tell = () => {
    range.max = last;
    range.value = at();
    range.setAttribute("aria-valuetext", frames[at()].name);
    told.textContent = frames[at()].name;
    play.textContent = playing() ? "❚❚" : "▶▶";
    play.setAttribute("aria-label", playing() ? "pause" : "play");
  };
  const go = (to) => {
    stop();
    move(to);
  };
  const move = (to) => {
    figure.dataset.at = Math.max(0, Math.min(last, to));
    tell();
    show();
  };
  back.onclick = () => go(at() - 1);
  forward.onclick = () => go(at() + 1);
  range.oninput = () => go(Number(range.value));
  play.onclick = () => {
    if (playing()) return stop();
    if (at() === last) move(0);
    figure.timer = setInterval(() => (at() === last || !figure.isConnected ? stop() : move(at() + 1)), meta.every ?? EVERY);
    tell();
  };
  tell();
  return at;
}
