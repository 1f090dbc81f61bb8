/* The panels that hold a table: the regions of what is chosen, or beside those of the run before. */
import { element } from "./dom.js";
import { Table } from "./table.js";
import { time } from "./view.js";

export class Tables {
  constructor(page, compared) {
    Object.assign(this, { page, compared });
    this.host = element("div", { class: "panel" });
  }

  draw() {
    const { filter, regions } = this.page;
    this.host.replaceChildren();
    const rows = this.compared ? regions.rows : filter.rows();
    const total = [...rows.values()].reduce((sum, row) => sum + row.exclusive, 0);
    if (this.compared) {
      this.host.append(element("p", {}, this.summary()));
    } else {
      const controls = filter.controls(() => this.page.filtered());
      controls.length && this.host.append(element("div", { class: "bar choices" }, ...controls));
    }
    const shares = `${filter.shares}: ${time(total)}`;
    const actions = { reveal: (region) => this.page.reveal(region), look: this.page.canLook && ((region) => this.page.look(region)) };
    this.table = new Table(regions, this.host, { rows, total, shares, compared: this.compared, ...actions });
    const notes = this.compared ? [] : [`Percentages are of ${shares}.`, ...filter.notes(false)];
    notes.forEach((note) => this.host.append(element("div", { class: "hint" }, note)));
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
