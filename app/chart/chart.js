// Draws one Plotly figure and redraws it in place. All text arrives as data and is set as text, never as HTML.
// What stands in the other scripts of this folder comes before this one.

const SCRIPT = "/plotly/plotly.min.js";
const CONFIG = { displayModeBar: false };

let library;

function plotly() {
  library ??= new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    const script = document.createElement("script");
    script.src = SCRIPT;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("the chart library could not be loaded"));
    document.head.append(script);
  });
  return library;
}

// Figures with frames have a slider of their own; playing them never asks the server. What is remembered between two
// calls lies on the element: which frame is shown, and the timer that plays.
const EVERY = 180;

function controls(figure, frames, show) {
  const bar = figure.querySelector(".frames");
  bar.hidden = !frames.length;
  if (!frames.length) return () => 0;
  const [back, play, forward, range, told] = ["back", "play", "forward"]
    .map((name) => bar.querySelector(`.${name}`))
    .concat(bar.querySelector("input"), bar.querySelector("output"));
  const last = frames.length - 1;
  if (figure.dataset.frames !== String(frames.length)) delete figure.dataset.at;
  figure.dataset.frames = frames.length;
  const at = () => Math.min(Number(figure.dataset.at ?? last), last);
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
    figure.timer = setInterval(() => (at() === last || !figure.isConnected ? stop() : move(at() + 1)), EVERY);
    tell();
  };
  tell();
  return at;
}

function show(traces, layout, frame) {
  frame?.traces.forEach((trace, i) => Object.assign(traces[trace], frame.data[i]));
}

export default function ({ data, parentElement }) {
  const figure = parentElement.querySelector(".lab-chart");
  const plot = figure.querySelector(".plot");
  figure.querySelector("h3").textContent = data.title;
  figure.querySelector(".read").textContent = data.read;
  const by = enlarged(figure);
  const height = data.height * Math.sqrt(by);
  plot.style.height = `${height}px`;
  figure.along = data.along;

  const summarise = (summary) => {
    figure.querySelector(".summary").textContent = summary;
    plot.setAttribute("aria-label", `${data.title}. ${summary}`);
  };
  const parsed = (text) => JSON.parse(isDark(figure) ? lightened(text) : text);
  const frames = JSON.parse(data.figure).frames ?? [];
  const draw = async (Plotly) => {
    const { data: traces, layout, frames: all } = parsed(data.figure);
    const frame = all?.[at()];
    show(traces, layout, frame);
    readsOut(traces, layout);
    summarise(frame?.layout?.meta ?? data.summary);
    const uirevision = `zoom ${figure.dataset.revision ?? 0}`;
    await Plotly.react(plot, traces, themed({ ...layout, height, uirevision }, coloursOf(figure), by), CONFIG);
    follow(figure, plot);
    mark(figure, plot);
    tabulate(figure, plot);
  };
  const at = controls(figure, frames, () => plotly().then(draw));
  summarise(data.summary);
  plotly().then(draw, (error) => { plot.textContent = error.message; });
  const redraw = () => library?.then((Plotly) => (plot.data ? draw(Plotly) : undefined));
  offer(figure, plot, () => ({ ...data, frame: at() }), redraw);

  figure.deaf?.abort(); // what listened for the last call
  figure.deaf = new AbortController();
  const { signal } = figure.deaf;
  window.addEventListener(OPENED, () => mark(figure, plot), { signal });
  window.addEventListener("pointerdown", ({ target }) => {
    const menu = figure.querySelector(".take");
    if (!menu.contains(target)) menu.open = false;
  }, { signal });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw, { signal });
  let width = plot.clientWidth;
  const resized = new ResizeObserver(() => {
    if (!plot.clientWidth || plot.clientWidth === width || !plot.data) return;
    width = plot.clientWidth;
    library.then((Plotly) => (plot.clientWidth ? Plotly.Plots.resize(plot) : undefined));
  });
  resized.observe(plot);
  signal.addEventListener("abort", () => resized.disconnect());
  return () => figure.deaf.abort();
}
