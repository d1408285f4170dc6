// Curves drawn at once with a few lines of SVG, until the chart library has been read, which takes a browser a second.

const ARRAYS = {
  f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, i2: Int16Array, u2: Uint16Array, i1: Int8Array, u1: Uint8Array,
};

function numbersOf(values) {
  if (!values?.bdata) return Array.from(values ?? [], Number);
  const bytes = Uint8Array.from(atob(values.bdata), (letter) => letter.charCodeAt(0));
  return Array.from(new ARRAYS[values.dtype](bytes.buffer));
}

function svg(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function sketch(plot, traces, layout, height) {
  const curves = traces.filter(({ type = "scatter", mode = "lines" }) => type === "scatter" && mode.includes("lines"));
  if (window.Plotly || plot.firstChild || layout.hovermode !== "x unified" || !curves.length || !plot.clientWidth) return;
  const measure = (axis) => (axis?.type === "log" ? Math.log10 : Number);
  const across = measure(layout.xaxis), up = measure(layout.yaxis);
  const lines = curves.map(({ x, y, line }) => {
    const heights = numbersOf(y);
    const points = numbersOf(x).map((at, i) => [across(at), up(heights[i])]);
    return { line, points: points.filter((point) => point.every(Number.isFinite)) };
  });
  const all = lines.flatMap(({ points }) => points);
  if (!all.length) return;
  const ends = [0, 1].map((k) => all.map((point) => point[k])).map((values) => [Math.min(...values), Math.max(...values)]);
  const { l, r, t, b } = layout.margin;
  const place = (value, [low, high], from, to) => from + ((value - low) / (high - low || 1)) * (to - from);
  const drawn = svg("svg", { class: "sketch", width: plot.clientWidth, height, "aria-hidden": "true" });
  for (const { line, points } of lines) {
    const path = points.map(([x, y]) => `${place(x, ends[0], l, plot.clientWidth - r)},${place(y, ends[1], height - b, t)}`);
    const dash = line?.dash ? { "stroke-dasharray": "6 4" } : {};
    drawn.append(svg("polyline", { points: path.join(" "), fill: "none", stroke: line?.color ?? "currentColor", "stroke-width": 2, ...dash }));
  }
  const back = (axis, value) => exactly(Number((axis?.type === "log" ? 10 ** value : value).toPrecision(3)));
  const note = { fill: "currentColor", "font-size": 13 };
  drawn.append(
    svg("text", { ...note, x: l - 6, y: t + 6, "text-anchor": "end" }, back(layout.yaxis, ends[1][1])),
    svg("text", { ...note, x: l - 6, y: height - b, "text-anchor": "end" }, back(layout.yaxis, ends[1][0])),
    svg("text", { ...note, x: plot.clientWidth - r, y: height - b + 18, "text-anchor": "end" }, back(layout.xaxis, ends[0][1])),
  );
  plot.append(drawn);
}
