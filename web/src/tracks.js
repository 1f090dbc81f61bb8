/* The tracks of samples: one plot for each metric over time, by uPlot; and the axis above everything.
 *
 * All have the same x scale, which is the view's: a selection in any of them zooms it. Cells are
 * bands behind the lines, with their numbers in the axis. What stands left of every plot, of the timeline's
 * too, is as wide as the context's gutter, and right of it EDGE, so that one time is one column.
 */
import uPlot from "uplot";
import { describeCanvas, element } from "./dom.js";
import { time } from "./view.js";

export const GUTTER = 64;
export const EDGE = 14;
const AXIS_HEIGHT = 40;
const CHIPS = 8;
const FONT = "11px system-ui, sans-serif";

const seconds = (nanoseconds) => Float64Array.from(nanoseconds, (value) => value / 1e9);

/** A number as people write it: three digits, never an exponent for what is of use here. */
export function number(value) {
  if (value === null || Number.isNaN(value)) {
    return "–";
  }
  const size = Math.abs(value);
  if (size >= 100 || value === 0) {
    return Math.round(value).toLocaleString("en");
  }
  return size >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}

/** Add samples that came since; those before `first`, in seconds, go. Series are found by their names. */
export function extend(track, more, first) {
  const times = [...track.time, ...more.time];
  const gone = Math.max(0, times.findIndex((time) => time >= first * 1e9) - 1);
  const join = (old, added) => Float64Array.from([...old, ...added].slice(gone));
  const gap = new Float64Array(more.time.length).fill(NaN);
  track.time = Float64Array.from(times.slice(gone));
  for (const series of track.series) {
    const added = more.series.find((one) => one.name === series.name);
    for (const column of ["values", "min", "max"]) {
      if (series[column]) {
        series[column] = join(series[column], added?.[column] ?? gap);
      }
    }
  }
}

/** The last index at which times[index] <= at, or 0. */
function indexAt(times, at) {
  let [low, high] = [0, times.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= at) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/** Where the cells are that can be seen, in the canvas' pixels: the widest first. */
function visible(plot, { cells, view }) {
  const { left, width } = plot.bbox;
  const seen = cells.map((cell) => {
    const begin = plot.valToPos(cell.low, "x", true);
    const end = Math.max(begin + 1, plot.valToPos(cell.high ?? view.last, "x", true));
    return { cell, begin: Math.max(begin, left), end: Math.min(end, left + width) };
  });
  return seen.filter(({ begin, end }) => begin < end).sort((one, other) => widthOf(other) - widthOf(one));
}

const widthOf = ({ begin, end }) => end - begin;

/** Draws the cells' bands. */
function bands(plot, context) {
  const { ctx, bbox } = plot;
  for (const { cell, begin, end } of visible(plot, context)) {
    const failed = ["error", "died"].includes(cell.outcome);
    ctx.fillStyle = failed ? context.theme.failed : context.theme.band;
    ctx.fillRect(begin, bbox.top, end - begin, bbox.height);
    ctx.fillStyle = context.theme.line;
    ctx.fillRect(begin, bbox.top, 1, bbox.height);
  }
}

/** Writes their numbers, a wide cell's before that of a narrow one beside it. */
function numbers(plot, context) {
  const { ctx, bbox } = plot;
  const taken = [];
  ctx.fillStyle = context.theme.faint;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { cell, begin } of visible(plot, context)) {
    const text = `[${cell.index}]`;
    const end = begin + ctx.measureText(text).width + 10;
    const free = taken.every((one) => end <= one.begin || begin >= one.end);
    if (free && end < bbox.left + bbox.width + 8) {
      ctx.fillText(text, begin + 4, bbox.top + bbox.height / 2);
      taken.push({ begin, end });
    }
  }
}

/** What axis and tracks have in common. */
function options(context, width, height, axes) {
  const { view, theme } = context;
  const grid = { stroke: theme.grid, width: 1 };
  const x = {
    stroke: theme.faint,
    font: FONT,
    grid,
    splits: (plot) => view.marks(plot.bbox.width / devicePixelRatio).at,
    values: () => [],
    ticks: { show: false },
    size: 0,
    ...axes[0],
  };
  return {
    width,
    height,
    padding: [8, EDGE, 4, 0],
    scales: { x: { time: false, range: () => [view.low, view.high] } },
    axes: [x, { size: () => context.gutter, stroke: theme.faint, font: FONT, grid, ticks: grid, ...axes[1] }],
    legend: { show: false },
  };
}

