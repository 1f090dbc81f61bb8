/* One output: its head, the tabs of its views, the search, and what the panels share.
 *
 * Everything is inside a shadow root, so that the notebook's styles and ours don't meet. Keys
 * count while the output has the focus, or the mouse rests on it (keys.js). JupyterLab has commands on letters,
 * which are kept from it meanwhile.
 */
import uplotStyle from "uplot/dist/uPlot.min.css";
import style from "./style.css";
import { element, Note } from "./dom.js";
import { excerpt, reveal } from "./notebook.js";
import { Callers } from "./callers.js";
import { Controls } from "./controls.js";
import { Filter } from "./filter.js";
import { FlameGraph } from "./graphs.js";
import { Kernel } from "./kernel.js";
import { help, Keys } from "./keys.js";
import { OWNED, Regions } from "./regions.js";
import { Repeats } from "./repeats.js";
import { SourceView } from "./source.js";
import { Tables } from "./tables.js";
import { NAMED, Theme, watchTheme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { EDGE, extend, GUTTER, number } from "./tracks.js";
import { time, View } from "./view.js";

const NARROWEST_PX = 320;
const PAPER_PX = 640; // fits any paper: how wide it is nobody says in time
const TRACK_PX = 96;
const LOW_TRACK_PX = 68; // below a timeline, which is to be seen, too
const NAMES_PX = 216; // of tracks, at most, left of them
const LEAST_NAMES_PX = 120; // and where the output is narrow, if they need it
const LEAST_SHARE = 0.002; // of the time, for a package that the legend names
const CHARACTER = 6.4; // px, about
const HEAD_CHARACTERS = 13; // " · 28 threads" behind a process
const KEYS = "With the mouse here, w s or Ctrl + wheel zoom, a d or Shift + wheel move, 0 shows everything, ? names all keys";
const HINTS = {
  tracks: `Drag over a track to zoom in. ${KEYS}.`,
  regions: `Drag to move, click a region to fill the width. ${KEYS}.`,
  timeline: `Drag to move, Shift + drag selects a range and sums it up, click a region to fill the width. ${KEYS}.`,
};

const pages = new Set();
let watching = false;

function each(act) {
  for (const kept of pages) {
    const page = kept.deref();
    page ? act(page) : pages.delete(kept);
  }
}

function watch(page) {
  pages.add(new WeakRef(page));
  if (!watching) {
    watching = true;
    watchTheme(() => each((page) => page.retheme()));
    addEventListener("beforeprint", () => each((page) => page.print(true)));
    addEventListener("afterprint", () => each((page) => page.print(false)));
  }
}

const cellsOf = (data) =>
  (data.cells ?? []).map((cell) => ({
    ...cell,
    low: cell.begin / 1e9,
    high: cell.end === null || cell.end === undefined ? null : cell.end / 1e9,
  }));

export class Page {
  constructor(place, data) {
    this.data = data;
    this.place = place;
    this.regions = new Regions(data);
    this.filter = new Filter(this);
    this.kernel = new Kernel(data.detail);
    this.keys = new Keys(this);
    const view = new View(data.begin / 1e9, data.end / 1e9);
    const trackHeight = data.locations?.length ? LOW_TRACK_PX : TRACK_PX;
    this.context = { view, trackHeight, cells: cellsOf(data), key: `holdfast-${Math.random()}` };
    if (data.tracks?.length && !data.locations?.length) {
      const choose = () => this.panels.get("timeline").panel.choose();
      this.controls = new Controls(data, this.context, choose);
    }
    place.setAttribute("data-lm-suppress-shortcuts", "true");
    this.root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
    this.panels = this.choosePanels();
    this.active = this.panels.has(data.view) ? data.view : [...this.panels.keys()][0];
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(place);
    watch(this);
  }

  choosePanels() {
    const { tracks, locations, paths, table, source, previous, repeats } = this.data;
    const compared = repeats?.runs.length === 1 ? "Runs" : "Compare";
    this.canLook = Boolean(paths?.length);
    const offered = [
      ["timeline", "Timeline", tracks?.length || locations?.length, () => new Timeline(this)],
      ["flame", "Flame graph", locations?.length || paths?.length, () => new FlameGraph(this)],
      ["callers", "Callers and callees", paths?.length, () => new Callers(this)],
      ["table", "Table", table, () => new Tables(this, false)],
      ["source", "Source", source, () => new SourceView(this)],
      ["compare", compared, table && (previous || repeats), () => (repeats ? new Repeats(this) : new Tables(this, true))],
    ];
    const there = offered.filter(([, , present]) => present);
    return new Map(there.map(([name, label, , make]) => [name, { label, make }]));
  }

  /** The first width that isn't 0 makes the page: an output may be drawn before it is seen. */
  resized(across = this.place.clientWidth) {
    const width = Math.floor(Math.max(across, NARROWEST_PX));
    if (!across || width === this.context.width) {
      return;
    }
    this.context.width = width;
    const room = Math.min(NAMES_PX, Math.max(LEAST_NAMES_PX, Math.round(width * 0.25)));
    this.context.gutter = Math.max(GUTTER, Math.min(room, this.namesWidth()));
    this.context.plotWidth = width - this.context.gutter - EDGE;
    if (this.theme) {
      this.panel?.redraw();
    } else {
      this.draw();
    }
  }

  /** For paper, also what wasn't seen yet, or for the screen again. */
  print(printing) {
    this.context.printing = printing;
    this.context.width = null; // drawn anew, also if it is as wide
    this.resized(printing ? PAPER_PX : this.place.clientWidth);
    this.note();
  }

  /** What isn't on the paper. */
  note() {
    const { view, unprinted = [] } = this.panel ?? {};
    const [low, high, first, last] = view ? [view.low, view.high, view.first, view.last].map((at) => time(at, 4)) : [];
    const others = [...this.panels].filter(([name]) => name !== this.active).map(([, { label }]) => label);
    const part = view && !view.whole ? `, ${low} to ${high} of ${first} to ${last}` : "";
    const without = unprinted.map((more) => `, without ${more}`).join("");
    const rest = others.length ? ` Other views of this output: ${others.join(", ")}.` : "";
    this.printed?.replaceChildren(`Printed: ${this.panels.get(this.active).label}${part}${without}.${rest}`);
  }

  /** What the names of the tracks need, about. */
  namesWidth() {
    const { locations = [] } = this.data;
    const several = new Set(locations.map(({ process }) => process)).size > 1;
    const threads = new Map();
    locations.forEach(({ process = "" }) => threads.set(process, (threads.get(process) ?? 0) + 1));
    const headOf = (process) => process.length + (threads.get(process) > 1 ? HEAD_CHARACTERS : 0);
    const lengths = locations.map(({ process = "", thread = "" }) => Math.max(several ? headOf(process) : 0, thread.length));
    return Math.max(0, ...lengths) * CHARACTER + (several ? 40 : 28);
  }

  retheme() {
    const theme = new Theme(this.place);
    if (this.theme && theme.name !== this.theme.name) {
      this.draw();
    }
  }

  draw() {
    this.theme = this.context.theme = new Theme(this.place);
    this.box = element("div", { class: "views", role: "group", tabindex: 0, onkeydown: (event) => this.keys.press(event) });
    this.box.style.cssText = this.theme.variables();
    this.box.addEventListener("mouseenter", (event) => this.keys.hover(event));
    this.box.addEventListener("mouseleave", () => {
      this.context.note.hide();
      this.keys.hover(null);
      this.keys.point(null);
    });
    this.box.addEventListener("mousemove", (event) => this.keys.point(event));
    this.box.addEventListener("scroll", () => this.context.note.hide(), true);
    this.box.addEventListener("wheel", (event) => this.keys.wheel(event), { passive: false });
    this.body = element("div", { class: "body" });
    this.below = element("div", { class: "detail" });
    this.summary = element("div", {});
    this.help = help();
    this.box.append(...this.head(), this.bar(), this.help, this.legend(), this.body, this.below, this.summary);
    for (const note of this.data.notes ?? []) {
      this.box.append(element("div", { class: "hint" }, note));
    }
    this.hint = this.box.appendChild(element("div", { class: "hint keys" }));
    this.printed = this.box.appendChild(element("div", { class: "hint printed" }));
    this.context.note = new Note(this.box);
    this.root.replaceChildren(element("style", {}, uplotStyle + style), this.box);
    this.panels.forEach((entry) => {
      entry.panel?.unfollow?.();
      entry.panel = null;
    });
    this.open(this.active);
  }

  hintText() {
    if (this.active !== "timeline") {
      return HINTS.regions;
    }
    return HINTS[this.data.locations?.length ? "timeline" : "tracks"];
  }

  head() {
    const facts = (this.data.facts ?? []).map(([name, value]) =>
      element("span", {}, `${name} `, element("b", {}, value)),
    );
    const title = this.data.title ? element("h3", {}, this.data.title) : "";
    return [title, facts.length ? element("div", { class: "facts" }, ...facts) : ""];
  }

  bar() {
    this.tabs = new Map();
    for (const [name, { label }] of this.panels) {
      const open = () => this.open(name);
      this.tabs.set(name, element("button", { role: "tab", onclick: open }, label));
    }
    const tabs = this.tabs.size > 1 ? [...this.tabs.values()] : [];
    this.count = element("span", { class: "count", role: "status" });
    const tool = (text, label, act) =>
      element("button", { class: "tool", "aria-label": label, title: label, onclick: act }, text);
    this.select = tool("▭", "Select a range: drag over it (or Shift + drag)", () => this.selectMode(!this.context.selecting));
    this.select.setAttribute("aria-pressed", "false");
    this.tools = element(
      "span",
      { class: "tools" },
      this.select,
      tool("+", "Zoom in", () => this.panel.view.zoom(1 / 2)),
      tool("−", "Zoom out", () => this.panel.view.zoom(2)),
      tool("⟲", "Show everything", () => this.panel.view.reset()),
    );
    const list = element("span", { role: "tablist" }, ...tabs);
    const space = element("span", { class: "space" });
    this.steps = element(
      "span",
      { class: "steps" },
      tool("‹", "Previous that is found (Shift + Enter)", () => this.step(-1)),
      tool("›", "Next that is found (Enter)", () => this.step(1)),
    );
    this.steps.style.visibility = "hidden"; // its room stays: what is below must not jump under the mouse
    return element("div", { class: "bar" }, list, space, this.field(), this.steps, this.tools, tool("?", "Keys", () => this.toggleHelp()));
  }

  field() {
    this.input = element("input", {
      type: "search",
      placeholder: "Search regions",
      "aria-label": "Search regions",
      title: "Enter: the next; Shift + Enter: the one before; Escape: all",
      oninput: () => this.search(),
    });
    this.input.hidden = !this.regions.name.length;
    this.input.value = this.text ?? "";
    return this.input;
  }

  /** The packages that took most of the time, with their colours; a click searches for one. */
  legend() {
    const { owners, hues, total } = this.regions;
    const shown = owners.filter(([, took]) => took > LEAST_SHARE * total).slice(0, NAMED);
    this.packages = element("div", { class: "legend", "aria-label": "Colours by module" });
    for (const [owner, took] of shown) {
      const dot = element("i");
      dot.style.background = this.theme.owner(hues.get(owner));
      const title = `${owner}: ${this.regions.share(took)} of ${this.regions.shares}`;
      const search = () => {
        this.input.value = `${OWNED}${owner}`;
        this.search();
      };
      this.packages.append(element("button", { class: "chip", title, onclick: search }, dot, owner));
    }
    return element("div", { class: "told" }, this.packages, this.count);
  }

  selectMode(on) {
    this.context.selecting = on;
    this.select.setAttribute("aria-pressed", String(on));
  }

  toggleHelp() {
    this.help.hidden = !this.help.hidden;
  }

  /** Show a function with its callers and callees. */
  look(region) {
    if (this.canLook) {
      this.open("callers");
      this.panel.choose(region);
    }
  }

  /** Other processes or threads are chosen, or waiting is hidden: what is made anew is what is seen. */
  filtered() {
    for (const name of ["flame", "callers", "table"]) {
      const entry = this.panels.get(name);
      if (entry?.panel && entry.panel !== this.panel) {
        entry.panel.unfollow?.();
        entry.panel = null;
      }
    }
    this.panel.draw();
    this.named();
    this.search();
  }

  open(name) {
    const entry = this.panels.get(name);
    if (!entry) {
      return;
    }
    this.active = name;
    this.tabs.forEach((tab, at) => tab.setAttribute("aria-selected", String(at === name)));
    this.context.note.hide();
    this.below.replaceChildren();
    if (!entry.panel) {
      entry.panel = entry.make();
      this.body.replaceChildren(entry.panel.host);
      entry.panel.draw();
    } else {
      this.body.replaceChildren(entry.panel.host);
      entry.panel.redraw();
      entry.panel.paint();
    }
    this.panel = entry.panel;
    this.tools.hidden = this.hint.hidden = !this.panel.view;
    this.select.hidden = this.summary.hidden = name !== "timeline";
    this.packages.hidden = !this.packages.children.length || !["timeline", "flame", "callers"].includes(name);
    this.hint.textContent = this.hintText();
    this.named();
    this.search();
  }

  /** Keeps the name up to date with the range that is shown now. */
  named() {
    this.unfollow?.();
    this.unfollow = this.panel.view?.follow(() => this.name());
    this.name();
  }

  /** What a screen reader says: it can't see where the axis begins and ends. */
  name() {
    const { view } = this.panel;
    const shown = view ? `, ${time(view.low, 5)} to ${time(view.high, 5)}${this.panel.state ?? ""}` : "";
    this.box.setAttribute("aria-label", `${this.panels.get(this.active).label}${shown}`);
    this.note();
  }

  search() {
    this.text = this.input.value;
    this.regions.search(this.text);
    this.panel.paint();
    const { found, rows } = this.regions;
    const hits = [...(found ?? [])].map((region) => rows.get(region)).filter(Boolean);
    const visits = hits.reduce((sum, row) => sum + row.visits, 0);
    const exclusive = hits.reduce((sum, row) => sum + row.exclusive, 0);
    const all = [...rows.values()].reduce((sum, row) => sum + row.exclusive, 0);
    const part = all ? `, ${((100 * exclusive) / all).toFixed(1)} % of all tracks' time` : "";
    const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
    this.told = found ? `${counted(hits.length, "region")}, ${counted(visits, "call")}${part}` : "";
    this.hits = found ? this.panel.hits() : [];
    this.at = null;
    this.tellHits();
  }

  tellHits() {
    const { length } = this.hits ?? [];
    this.steps.style.visibility = length ? "visible" : "hidden";
    const place = this.at === null ? number(length) : `${number(this.at + 1)} of ${number(length)}`;
    const many = (this.hits ?? []).some(({ joined }) => joined);
    const blocks = `${length === 1 ? "block" : "blocks"}${many ? " (joined calls are one)" : ""}`;
    this.count.textContent = length ? `${place} ${blocks} · ${this.told}` : (this.told ?? "");
    this.count.title = this.count.textContent;
  }

  /** To the next that the search found, or back; round at the ends. */
  step(by) {
    const { length } = this.hits ?? [];
    if (length) {
      this.context.note.hide();
      const first = by > 0 ? this.panel.first(this.hits) : length - 1;
      this.at = this.at === null ? first : (this.at + by + length) % length;
      this.panel.reach(this.hits[this.at]);
      this.tellHits();
    }
  }

  /** What was clicked, below the plots: it stays when the mouse leaves. */
  detail(region) {
    const place = this.regions.place(region);
    const go = () => this.reveal(region);
    const look = element("button", { class: "choice", onclick: () => this.look(region) }, "Callers and callees");
    const link = place ? element("button", { class: "place", onclick: go }, place) : "";
    const facts = this.regions.lines(region).filter(([name]) => name !== "where");
    const shown = facts.map(([name, value]) => element("span", {}, `${name} `, element("b", {}, value)));
    const name = element("b", {}, this.regions.name[region]);
    this.below.replaceChildren(element("div", { class: "facts" }, name, this.canLook ? look : "", link, ...shown));
  }

  /** To the line in the notebook, or, where there is none, the cell's text here. */
  reveal(region) {
    const [cell, line] = [this.regions.cell[region], this.regions.line[region]];
    const source = this.context.cells.find((one) => one.index === cell)?.source;
    if (!(cell > 0) || reveal(cell, line, this.theme.mark) || !source) {
      return;
    }
    this.detail(region);
    this.below.append(excerpt(source, line));
  }

  /** A live plot's new samples. With a `window` (ns) the plot shows no more than that. */
  append(data) {
    const cells = cellsOf(data);
    for (const cell of cells) {
      const at = this.context.cells.findIndex((one) => one.index === cell.index);
      at < 0 ? this.context.cells.push(cell) : (this.context.cells[at] = cell);
    }
    const { view } = this.context;
    view.extend(data.end / 1e9, data.window / 1e9);
    this.context.cells = this.context.cells.filter(({ high }) => high === null || high >= view.begin);
    for (const more of data.tracks ?? []) {
      const track = this.data.tracks?.find((one) => one.name === more.name && one.level === more.level);
      track && extend(track, more, view.begin);
    }
    this.controls?.refreshCells();
    this.panels.get("timeline")?.panel?.refresh();
  }
}
