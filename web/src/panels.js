/* The panels of an output: what each of its tabs shows, made when it is first looked at.
 *
 * A panel has `view`, the range that keys and buttons move (none in a table), `redraw` for a new
 * width or range, `paint` for a new search, `hits`, what the search found, and `reach`, which shows one of them.
 */
import { choice, element } from "./dom.js";
import { Flame, trees } from "./flame.js";
import { number, Axis, EDGE, GUTTER, Track } from "./tracks.js";
import { Table } from "./table.js";
import { time, View } from "./view.js";

const most = (values) => values.reduce((one, other) => Math.max(one, other), 0);

const title = ({ process, thread }) => [process, thread].filter(Boolean).join(" · ");

/** A view's plots follow it, and what a search found has its own colour. */
class Plots {
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

  paint() {
    const colours = this.page.regions.colours(this.page.context.theme);
    this.plots.forEach((plot) => plot.paint?.(colours));
  }

  /** What a block is called in its note. */
  heading(node) {
    const name = this.page.regions.name[Number(node.type)];
    return node.joined ? `${number(node.joined)} short calls, most of their time in ${name}` : name;
  }

  /** What a block says that stands for several visits: what they took, and how to see them. */
  joined(node) {
    if (!node.joined) {
      return [];
    }
    const { cells } = this.page.context;
    const inside = (cell) => cell.low <= node.start && node.start <= (cell.high ?? Infinity);
    const lines = [];
    if (node.longest) {
      lines.push(["together", time(node.busy)], ["the longest", time(node.longest)]);
    }
    const index = cells.find(inside)?.index;
    if (index !== undefined) {
      const digits = Math.max(2, 2 - Math.floor(Math.log10(node.duration)));
      const [from, to] = [node.start, node.start + node.duration].map((at) => at.toFixed(digits));
      lines.push(["in detail", `%trace ${index} --range ${from}:${to}`]);
    }
    return lines;
  }

  /** What is clicked fills the width, with a little around it. */
  show(node) {
    const margin = node.duration * 0.02;
    this.view.set(node.start - margin, node.start + node.duration + margin);
    this.page.detail(Number(node.type));
  }
}

export class Timeline extends Plots {
  constructor(page) {
    super(page, page.context.view);
    const { controls } = page;
    this.axis = element("div", {});
    this.lanes = element("div", {});
    this.host.append(controls?.host ?? "", this.axis, this.lanes);
    this.tracks = [];
  }

  draw() {
    const { context, data, regions } = this.page;
    this.plots = [new Axis(context, this.axis)];
    this.choose();
    if (data.locations?.length) {
      const rows = this.host.appendChild(element("div", { class: "rows" }));
      const inner = rows.appendChild(element("div", {}));
      inner.style.marginLeft = `${GUTTER}px`;
      const described = data.locations.map((location) => ({
        title: title(location),
        data: trees(location, regions.label, 1e-9),
        depth: most(location.depth) + 1,
      }));
      const select = (node) => this.show(node);
      const describe = (node) => this.describe(node);
      this.flame = new Flame(context, this.view, described, inner, { describe, select, titles: true });
      this.plots.push(this.flame);
    }
    this.paint();
  }

  describe(node) {
    const region = Number(node.type);
    const lasts = node.joined ? "all within" : "lasts";
    const lines = [["begins", time(node.start, 6)], [lasts, time(node.duration)]];
    return [this.heading(node), [...lines, ...this.joined(node), ...this.page.regions.lines(region)]];
  }

  /** The blocks that the search found, by time: [row, node]. */
  hits() {
    const rows = this.flame?.plugins ?? [];
    const found = rows.flatMap((plugin, row) =>
      plugin.flatTree.filter(({ source }) => this.page.regions.has(Number(source.type))).map(({ source }) => [row, source]),
    );
    return found.sort(([, one], [, other]) => one.start - other.start);
  }

  /** Where `next` begins: with the first that is in sight. */
  first(hits) {
    return Math.max(0, hits.findIndex(([, node]) => node.start >= this.view.low));
  }

  reach([row, node]) {
    const middle = node.start + node.duration / 2;
    const span = Math.max(node.duration, 1e-9);
    this.view.set(middle - span, middle + span);
    this.flame.mark(row, node);
    this.page.detail(Number(node.type));
  }

  /** The tracks that are chosen now, instead of those that were. */
  choose() {
    const { context, controls, data } = this.page;
    this.tracks.forEach((track) => track.plot.destroy());
    this.lanes.replaceChildren();
    const others = this.plots.filter((plot) => !this.tracks.includes(plot));
    const chosen = controls?.tracks() ?? data.tracks ?? [];
    this.tracks = chosen.map((track) => new Track(context, track, this.lanes));
    this.plots = [...others, ...this.tracks];
  }

  /** Samples came. */
  refresh() {
    this.tracks.forEach((track) => track.refresh());
  }
}