/** The strip of the axis, with the cells' numbers. */
export class Axis {
  constructor(context, host) {
    this.context = context;
    const view = context.view;
    const x = {
      side: 0,
      size: 20,
      gap: 2,
      values: (plot) => view.marks(plot.bbox.width / devicePixelRatio).labels,
      ticks: { show: true, stroke: context.theme.line, size: 4 },
    };
    const blank = { values: () => [], splits: () => [], grid: { show: false }, ticks: { show: false } };
    const shared = options(context, context.width, AXIS_HEIGHT, [x, blank]);
    shared.scales.y = { range: () => [0, 1] };
    this.plot = new uPlot(
      {
        ...shared,
        padding: [0, EDGE, 0, 0],
        cursor: { show: false },
        series: [{}, { stroke: "transparent" }],
        hooks: {
          drawClear: [(plot) => bands(plot, context)],
          draw: [(plot) => numbers(plot, context)],
        },
      },
      [[view.first, view.last], [null, null]],
      host,
    );
    describeCanvas(this.plot.ctx.canvas, "Time axis");
  }

  redraw() {
    this.plot.setSize({ width: this.context.width, height: AXIS_HEIGHT });
    this.plot.redraw(false, true);
    this.plot.setScale("x", { min: this.context.view.low, max: this.context.view.high });
  }
}

export class Track {
  constructor(context, track, host) {
    this.context = context;
    this.track = track;
    this.times = seconds(track.time);
    this.shown = track.series.map((series) => !series.hidden);
    this.host = host.appendChild(element("div", { class: "track" }));
    this.head = this.host.appendChild(element("div", { class: "head" }));
    this.plot = new uPlot(this.options(), this.data(), this.host);
    this.plot.over.addEventListener("mouseleave", () => context.note.hide());
    this.all = track.series.length <= CHIPS;
    this.legend();
    this.describe();
  }

  /** For those who don't see the lines: the highest value of each. */
  describe() {
    const { name, series, unit = "" } = this.track;
    const highest = ({ values }) => values.reduce((most, value) => (value > most ? value : most), -Infinity);
    const ofSeries = (one) => `${one.name} at most ${number(highest(one))}`;
    const shown = series.filter((one, index) => this.shown[index] && Number.isFinite(highest(one)));
    const said = shown.slice(0, CHIPS).map(ofSeries).join(", ");
    describeCanvas(this.plot.ctx.canvas, `${name}${unit && ` in ${unit}`} over time: ${said || "nothing was measured"}`);
  }

  colour(index) {
    return this.context.theme.series[index % this.context.theme.series.length];
  }

  /** uPlot's columns: the times, each series, and then the edges of those that have a band. */
  data() {
    const { series } = this.track;
    const edges = series.filter((one) => one.min).flatMap((one) => [one.max, one.min]);
    const plain = (values) => Array.from(values, (value) => (Number.isNaN(value) ? null : value));
    return [this.times, ...series.map((one) => plain(one.values)), ...edges.map(plain)];
  }

  options() {
    const { track, context } = this;
    const lines = track.series.map((series, index) => ({
      label: series.name,
      show: this.shown[index],
      stroke: this.colour(index),
      width: 1.5,
      points: { show: this.times.length < 3 ? true : undefined, size: 5 },
    }));
    const edged = track.series.flatMap((series, index) => (series.min ? [index] : []));
    const edges = edged.flatMap((index) => {
      const edge = { show: this.shown[index], stroke: "transparent", points: { show: false } };
      return [edge, { ...edge }];
    });
    const filled = edged.map((index, order) => ({
      series: [1 + lines.length + 2 * order, 2 + lines.length + 2 * order],
      fill: `${this.colour(index)}33`,
    }));
    const shared = options(context, context.width, context.trackHeight, [
      {},
      { values: (_, splits) => splits.map(number), space: 22 },
    ]);
    shared.scales.y = { range: () => this.range() };
    return {
      ...shared,
      bands: filled,
      series: [{}, ...lines, ...edges],
      cursor: {
        sync: { key: context.key, setSeries: false },
        drag: { x: true, y: false, setScale: false },
        y: false, // a height means nothing in another unit
        points: { size: 6 },
      },
      hooks: {
        drawClear: [(plot) => bands(plot, context)],
        setCursor: [(plot) => this.hover(plot)],
        ready: [(plot) => plot.over.addEventListener("mousedown", (event) => (this.selects = this.isSelecting(event)), true)],
        setSelect: [(plot) => this.select(plot)],
      },
    };
  }

