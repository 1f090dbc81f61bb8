/* The blocks of one track, or of one graph, in columns: where each is drawn, and what it stands for.
 *
 * Columns are in preorder (by begin; the outer before the inner). A block is known by its index
 * in them. For each depth there is the list of its blocks, which don't overlap and are in order, so
 * what is at a time, or in a range, is found by halving. No object is made for a block until
 * somebody looks at one: there may be a hundred thousand.
 */

/** The number of items whose value is at most `most`; they are in order. */
function countUpTo(items, valueOf, most) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (valueOf(items[middle]) <= most) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

export class Row {
  /** `scale` makes seconds of the columns' begin, duration, busy and longest. */
  constructor({ begin, duration, depth, region, count, busy, longest, visits }, scale = 1) {
    const scaled = (column) => (column && scale !== 1 ? Float64Array.from(column, (one) => one * scale) : column);
    this.begin = scaled(begin);
    this.duration = scaled(duration);
    Object.assign(this, { region, count, visits, depthOf: depth, busy: scaled(busy), longest: scaled(longest) });
    const levels = [];
    for (let at = 0; at < begin.length; at++) {
      (levels[depth[at]] ??= []).push(at);
    }
    this.levels = Array.from(levels, (level) => level ?? []);
  }

  /**
   * These are the calls of a window only: a call that goes beyond is as long as `whole`, the same track's row
   * for all times, has it, or `cut` where it is one of several there.
   */
  complete(low, high, whole) {
    this.cut = new Set();
    this.levels.forEach((items, level) => {
      for (const at of [...new Set([items[0], items.at(-1)])]) {
        if (at !== undefined && (this.begin[at] <= low || this.end(at) >= high)) {
          const known = whole?.find(level, this.begin[at] + this.duration[at] / 2) ?? -1;
          if (known >= 0 && !whole.joined(known) && !this.joined(at)) {
            [this.begin[at], this.duration[at]] = [whole.begin[known], whole.duration[known]];
          } else {
            this.cut.add(at);
          }
        }
      }
    });
    return this;
  }

  get depth() {
    return this.levels.length;
  }

  end(at) {
    return this.begin[at] + this.duration[at];
  }

  /** The first place in a level whose block isn't over at this time. */
  firstAfter(level, time) {
    const items = this.levels[level] ?? [];
    const before = countUpTo(items, (at) => this.begin[at], time);
    return before > 0 && this.end(items[before - 1]) >= time ? before - 1 : before;
  }

  /** The block of a level at a time, or else one that is not farther than `slack`; or -1. */
  find(level, time, slack = 0) {
    const items = this.levels[level] ?? [];
    const found = (from, to) => {
      const place = items.length ? this.firstAfter(level, from) : 0;
      return place < items.length && this.begin[items[place]] <= to ? items[place] : -1;
    };
    const exact = found(time, time);
    return exact >= 0 || !slack ? exact : found(time - slack, time + slack);
  }

  /** The place of a block in its level. */
  placeOf(level, at) {
    return countUpTo(this.levels[level], (one) => one, at) - 1;
  }

  /** The first block of a level, between two times, for which that is true; or -1. */
  first(level, begin, end, is) {
    const items = this.levels[level] ?? [];
    for (let place = items.length ? this.firstAfter(level, begin) : 0; place < items.length; place++) {
      const at = items[place];
      if (this.begin[at] >= end && this.begin[at] > begin) {
        return -1;
      }
      if (this.end(at) > begin && is(at)) {
        return at;
      }
    }
    return -1;
  }

  /** The innermost block at a time, or -1. */
  innermost(time, slack) {
    for (let level = this.depth - 1; level >= 0; level--) {
      const at = this.find(level, time, slack);
      if (at >= 0) {
        return at;
      }
    }
    return -1;
  }

  /** How many visits a block stands for where that is more than one; else 0. */
  joined(at) {
    return this.count && this.count[at] > 1 ? this.count[at] : 0;
  }

  /**
   * The blocks of a level that touch each other around one of them and are too narrow to be told apart: places
   * in the level, from and to. isNarrow(at) says which those are; a gap up to `gap` is none that is seen.
   */
  run(level, place, [low, high], isNarrow, gap) {
    const items = this.levels[level];
    const near = (one, next) => this.begin[items[next]] - this.end(items[one]) <= gap && isNarrow(items[next]);
    const inSight = (one) => this.end(items[one]) >= low && this.begin[items[one]] <= high;
    let [from, to] = [place, place];
    while (from > 0 && inSight(from - 1) && isNarrow(items[from - 1]) && near(from - 1, from)) {
      from--;
    }
    while (to + 1 < items.length && inSight(to + 1) && near(to, to + 1)) {
      to++;
    }
    return [from, to];
  }

  /** Several neighbours of a level as one block, of the region that took most of their time. */
  together(level, from, to) {
    const items = this.levels[level];
    const [first, last] = [items[from], items[to]];
    const times = new Map();
    let [joined, busy, longest] = [0, 0, 0];
    for (let place = from; place <= to; place++) {
      const at = items[place];
      const took = this.took(at);
      joined += this.joined(at) || 1;
      busy += took;
      longest = Math.max(longest, this.joined(at) ? (this.longest?.[at] ?? 0) : took);
      times.set(this.region[at], (times.get(this.region[at]) ?? 0) + took);
    }
    const [region] = [...times].reduce((one, other) => (other[1] > one[1] ? other : one));
    const begin = this.begin[first];
    return { ...this.block(first), region, begin, duration: this.end(last) - begin, joined, busy, longest, run: from < to };
  }

  /** How long the visits of a block took, without the gaps between them. */
  took(at) {
    return this.joined(at) ? (this.busy?.[at] ?? this.duration[at]) : this.duration[at];
  }

  /** What those took that a block called. */
  callees(at) {
    const level = this.depthOf[at] + 1;
    const items = this.levels[level] ?? [];
    const end = this.end(at);
    let sum = 0;
    const first = countUpTo(items, (one) => this.begin[one], this.begin[at]);
    const begin = first > 0 && this.begin[items[first - 1]] === this.begin[at] ? first - 1 : first;
    for (let place = begin; place < items.length && this.begin[items[place]] < end; place++) {
      sum += this.took(items[place]);
    }
    return sum;
  }

  /** A block as notes and clicks take it. */
  block(at) {
    return {
      row: this,
      at,
      region: this.region[at],
      begin: this.begin[at],
      duration: this.duration[at],
      joined: this.joined(at),
      busy: this.busy?.[at],
      longest: this.longest?.[at],
      visits: this.visits?.[at],
      cut: this.cut?.has(at) ?? false,
    };
  }

  /** The blocks of some regions, by time. */
  blocksOf(has) {
    const found = [];
    for (let at = 0; at < this.begin.length; at++) {
      if (has(this.region[at])) {
        found.push(this.block(at));
      }
    }
    return found;
  }
}
