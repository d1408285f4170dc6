// A chart to take along: a picture at print size, or its numbers as a table.

const PRINT = { width: 1050, height: 600 }; // 7 by 4 inches at 150 pixels each; a PNG has twice as many
const ROWS = 500;

async function picture(format, { figure, frame, filename, title }) {
  const Plotly = await plotly();
  const { data: traces, layout, frames } = JSON.parse(figure);
  if (frames) put(frames[frame], traces, layout);
  const paper = { text: "#111111", background: "#ffffff", family: "Arial, Helvetica, sans-serif" };
  const heading = { text: plain(title), x: 0.02, y: 0.98, yanchor: "top", font: { size: 18 } };
  const printed = { ...themed(layout, paper, 1.15), ...PRINT, title: heading, paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff" };
  printed.margin = { ...printed.margin, t: printed.margin.t + 40 };
  const url = await Plotly.toImage({ data: traces, layout: printed }, { format, ...PRINT, scale: format === "png" ? 2 : 1 });
  const link = document.createElement("a");
  link.href = format === "svg" ? URL.createObjectURL(svgIn(url)) : url;
  link.download = `${filename}.${format}`;
  link.click();
}

function svgIn(url) {
  return new Blob([decodeURIComponent(url.slice(url.indexOf(",") + 1))], { type: "image/svg+xml" });
}

// Text as Plotly draws it, which reads a few tags: none of ours are meant.
function plain(text) {
  return text.replaceAll("<", "‹").replaceAll(">", "›");
}

function rowsOf(plot) {
  const rows = [];
  for (const { type, name, x, y, z } of plot._fullData) {
    if (z) z.forEach((line, i) => line.forEach((value, j) => rows.push([name ?? "", `${exactly(x[j])}, ${exactly(y[i])}`, exactly(value)])));
    else if (x && y) Array.from(x, (at, i) => rows.push([name ?? type, exactly(at), exactly(y[i])]));
  }
  return rows;
}

function cells(kind, texts) {
  const row = document.createElement("tr");
  row.append(...texts.map((text) => Object.assign(document.createElement(kind), { textContent: text.replace(/<[^>]*>/g, "") })));
  return row;
}

function tabulate(figure, plot) {
  const place = figure.querySelector(".numbers");
  if (place.hidden || !plot._fullData) return;
  const { xaxis, yaxis } = plot.layout;
  const rows = rowsOf(plot);
  const table = document.createElement("table");
  table.createCaption().textContent =
    rows.length > ROWS ? `The first ${ROWS} of ${rows.length.toLocaleString("en")} points drawn` : "Every point drawn";
  const titles = ["series", xaxis?.title?.text || "x", yaxis?.title?.text || "y"];
  table.createTHead().append(cells("th", titles));
  table.createTBody().append(...rows.slice(0, ROWS).map((row) => cells("td", row)));
  place.replaceChildren(table);
}

function offer(figure, plot, about, again) {
  const menu = figure.querySelector(".take");
  for (const format of ["png", "svg"]) menu.querySelector(`.${format}`).onclick = () => picture(format, about());
  menu.querySelector(".table").onclick = () => {
    const place = figure.querySelector(".numbers");
    place.hidden = !place.hidden;
    tabulate(figure, plot);
  };
  menu.querySelector(".whole").onclick = () => {
    figure.dataset.revision = Number(figure.dataset.revision ?? 0) + 1;
    again();
  };
  menu.lastElementChild.onclick = () => { menu.open = false; };
  menu.onfocusout = ({ relatedTarget }) => { if (relatedTarget && !menu.contains(relatedTarget)) menu.open = false; };
  menu.onkeydown = (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.firstElementChild.focus();
  };
}
