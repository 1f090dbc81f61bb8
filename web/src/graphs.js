/* The flame graph: call paths with the heaviest at the left, or one track in the order of time. */
import { choice, element } from "./dom.js";
import { Flame } from "./flame.js";
import { leftHeavy } from "./paths.js";
import { Plots } from "./plots.js";
import { Row } from "./row.js";
import { Axis, number } from "./tracks.js";
import { time, View } from "./view.js";

export const ROOM = 460; // px

/** A graph of weights: one row, whose width is the sum of its roots. */
export class Weights extends Plots {
  /** about(block) has further lines of the note, or replaces them all. */
  constructor(page, nodes, { label = "Call paths", hanging, room = ROOM, select, lines }) {
    const [row, total] = leftHeavy(nodes);
    super(page, new View(0, total));
    Object.assign(this, { row, total, lines });
    this.flame = new Flame(page.context, this.view, { row }, this.host, {
      label: `${label}: ${row.depth} ${row.depth === 1 ? "level" : "levels"}`,
      labels: page.regions.label,
      describe: (block) => this.describe(block),
      select: select ?? ((block) => this.show(block)),
      weights: true,
      hanging,
      room,
    });
    this.plots = [this.flame];
  }

  describe(block) {
    const { page } = this;
    const share = `${((100 * block.duration) / this.total).toFixed(1)} %`;
    const lines = this.lines?.(block, share) ?? [
      ["total here", time(block.duration)],
      ["without callees", time(Math.max(0, block.duration - block.row.callees(block.at)))],
      ["calls here", number(block.visits)],
      ["of this graph", `${share} of ${time(this.total)}`],
      ...page.regions.lines(block.region),
    ];
    return [page.regions.name[block.region], lines];
  }
}

class Ordered extends Plots {
  constructor(page, location) {
    super(page, page.context.view);
    const axis = this.host.appendChild(element("div", {}));
    this.row = new Row(location, 1e-9);
    const whose = [location.process, location.thread].filter(Boolean).join(" · ");
    this.flame = new Flame(page.context, this.view, { row: this.row }, this.host, {
      label: `Calls of ${whose} in the order of time`,
      labels: page.regions.label,
      describe: (block) => [this.heading(block), [...this.times(block), ...page.regions.lines(block.region)]],
      select: (block) => this.show(block),
      room: ROOM,
    });
    this.plots = [new Axis(page.context, axis), this.flame];
  }

  paint() {
    const { regions, context, filter } = this.page;
    const dim = (colour, region) => (filter.isWithoutWaiting && regions.waits(region) ? context.theme.dim : colour);
    this.flame.paint(regions.colours(context.theme).map(dim));
  }
}

export class FlameGraph {
  constructor(page) {
    this.page = page;
    this.host = element("div", { class: "panel" });
    const { paths = [], locations = [] } = page.data;
    this.orders = [...(paths.length ? ["Left-heavy"] : []), ...(locations.length ? ["Time order"] : [])];
    this.order = this.orders[0];
    this.bar = this.host.appendChild(element("div", { class: "bar choices" }));
    this.body = this.host.appendChild(element("div", {}));
    this.notes = this.host.appendChild(element("div", {}));
  }

  draw() {
    const { filter } = this.page;
    const reorder = (order) => this.change(() => (this.order = this.orders[order]));
    const order = choice("Order", this.orders, this.orders.indexOf(this.order), reorder);
    this.bar.replaceChildren(order, ...this.ofOrder(), ...filter.controls(() => this.page.filtered()));
    this.plots?.unfollow();
    const heavy = this.order === "Left-heavy";
    this.plots = heavy ? this.heavy() : new Ordered(this.page, this.locations()[0]);
    this.body.replaceChildren(this.plots.host);
    const notes = heavy ? filter.notes(true) : [];
    this.notes.replaceChildren(...notes.map((note) => element("div", { class: "hint" }, note)));
    this.plots.paint();
    this.plots.redraw();
  }

  /** In the order of time one track is shown: of those that are chosen this one first. */
  locations() {
    const { chosen } = this.page.filter;
    return this.track && chosen.includes(this.track) ? [this.track, ...chosen] : chosen;
  }

  ofOrder() {
    const { chosen } = this.page.filter;
    if (this.order === "Left-heavy" || chosen.length < 2) {
      return [];
    }
    const names = chosen.map(({ process, thread }) => [process, thread].filter(Boolean).join(" · "));
    const pick = (at) => this.change(() => (this.track = chosen[at]));
    return [choice("Track", names, chosen.indexOf(this.locations()[0]), pick)];
  }

  heavy() {
    return new Weights(this.page, this.page.filter.paths().roots().sorted(), {});
  }

  change(act) {
    act();
    this.draw();
    this.page.named();
    this.page.search(); // what it found is elsewhere now
  }

  unfollow() {
    this.plots.unfollow();
  }

  get view() {
    return this.plots.view;
  }

  get unprinted() {
    return this.plots.unprinted;
  }

  redraw() {
    this.plots.redraw();
  }

  paint() {
    this.plots.paint();
  }

  /** What the search found, the widest first. */
  hits() {
    const { regions } = this.page;
    const found = this.plots.row.blocksOf((region) => regions.has(region));
    return found.sort((one, other) => other.duration - one.duration);
  }

  first() {
    return 0;
  }

  reach(block) {
    this.plots.show(block);
    this.plots.flame.mark(block);
  }
}
