/* The code of the user's own files, with what each line or function took beside it.
 *
 * Where lines were sampled, each has its samples and its time, alone and with the user's own
 * functions that it calls; else a function has its calls and its time, at its definition. Of a
 * file only the functions that ran are shown; the rest is folded, and unfolds by a click. A cell
 * is shown whole.
 */
import { element } from "./dom.js";
import { number as count } from "./tracks.js";
import { time } from "./view.js";

const WHOLE = 40; // lines of a file that isn't folded

const shareOf = (value) => (value ? `${(100 * value).toFixed(1)} %` : "");
const timeOf = (value) => (value ? time(value) : "");
const countOf = (value) => (value ? count(value) : "");

/** Columns: title, what it is, value of a line, how it is shown, and whether a bar is behind it. */
const SAMPLED = [
  ["Calls", "Entries of the function that is defined here: counted, not sampled", (line) => line.calls, countOf],
  ["Samples", "How often a thread was seen at this line itself", (line) => line.samples, countOf],
  ["Total", "With your own functions that the line calls", (line) => line.inclusive, timeOf, true],
  ["Own", "Without your own functions that it calls; libraries count", (line) => line.own, timeOf, true],
  ["%", "Time in % of the time of the line's function", (line) => line.share, shareOf],
];
const CALLED = [
  ["Calls", "Calls of the function that is defined here", (line) => line.calls, countOf],
  ["Total", "With all that the function calls", (line) => line.inclusive, timeOf, true],
  ["Own", "In the function alone", (line) => line.own, timeOf, true],
  ["Per call", "Time of one call", (line) => line.inclusive / line.calls, timeOf],
];

/** What is known of each line of a file, by its number. */
function linesOf(file) {
  const lines = new Map();
  const at = (number) => {
    lines.has(number) || lines.set(number, { number, calls: 0 });
    return lines.get(number);
  };
  const { line = [], samples, own, inclusive, share } = file.lines ?? {};
  line.forEach((number, place) => {
    const known = { samples: samples[place], own: own[place], inclusive: inclusive[place], share: share[place] };
    Object.assign(at(number), known, { code: true });
  });
  for (const one of file.functions) {
    const known = at(one.line);
    known.calls += one.calls;
    known.unplaced = (known.unplaced ?? 0) + (one.unplaced ?? 0);
    known.names = [...(known.names ?? []), one.name];
    if (!file.lines) {
      known.own = (known.own ?? 0) + one.own;
      known.inclusive = Math.max(known.inclusive ?? 0, one.inclusive);
    }
  }
  return lines;
}

/** The numbers of the lines that are shown at first. */
function chosen(file, lines, length) {
  if (file.cell || length <= WHOLE) {
    return new Set(Array.from({ length }, (_, at) => at + 1));
  }
  const shown = new Set();
  for (const one of file.functions.filter(({ inclusive }) => inclusive > 0)) {
    for (let number = one.line; number <= one.last; number++) {
      shown.add(number);
    }
  }
  return shown;
}

class File {
  constructor(file, kind) {
    this.file = file;
    this.columns = kind === "sampled" ? SAMPLED : CALLED;
    this.lines = linesOf(file);
    this.texts = (file.text ?? "").replace(/\n$/, "").split("\n");
    this.count = Math.max(this.texts.length, ...this.lines.keys());
    this.shown = chosen(file, this.lines, this.count);
    const all = [...this.lines.values()];
    this.most = this.columns.map(([, , value]) => Math.max(...all.map(value).filter(Number.isFinite)));
    this.box = element("details", { class: "source", open: true });
    this.draw();
  }

  get has() {
    return [...this.lines.values()].some(({ inclusive, calls }) => inclusive || calls);
  }

  matches(words) {
    const names = this.file.functions.map(({ name }) => name);
    const where = [this.file.name, ...names, this.file.text ?? ""].join("\n").toLowerCase();
    return words.every((word) => where.includes(word));
  }

  draw() {
    const { name, seconds, text } = this.file;
    const about = text === undefined ? element("span", { class: "hint" }, "The text as it ran isn't known.") : "";
    const title = element("summary", {}, element("b", {}, name), ` ${time(seconds)} own, all lines together`, about);
    const titles = this.columns.map(([label, meaning]) => element("th", { scope: "col", title: meaning }, label));
    const head = element("tr", {}, ...titles, element("th", { scope: "col" }, "Line"), element("th", { scope: "col" }));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...this.rows()));
    this.box.replaceChildren(title, table);
  }

  rows() {
    const rows = [];
    for (let number = 1; number <= this.count; number++) {
      if (this.shown.has(number)) {
        rows.push(this.row(number));
        continue;
      }
      const first = number;
      while (number < this.count && !this.shown.has(number + 1)) {
        number++;
      }
      rows.push(this.folded(first, number));
    }
    return rows;
  }

  row(number) {
    const line = this.lines.get(number) ?? {};
    const cells = this.columns.map(([, , value, show, bar], at) => {
      const one = value(line);
      const cell = element("td", {}, Number.isFinite(one) ? show(one) : "");
      if (bar && one > 0) {
        cell.className = "part";
        cell.style.setProperty("--part", `${((92 * one) / this.most[at]).toFixed(1)}%`);
      }
      return cell;
    });
    const name = element("td", { class: "number", title: line.names?.join(", ") }, String(number));
    const without = line.unplaced ? `  ${count(line.unplaced)} samples without a line` : "";
    const text = this.texts[number - 1] ?? "";
    const code = element("td", { class: "code" }, text, element("span", { class: "hint" }, without));
    return element("tr", { "data-line": number, class: line.code ? "has-code" : null }, ...cells, name, code);
  }

  folded(first, last) {
    const unfold = () => {
      for (let number = first; number <= last; number++) {
        this.shown.add(number);
      }
      this.draw();
    };
    const label = first === last ? `line ${first}` : `lines ${first} to ${last}`;
    const button = element("button", { class: "chip", onclick: unfold }, `⋯ ${label}`);
    return element("tr", {}, element("td", { colspan: this.columns.length + 2, class: "fold" }, button));
  }
}

/** A panel of the page, as those of tables.js are. */
export class SourceView {
  constructor(page) {
    this.page = page;
    this.host = element("div", { class: "table sources" });
  }

  draw() {
    const { source } = this.page.data;
    this.files = source.files.map((file) => new File(file, source.kind)).filter((file) => file.has);
    const notes = element("div", { class: "hint" }, source.notes.join(" "));
    this.host.replaceChildren(notes, ...this.files.map(({ box }) => box));
  }

  redraw() {}

  /** The search leaves the files in which it finds all words. */
  paint() {
    const words = (this.page.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    for (const file of this.files) {
      file.box.hidden = !file.matches(words);
    }
  }

  hits() {
    return [];
  }
}
