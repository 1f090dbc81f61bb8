/* The regions: what they are called, where they stand, what colour they have, and which of them a search finds. */
import { time } from "./view.js";
import { number } from "./tracks.js";

export const SHARES = "the time of all threads, waiting included";

/** Inclusive, exclusive and visits of each region, from the columns of a table. */
function rowsOf(table) {
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

/**
 * Columns by region. `label` is what a block has room for: a function without its module; `total` is the time of
 * all threads, of which shares are shown.
 */
export class Regions {
  constructor(data) {
    const { name = [], file = [], line = [], cell = [] } = data.regions ?? {};
    Object.assign(this, { name, file, line, cell });
    this.rows = rowsOf(data.table);
    this.previous = rowsOf(data.previous?.table);
    const own = [...this.rows.values()].reduce((sum, row) => sum + row.exclusive, 0);
    this.total = own || (data.end - data.begin) / 1e9;
    this.label = name.map((one) => one.slice(one.lastIndexOf(":") + 1) || one);
    this.found = null;
  }

  /** Case and order don't matter: each word must be in the name or the file. */
  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      this.found = null;
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

  colours(theme) {
    return this.name.map((name, region) => {
      if (this.found) {
        return this.found.has(region) ? theme.mark : theme.dim;
      }
      return theme.region(name, this.file[region] ?? "", this.cell[region] > 0);
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

  /** The lines of a note that a region has wherever it is shown. */
  lines(region) {
    const lines = [];
    const row = this.rows.get(region);
    if (row) {
      lines.push(
        ["all its visits", number(row.visits)],
        ["inclusive", `${time(row.inclusive)} (${this.share(row.inclusive)})`],
        ["exclusive", `${time(row.exclusive)} (${this.share(row.exclusive)})`],
      );
    }
    if (row) {
      lines.push(["% are of", SHARES]);
    }
    if (this.place(region)) {
      lines.push(["where", this.place(region)]);
    }
    return lines;
  }

  share(seconds) {
    return `${((100 * seconds) / this.total).toFixed(1)} %`;
  }
}
