/* The regions: what they are called, where they stand, whose they are, what colour they have, and which of
 * them a search finds.
 */
import { ownerOf, shortName } from "./names.js";
import { huesOf } from "./theme.js";
import { number } from "./tracks.js";
import { time } from "./view.js";

const NOBODY = "no caller";
export const OWNED = "module:"; // before a package's name in a search

/** Inclusive, exclusive and visits of each region, from the columns of a table. */
export function rowsOf(table) {
  const rows = new Map();
  table?.region.forEach((region, at) => {
    const { visits, inclusive, exclusive } = table;
    rows.set(region, {
      region,
      visits: visits[at],
      inclusive: inclusive[at] / 1e9,
      exclusive: exclusive[at] / 1e9,
    });
  });
  return rows;
}

const sumOf = (rows) => [...rows.values()].reduce((sum, row) => sum + row.exclusive, 0);

/**
 * Columns by region. `label` is what a block has room for; `total` is the time of all tracks, of which
 * shares are shown.
 */
export class Regions {
  constructor(data) {
    const { name = [], file = [], line = [], cell = [], waits = [] } = data.regions ?? {};
    Object.assign(this, { name, file, line, cell, waiting: waits, tracks: data.locations?.length ?? 0 });
    this.rows = rowsOf(data.table);
    this.previous = rowsOf(data.previous?.table);
    this.total = sumOf(this.rows) || (data.end - data.begin) / 1e9;
    this.found = null;
    this.describe();
  }

  /** What follows from names and files. */
  describe() {
    this.label = this.name.map((name, region) => shortName(name, this.file[region] ?? ""));
    this.owner = this.name.map((name, region) => ownerOf(name, this.file[region] ?? "", this.cell[region] > 0));
    const times = new Map(this.owner.map((owner) => [owner, 0]));
    for (const { region, exclusive } of this.rows.values()) {
      times.set(this.owner[region], times.get(this.owner[region]) + exclusive);
    }
    this.owners = [...times].sort(([one, mine], [other, theirs]) => theirs - mine || (one < other ? -1 : 1));
    this.hues = huesOf(this.owners.map(([owner]) => owner));
  }

  /** The numbers here of another answer's regions; those that are new are added. */
  include({ name, file, line, waits }) {
    const key = (one, where, at) => `${one}\n${where}\n${at}`;
    this.keys ??= new Map(this.name.map((one, at) => [key(one, this.file[at], this.line[at]), at]));
    const before = this.name.length;
    const numbers = name.map((one, at) => {
      const known = key(one, file[at], line[at]);
      if (!this.keys.has(known)) {
        this.keys.set(known, this.name.length);
        this.name.push(one);
        this.file.push(file[at]);
        this.line.push(line[at]);
        this.cell.push(Number(/^In\[(\d+)\]$/.exec(file[at])?.[1] ?? 0));
        this.waiting.push(waits[at]);
      }
      return this.keys.get(known);
    });
    if (this.name.length > before) {
      this.describe();
    }
    return numbers;
  }

  /** The location that ran the cell; the first where there is no cell. */
  running(locations) {
    const isCell = (region) => this.cell[region] > 0 && this.name[region].startsWith("cell In[");
    return locations.find((one) => one.region.some(isCell)) ?? locations[0];
  }

  waits(region) {
    return Boolean(this.waiting[region]);
  }

  /** What a region is called; -1 is none. */
  nameOf(region) {
    return region < 0 ? NOBODY : this.name[region];
  }

  /** Case and order don't matter: each word must be in the name or the file. */
  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      this.found = null;
      return;
    }
    if (text.startsWith(OWNED)) {
      const owner = text.slice(OWNED.length).trim();
      this.found = new Set(this.name.map((_, region) => region).filter((region) => this.owner[region] === owner));
      return;
    }
    const matches = (region) => {
      const where = `${this.name[region]} ${this.place(region)}`.toLowerCase();
      return words.every((word) => where.includes(word));
    };
    this.found = new Set(this.name.map((_, region) => region).filter(matches));
  }

  has(region) {
    return !this.found || this.found.has(region);
  }

  hue(region) {
    return this.hues.get(this.owner[region]) ?? 0;
  }

  colours(theme) {
    return this.name.map((name, region) => {
      if (this.found) {
        return this.found.has(region) ? theme.mark : theme.dim;
      }
      return theme.region(name, this.hue(region));
    });
  }

  place(region) {
    if (this.cell[region] > 0) {
      return `cell [${this.cell[region]}], line ${this.line[region]}`;
    }
    const file = this.file[region];
    return file ? `${file}${this.line[region] ? `:${this.line[region]}` : ""}` : "";
  }

  /** The end of a long path. */
  shortPlace(region) {
    return this.place(region).replace(/^.*\/(?=[^/]*\/[^/]*$)/, "…/");
  }

  /** What percentages are of, in words. */
  get shares() {
    return `the time of ${this.tracks > 1 ? `all ${this.tracks} tracks together` : "all threads"}, waiting included`;
  }

  /** The lines of a note that a region has wherever it is shown. */
  lines(region) {
    const lines = [];
    const row = this.rows.get(region);
    if (row) {
      lines.push(
        ["all its calls", number(row.visits)],
        ["total", `${time(row.inclusive)} (${this.share(row.inclusive)})`],
        ["own", `${time(row.exclusive)} (${this.share(row.exclusive)})`],
        ["% are of", `${this.shares}: ${time(this.total)}`],
      );
    }
    if (this.place(region)) {
      lines.push(["where", this.place(region)]);
    }
    return lines;
  }

  share(seconds, total = this.total) {
    return total ? `${((100 * seconds) / total).toFixed(1)} %` : "–";
  }
}
