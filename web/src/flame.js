/* Nested regions as a flame chart, by flame-chart-js: one row for each process and thread of a
 * timeline, or one tree of weights.
 *
 * The library draws, finds what is under the mouse and drags. Ours are: the range, which is the
 * view's; the widths of blocks; the grid, which has the tracks' marks; the note beside the mouse, which is the output's; and
 * colours by type, where a type is a region, so that a search changes a table of colours and
 * no data. The library takes the wheel and the keys of the whole page for itself; a notebook
 * is scrolled by them, so it's given neither (page.js has the keys and Ctrl with the wheel).
 */
import EventEmitter from "events";
import { FlameChartContainer, FlameChartPlugin, TogglePlugin, UIPlugin } from "flame-chart-js";
import { element } from "./dom.js";
import { EDGE } from "./tracks.js";

const BLOCK = 18;
const TITLE = 19;
const STRIPE = 4;
const MOST_ROWS = 150;
const TALLEST_PX = 16000;
const NARROWEST_PX = 0.25; // the least that the library draws
const FONT = "11px system-ui, sans-serif";

EventEmitter.defaultMaxListeners = Infinity; // each row of the library listens; more than ten are no leak

/** Gives the chart its range, which is larger than what its regions span. */
class Range extends UIPlugin {
  constructor(view) {
    super("range");
    this.height = 0;
    this.min = view.first;
    this.max = view.last;
  }
}

/**
 * Draws blocks as wide as they are, with a gap that gets narrower with them. The library leaves out a third
 * of narrow ones, and those below a third of a pixel altogether: where functions take turns, a row of
 * such blocks was white.
 */
class Blocks extends FlameChartPlugin {
  calcRect(start, duration, level) {
    const width = duration * this.renderEngine.zoom;
    return { ...super.calcRect(start, duration, level), w: Math.max(width - Math.min(1, width / 8), NARROWEST_PX) };
  }

  /** With hairlines over what stands for several visits: it looks like many, not like a long one. */
  render() {
    const asked = super.render();
    const { width } = this.renderEngine;
    for (const { start, duration, level, nodes } of this.actualClusterizedFlatTree) {
      const { x, y, w } = nodes[0].source.joined ? this.calcRect(start, duration, level) : { w: 0 };
      if (w > STRIPE) {
        for (let at = x + STRIPE * Math.max(1, Math.ceil(-x / STRIPE)); at < Math.min(x + w, width); at += STRIPE) {
          this.renderEngine.addRect({ color: this.stripes, x: at, y, w: 1.5 }, 1);
        }
      }
    }
    if (this.marked) {
      this.border();
    }
    return asked;
  }

  /** A border around the block that a search has reached. */
  border() {
    const { start, duration } = this.marked.source;
    const { x, y, w } = this.calcRect(start, duration, this.marked.level);
    const line = { color: this.accent, x, y, w };
    const sides = [
      { ...line, h: 2 },
      { ...line, y: y + BLOCK - 2, h: 2 },
      { ...line, w: 2, h: BLOCK },
      { ...line, x: x + w - 2, w: 2, h: BLOCK },
    ];
    sides.forEach((side) => this.renderEngine.addRect(side, 3));
  }

  /** What is drawn: of those that would lie on each other, the first. */
  reclusterizeClusteredFlatTree() {
    super.reclusterizeClusteredFlatTree();
    const least = NARROWEST_PX / this.renderEngine.zoom;
    let last = null;
    this.actualClusterizedFlatTree = this.actualClusterizedFlatTree.filter((cluster) => {
      const hidden =
        last?.level === cluster.level && cluster.duration < least && cluster.start - last.start < least;
      last = hidden ? last : cluster;
      return !hidden;
    });
  }
}

/**
 * The trees that flame-chart-js draws, from columns in preorder: begin and duration in seconds.
 * `type` is the region's number, `at` the row in the columns, `joined` how many visits a block
 * stands for where it's more than one; these took `busy` together, the longest of them `longest`.
 */
export function trees({ begin, duration, depth, region, count, busy, longest }, names, scale) {
  const roots = [];
  const open = [];
  for (let at = 0; at < begin.length; at++) {
    const many = count && count[at] > 1 ? count[at] : 0;
    const node = {
      name: many ? `${names[region[at]]} ×${count[at]}` : names[region[at]],
      start: begin[at] * scale,
      duration: duration[at] * scale,
      type: String(region[at]),
      at,
    };
    if (many) {
      Object.assign(node, { joined: many, busy: busy?.[at] * scale, longest: longest?.[at] * scale });
    }
    const level = depth[at];
    open.length = Math.min(open.length, level);
    const parent = open[open.length - 1];
    if (parent) {
      (parent.children ??= []).push(node);
    } else {
      roots.push(node);
    }
    open.push(node);
  }
  return roots;
}

/** The height of a row of a given depth among so many: what doesn't fit can be dragged into sight. */
function height(depth, rows) {
  const most = Math.max(3, Math.min(MOST_ROWS, Math.floor(TALLEST_PX / rows / (BLOCK + 1)) - 1));
  return Math.min(depth, most) * (BLOCK + 1) + 2;
}

