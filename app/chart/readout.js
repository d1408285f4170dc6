// Exact values of the curves, written beside the title: no box ever lies on a curve.

function exactly(value) {
  if (typeof value !== "number") return String(value ?? "–");
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(7)));
}

// Curves over the updates of a run say x and every y in the readout; other figures keep Plotly's labels.
function readsOut(traces, layout) {
  if (layout.hovermode !== "x unified") return;
  layout.hovermode = "x";
  for (const trace of traces) Object.assign(trace, { hoverinfo: "none", hovertemplate: undefined });
  layout.xaxis = { ...layout.xaxis, showspikes: true, spikemode: "across", spikethickness: 1, spikedash: "dot" };
}

function follow(figure, plot) {
  if (plot.followed) return;
  plot.followed = true;
  const told = figure.querySelector(".readout");
  plot.on("plotly_hover", ({ points }) => {
    if (points[0].data.hoverinfo !== "none") return;
    const values = points.map(({ data, y }) => `${data.name ?? ""} ${exactly(y)}`.trim());
    told.textContent = `${plot.layout.xaxis.title.text} ${exactly(points[0].x)}: ${values.join(" · ")}`;
  });
  plot.on("plotly_unhover", () => { told.textContent = ""; });
  plot.on("plotly_afterplot", () => mark(figure, plot));
  plot.on("plotly_click", ({ points }) => {
    if (figure.along) open(Math.round(between(points[0].x, figure.along.x, figure.along.steps)));
  });
}

// The update under the microscope is known to every chart of the page.
const OPENED = "training-lab:opened", OPEN = "training-lab:open";

function open(step) {
  window.dispatchEvent(new CustomEvent(OPEN, { detail: step }));
}

function between(value, from, to) {
  const next = from.findIndex((knot) => knot >= value);
  if (next <= 0) return next ? to.at(-1) : to[0];
  const share = (value - from[next - 1]) / (from[next] - from[next - 1]);
  return to[next - 1] + share * (to[next] - to[next - 1]);
}

function mark(figure, plot) {
  const line = figure.querySelector(".opened");
  const step = document.documentElement.dataset.openedUpdate;
  const axes = plot._fullLayout;
  line.hidden = !figure.along || step === undefined || !axes;
  if (line.hidden) return;
  const { xaxis, yaxis } = axes;
  const at = xaxis.d2p(between(Number(step), figure.along.steps, figure.along.x));
  line.hidden = !(at >= 0 && at <= xaxis._length);
  Object.assign(line.style, { left: `${xaxis._offset + at}px`, top: `${yaxis._offset}px`, height: `${yaxis._length}px` });
}
