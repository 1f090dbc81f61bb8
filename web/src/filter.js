/* Which of the processes and threads graphs and tables are about, and whether waiting is left out.
 *
 * What is chosen holds for all of them, so it is the page's; each panel shows the same controls. The
 * sums come from the call paths: those that took too little to be in the page are named.
 */
import { choice, element } from "./dom.js";
import { Paths } from "./paths.js";
import { number } from "./tracks.js";
import { time } from "./view.js";

const ALL = "all";

export class Filter {
  constructor({ data, regions }) {
    const { locations = [], paths = [] } = data;
    Object.assign(this, { regions, locations, tree: paths[0] });
    this.process = this.thread = null;
    this.isWithoutWaiting = false;
    this.canChoose = locations.length > 1 && locations.every((one) => one.costs);
    this.processes = [...new Set(locations.map((one) => one.process ?? ""))];
    this.canHide = Boolean(this.tree?.region.some((region) => regions.waits(region)));
  }

  get threads() {
    const { locations, process } = this;
    const there = locations.filter((one) => process === null || (one.process ?? "") === process);
    return [...new Set(there.map((one) => one.thread ?? ""))];
  }

  get isActive() {
    return this.process !== null || this.thread !== null || this.isWithoutWaiting;
  }

  /** The locations that are chosen. */
  get chosen() {
    const is = (wanted, value) => wanted === null || wanted === (value ?? "");
    return this.locations.filter((one) => is(this.process, one.process) && is(this.thread, one.thread));
  }

  set(change) {
    Object.assign(this, change);
    if (this.thread !== null && !this.threads.includes(this.thread)) {
      this.thread = null;
    }
    this.made = null;
  }

  /** The paths of what is chosen. */
  paths() {
    const some = this.process !== null || this.thread !== null;
    const waits = this.isWithoutWaiting ? (region) => this.regions.waits(region) : null;
    this.made ??= new Paths(this.tree, some ? this.chosen : null, waits);
    return this.made;
  }

  /** The rows of the table: the trace's own, or of what is chosen. */
  rows() {
    return this.isActive && this.tree ? this.paths().table() : this.regions.rows;
  }

  /** Calls that lie in paths which aren't here. */
  get missing() {
    const some = this.process !== null || this.thread !== null;
    const paths = new Paths(this.tree, some ? this.chosen : null, null);
    const there = paths.visits.reduce((sum, visits) => sum + visits, 0);
    const all = this.chosen.reduce((sum, { calls = 0 }) => sum + calls, 0);
    return Math.max(0, all - there);
  }

  /** What percentages are of, in words. */
  get shares() {
    const { process, thread, isWithoutWaiting } = this;
    const count = this.chosen.length;
    const whose = [process, thread].filter((one) => one !== null).join(" · ");
    const tracks = count > 1 ? `all ${number(count)} tracks together` : "all threads";
    return `the time of ${whose ? (count > 1 ? `${count} tracks (${whose})` : whose) : tracks}, waiting ${isWithoutWaiting ? "left out" : "included"}`;
  }

  /** What there is to say below what the paths say, or below a table, which says all unless something is chosen. */
  notes(ofPaths) {
    const notes = [];
    if ((ofPaths || this.isActive) && this.tree && this.missing) {
      notes.push(`${number(this.missing)} calls lie in paths that took too little to be kept in this page; they are not counted.`);
    }
    if (this.isWithoutWaiting) {
      notes.push(`${time(this.paths().waited)} of waiting are left out: ${this.waiting().join(", ")}.`);
    }
    return notes;
  }

  /** The regions that are left out, by name. */
  waiting() {
    const found = [...new Set(this.tree.region)].filter((region) => this.regions.waits(region));
    const names = found.map((region) => this.regions.name[region]);
    return names.length > 6 ? [...names.slice(0, 6), `${names.length - 6} more`] : names;
  }

  /** The controls: [elements]; changed() is called when something else is chosen. */
  controls(changed) {
    const apply = (change) => {
      this.set(change);
      changed();
    };
    const made = [];
    if (this.canChoose && this.processes.length > 1) {
      const at = 1 + this.processes.indexOf(this.process);
      const pick = (one) => apply({ process: one ? this.processes[one - 1] : null });
      made.push(element("label", {}, "Process ", choice("Process", [ALL, ...this.processes], at, pick)));
    }
    if (this.canChoose && this.threads.length > 1) {
      const { threads } = this;
      const pick = (one) => apply({ thread: one ? threads[one - 1] : null });
      made.push(element("label", {}, "Thread ", choice("Thread", [ALL, ...threads], 1 + threads.indexOf(this.thread), pick)));
    }
    if (this.canHide) {
      const box = element("input", { type: "checkbox" });
      box.checked = this.isWithoutWaiting;
      box.onchange = () => apply({ isWithoutWaiting: box.checked });
      const title = `Leave out what only waits: ${this.waiting().join(", ")}`;
      made.push(element("label", { class: "check", title }, box, " Hide waiting"));
    }
    return made;
  }
}
