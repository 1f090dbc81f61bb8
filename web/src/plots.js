/* What timeline and graphs have in common: plots that follow a view, and how a block is described. */
import { element } from "./dom.js";
import { number } from "./tracks.js";
import { time } from "./view.js";

const RUN_PART = 0.5; // of the width: a run of short calls that is wider is zoomed into
const RUN_ZOOM = 1 / 8;

export class Plots {
  constructor(page, view) {
    this.page = page;
    this.view = view;
    this.host = element("div", { class: "panel" });
    this.plots = [];
    this.unfollow = view.follow(() => this.redraw());
  }

  redraw() {
    if (this.host.isConnected && !this.host.hidden) {
      this.plots.forEach((plot) => plot.redraw());
    }
  }

  /** What paper has no room for, in words. */
  get unprinted() {
    return this.plots.map((plot) => plot.unprinted).filter(Boolean);
  }

  paint() {
    const colours = this.page.regions.colours(this.page.context.theme);
    this.plots.forEach((plot) => plot.paint?.(colours));
  }

  /** What a block is called in its note. */
  heading({ joined, region }) {
    const name = this.page.regions.name[region];
    return joined ? `${number(joined)} short calls, most of their time in ${name}` : name;
  }

  /** What a block says that stands for several visits: what they took, and how to see them. */
  joined({ joined, begin, duration, busy, longest }) {
    if (!joined) {
      return [];
    }
    const { cells } = this.page.context;
    const inside = (cell) => cell.low <= begin && begin <= (cell.high ?? Infinity);
    const lines = [];
    if (longest) {
      lines.push(["together", time(busy)], ["the longest", time(longest)]);
    }
    const index = cells.find(inside)?.index;
    if (this.page.kernel.there) {
      lines.push(["in detail", "zoom in"]);
    } else if (index !== undefined) {
      const digits = Math.max(2, 2 - Math.floor(Math.log10(duration)));
      const [from, to] = [begin, begin + duration].map((at) => at.toFixed(digits));
      lines.push(["in detail", `%trace ${index} --range ${from}:${to}`]);
    }
    return lines;
  }

  /** When a block begins, how long it lasts, and how long without what it calls. */
  times(block) {
    const { row, at, begin, duration, joined, cut } = block;
    const lasts = joined ? "all within" : "lasts";
    const lines = cut ? [[lasts, `more than ${time(duration)}`]] : [["begins", time(begin, 6)], [lasts, time(duration)]];
    if (!joined && !cut) {
      lines.push(["without callees", time(Math.max(0, duration - row.callees(at)))]);
    }
    return [...lines, ...this.joined(block)];
  }

  /** What is clicked fills the width, with a little around it. */
  show({ begin, duration, region, run }) {
    const { view } = this;
    const margin = duration * 0.02;
    if (run && duration > RUN_PART * view.span) {
      view.zoom(RUN_ZOOM, this.page.keys.around(view)); // it fills the width already
    } else {
      view.set(begin - margin, begin + duration + margin);
    }
    this.page.detail(region);
  }
}