/** The call paths with the heaviest at the left: [trees, sum of the roots, depth]. */
export function leftHeavy({ depth, region, visits, inclusive }, names) {
  const roots = [];
  const open = [];
  depth.forEach((level, at) => {
    const node = { name: names[region[at]], duration: inclusive[at] / 1e9, type: String(region[at]), at };
    node.visits = visits[at];
    open.length = level;
    const siblings = level ? (open[level - 1].children ??= []) : roots;
    siblings.push(node);
    open[level] = node;
  });
  const place = (nodes, start) => {
    nodes.sort((one, other) => other.duration - one.duration);
    for (const node of nodes) {
      node.start = start;
      start += node.duration;
    }
    return start;
  };
  const total = place(roots, 0);
  const waiting = [...roots];
  while (waiting.length) {
    const node = waiting.pop();
    if (node.children) {
      place(node.children, node.start);
      waiting.push(...node.children);
    }
  }
  return [roots, total, most(depth) + 1];
}

export class FlameGraph {
  constructor(page) {
    this.page = page;
    this.host = element("div", { class: "panel" });
    this.orders = [];
    const { paths = [], locations = [] } = page.data;
    if (paths.length) {
      this.orders.push(["Left-heavy", paths.map((one) => one.name), (at) => this.heavy(paths[at])]);
    }
    if (locations.length) {
      this.orders.push(["Time order", locations.map(title), (at) => this.ordered(locations[at])]);
    }
    this.order = 0;
    this.shown = 0;
    this.bar = this.host.appendChild(element("div", { class: "bar" }));
    this.body = this.host.appendChild(element("div", {}));
  }

  draw() {
    const [, names, make] = this.orders[this.order];
    const orders = this.orders.map(([name]) => name);
    const reorder = (order) => this.change(order, 0);
    const choose = (shown) => this.change(this.order, shown);
    const choices = [choice("Order", orders, this.order, reorder)];
    if (names.length > 1) {
      choices.push(choice("Thread", names, this.shown, choose));
    }
    this.bar.replaceChildren(...choices);
    this.body.replaceChildren();
    this.plots?.unfollow();
    this.plots = make(this.shown);
    this.body.append(this.plots.host);
    this.plots.paint();
  }

  change(order, shown) {
    this.order = order;
    this.shown = shown;
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

  heavy(paths) {
    const [data, total, depth] = leftHeavy(paths, this.page.regions.label);
    return this.make(new View(0, total), data, depth, (node) => this.describe(node, total), true);
  }

  ordered(location) {
    const data = trees(location, this.page.regions.label, 1e-9);
    const { view } = this.page.context;
    return this.make(view, data, most(location.depth) + 1, (node) => this.describe(node, null));
  }

  make(view, data, depth, describe, weights) {
    const plots = new Plots(this.page, view);
    const select = (node) => plots.show(node);
    const row = { title: "", data, depth };
    const { context } = this.page;
    const more = { describe, select, titles: false, weights };
    const axis = plots.host.appendChild(element("div", {}));
    const rows = plots.host.appendChild(element("div", { class: "rows" }));
    const inner = rows.appendChild(element("div", {}));
    inner.style.marginLeft = `${weights ? EDGE : GUTTER}px`;
    const axes = weights ? [] : [new Axis(context, axis)];
    plots.plots = [new Flame(context, view, [row], inner, more), ...axes];
    return plots;
  }

  describe(node, total) {
    const inner = (node.children ?? []).reduce((sum, child) => sum + child.duration, 0);
    const lines = [
      [total !== null ? "inclusive here" : node.joined ? "all within" : "lasts", time(node.duration)],
      ["without callees", time(Math.max(0, node.duration - inner))],
    ];
    if (total !== null) {
      lines.push(["visits here", number(node.visits)]);
      lines.push(["of the whole graph", `${((100 * node.duration) / total).toFixed(1)} %`]);
    } else {
      lines.push(["begins", time(node.start, 6)], ...this.plots.joined(node));
    }
    const region = Number(node.type);
    return [this.plots.heading(node), [...lines, ...this.page.regions.lines(region)]];
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
    const nodes = this.plots.plots[0].plugins[0].flatTree.map(({ source }) => source);
    const found = nodes.filter((node) => regions.has(Number(node.type)));
    return found.sort((one, other) => other.duration - one.duration);
  }

  first() {
    return 0;
  }

  reach(node) {
    this.plots.show(node);
    this.plots.plots[0].mark(0, node);
  }
}

export class Tables {
  constructor(page, compared) {
    Object.assign(this, { page, compared });
    this.host = element("div", { class: "panel" });
  }

  draw() {
    const { regions } = this.page;
    const reveal = (region) => this.page.reveal(region);
    if (this.compared) {
      this.host.append(element("p", {}, this.summary()));
    }
    this.table = new Table(regions, this.host, this.compared, reveal);
  }

  summary() {
    const { seconds, previous } = this.page.data;
    const before = previous.title ?? "the run before";
    if (!seconds || !previous.seconds) {
      return `Compared with ${before}.`;
    }
    const change = 100 * (seconds / previous.seconds - 1);
    const share = `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(1)} %`;
    return `Compared with ${before}: ${time(seconds)} now, ${time(previous.seconds)} then (${share}).`;
  }

  redraw() {}

  paint() {
    this.table.redraw();
  }

  hits() {
    return [];
  }
}