  /** The same for every zoom, so that heights can be compared while one moves: of what the view may show. */
  range() {
    const { track, times } = this;
    const { first, last } = this.context.view;
    const [begin, end] = [indexAt(times, first), indexAt(times, last) + 1];
    let [bottom, top] = [track.low ?? 0, track.high ?? -Infinity];
    track.series.forEach((series, index) => {
      for (const value of this.shown[index] ? (series.max ?? series.values).slice(begin, end + 1) : []) {
        top = value > top ? value : top;
      }
      const lows = this.shown[index] && track.low === undefined ? (series.min ?? series.values) : [];
      for (const value of lows.slice(begin, end + 1)) {
        bottom = value < bottom ? value : bottom;
      }
    });
    top = top === track.high ? top : top + (top - bottom) * 0.05;
    return [bottom, top > bottom ? top : bottom + 1];
  }

  isSelecting(event) {
    return Boolean(this.context.range) && (event.shiftKey || this.context.selecting);
  }

  select(plot) {
    if (plot.select.width > 2) {
      const { left, width } = plot.select;
      const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
      this.selects ? this.context.range(from, to, true) : this.context.view.set(from, to);
    }
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  hover(plot) {
    const { left, event } = plot.cursor;
    if (!event || left < 0 || !this.times.length) {
      if (event?.type === "mouseleave") {
        this.context.note.hide();
      }
      return;
    }
    const at = plot.posToVal(left, "x");
    const lines = this.track.series.flatMap((series, index) =>
      this.shown[index] ? [[series.name, this.value(series, at), this.colour(index)]] : [],
    );
    const cell = this.context.cells.find((one) => one.low <= at && at <= (one.high ?? Infinity));
    const where = cell ? `, cell [${cell.index}]` : "";
    this.context.note.show(`${time(at, 4)}${where}`, lines.slice(0, 16), event.clientX, event.clientY);
  }

  value(series, at) {
    const index = indexAt(this.times, at);
    const nearer = this.times[index + 1] - at < at - this.times[index] ? index + 1 : index;
    return `${number(series.values[nearer])} ${this.track.unit}`;
  }

  /** A button for each series; of many, those that aren't shown are behind a button of their own. */
  legend() {
    const { track } = this;
    const unit = track.unit ? ` (${track.unit})` : "";
    const chips = track.series.map((series, index) => {
      const dot = element("i");
      dot.style.background = this.colour(index);
      const toggle = () => this.toggle(index);
      const state = this.shown[index] ? "true" : "false";
      return element("button", { class: "chip", "aria-pressed": state, onclick: toggle }, dot, series.name);
    });
    const few = chips.filter((_, index) => this.shown[index]).slice(0, CHIPS);
    const shown = this.all ? chips : few;
    const more = () => {
      this.all = true;
      this.legend();
    };
    const rest = chips.length - shown.length;
    const button = rest ? element("button", { class: "chip", onclick: more }, `${rest} more`) : null;
    this.head.replaceChildren(element("b", {}, track.name + unit), ...shown, button ?? "");
  }

  toggle(index) {
    this.shown[index] = !this.shown[index];
    const { series } = this.track;
    series[index].hidden = !this.shown[index]; // for when the track is drawn again
    this.plot.setSeries(1 + index, { show: this.shown[index] }, false);
    if (series[index].min) {
      const before = series.slice(0, index).filter((one) => one.min).length;
      const edge = 1 + series.length + 2 * before;
      this.plot.setSeries(edge, { show: this.shown[index] }, false);
      this.plot.setSeries(edge + 1, { show: this.shown[index] }, false);
    }
    this.legend();
    this.describe();
  }

  /** The track's samples are others. */
  refresh() {
    this.times = seconds(this.track.time);
    this.plot.setData(this.data(), false);
    this.describe();
  }

  redraw() {
    this.plot.setSize({ width: this.context.width, height: this.context.trackHeight });
    this.plot.setScale("x", { min: this.context.view.low, max: this.context.view.high });
  }
}
