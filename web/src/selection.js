/* A selected range of the timeline: the band over all its tracks, and the summary below them. */
import { element } from "./dom.js";
import { counted, JOINED, summarize } from "./summary.js";
import { number } from "./tracks.js";
import { time } from "./view.js";

const FUNCTIONS = 15;
const TRACKS = 12;

export class Selection {
  constructor(page, timeline) {
    Object.assign(this, { page, timeline, range: null });
    this.band = timeline.host.appendChild(element("div", { class: "selection" }));
    this.band.hidden = true;
  }

  /** While the mouse is moved, and at the end (`done`). */
  choose(from, to, done) {
    const { view } = this.timeline;
    const edges = [from, to].map((at) => Math.min(Math.max(at, view.first), view.last));
    this.range = [Math.min(...edges), Math.max(...edges)];
    this.redraw();
    if (done) {
      this.tell();
    }
  }

  /** False: nothing was selected. */
  clear() {
    const was = this.range;
    this.range = null;
    this.redraw();
    if (was) {
      this.page.summary.replaceChildren();
      this.page.name();
    }
    return Boolean(was);
  }

  redraw() {
    const { range, band, page, timeline } = this;
    const { low, high, span } = timeline.view;
    band.hidden = !range || range[1] < low || range[0] > high;
    if (!band.hidden) {
      const { gutter, plotWidth } = page.context;
      const [left, right] = range.map((at) => gutter + ((Math.min(Math.max(at, low), high) - low) / span) * plotWidth);
      band.style.left = `${left}px`;
      band.style.width = `${Math.max(1, right - left)}px`;
      band.style.top = `${timeline.axis.offsetTop}px`;
    }
  }

  tell() {
    this.page.name();
    const [low, high] = this.range;
    const { lanes } = this.timeline;
    if (!lanes) {
      this.page.summary.replaceChildren(this.head());
      return;
    }
    this.show(summarize(lanes.all, low, high));
    this.page.kernel.there && this.ask(low, high);
  }

  /** What the trace itself says, once the kernel has counted it. */
  async ask(low, high) {
    const { kernel, regions } = this.page;
    try {
      const answer = await kernel.ask(low, high, 0);
      const titleOf = ({ process, thread }) => [process, thread].filter(Boolean).join(" · ");
      if (this.range?.[0] === low && this.range[1] === high) {
        this.show(counted(answer, regions.include(answer.regions), titleOf));
      }
    } catch (error) {
      this.note?.append(` (${error.message})`);
    }
  }

  head() {
    const [low, high] = this.range;
    const zoom = () => this.timeline.view.set(low, high);
    return element(
      "div",
      { class: "bar choices" },
      element("b", {}, `Selected: ${time(low, 5)} to ${time(high, 5)}, ${time(high - low)}`),
      element("button", { class: "choice", onclick: zoom }, "Zoom to it"),
      element("button", { class: "choice", title: "Escape", onclick: () => this.clear() }, "Clear"),
    );
  }

  show(summary) {
    const { calls, exact, tracks } = summary;
    this.note = element("div", { class: "hint" }, this.about(summary));
    const body = element("div", { class: "summary" }, this.functions(summary), this.perTrack(tracks));
    const said = `${exact ? "" : "about "}${number(calls)} calls on ${tracks.filter((one) => one.calls).length} tracks`;
    const head = this.head();
    head.children[0].append(` · ${said}`);
    this.page.summary.replaceChildren(element("div", { class: "selected" }, head, body, this.note));
  }

  about({ exact }) {
    const whole = "Calls that go beyond the range count with their part of it.";
    return exact ? whole : `${whole} Short calls that are joined are a line of their own, and counted by their share of it.`;
  }

  functions({ rows }) {
    const sorted = [...rows.values()].filter((row) => row.visits).sort((one, other) => other.exclusive - one.exclusive);
    const { regions } = this.page;
    const lines = sorted.slice(0, FUNCTIONS).map((row) => {
      const look = () => this.page.look(row.region);
      const name =
        row.region === JOINED
          ? element("i", {}, "short calls that are joined")
          : element("button", { class: "link", title: regions.place(row.region), onclick: look }, regions.name[row.region]);
      const cells = [time(Math.max(0, row.exclusive)), time(row.inclusive), number(row.visits)];
      return element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((text) => element("td", {}, text)));
    });
    const rest = sorted.length - lines.length;
    return table(["Longest in the range", "Own", "Total", "Calls"], lines, rest && `and ${number(rest)} more functions`);
  }

  perTrack(tracks) {
    const [low, high] = this.range;
    const sorted = [...tracks].sort((one, other) => other.time - one.time);
    const lines = sorted.slice(0, TRACKS).map(({ title, calls, time: took }) => {
      const share = `${((100 * took) / (high - low)).toFixed(1)} %`;
      const cells = [number(calls), time(took), share];
      return element("tr", {}, element("th", { scope: "row" }, title), ...cells.map((text) => element("td", {}, text)));
    });
    const rest = sorted.length - lines.length;
    return table(["Track", "Calls", "In calls", "of the range"], lines, rest > 0 && `and ${number(rest)} more tracks`);
  }
}

function table(titles, lines, rest) {
  const head = titles.map((title) => element("th", { scope: "col" }, title));
  const body = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
  return element("div", {}, body, rest ? element("div", { class: "hint" }, rest) : "");
}
