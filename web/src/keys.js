/* The keys and the wheel, as in Perfetto, beside those that were here before; and the page that names them. */
import { element } from "./dom.js";

const WHEEL_ZOOM = 400; // px of the wheel for a factor of e
const LINE_PX = 40; // of a wheel that counts in lines

const HELP = [
  ["w  s,  + −", "zoom in and out, where the mouse is"],
  ["a  d,  ← →", "move to earlier and later"],
  ["Ctrl + wheel", "zoom in and out, where the mouse is"],
  ["Shift + wheel", "move to earlier and later"],
  ["wheel", "scroll the tracks"],
  ["drag", "move; over a sampled track: zoom to what is dragged over"],
  ["Shift + drag, or ▭ and drag", "select a range, and sum up what is in it"],
  ["f", "zoom to the selected range"],
  ["click", "a region fills the width; its callers and callees are one click further"],
  ["0", "show everything"],
  ["/", "search; Enter goes to the next that is found, Shift + Enter back"],
  ["Escape", "clear the selection, then the search"],
  ["?", "this help"],
];

/** The help, hidden at first. */
export function help() {
  const rows = HELP.flatMap(([keys, meaning]) => [element("dt", {}, keys), element("dd", {}, meaning)]);
  const made = element("dl", { class: "help", role: "group", "aria-label": "Keys" }, ...rows);
  made.hidden = true;
  return made;
}

export class Keys {
  /** part() is where the mouse is, as a part of the plots' width, or undefined. */
  constructor(page) {
    this.page = page;
  }

  press(event) {
    const { page } = this;
    const typing = event.composedPath()[0] === page.input;
    if (typing && event.key === "Enter") {
      page.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.escape();
    } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && this.move(event)) {
      event.preventDefault();
    }
    event.stopPropagation();
  }

  escape() {
    const { page } = this;
    if (!page.panel.clear?.() && page.input.value) {
      page.input.value = "";
      page.search();
    }
  }

  move({ key, target }) {
    const { page } = this;
    const { view } = page.panel;
    const zoom = (factor) => () => view.zoom(factor, this.around(view));
    const always = { "/": () => page.input.focus(), "?": () => page.toggleHelp() };
    const moves = {
      ArrowLeft: () => view.pan(-0.2),
      ArrowRight: () => view.pan(0.2),
      a: () => view.pan(-0.2),
      d: () => view.pan(0.2),
      w: zoom(1 / 1.5),
      s: zoom(1.5),
      "+": () => view.zoom(1 / 1.5),
      "=": () => view.zoom(1 / 1.5),
      "-": () => view.zoom(1.5),
      0: () => view.reset(),
      f: () => page.panel.selection?.range && view.set(...page.panel.selection.range),
    };
    const act = always[key] ?? (view && target.tagName !== "SELECT" ? moves[key] : null);
    act?.();
    return Boolean(act);
  }

  /** The time where the mouse is; else the middle. */
  around(view) {
    return this.part === undefined ? undefined : view.low + this.part * view.span;
  }

  /** The mouse is here, or (null) has left. */
  point(event) {
    const { context, box } = this.page;
    const left = event && box.getBoundingClientRect().left + context.gutter;
    const part = event && (event.clientX - left) / context.plotWidth;
    this.part = event && part >= 0 && part <= 1 ? part : undefined;
  }

  wheel(event) {
    const { view } = this.page.panel;
    const zooms = event.ctrlKey || event.metaKey;
    if (!view || !(zooms || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      return; // it scrolls what is below it
    }
    event.preventDefault();
    this.point(event);
    const unit = event.deltaMode ? LINE_PX : 1;
    if (zooms) {
      view.zoom(Math.exp((event.deltaY * unit) / WHEEL_ZOOM), this.around(view));
    } else {
      const by = event.deltaX || event.deltaY; // some systems turn the wheel with Shift, some leave that to us
      view.pan((by * unit) / this.page.context.plotWidth);
    }
  }
}
