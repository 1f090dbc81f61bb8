/* The tracks of a timeline, one below the other: where each stands, and what is folded.
 *
 * A lane is a track (a thread) or the head of a process that has several. A folded track is one strip,
 * in which each moment has the colour of the innermost call, so that all of them are seen at once;
 * a folded process is one strip of its threads' strips. The thread that ran the cell is the first, with its
 * process, and is unfolded before any other: it is what somebody looks for, however little it did itself beside
 * its workers. It stands below its process also if that is folded. Of the others as many are unfolded as have
 * room; a very deep track shows its outer levels, with a button for the rest.
 */
import { Row } from "./row.js";

export const BLOCK = 18;
export const LEVEL = BLOCK + 1;
const STRIP = 19;
const LOW_STRIP = 13; // where there are many
const HEAD = 20;
const GAP = 3; // below an unfolded track
const LEAST_LEVELS = 6;

export const ROOM = 460; // px, for all
const EMPTY = new Row({ begin: [], duration: [], depth: [], region: [] });

class Lane {
  constructor(row, name, title, calls) {
    Object.assign(this, { row, own: row, name, title, calls, folded: true, shown: Infinity, process: null });
  }

  get levels() {
    return Math.min(this.shown, this.own.depth);
  }

  /** How many levels there are that aren't shown. */
  get hidden() {
    return this.folded ? 0 : this.own.depth - this.levels;
  }

  height(strip) {
    return this.folded ? strip : this.levels * LEVEL + GAP;
  }

  unfold(levels = Infinity) {
    this.folded = false;
    this.shown = levels;
  }
}

class Process {
  constructor(name) {
    Object.assign(this, { name, lanes: [], folded: false });
  }

  /** Those that are shown. */
  get shown() {
    return this.folded ? this.lanes.filter((lane) => lane.isFirst) : this.lanes;
  }

  get hasHead() {
    return this.lanes.length > 1;
  }
}

export class Lanes {
  /** locations: those of the data; first: the one that ran the cell. */
  constructor(locations, first = locations[0]) {
    this.processes = new Map();
    const rank = (one) => (one === first ? 0 : one.process === first?.process ? 1 : 2);
    const ordered = [...locations].sort((one, other) => rank(one) - rank(other));
    this.all = ordered.map((location) => {
      const name = location.process ?? "";
      const process = this.processes.get(name) ?? new Process(name);
      this.processes.set(name, process);
      const title = [name, location.thread].filter(Boolean).join(" · ");
      const lane = new Lane(new Row(location, 1e-9), location.thread ?? name, title, location.calls ?? 0);
      lane.id = location.id;
      lane.isFirst = location === first;
      lane.process = process;
      process.lanes.push(lane);
      return lane;
    });
    this.several = this.processes.size > 1;
    for (const lane of this.several ? this.all : []) {
      lane.name = lane.process.hasHead ? lane.name : lane.process.name;
    }
    this.strip = this.all.length * STRIP > ROOM ? LOW_STRIP : STRIP;
    this.open();
    this.layout();
  }

  /** What is unfolded at first. */
  open() {
    const heads = this.several ? [...this.processes.values()].filter((process) => process.hasHead) : [];
    const first = this.all.find((lane) => lane.isFirst);
    const least = Math.min(LEAST_LEVELS, first?.row.depth ?? 0) * LEVEL;
    if (this.all.length * this.strip + heads.length * HEAD + least > ROOM) {
      heads.forEach((process) => (process.folded = true));
    }
    const visible = [...this.processes.values()].flatMap((process) => process.shown);
    let left = ROOM - visible.length * this.strip - heads.length * HEAD;
    const order = [...visible].sort((one, other) => other.isFirst - one.isFirst || other.calls - one.calls);
    for (const lane of order) {
      const more = lane.row.depth * LEVEL + GAP - this.strip;
      if (more <= left || this.all.length === 1) {
        lane.unfold();
        left -= more;
      } else if (lane.isFirst) {
        lane.unfold(Math.max(LEAST_LEVELS, Math.floor((left + this.strip) / LEVEL)));
        left = 0;
      }
    }
  }

  /** All lanes with their places: [{process or lane, y, height}]. */
  layout() {
    this.places = [];
    let y = 0;
    const put = (item, height) => {
      this.places.push({ ...item, y, height });
      y += height;
    };
    for (const process of this.processes.values()) {
      if (this.several && process.hasHead) {
        put({ process }, HEAD);
      }
      for (const lane of process.shown) {
        put({ lane }, lane.height(this.strip));
      }
    }
    this.height = y;
  }

  fold(folded) {
    for (const process of this.processes.values()) {
      process.folded = folded && process.hasHead && this.several;
    }
    this.all.forEach((lane) => (folded ? (lane.folded = true) : lane.unfold()));
    this.layout();
  }

  toggle({ lane, process }) {
    if (process) {
      process.folded = !process.folded;
    } else if (lane.folded) {
      lane.unfold();
    } else {
      lane.folded = true;
    }
    this.layout();
  }

  /** Draw these rows, by the location's number; null: the tracks' own. A track that is missing is empty there. */
  use(rows) {
    this.all.forEach((lane) => (lane.row = rows ? (rows.get(lane.id) ?? EMPTY) : lane.own));
    this.layout();
  }

  /** The track of a row that it had or has. */
  of(row) {
    return this.all.find((lane) => lane.row === row || lane.own === row);
  }

  /** Unfold what is around a level of a track. Returns where it stands. */
  reveal(lane, level) {
    lane.process.folded = false;
    if (lane.folded || lane.levels <= level) {
      lane.unfold();
    }
    this.layout();
    return this.places.find((place) => place.lane === lane).y + level * LEVEL;
  }

  /** "12 tracks of 4 processes". */
  counted() {
    const many = (count, noun, plural) => `${count.toLocaleString("en")} ${count === 1 ? noun : plural}`;
    const tracks = many(this.all.length, "track", "tracks");
    const processes = many(this.processes.size, "process", "processes");
    const [only] = this.processes.keys();
    return this.several ? `${tracks} of ${processes}` : [tracks, only].filter(Boolean).join(" of ");
  }
}
