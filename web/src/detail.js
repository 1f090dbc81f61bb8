/* More of a trace where somebody has zoomed in: what was joined to blocks, asked of the kernel.
 *
 * Once the view is quiet, and calls in sight are joined that would now be wide enough to be seen,
 * the window around it is fetched. Its rows stand for the tracks' own as long as the view is inside. The
 * last few windows are kept. Without a kernel a line says which command shows that part.
 */
import { Row } from "./row.js";

const QUIET_MS = 200;
const SEEN_PX = 3; // what is joined is wider than this
const MARGIN = 0.5; // of the span, fetched at each side
const KEPT = 6;
const SLICES = 50_000;

const pixelOf = (locations) => locations.reduce((most, { pixel = 0 }) => Math.max(most, pixel), 0) / 1e9;

export class Detail {
  /** changed() is called when other rows are drawn; note(text) with what there is to say, or "". */
  constructor({ context, data, regions, kernel }, lanes, changed, note) {
    Object.assign(this, { context, data, regions, kernel, lanes, changed, note });
    this.windows = [{ low: -Infinity, high: Infinity, pixel: pixelOf(data.locations), rows: null }];
    this.now = this.windows[0];
    this.unfollow = context.view.follow(() => this.moved());
  }

  moved() {
    this.use();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fetch(), QUIET_MS);
  }

  /** The finest window that has all that is in sight. */
  best() {
    const { low, high } = this.context.view;
    const fitting = this.windows.filter((one) => one.low <= low && high <= one.high);
    return fitting.reduce((one, other) => (other.pixel < one.pixel ? other : one));
  }

  use() {
    const best = this.best();
    if (best !== this.now) {
      this.now = best;
      this.lanes.use(best.rows);
      this.changed();
    }
    this.tell();
  }

  /** Whether what is joined could be seen now. */
  get isCoarse() {
    const { view, plotWidth } = this.context;
    return (this.now.pixel / view.span) * plotWidth > SEEN_PX;
  }

  tell() {
    this.note(this.isCoarse ? this.hint() : "");
  }

  hint() {
    if (this.kernel.there && !this.failed) {
      return "fetching more detail …";
    }
    const { low, high, span } = this.context.view;
    const digits = Math.max(2, 2 - Math.floor(Math.log10(span)));
    const { cells } = this.context;
    const index = cells.find((cell) => cell.low <= low && low <= (cell.high ?? Infinity))?.index;
    const reason = this.failed ? ` (${this.failed})` : "";
    return `more detail: %trace ${index ?? "…"} --range ${Math.max(0, low).toFixed(digits)}:${high.toFixed(digits)}${reason}`;
  }

  async fetch() {
    if (!this.isCoarse || !this.kernel.there || this.asking) {
      return;
    }
    const { view } = this.context;
    const low = Math.max(0, view.low - MARGIN * view.span);
    const high = view.high + MARGIN * view.span;
    this.asking = true;
    try {
      this.take(low, high, await this.kernel.ask(low, high, SLICES));
      this.failed = "";
    } catch (error) {
      this.failed = error.message;
    }
    this.asking = false;
    this.use();
    const { low: begin, high: end } = view;
    (begin < low || end > high) && !this.failed && this.fetch(); // it has moved on
  }

  take(low, high, { locations, regions }) {
    const numbers = this.regions.include(regions);
    const rows = new Map(
      locations.map((one) => {
        const region = Float64Array.from(one.region, (number) => numbers[number]);
        const lane = this.lanes.all.find(({ id }) => id === one.id);
        const edge = 2e-9; // times are whole nanoseconds
        return [one.id, new Row({ ...one, region }, 1e-9).complete(low + edge, high - edge, lane?.own)];
      }),
    );
    this.windows.splice(1, Math.max(0, this.windows.length - KEPT));
    this.windows.push({ low, high, pixel: pixelOf(locations), rows });
  }
}
