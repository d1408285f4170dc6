// The table of runs. All text is set as text, never as HTML.

export default function ({ data, parentElement, setTriggerValue }) {
  const place = parentElement.querySelector(".lab-history");
  const act = (what) => setTriggerValue("act", what);
  const cell = (...content) => {
    const made = document.createElement("td");
    made.append(...content);
    return made;
  };
  const button = (text, label, press, pressed) => {
    const made = Object.assign(document.createElement("button"), { textContent: text, onclick: press });
    made.setAttribute("aria-label", label);
    if (pressed !== undefined) made.setAttribute("aria-pressed", pressed);
    return made;
  };
  const row = (run, k) => {
    const made = document.createElement("tr");
    if (run.shown) made.setAttribute("aria-current", "true");
    const name = Object.assign(document.createElement("input"), { value: run.name, maxLength: 60 });
    name.setAttribute("aria-label", `name of ${run.name}`);
    name.onchange = () => act({ do: "name", row: k, name: name.value });
    const open = run.shown
      ? Object.assign(document.createElement("span"), { textContent: "▸ on screen", className: "here" })
      : button("open", `open ${run.name}`, () => act({ do: "open", row: k }));
    const first = document.createElement("th");
    first.scope = "row";
    first.append(name, open);
    const pin = button(run.baseline ? "◆ baseline" : "◇ pin", `${run.baseline ? "unpin" : "pin"} ${run.name} as the baseline`,
      () => act({ do: "pin", row: k }), run.baseline);
    made.append(first, ...[run.settings, run.loss, run.held_out, run.agreement, run.seconds].map((text) => cell(text)), cell(pin));
    return made;
  };
  const body = place.querySelector("tbody");
  const typing = body.contains(document.activeElement) && document.activeElement.tagName === "INPUT";
  const at = [...body.querySelectorAll("input")].indexOf(document.activeElement);
  body.replaceChildren(...data.rows.map(row));
  if (typing) body.querySelectorAll("input")[at]?.focus();
  place.querySelector(".clear").onclick = () => act({ do: "clear" });
  place.querySelector(".clear").disabled = data.rows.length < 2;
}
