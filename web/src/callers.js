/* One function with its callers above and its callees below, over all places where it is called.
 *
 * The upper graph hangs: what stands above a block has called it, and its width is the function's time that
 * came from there. Below the graphs the direct callers and callees are two tables. A click on any other
 * function goes to it, and there is a way back.
 */
import { choice, element } from "./dom.js";
import { Weights } from "./graphs.js";
import { number } from "./tracks.js";
import { time } from "./view.js";

const ROOM = 200; // px, of each graph
const OFFERED = 300;

export class Callers {
  constructor(page) {
    this.page = page;
    this.host = element("div", { class: "panel" });
    this.bar = this.host.appendChild(element("div", { class: "bar choices" }));
    this.body = this.host.appendChild(element("div", {}));
    this.before = [];
    this.plots = [];
  }

  /** The regions that can be chosen, by their own time. */
  offered() {
    const rows = [...this.page.filter.rows().values()].filter((row) => row.visits);
    return rows.sort((one, other) => other.exclusive - one.exclusive).map(({ region }) => region);
  }

  /** Look at another function. */
  choose(region) {
    if (region >= 0 && region !== this.region) {
      this.region !== undefined && this.before.push(this.region);
      this.region = region;
      this.draw();
      this.page.search();
    }
  }

  back() {
    this.region = this.before.pop();
    this.draw();
    this.page.search();
  }

  draw() {
    const { filter, regions } = this.page;
    const offered = this.offered();
    this.region ??= offered[0];
    const listed = [...new Set([this.region, ...offered.slice(0, OFFERED)])].filter((one) => one !== undefined);
    const back = element("button", { class: "choice", onclick: () => this.back(), title: "The function before" }, "← Back");
    back.disabled = !this.before.length;
    const pick = choice("Function", listed.map((one) => regions.name[one]), 0, (at) => this.choose(listed[at]));
    const label = element("label", {}, "Function ", pick);
    this.bar.replaceChildren(back, label, ...filter.controls(() => this.page.filtered()));
    this.unfollow();
    this.plots = [];
    const paths = filter.paths();
    const above = paths.above(this.region);
    const parts = above.visits ? this.graphs(paths, above) : [element("p", {}, "It isn't called in what is chosen.")];
    this.body.replaceChildren(this.head(above), ...parts);
    filter.notes(true).forEach((note) => this.body.append(element("div", { class: "hint" }, note)));
    this.paint();
  }

  head(above) {
    const { regions, filter } = this.page;
    const row = filter.rows().get(this.region);
    const place = regions.place(this.region);
    const go = () => this.page.reveal(this.region);
    const facts = [["total", time(above.time)], ["own", time(row?.exclusive ?? 0)], ["calls", number(row?.visits ?? 0)]];
    const shown = facts.map(([name, value]) => element("span", {}, `${name} `, element("b", {}, value)));
    const link = place ? element("button", { class: "place", onclick: go }, place) : "";
    return element("div", { class: "facts" }, element("b", { class: "chosen" }, regions.name[this.region] ?? ""), link, ...shown);
  }

  graphs(paths, above) {
    const upper = this.graph(above, true);
    const lower = this.graph(paths.below(this.region), false);
    const titled = (text, graph) => [element("div", { class: "caption" }, text), graph.host];
    const tables = element(
      "div",
      { class: "summary" },
      this.table("Direct callers", paths.callers(this.region), above.time),
      this.table("Direct callees", paths.callees(this.region), above.time),
    );
    return [...titled("Callers: what calls it, upwards", upper), ...titled("Callees: what it calls, downwards", lower), tables];
  }

  graph(node, hanging) {
    const lines = hanging && ((block, share) => [["of the function's time", `${time(block.duration)} (${share})`], ["for so many calls", number(block.visits)]]);
    const select = (block) => this.choose(block.region);
    const label = `${hanging ? "Callers" : "Callees"} of ${this.page.regions.name[this.region]}`;
    const graph = new Weights(this.page, [node], { label, hanging, room: ROOM, select, lines });
    this.plots.push(graph);
    return graph;
  }

  table(title, nodes, total) {
    const { regions } = this.page;
    const lines = nodes.map(({ region, visits, time: took }) => {
      const name = regions.nameOf(region);
      const look = () => this.choose(region);
      const shown = region < 0 ? name : element("button", { class: "link", title: regions.place(region), onclick: look }, name);
      const cells = [time(took), regions.share(took, total), number(visits)];
      return element("tr", {}, element("th", { scope: "row" }, shown), ...cells.map((text) => element("td", {}, text)));
    });
    const titles = [title, "Time", "% of its time", "Calls"].map((one) => element("th", { scope: "col" }, one));
    const none = element("p", {}, "none");
    const body = element("table", {}, element("thead", {}, element("tr", {}, ...titles)), element("tbody", {}, ...lines));
    return element("div", { "aria-label": title, role: "group" }, body, nodes.length ? "" : none);
  }

  unfollow() {
    this.plots.forEach((plot) => plot.unfollow());
  }

  get unprinted() {
    return this.plots.flatMap((plot) => plot.unprinted);
  }

  redraw() {
    this.plots.forEach((plot) => plot.redraw());
    // The callers' root stands at the bottom, beside the callees.
    const frame = this.plots[0]?.flame.frame;
    frame && (frame.scrollTop = frame.scrollHeight);
  }

  paint() {
    this.plots.forEach((plot) => plot.paint());
    this.redraw();
  }

  hits() {
    return [];
  }
}
