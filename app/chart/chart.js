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

// Resolved once the browser has shown what is there; at once where the library is read, or the page is not looked at.
function painted() {
  if (window.Plotly || document.hidden) return Promise.resolve();
  return new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
}

export default function ({ data, parentElement }) {
  const figure = parentElement.querySelector(".lab-chart");
  const plot = figure.querySelector(".plot");
  figure.querySelector("h3").textContent = data.title;
  figure.querySelector(".read").textContent = data.read;
  const by = enlarged(figure);
  plot.style.height = `${data.height * Math.sqrt(by)}px`;
  figure.along = data.along;

  const summarise = (told) => {
    const { summary, formula = "" } = typeof told === "string" ? { summary: told } : told;
    figure.querySelector(".summary").textContent = summary;
    figure.querySelector(".formula").textContent = formula;
    plot.setAttribute("aria-label", `${data.title}. ${formula && `${formula}. `}${summary}`);
  };
  const parsed = (text) => JSON.parse(isDark(figure) ? lightened(text) : text);
  const { frames = [], layout: { meta = {} } } = JSON.parse(data.figure);
  const narrow = () => plot.clientWidth < NARROW;
  const arranged = (traces, layout, frame) => {
    layout.height = data.height;
    if (narrow()) merge(layout, meta.narrow ?? {});
    if (frame) put(frame, traces, layout);
    layout.height *= Math.sqrt(by);
    layout.uirevision = `zoom ${figure.dataset.revision ?? 0}`;
  };
  const draw = async (Plotly) => {
    const { data: traces, layout, frames: all } = parsed(data.figure);
    const frame = all?.[at()];
    arranged(traces, layout, frame);
    readsOut(traces, layout);
    plot.style.height = `${layout.height}px`;
    summarise(frame?.layout.meta ?? data.summary);
    plot.querySelector(".sketch")?.remove();
    await Plotly.react(plot, traces, themed(layout, coloursOf(figure), by), CONFIG);
    follow(figure, plot);
    mark(figure, plot);
    tabulate(figure, plot);
  };
  const at = controls(figure, frames, meta, () => plotly().then(draw));
  summarise(data.summary);
  if (!library) {
    const { data: traces, layout } = parsed(data.figure);
    sketch(plot, traces, layout, data.height * Math.sqrt(by));
  }
  painted().then(plotly).then(draw, (error) => { plot.textContent = error.message; });
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
    const crossed = meta.narrow && width < NARROW !== narrow();
    width = plot.clientWidth;
    if (crossed) return redraw();
    library.then((Plotly) => (plot.clientWidth ? Plotly.Plots.resize(plot) : undefined));
  });
  resized.observe(plot);
  signal.addEventListener("abort", () => resized.disconnect());
  return () => figure.deaf.abort();
}