export class Flame {
  /**
   * rows: [{title, data, depth}]. describe(node) is [heading, lines] for the note; select(node)
   * is called for a click. With `weights` the width is no time: it has no marks, and more room.
   */
  constructor(context, view, rows, host, { describe, select, titles, weights }) {
    Object.assign(this, { context, view, describe, weights });
    this.canvas = host.appendChild(element("canvas", { class: "flame" }));
    this.plugins = rows.map(({ data, depth }) => {
      const plugin = new Blocks({ data, name: "flame" });
      Object.assign(plugin, { stripes: context.theme.stripes, accent: context.theme.accent });
      plugin.height = height(depth, rows.length);
      plugin.on("select", ({ node }) => node && select(node.source));
      return plugin;
    });
    const titled = rows.flatMap((row, at) => [this.bar(row.title), this.plugins[at]]);
    const bar = titles ? TITLE + 1 : 0;
    this.height = this.plugins.reduce((sum, plugin) => sum + plugin.height + bar, 1);
    this.canvas.width = this.width;
    this.canvas.height = this.height;
    this.chart = new FlameChartContainer({
      canvas: this.canvas,
      plugins: [new Range(view), ...(titles ? titled : this.plugins)],
      settings: this.settings(),
    });
    this.titles = titles;
    this.free();
    this.align();
    this.redraw();
  }

  get width() {
    return this.weights ? this.context.width - 2 * EDGE : this.context.plotWidth;
  }

  /** The bar above a row, which folds it. */
  bar(title) {
    const { theme } = this.context;
    const styles = {
      height: TITLE,
      color: theme.raised,
      strokeColor: theme.line,
      dotsColor: theme.faint,
      fontColor: theme.text,
      triangleColor: theme.faint,
      font: FONT,
    };
    return new TogglePlugin(title, { styles });
  }

  settings() {
    const { theme } = this.context;
    const main = {
      blockHeight: BLOCK,
      font: FONT,
      fontColor: theme.text,
      backgroundColor: theme.background,
    };
    const tooltip = (found, _, mouse) => this.tell(found, mouse);
    return { options: { tooltip }, styles: { main, timeGrid: { color: theme.over } } };
  }

  /** The page's keys and wheel stay the page's. */
  free() {
    const engine = this.chart.interactionsEngine;
    document.removeEventListener("keydown", engine.handleKeyDown);
    document.removeEventListener("keyup", engine.handleKeyUp);
    this.canvas.removeEventListener("wheel", engine.handleMouseWheel);
    const over = (is) => () => {
      this.over = is;
      is || this.context.note.hide();
    };
    this.canvas.addEventListener("mousemove", over(true), true);
    this.canvas.addEventListener("mouseleave", over(false));
  }

  /** Marks and range come from the view; a drag goes to it. */
  align() {
    const { timeGrid, renderEngine } = this.chart;
    timeGrid.recalc = () => {};
    timeGrid.forEachTime = (draw) => {
      for (const mark of this.weights ? [] : this.view.marks(this.width).at) {
        draw(renderEngine.timeToPosition(mark), mark);
      }
    };
    renderEngine.on("clear", () => this.moved());
  }

  /** Whoever isn't where `redraw` put it was dragged there. */
  moved() {
    const { positionX } = this.chart.renderEngine;
    if (Math.abs(positionX - this.placed) > this.view.span * 1e-9) {
      this.placed = positionX;
      this.view.set(positionX, positionX + this.view.span);
    }
  }

  tell(found, mouse) {
    if (!found || !this.over) {
      // The library asks for the note with each drawing, also when the mouse has left.
      if (this.noting) {
        this.context.note.hide();
      }
      this.noting = false;
      return;
    }
    this.noting = true;
    const frame = this.canvas.getBoundingClientRect();
    const [heading, lines] = this.describe(found.data.source);
    this.context.note.show(heading, lines, frame.left + mouse.x, frame.top + mouse.y);
  }

  /** Mark a block of a row and bring it into sight. */
  mark(row, source) {
    const bar = this.titles ? TITLE + 1 : 0;
    const node = this.plugins[row].flatTree.find((one) => one.source === source);
    this.plugins.forEach((plugin, at) => (plugin.marked = at === row ? node : null));
    const above = this.plugins.slice(0, row).reduce((sum, plugin) => sum + plugin.height + bar, bar);
    const y = above + node.level * (BLOCK + 1);
    const frame = this.canvas.closest(".rows");
    if (y < frame.scrollTop || y + 2 * BLOCK > frame.scrollTop + frame.clientHeight) {
      frame.scrollTop = Math.max(0, y - frame.clientHeight / 2);
    }
    frame.scrollIntoView({ block: "nearest" });
    this.chart.render();
  }

  /** The colour of each region, by its number. Another search has reached nothing yet. */
  paint(colours) {
    this.plugins.forEach((plugin) => (plugin.marked = null));
    const byType = Object.fromEntries(colours.map((colour, region) => [region, colour]));
    for (const plugin of this.plugins) {
      plugin.colors = byType;
    }
    this.chart.render();
  }

  redraw() {
    const engine = this.chart.renderEngine;
    const whole = this.view.last - this.view.first;
    if (engine.max !== this.view.last) {
      this.chart.plugins[0].max = this.view.last;
      engine.calcMinMax();
    }
    if (engine.width !== this.width) {
      engine.resize(this.width, this.height);
    }
    engine.zoom = 0; // the library refuses some zooms by the digits of its own marks
    this.chart.timeGrid.accuracy = 0;
    engine.setZoom(this.width / Math.min(this.view.span, whole));
    engine.setPositionX(this.view.low);
    this.placed = this.view.low;
    this.chart.render();
  }
}
