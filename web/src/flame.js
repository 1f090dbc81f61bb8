/* Nested regions on a canvas: the tracks of a timeline, or one graph of weights.
 *
 * The canvas is as large as what is seen of it and stays in its frame while the stage behind it, as
 * high as all tracks together, is scrolled; only what is in sight is drawn. Names of tracks are
 * buttons beside the canvas, so that keys and screen readers know them.
 *
 * A block is as wide as it lasts, with a gap to its neighbour that gets narrower with it. Where
 * several would lie on one pixel the first is drawn. What stands for several visits has hairlines: it looks
 * like many, not like a long one. A million short calls in a loop come as thousands of blocks, of which
 * dozens lie on a pixel: neighbours that are too narrow to be told apart are a run, which looks, is named and
 * is told as one. Colours are a table by region, so a search changes that and no data.
 *
 * Rejected: flame-chart-js, which drew here before. It keeps an object for each block, draws all tracks
 * with each movement, however many, and folds a track to nothing; more of it was replaced than used.
 */
import { describeCanvas, element } from "./dom.js";
import { BLOCK, LEVEL } from "./lanes.js";
import { EDGE } from "./tracks.js";

const FONT = "11px system-ui, sans-serif";
const CHARACTER = 6.1; // px, about
const STRIPE = 4;
const NARROW_PX = 1.5; // a block that can't be told from its neighbours
const GAP_PX = 1.5; // between blocks of a run
const NARROWEST_PX = 0.5; // from one block that is drawn to the next
const DRAWN_PX = 0.75; // a block, at least: neighbours leave no gap
const BORDER_PX = 3; // around a marked block, at least
const NEAR_PX = 2; // a narrower block is found beside the mouse, too
const DRAGGED_PX = 3; // less is a click
const PRINTED_PX = 16000; // high, at most: browsers have no much larger canvases

/** What is drawn with, for one picture. */
class Brush {
  constructor(flame) {
    const { context, view, colours } = flame;
    Object.assign(this, { context: flame.canvas.getContext("2d"), theme: context.theme, view, colours, flame });
    this.scale = flame.width / view.span;
    this.many = [];
  }

  fill(colour, x, y, width, height) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  /** The blocks of a level that are in sight, at most about one for half a pixel. */
  *seen(row, level) {
    const items = row.levels[level] ?? [];
    const { low, high } = this.view;
    const least = NARROWEST_PX / this.scale;
    let drawn = -Infinity;
    for (let place = row.firstAfter(level, low); place < items.length; place++) {
      const at = items[place];
      if (row.begin[at] > high) {
        return;
      }
      if (row.duration[at] >= least || row.begin[at] - drawn >= least) {
        drawn = row.begin[at];
        yield at;
      }
    }
  }

  level(row, level, y) {
    this.flame.weights || this.runs(row, level, y);
    for (const at of this.seen(row, level)) {
      const begin = (row.begin[at] - this.view.low) * this.scale;
      const width = row.duration[at] * this.scale;
      const x = Math.max(begin, -1);
      const shown = Math.max(begin + width - Math.min(1, width / 8), begin + DRAWN_PX) - x;
      this.fill(this.colours[row.region[at]], x, y, Math.min(shown, this.flame.width + 2), BLOCK);
      if (this.flame.isNarrow(row, at)) {
        continue; // its run is drawn over it
      }
      if (shown > STRIPE && row.joined(at)) {
        this.stripes(x, y, Math.min(shown, this.flame.width - x));
      }
      if (shown > 3 * CHARACTER) {
        this.label(row.block(at), Math.max(x, 0), y, Math.min(begin + width, this.flame.width));
      }
    }
    this.many.forEach((draw) => draw());
    this.many = [];
  }

  /** What is drawn over the blocks of a level that are too narrow to be told apart. */
  runs(row, level, y) {
    const { flame, view } = this;
    const items = row.levels[level] ?? [];
    const isNarrow = (at) => flame.isNarrow(row, at);
    for (let place = row.firstAfter(level, view.low); place < items.length && row.begin[items[place]] <= view.high; place++) {
      if (!isNarrow(items[place])) {
        continue;
      }
      const [, to] = row.run(level, place, [view.low, view.high], isNarrow, GAP_PX / this.scale);
      const [from, last] = [items[place], items[to]];
      const x = Math.max((row.begin[from] - view.low) * this.scale, 0);
      const end = Math.min((row.end(last) - view.low) * this.scale, flame.width);
      if (end - x > STRIPE && (to > place || row.joined(from))) {
        const block = row.together(level, place, to);
        this.many.push(() => {
          this.stripes(x, y, end - x);
          end - x > 3 * CHARACTER && this.label(block, x, y, end);
        });
      }
      place = to;
    }
  }

