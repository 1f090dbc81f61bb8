/* Several runs beside several others: medians, ranges, and whether a difference exceeds the noise.
 *
 * The words are those of holdfast/views/repeats.py. A range is drawn as a line from the fastest to the slowest
 * run, with the median as a mark, both sides on one scale.
 */
import { element } from "./dom.js";
import { Tables } from "./tables.js";
import { time } from "./view.js";

const ROWS = 100;
const CLASSES = { faster: "better", slower: "worse" };
const ALONE = ["Region", "Own, median", "range", "in %"];
const HEADS = ["Region", "Own, median", "range", "before, median", "range", "both ranges", "change", "outcome"];

const percent = (part, whole) => `${((100 * part) / whole).toFixed(2)}%`;

function range({ low, high }) {
  return low === high ? "" : `${time(low)} to ${time(high)}`;
}

/** The two ranges as lines, the one before below. */
function drawn(row) {
  const most = Math.max(row.now.high, row.before.high) || 1;
  const line = ({ low, high, median }, kind) => {
    if (!high) {
      return []; // it wasn't called
    }
    const bar = element("i", { class: `spread ${kind}` });
    bar.style.left = percent(low, most);
    bar.style.width = `max(2px, ${percent(high - low, most)})`;
    const mark = element("i", { class: `median ${kind}` });
    mark.style.left = percent(median, most);
    return [bar, mark];
  };
  return element("div", { class: "spreads" }, ...line(row.now, "now"), ...line(row.before, "then"));
}

function change({ now, before }) {
  if (!before.median) {
    return "";
  }
  const value = 100 * (now.median / before.median - 1);
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)} %`;
}

/** A panel of the page, as those of tables.js are. */
export class Repeats {
  constructor(page) {
    this.page = page;
    this.found = page.data.repeats;
    this.host = element("div", { class: "panel" });
    this.alone = this.found.runs.length === 1; // a set without another one
    this.single = Math.max(...this.found.runs) === 1 && !this.alone ? new Tables(page, true) : null;
  }

  draw() {
    const statement = element("p", { class: "statement" }, this.found.statement);
    this.table = element("div", { class: "table repeats" });
    this.host.replaceChildren(statement, this.single ? this.single.host : this.table);
    this.single ? this.single.draw() : this.paint();
  }

  redraw() {}

  paint() {
    if (this.single) {
      this.single.paint();
      return;
    }
    const words = (this.page.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const matches = ({ name, file }) => words.every((word) => `${name} ${file}`.toLowerCase().includes(word));
    const rows = this.found.functions.filter(matches);
    this.total = this.found.functions.reduce((sum, { now }) => sum + now.median, 0);
    const head = (this.alone ? ALONE : HEADS).map((title) => element("th", { scope: "col" }, title));
    const body = rows.slice(0, ROWS).map((row) => this.row(row));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
    const more = rows.length > ROWS ? `${rows.length - ROWS} more, ${this.alone ? "shorter" : "with smaller changes"}` : "";
    this.table.replaceChildren(table, element("p", {}, more));
  }

  row(row) {
    const place = row.file ? `${row.file}:${row.line}` : "";
    const name = element("th", { scope: "row", title: place }, row.name);
    if (this.alone) {
      const share = `${((100 * row.now.median) / this.total).toFixed(1)} %`;
      const alone = [time(row.now.median), range(row.now), this.total ? share : ""];
      return element("tr", {}, name, ...alone.map((text) => element("td", {}, text)));
    }
    const texts = [time(row.now.median), range(row.now), time(row.before.median), range(row.before)];
    const cells = texts.map((text) => element("td", {}, text));
    const outcome = element("td", { class: CLASSES[row.outcome] }, row.outcome);
    return element("tr", {}, name, ...cells, element("td", {}, drawn(row)), element("td", {}, change(row)), outcome);
  }

  hits() {
    return [];
  }
}
