// Draws one Plotly figure and redraws it in place. All text arrives as data and is set as text, never as HTML.

const SCRIPT = "/plotly/plotly.min.js";
const CONFIG = {
  displaylogo: false,
  displayModeBar: "hover",
  modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "pan2d", "zoom2d"],
};

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

function themed(layout, element) {
  const style = getComputedStyle(element);
  const text = style.getPropertyValue("--st-text-color").trim() || style.color;
  const background = style.getPropertyValue("--st-background-color").trim() || "#fff";
  const grid = "rgba(127,127,127,0.25)";
  const copy = { ...layout, font: { ...layout.font, color: text, family: style.fontFamily } };
  copy.hoverlabel = { bgcolor: background, bordercolor: grid, font: { color: text } };
  for (const name of Object.keys(copy)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    copy[name] = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, ...copy[name] };
  }
  return copy;
}

// The colours of app/theme.py as a dark page needs them: yours, compared, reference, text on a bar.
const ON_DARK = { "#0072B2": "#56B4E9", "#D55E00": "#E69F00", "#7F7F7F": "#A6A6A6", "#FFFFFF": "#111111" };

function lightened(text) {
  return text.replace(/#0072B2|#D55E00|#7F7F7F|#FFFFFF/g, (colour) => ON_DARK[colour]);
}

function isDark(element) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = getComputedStyle(element).getPropertyValue("--st-background-color").trim() || "#fff";
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  return red + green + blue < 384;
}

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

export default function ({ data, parentElement }) {
  const figure = parentElement.querySelector(".lab-chart");
  const plot = figure.querySelector(".plot");
  figure.querySelector("h3").textContent = data.title;
  figure.querySelector(".read").textContent = data.read;
  plot.style.height = `${data.height}px`;

  const summarise = (told) => {
    const { summary, formula = "" } = typeof told === "string" ? { summary: told } : told;
    figure.querySelector(".summary").textContent = summary;
    figure.querySelector(".formula").textContent = formula;
    plot.setAttribute("aria-label", `${data.title}. ${formula && `${formula}. `}${summary}`);
  };
  const parsed = (text) => JSON.parse(isDark(figure) ? lightened(text) : text);
  const { frames = [], layout: { meta = {} } } = JSON.parse(data.figure);
  const narrow = () => plot.clientWidth < NARROW;
  const draw = (Plotly) => {
    const { data: traces, layout, frames: all } = parsed(data.figure);
    const frame = all?.[at()];
    layout.height = data.height;
    if (narrow()) merge(layout, meta.narrow ?? {});
    if (frame) put(frame, traces, layout);
    plot.style.height = `${layout.height}px`;
    summarise(frame?.layout.meta ?? data.summary);
    return Plotly.react(plot, traces, themed({ ...layout, uirevision: "keep" }, figure), CONFIG);
  };
  const at = controls(figure, frames, meta, () => plotly().then(draw));
  summarise(data.summary);
  plotly().then(draw, (error) => { plot.textContent = error.message; });

  const redraw = () => library?.then((Plotly) => (plot.data ? draw(Plotly) : undefined));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);
  let width = plot.clientWidth;
  const resized = new ResizeObserver(() => {
    if (!plot.clientWidth || plot.clientWidth === width || !plot.data) return;
    const crossed = meta.narrow && width < NARROW !== narrow();
    width = plot.clientWidth;
    if (crossed) return redraw();
    library.then((Plotly) => (plot.clientWidth ? Plotly.Plots.resize(plot) : undefined));
  });
  resized.observe(plot);
  return () => {
    dark.removeEventListener("change", redraw);
    resized.disconnect();
  };
}
