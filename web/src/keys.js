/* The keys and the wheel, as in Perfetto, beside those that were here before; and the page that names them.
 *
 * The keys are a view's while the mouse rests on it, without a click: what the hint below it names must not reach
 * the notebook, where `a` inserts a cell and `dd` deletes one. So they are taken before the notebook sees them,
 * with all others that would edit it. Keys with Ctrl, Alt or Meta, and those that run a cell or go to another one,
 * stay the notebook's. Who types into an editor while the view happens to lie under the mouse goes on
 * typing: there the keys become the view's when the mouse is moved on it.
 */
import { element } from "./dom.js";

const WHEEL_ZOOM = 400; // px of the wheel for a factor of e
const LINE_PX = 40; // of a wheel that counts in lines

const MOVED_PX = 8; // of the mouse on the view: meant, while somebody types elsewhere
const EDITING = new Set(["Backspace", "Delete", "Enter", "Tab"]); // in a field

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

const isField = (target) => Boolean(target?.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName));

const distance = ({ clientX, clientY }, [x, y]) => Math.hypot(clientX - x, clientY - y);

/** What has the focus, inside of shadow roots too. */
function focused() {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) {
    at = at.shadowRoot.activeElement;
  }
  return at;
}

let hovered = null; // the keys of the view on which the mouse rests
let pointer = null; // where the mouse was last
let listens = false;

/** Before JupyterLab, whose commands listen at the document, and before an editor that has the focus. */
function listen() {
  if (!listens) {
    listens = true;
    window.addEventListener("keydown", (event) => hovered?.take(event), true);
    window.addEventListener("focusin", () => hovered?.yields(), true);
    window.addEventListener("mousemove", ({ clientX, clientY }) => (pointer = [clientX, clientY]), true);
  }
}

export class Keys {
  constructor(page) {
    this.page = page;
    this.typing = null; // where the mouse was when a field outside got the focus or a key
    listen();
  }

  /** The mouse has come, or (false) has left. */
  hover(event) {
    const over = Boolean(event);
    if (over) {
      hovered = this;
      const scrolled = pointer && distance(event, pointer) <= MOVED_PX; // the view came to the mouse
      this.typing = scrolled && isField(focused()) ? pointer : null;
    } else if (hovered === this) {
      hovered = null;
    }
  }

  /** A field outside has got the focus: its keys are its own. */
  yields() {
    const at = focused();
    if (isField(at) && !this.page.root.contains(at)) {
      this.typing = this.mouse ?? [0, 0];
    }
  }

  /** A key anywhere, while the mouse is here: ours, unless it is for something else. */
  take(event) {
    const { box, panel } = this.page;
    const target = event.composedPath()[0];
    if (!box.isConnected) {
      hovered = null;
    }
    if (!hovered || event.composedPath().includes(box) || (this.typing && isField(target))) {
      return;
    }
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) {
      return;
    }
    const edits = key.length === 1 || key === "Backspace" || key === "Delete" || (isField(target) && !event.shiftKey && EDITING.has(key));
    const done = key === "Escape" ? panel.clear?.() : this.move({ key, target: box });
    if (edits || done) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
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
    act && page.context.note.hide(); // it is of what was below the mouse
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
    this.mouse = event && [event.clientX, event.clientY];
    if (this.typing && event && distance(event, this.typing) > MOVED_PX) {
      this.typing = null;
    }
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