  stripes(x, y, width) {
    for (let at = x + STRIPE; at < x + width; at += STRIPE) {
      this.fill(this.theme.stripes, at, y, 1.5, BLOCK);
    }
  }

  label({ region, joined }, x, y, end) {
    const name = this.flame.labels[region];
    const text = joined ? `${name} ×${joined.toLocaleString("en")}` : name;
    const room = Math.floor((end - x - 6) / CHARACTER);
    if (room >= 2) {
      const cut = text.length > room ? `${text.slice(0, room - 1)}…` : text;
      this.context.fillStyle = this.theme.text;
      this.context.fillText(cut, x + 3, y + BLOCK / 2 + 0.5, end - x - 5);
    }
  }

  /** Each moment in the colour of its innermost call. */
  strip(row, y, height) {
    for (let level = 0; level < row.depth; level++) {
      for (const at of this.seen(row, level)) {
        const begin = (row.begin[at] - this.view.low) * this.scale;
        const end = Math.min(begin + Math.max(DRAWN_PX, row.duration[at] * this.scale), this.flame.width + 1);
        const x = Math.max(begin, -1);
        this.fill(this.colours[row.region[at]], x, y, end - x, height);
      }
    }
  }

  border(row, at, y, height) {
    const [x, width] = this.flame.borderOf(row, at);
    this.context.strokeStyle = this.theme.accent;
    this.context.lineWidth = 2;
    this.context.strokeRect(x + 1, y + 1, width - 2, height - 2);
  }
}

export class Flame {
  /**
   * lanes: tracks, or for one graph {row}. label: the name of the whole. describe(block) is [heading, lines] for the note; select(block)
   * is called for a click, range(from, to) for a selection. With `weights` the width is no time: it has no marks,
   * and more room. A `hanging` graph has its root at the bottom.
   */
  constructor(context, view, lanes, host, { label, labels, describe, select, range, weights, hanging, room }) {
    Object.assign(this, { context, view, lanes, labels, describe, select, range, weights, hanging });
    this.colours = [];
    this.frame = host.appendChild(element("div", { class: "rows" }));
    this.stage = this.frame.appendChild(element("div", { class: "stage" }));
    this.canvas = this.stage.appendChild(element("canvas", { class: "flame" }));
    describeCanvas(this.canvas, label);
    this.names = this.stage.appendChild(element("div", { class: "names" }));
    this.most = room;
    this.listen();
    this.arrange();
  }

  get left() {
    return this.weights ? EDGE : this.context.gutter;
  }

  get width() {
    return this.context.width - this.left - EDGE;
  }

  /** How high it is at most. Nobody scrolls on paper. */
  get room() {
    return this.context.printing ? PRINTED_PX : this.most;
  }

  /** What is too much for paper, or "". */
  get unprinted() {
    const tracks = ({ lane, process }) => (lane ? 1 : process.folded ? process.lanes.length : 0);
    const cut = (place) => (place.y + place.height > PRINTED_PX ? tracks(place) : 0);
    const [below, single] = this.lanes.places
      ? [this.places.reduce((sum, place) => sum + cut(place), 0), "track"]
      : [Math.ceil((this.height - PRINTED_PX) / LEVEL), "level"];
    return below > 0 ? `${below.toLocaleString("en")} more ${single}${below === 1 ? "" : "s"}` : "";
  }

  /** After something was folded: the heights, and the names beside the canvas. */
  arrange() {
    const { lanes } = this;
    this.places = lanes.places ?? [{ lane: { row: lanes.row, folded: false, levels: lanes.row.depth }, y: 0 }];
    this.height = lanes.places ? lanes.height : lanes.row.depth * LEVEL;
    this.stage.style.height = `${this.height}px`;
    const buttons = lanes.places ? this.places.flatMap((place) => this.nameOf(place)) : [];
    this.names.replaceChildren(...buttons);
    this.names.style.width = `${this.left}px`;
  }

