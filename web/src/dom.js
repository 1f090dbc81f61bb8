/* Elements, made from values: text goes in as text, never as HTML, whatever a region's name holds. */

/** An element with attributes, listeners (`onclick`) and children (elements or text). */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      made.addEventListener(name.slice(2), value);
    } else if (value !== false && value !== undefined && value !== null) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Give a select its names, by their places. */
export function offer(select, names) {
  select.replaceChildren(...names.map((name, at) => element("option", { value: at }, name)));
}

/** A choice among names; `callback` gets its place. */
export function choice(label, names, chosen, callback) {
  const change = (event) => callback(Number(event.target.value));
  const select = element("select", { "aria-label": label, onchange: change });
  offer(select, names);
  select.value = chosen;
  return select;
}

/** What a screen reader says of a canvas, in the place of what is painted on it. */
export function describeCanvas(canvas, label) {
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
}

/** A note beside the mouse: one for an output. Lines are [label, value] or a heading alone. */
export class Note {
  constructor(parent) {
    this.parent = parent;
    this.box = element("div", { class: "note", role: "status" });
    this.box.hidden = true;
    parent.append(this.box);
  }

  show(heading, lines, x, y) {
    const rows = lines.map(([name, value, colour]) => {
      const label = element("span", { class: "label" }, name);
      if (colour) {
        label.style.borderLeft = `3px solid ${colour}`;
        label.style.paddingLeft = "4px";
      }
      return element("div", {}, label, element("span", {}, value));
    });
    this.box.replaceChildren(element("strong", {}, heading), ...rows);
    this.box.hidden = false;
    const frame = this.parent.getBoundingClientRect();
    const [width, height] = [this.box.offsetWidth, this.box.offsetHeight];
    const left = x - frame.left + 14;
    const over = left + width > frame.width;
    this.box.style.left = `${Math.max(0, over ? x - frame.left - width - 14 : left)}px`;
    const top = y - frame.top + 14;
    this.box.style.top = `${top + height > frame.height ? Math.max(0, y - frame.top - height - 14) : top}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}
