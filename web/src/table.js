/* The regions as a table that is sorted by any of its columns, alone or beside the previous run.
 *
 * A table of ten thousand rows is of no use on a page: the first ROWS are shown, and the rest
 * when it's asked for. The bar behind a time is its part of the largest in the column. Changes have no colours:
 * beside a single run the noise is unknown, so nothing says that they are one (repeats.js).
 */
import { element } from "./dom.js";
import { number } from "./tracks.js";
import { time } from "./view.js";

const ROWS = 100;
const NOTHING = { visits: 0, inclusive: 0, exclusive: 0 };

const duration = (value) => time(value);
const signed = (show) => (value) => (value ? `${value > 0 ? "+" : "−"}${show(Math.abs(value))}` : "=");
const percent = (value) => (Number.isFinite(value) ? signed((one) => `${one.toFixed(1)} %`)(value) : "new");

/** Columns: title, value of a row, how it is shown, and what it is: "bar", "change" or nothing. */
const alone = (share) => [
  ["Total", (row) => row.inclusive, duration, "bar"],
  ["Own", (row) => row.exclusive, duration, "bar"],
  ["in %", (row) => row.exclusive, share],
  ["Calls", (row) => row.visits, number],
  ["Own / call", (row) => row.exclusive / row.visits, duration],
];

const COMPARED = [
  ["Total", (row) => row.inclusive, duration],
  ["before", (row) => row.before.inclusive, duration],
  ["change", (row) => row.inclusive - row.before.inclusive, signed(duration), "change"],
  ["Own", (row) => row.exclusive, duration],
  ["change", (row) => row.exclusive - row.before.exclusive, signed(duration), "change"],
  ["in %", (row) => 100 * (row.exclusive / row.before.exclusive - 1), percent, "change"],
  ["Calls", (row) => row.visits, number],
  ["change", (row) => row.visits - row.before.visits, signed(number)],
];

export class Table {
  /**
   * rows: by region; total and shares: what percentages are of, in seconds and in words. reveal(region) is called
   * for a click on the place of a region, look(region) for one on its name, where there is something to look at.
   */
  constructor(regions, host, { rows, total, shares, compared, reveal, look }) {
    Object.assign(this, { regions, shares, compared, reveal, look });
    this.columns = compared ? COMPARED : alone((value) => regions.share(value, total));
    this.sorted = compared ? 5 : 1;
    this.down = true;
    this.limit = ROWS;
    this.rows = compared ? this.beside() : [...rows.values()].filter((row) => row.visits);
    this.host = host.appendChild(element("div", { class: "table" }));
    this.redraw();
  }

  beside() {
    const { rows, previous } = this.regions;
    const all = new Set([...rows.keys(), ...previous.keys()]);
    return [...all].map((region) => ({
      ...NOTHING,
      region,
      ...rows.get(region),
      before: previous.get(region) ?? NOTHING,
    }));
  }

  key(row) {
    if (this.sorted === 0) {
      return this.regions.name[row.region].toLowerCase();
    }
    const [, value, , kind] = this.columns[this.sorted - 1];
    return kind === "change" ? Math.abs(value(row)) : value(row);
  }

  order(rows) {
    const sign = this.down ? -1 : 1;
    const keyed = rows.map((row) => [this.key(row), row]);
    keyed.sort(([one], [other]) => (one < other ? -sign : one > other ? sign : 0));
    return keyed.map(([, row]) => row);
  }

  sort(column) {
    this.down = this.sorted === column ? !this.down : column > 0;
    this.sorted = column;
    this.redraw();
    this.host.querySelectorAll("th button")[column].focus();
  }

  heading(title, column) {
    const state = this.sorted !== column ? "none" : this.down ? "descending" : "ascending";
    const arrow = { none: "", ascending: " ▲", descending: " ▼" }[state];
    const about = title === "in %" && !this.compared ? `Own time in % of ${this.shares}` : null;
    const button = element("button", { onclick: () => this.sort(column), title: about }, title + arrow);
    return element("th", { "aria-sort": state, scope: "col" }, button);
  }

  cellOf([, value, show, kind], row, most) {
    const one = value(row);
    const cell = element("td", {}, show(one));
    if (kind === "bar" && most > 0) {
      cell.className = "part";
      cell.style.setProperty("--part", `${((92 * one) / most).toFixed(1)}%`);
    }
    return cell;
  }

  line(row, most) {
    const { name } = this.regions;
    const place = this.regions.place(row.region);
    const go = () => this.reveal(row.region);
    const short = this.regions.shortPlace(row.region);
    const link = element("button", { class: "place", title: place, onclick: go }, short);
    const look = () => this.look(row.region);
    const called = this.look && row.visits;
    const shown = called
      ? element("button", { class: "link", title: "Callers and callees", onclick: look }, name[row.region])
      : element("span", {}, name[row.region]);
    const title = element("th", { scope: "row" }, shown, place ? link : "");
    const cells = this.columns.map((column, at) => this.cellOf(column, row, most[at]));
    return element("tr", {}, title, ...cells);
  }

  redraw() {
    const rows = this.order(this.rows.filter((row) => this.regions.has(row.region)));
    const most = this.columns.map(([, value]) => Math.max(...this.rows.map(value).filter(Number.isFinite)));
    const titles = ["Region", ...this.columns.map(([title]) => title)];
    const head = element("tr", {}, ...titles.map((title, at) => this.heading(title, at)));
    const lines = rows.slice(0, this.limit).map((row) => this.line(row, most));
    const all = () => {
      this.limit = Infinity;
      this.redraw();
    };
    const rest = rows.length - lines.length;
    const more = rest > 0 ? element("button", { class: "chip", onclick: all }, `${rest} more`) : "";
    const body = element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
    this.host.replaceChildren(rows.length ? body : element("p", {}, "No region is found."), more);
  }
}