  nameOf(place) {
    const { lane, process, y, height } = place;
    const folded = (lane ?? process).folded;
    const count = process && `${process.lanes.length} threads`;
    const toggle = () => this.fold(() => this.lanes.toggle(place));
    const title = lane ? lane.title : `${process.name}, ${count}`;
    const attributes = { class: process ? "lane process" : "lane", title, "aria-expanded": String(!folded), onclick: toggle };
    const button = element("button", attributes, process ? `${process.name} · ${count}` : lane.name);
    button.style.top = `${y}px`;
    button.style.height = button.style.lineHeight = `${Math.min(height, LEVEL)}px`;
    button.style.paddingLeft = lane?.process.hasHead && this.lanes.several ? "22px" : "";
    if (!lane?.hidden) {
      return [button];
    }
    const rest = () => this.fold(() => (lane.unfold(), this.lanes.layout()));
    const label = `${lane.hidden} more levels`;
    const more = element("button", { class: "lane more", title: `${label} of ${lane.title}`, onclick: rest }, label);
    more.style.top = `${y + height - LEVEL - 2}px`;
    return [button, more];
  }

  /** Change what is folded; what has the focus keeps it. */
  fold(change) {
    const focused = [...this.names.children].indexOf(this.names.getRootNode().activeElement);
    change();
    this.arrange();
    this.names.children[focused]?.focus();
    this.redraw();
  }

