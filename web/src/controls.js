/* What is shown of the samples: a level, some metrics, and the cells from one to another.
 *
 * The controls are ordinary selects and buttons, so keys and screen readers know them; where there
 * is nothing to choose (one level, one cell), there is none. What was chosen is kept
 * here, and the page keeps this, so it outlives a change of the theme and samples that come later. Cells
 * are known by their begins: numbers of prompts may come again.
 */
import { choice, element, offer } from "./dom.js";

const names = (tracks) => [...new Set(tracks.map((track) => track.name))];

export class Controls {
  constructor({ tracks, level }, context, changed) {
    Object.assign(this, { all: tracks, context, changed });
    this.levels = [...new Set(tracks.map((track) => track.level))];
    this.level = this.levels.includes(level) ? level : this.levels[0];
    this.metrics = new Set(names(tracks.filter((track) => !track.hidden)));
    this.begins = [];
    this.ends = [null, null]; // begins of the first and the last cell; null: all there are
    this.selects = ["From cell", "To cell"].map((label, which) =>
      choice(label, [], 0, (at) => this.chooseCell(which, at)),
    );
    const group = (label) => element("span", { class: "choices", role: "group", "aria-label": label });
    this.host = element("div", { class: "bar choices", role: "group", "aria-label": "What is shown" });
    this.buttons = group("Metrics");
    this.cells = group("Cells");
    this.cells.append("Cells ", this.selects[0], " to ", this.selects[1]);
    this.host.append(this.ofLevels(), this.buttons, element("span", { class: "space" }), this.cells);
    this.refreshMetrics();
    this.refreshCells();
  }

  /** Those that are drawn. */
  tracks() {
    return this.all.filter((track) => track.level === this.level && this.metrics.has(track.name));
  }

  ofLevels() {
    if (this.levels.length < 2) {
      return "";
    }
    const choose = (at) => {
      this.level = this.levels[at];
      this.refreshMetrics();
      this.changed();
    };
    const select = choice("Level", this.levels, this.levels.indexOf(this.level), choose);
    return element("label", {}, "Level ", select);
  }

  refreshMetrics() {
    const offered = names(this.all.filter((track) => track.level === this.level));
    const buttons = offered.map((name) => {
      const button = element("button", { class: "choice", "aria-pressed": String(this.metrics.has(name)) }, name);
      button.onclick = () => {
        const shows = !this.metrics.delete(name);
        if (shows) {
          this.metrics.add(name);
        }
        button.setAttribute("aria-pressed", shows);
        this.changed();
      };
      return button;
    });
    this.buttons.replaceChildren(...(offered.length > 1 ? buttons : []));
  }

  /**
   * The cells that there are now; one that has left a live plot is chosen no more. The selects stay, since
   * somebody may be at them.
   */
  refreshCells() {
    const { cells } = this.context;
    const begins = cells.map((cell) => cell.low);
    if (begins.join() !== this.begins.join()) {
      this.begins = begins;
      const labels = cells.map((cell) => `[${cell.index}]`);
      this.selects.forEach((select, which) => offer(select, [which ? "last" : "first", ...labels]));
      this.ends = this.ends.map((begin) => (begins.includes(begin) ? begin : null));
    }
    this.cells.hidden = cells.length < 2;
    this.bound();
  }

  /** Where the ends would cross, the other one gives way. */
  chooseCell(which, at) {
    const begin = at ? this.begins[at - 1] : null;
    const other = this.ends[1 - which];
    const crosses = begin !== null && other !== null && (which ? other > begin : other < begin);
    this.ends[which] = begin;
    this.ends[1 - which] = crosses ? begin : other;
    this.bound();
  }

  /** The view keeps within the cells, and shows all of them. */
  bound() {
    const { cells, view } = this.context;
    const [first, last] = this.ends;
    this.ends.forEach((begin, which) => (this.selects[which].value = 1 + this.begins.indexOf(begin)));
    const end = cells.find((cell) => cell.low === last)?.high;
    view.bound(first ?? -Infinity, end ?? Infinity);
  }
}
