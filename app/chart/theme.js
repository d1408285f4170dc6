// The look of a figure on this page: its colours, light or dark, and its size of type.

const TYPE = 15; // pixels of the page's type that the sizes of app/theme.py were chosen for

function enlarged(element) {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / TYPE;
}

function resized(value, by) {
  if (Array.isArray(value)) return value.map((entry) => resized(entry, by));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, entry]) => {
      if (/font$/.test(name) && entry?.size) return [name, { ...entry, size: entry.size * by }];
      if (name === "margin") return [name, Object.fromEntries(Object.entries(entry).map(([side, at]) => [side, at * by]))];
      return [name, ["data", "x", "y"].includes(name) ? entry : resized(entry, by)];
    }),
  );
}

function themed(layout, colours, by = 1) {
  const { text, background, family } = colours;
  const grid = "rgba(127,127,127,0.25)";
  const copy = { ...resized(layout, by), hoverlabel: { bgcolor: background, bordercolor: grid, font: { color: text } } };
  copy.font = { ...copy.font, color: text, family };
  for (const name of Object.keys(copy)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    copy[name] = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, ...copy[name] };
  }
  return copy;
}

function coloursOf(element) {
  const style = getComputedStyle(element);
  return {
    text: style.getPropertyValue("--st-text-color").trim() || style.color,
    background: style.getPropertyValue("--st-background-color").trim() || "#fff",
    family: style.fontFamily,
  };
}

// The colours of app/theme.py as a dark page needs them: yours, compared, reference, text on a bar.
const ON_DARK = { "#0072B2": "#56B4E9", "#D55E00": "#E69F00", "#7F7F7F": "#A6A6A6", "#FFFFFF": "#111111" };

function lightened(text) {
  return text.replace(/#0072B2|#D55E00|#7F7F7F|#FFFFFF/g, (colour) => ON_DARK[colour]);
}

function isDark(element) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = coloursOf(element).background;
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  return red + green + blue < 384;
}
