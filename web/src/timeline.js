/* The timeline: the axis, the tracks of threads, and below them what the monitor sampled, all at one time axis.
 *
 * A range of it can be selected, across all tracks; what is in it stands below the plots.
 */
import { element } from "./dom.js";
import { Detail } from "./detail.js";
import { Flame } from "./flame.js";
import { Lanes, ROOM } from "./lanes.js";
import { Plots } from "./plots.js";
import { Selection } from "./selection.js";
import { Axis, Track } from "./tracks.js";
import { time } from "./view.js";

// Of the width, what the search has reached.
const LEAST_PART = 1 / 20;
const MOST_PART = 0.6;

export class Timeline extends Plots {
  constructor(page) {
    super(page, page.context.view);
    const { controls, data } = page;
    this.axis = element("div", {});
    this.frame = element("div", {});
    this.samples = element("div", {});
    this.host.classList.add("timeline");
    this.host.append(controls?.host ?? "", this.head(data), this.axis, this.frame, this.samples);
    this.tracks = [];
  }

  /** How many tracks there are, and what to do with all of them. */
  head({ locations = [] }) {
    this.more = element("span", { class: "more", role: "status" });
    if (locations.length < 2) {
      return element("div", { class: "bar choices" }, this.more);
    }
    this.count = element("span", {});
    const all = (label, folded) =>
      element("button", { class: "choice", onclick: () => this.flame.fold(() => this.lanes.fold(folded)) }, label);
    return element("div", { class: "bar choices" }, this.count, all("Fold all", true), all("Unfold all", false), this.more);
  }

  draw() {
    const { context, data, regions } = this.page;
    this.plots = [new Axis(context, this.axis)];
    this.selection = new Selection(this.page, this);
    context.range = (from, to, done) => this.selection.choose(from, to, done);
    if (data.locations?.length) {
      this.lanes = new Lanes(data.locations, regions.running(data.locations));
      this.count?.replaceChildren(this.lanes.counted());
      this.flame = new Flame(context, this.view, this.lanes, this.frame, {
        label: `Calls of ${this.lanes.counted()} over time`,
        labels: regions.label,
        describe: (block) => this.describe(block),
        select: (block) => this.show(block),
        range: context.range,
        room: ROOM,
      });
      this.plots.push(this.flame);
      this.detail = new Detail(this.page, this.lanes, () => this.swapped(), (text) => (this.more.textContent = text));
      const unfollow = this.unfollow;
      this.unfollow = () => (unfollow(), this.detail.unfollow());
    }
    this.plots.push(this.selection);
    this.choose();
    this.paint();
  }

  /** Other rows are drawn, of regions that may be new. */
  swapped() {
    this.flame.labels = this.page.regions.label;
    this.flame.colours = this.page.regions.colours(this.page.context.theme);
    this.flame.arrange();
    this.flame.redraw();
  }

  describe(block) {
    return [this.heading(block), [...this.times(block), ...this.page.regions.lines(block.region)]];
  }

  /** The blocks that the search found, by time. */
  hits() {
    const { regions } = this.page;
    const found = this.lanes?.all.flatMap((lane) => lane.own.blocksOf((region) => regions.has(region))) ?? [];
    return found.sort((one, other) => one.begin - other.begin);
  }

  /** Where `next` begins: with the first that is in sight. */
  first(hits) {
    return Math.max(0, hits.findIndex(({ begin }) => begin >= this.view.low));
  }

  /** Bring a block that the search found into sight, with what is around it; the zoom changes no more than it must. */
  reach(block) {
    const { regions } = this.page;
    const part = block.duration / this.view.span;
    const wanted = part < 0.9 * LEAST_PART ? LEAST_PART : part > MOST_PART ? MOST_PART : part;
    const span = block.duration > 0 ? block.duration / wanted : this.view.span;
    const middle = block.begin + block.duration / 2;
    this.view.set(middle - span / 2, middle + span / 2);
    this.flame.mark(block, (region) => regions.has(region));
    this.page.detail(block.region);
  }

  /** The samples that are chosen now, instead of those that were. */
  choose() {
    const { context, controls, data } = this.page;
    this.tracks.forEach((track) => track.plot.destroy());
    this.samples.replaceChildren();
    const others = this.plots.filter((plot) => !this.tracks.includes(plot));
    const chosen = controls?.tracks() ?? data.tracks ?? [];
    this.tracks = chosen.map((track) => new Track(context, track, this.samples));
    this.plots = [...others, ...this.tracks];
  }

  /** Samples came. */
  refresh() {
    this.tracks.forEach((track) => track.refresh());
  }

  /** What Escape ends. */
  clear() {
    return this.selection.clear();
  }

  /** What a screen reader says of it, beside the range that is shown. */
  get state() {
    const { range } = this.selection;
    return range ? `, ${time(range[0], 4)} to ${time(range[1], 4)} selected` : "";
  }
}