  listen() {
    this.frame.addEventListener("scroll", () => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointerup", (event) => this.release(event));
    this.canvas.addEventListener("pointerleave", () => this.context.note.hide());
  }

  time(x) {
    return this.view.low + (x / this.width) * this.view.span;
  }

  /** The block below a point of the canvas, or null. */
  hit(x, y) {
    const down = y + this.frame.scrollTop;
    const place = this.places.findLast((one) => one.y <= down);
    const [time, slack] = [this.time(x), (NEAR_PX / this.width) * this.view.span];
    if (!place) {
      return null;
    }
    const { lane, process } = place;
    const lanes = lane ? [lane] : process.folded ? process.lanes : [];
    const part = lanes.length && Math.min(lanes.length - 1, Math.floor(((down - place.y) / place.height) * lanes.length));
    const row = (lane ?? lanes[part])?.row;
    const level = this.hanging ? row?.depth - 1 - Math.floor(down / LEVEL) : Math.floor((down - place.y) / LEVEL);
    if (!row || (lane && !lane.folded && level >= lane.levels)) {
      return null;
    }
    const marked = lane && !lane.folded ? this.inBorder(row, level, x) : -1;
    if (marked >= 0) {
      return row.block(marked);
    }
    const at = lane && !lane.folded ? row.find(level, time, slack) : row.innermost(time, slack);
    return at < 0 ? null : this.around(row, at);
  }

  /** Where the border of a marked block begins, and its width: it may be wider than the block. */
  borderOf(row, at) {
    const scale = this.width / this.view.span;
    return [(row.begin[at] - this.view.low) * scale, Math.max(BORDER_PX, row.duration[at] * scale)];
  }

  /** The marked block of this level if its border is there, or -1: who points at the border means that block. */
  inBorder(row, level, x) {
    const at = this.marked?.lane.row === row && this.marked.level === level ? this.markedIn(row) : -1;
    const [begin, width] = at < 0 ? [0, -1] : this.borderOf(row, at);
    return x >= begin && x <= begin + width ? at : -1;
  }

  /** Whether a block is drawn too narrow to be told from its neighbours. */
  isNarrow(row, at) {
    const width = (row.duration[at] / this.view.span) * this.width;
    return !this.weights && width < (row.joined(at) ? STRIPE : NARROW_PX);
  }

  /** A block, or the run that it is drawn in. */
  around(row, at) {
    const isNarrow = (one) => this.isNarrow(row, one);
    if (!isNarrow(at)) {
      return row.block(at);
    }
    const { low, high, span } = this.view;
    const level = row.depthOf[at];
    const place = row.placeOf(level, at);
    const [from, to] = row.run(level, place, [low, high], isNarrow, (GAP_PX / this.width) * span);
    return from === to ? row.block(at) : row.together(level, from, to);
  }

  press(event) {
    if (event.button === 0) {
      const { low } = this.view;
      const selects = this.range && (event.shiftKey || this.context.selecting);
      this.drag = { x: event.offsetX, y: event.clientY, low, selects, top: this.frame.scrollTop, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    }
  }

  move(event) {
    const { drag } = this;
    if (!drag) {
      return this.tell(event);
    }
    const [by, down] = [event.offsetX - drag.x, event.clientY - drag.y];
    drag.moved ||= Math.abs(by) > DRAGGED_PX || Math.abs(down) > DRAGGED_PX;
    if (!drag.moved) {
      return;
    }
    this.context.note.hide();
    if (drag.selects) {
      this.range(this.time(drag.x), this.time(event.offsetX), false);
    } else {
      const low = drag.low - (by / this.width) * this.view.span;
      this.view.set(low, low + this.view.span);
      this.frame.scrollTop = drag.top - down;
    }
  }

  release(event) {
    const { drag } = this;
    this.drag = null;
    if (drag?.moved && drag.selects) {
      this.range(this.time(drag.x), this.time(event.offsetX), true);
    } else if (drag && !drag.moved) {
      const block = this.hit(event.offsetX, event.offsetY);
      block && this.select(block);
    }
  }

  tell(event) {
    const block = this.hit(event.offsetX, event.offsetY);
    this.canvas.style.cursor = block ? "pointer" : "default";
    if (block) {
      this.context.note.show(...this.describe(block), event.clientX, event.clientY);
    } else {
      this.context.note.hide();
    }
  }

  /**
   * Mark a block and bring it into sight. With has(region) the mark is at the first call inside it for which that
   * is true: calls that are joined here may be drawn one by one later.
   */
  mark({ row, at }, has = null) {
    const lane = this.lanes.of?.(row) ?? this.places[0].lane;
    const level = row.depthOf[at];
    this.marked = { lane, level, begin: row.begin[at], end: row.end(at), has };
    const y = this.lanes.reveal ? this.lanes.reveal(lane, level) : level * LEVEL;
    this.arrange();
    const { frame } = this;
    if (y < frame.scrollTop || y + 2 * BLOCK > frame.scrollTop + frame.clientHeight) {
      frame.scrollTop = Math.max(0, y - frame.clientHeight / 2);
    }
    frame.scrollIntoView({ block: "nearest" });
    this.redraw();
  }

  /** The block of a row that is marked, or -1. */
  markedIn(row) {
    const { level, begin, end, has } = this.marked;
    return row.first(level, begin, end, (at) => !has || has(row.region[at]));
  }

  /** The colour of each region, by its number. Another search has reached nothing yet. */
  paint(colours) {
    this.marked = null;
    this.colours = colours;
    this.redraw();
  }

  redraw() {
    this.frame.style.maxHeight = `${this.room}px`;
    this.names.style.width = `${this.left}px`;
    this.canvas.style.marginLeft = `${this.left}px`;
    this.draw();
  }

  /** As large as what is seen. */
  size() {
    const height = Math.max(1, Math.min(this.height, this.room));
    const ratio = this.context.printing ? 1 : devicePixelRatio || 1; // Chromium prints shapes, and others not to scale
    const [across, down] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== across || this.canvas.height !== down) {
      Object.assign(this.canvas, { width: across, height: down });
      Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${height}px` });
    }
    return [ratio, height];
  }

  draw() {
    const [ratio, height] = this.size();
    const brush = new Brush(this);
    const { context, theme } = brush;
    const top = this.frame.scrollTop;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    brush.fill(theme.background, 0, 0, this.width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    const marks = this.weights ? [] : this.view.marks(this.width).at;
    marks.forEach((mark) => brush.fill(theme.grid, (mark - this.view.low) * brush.scale, 0, 1, height));
    context.translate(0, -top);
    for (const place of this.places) {
      if (place.y <= top + height && place.y + (place.height ?? this.height) >= top) {
        this.place(brush, place, top, height);
      }
    }
  }

  place(brush, { lane, process, y, height }, top, seen) {
    if (this.lanes.places) {
      brush.fill(brush.theme.grid, 0, y + height - 1, this.width, 1);
    }
    if (process) {
      brush.fill(brush.theme.raised, 0, y, this.width, height - 1);
      const each = (height - 3) / process.lanes.length;
      process.folded && process.lanes.forEach(({ row }, at) => brush.strip(row, y + 1 + at * each, Math.max(1, each)));
      return;
    }
    const { row } = lane;
    if (lane.folded) {
      brush.strip(row, y + 1, height - 3);
    }
    for (let level = 0; !lane.folded && level < lane.levels; level++) {
      const at = y + (this.hanging ? row.depth - 1 - level : level) * LEVEL;
      if (at + LEVEL >= top && at <= top + seen) {
        brush.level(row, level, at);
      }
    }
    if (this.marked?.lane.row === row) {
      const { level } = this.marked;
      const at = this.markedIn(row);
      at >= 0 && brush.border(row, at, y + (this.hanging ? row.depth - 1 - level : level) * LEVEL, BLOCK);
    }
  }
}
