/* Call paths: trees of them, tables, and callers and callees of a function, of all threads or of some.
 *
 * A tree comes in columns, in preorder, with visits and inclusive times of all threads; each thread
 * says what its own part of that is (`costs`). What is chosen of the threads, and whether waiting
 * is left out, makes other columns of the same paths: `Paths`. Times are in seconds from here on.
 */
import { Row } from "./row.js";

/** Visits and times of some locations on the paths. */
function costsOf({ visits, inclusive }, chosen) {
  if (!chosen) {
    return [visits, Float64Array.from(inclusive, (one) => one / 1e9)];
  }
  const [mine, times] = [new Float64Array(visits.length), new Float64Array(visits.length)];
  for (const { costs } of chosen) {
    costs.path.forEach((path, at) => {
      mine[path] += costs.visits[at];
      times[path] += costs.inclusive[at] / 1e9;
    });
  }
  return [mine, times];
}

export class Paths {
  /** chosen: locations with costs, or null for all; waits: has(region), for what is left out, or null. */
  constructor(tree, chosen, waits) {
    this.depth = tree.depth;
    this.region = tree.region;
    [this.visits, this.inclusive] = costsOf(tree, chosen);
    this.waited = waits ? this.leaveOut(waits) : 0;
  }

  get length() {
    return this.region.length;
  }

  is(at) {
    return this.visits[at] > 0 || this.inclusive[at] > 0;
  }

  /** Take waiting, with all that it calls, from the paths and from the time of those above. */
  leaveOut(waits) {
    const inclusive = Float64Array.from(this.inclusive);
    const visits = Float64Array.from(this.visits);
    const open = [];
    let [gone, sum] = [Infinity, 0];
    for (let at = 0; at < this.length; at++) {
      const depth = this.depth[at];
      gone = depth <= gone ? Infinity : gone;
      if (gone === Infinity && waits(this.region[at])) {
        gone = depth;
        sum += this.inclusive[at];
        open.slice(0, depth).forEach((above) => (inclusive[above] -= this.inclusive[at]));
      }
      if (gone !== Infinity) {
        inclusive[at] = visits[at] = 0;
      }
      open[depth] = at;
    }
    [this.inclusive, this.visits] = [inclusive, visits];
    return sum;
  }

  /** Call back for each path that took something, with the paths above it: (index, their indices). */
  walk(callback) {
    const open = [];
    for (let at = 0; at < this.length; at++) {
      open.length = this.depth[at];
      if (this.is(at)) {
        callback(at, open);
      }
      open.push(at);
    }
  }

  /** Rows of a table by region; of a recursive region the outermost visits have the time. */
  table() {
    const rows = new Map();
    const own = Float64Array.from(this.inclusive);
    this.walk((at, open) => {
      const above = open.at(-1);
      if (above !== undefined) {
        own[above] -= this.inclusive[at];
      }
    });
    this.walk((at, open) => {
      const region = this.region[at];
      const row = rows.get(region) ?? { region, visits: 0, inclusive: 0, exclusive: 0 };
      rows.set(region, row);
      row.visits += this.visits[at];
      row.exclusive += Math.max(0, own[at]);
      row.inclusive += open.some((one) => this.region[one] === region) ? 0 : this.inclusive[at];
    });
    return rows;
  }

  /** All as one tree of nodes. */
  roots() {
    const root = new Node(-1);
    const nodes = [];
    this.walk((at, open) => {
      const above = open.length ? nodes[open.length - 1] : root;
      nodes[open.length] = above.child(this.region[at]).add(this.visits[at], this.inclusive[at]);
    });
    return root;
  }

  /** Below a function: what it calls, over all places where it is called, as a tree with it at the root. */
  below(chosen) {
    const root = new Node(chosen);
    const nodes = [];
    this.walk((at, open) => {
      const first = open.findIndex((one) => this.region[one] === chosen);
      if (first >= 0) {
        const above = nodes[open.length - 1];
        nodes[open.length] = above.child(this.region[at]).add(this.visits[at], this.inclusive[at]);
      } else if (this.region[at] === chosen) {
        nodes[open.length] = root.add(this.visits[at], this.inclusive[at]);
      }
    });
    return root;
  }

  /** Above a function: what calls it, what calls that, and so on; the times are the function's. */
  above(chosen) {
    const root = new Node(chosen);
    this.walk((at, open) => {
      if (this.region[at] === chosen && !open.some((one) => this.region[one] === chosen)) {
        let node = root.add(this.visits[at], this.inclusive[at]);
        for (let place = open.length - 1; place >= 0; place--) {
          node = node.child(this.region[open[place]]).add(this.visits[at], this.inclusive[at]);
        }
      }
    });
    return root;
  }

  /** Direct callers of a function; visits by itself count, their time is the outermost's already. */
  callers(chosen) {
    const root = new Node(chosen);
    this.walk((at, open) => {
      if (this.region[at] === chosen) {
        const inside = open.some((one) => this.region[one] === chosen);
        const caller = open.length ? this.region[open.at(-1)] : -1;
        root.child(caller).add(this.visits[at], inside ? 0 : this.inclusive[at]);
      }
    });
    return root.sorted();
  }

  /** Direct callees of a function. Where one is below itself, the outermost has the time. */
  callees(chosen) {
    const root = new Node(chosen);
    this.walk((at, open) => {
      const above = open.at(-1);
      if (above !== undefined && this.region[above] === chosen) {
        const region = this.region[at];
        const first = open.findIndex((one) => this.region[one] === chosen);
        const inside = open.some((one, place) => place > first && this.region[one] === region);
        root.child(region).add(this.visits[at], inside ? 0 : this.inclusive[at]);
      }
    });
    return root.sorted();
  }
}

/** A region in a tree that is made of paths. */
export class Node {
  constructor(region) {
    Object.assign(this, { region, visits: 0, time: 0, children: new Map() });
  }

  add(visits, time) {
    this.visits += visits;
    this.time += time;
    return this;
  }

  child(region) {
    const found = this.children.get(region) ?? new Node(region);
    this.children.set(region, found);
    return found;
  }

  sorted() {
    return [...this.children.values()].sort((one, other) => other.time - one.time || other.visits - one.visits);
  }
}

/** Trees side by side as a row, the heaviest at the left: [row, sum of the roots]. */
export function leftHeavy(nodes) {
  const columns = { begin: [], duration: [], depth: [], region: [], visits: [] };
  const total = nodes.reduce((sum, node) => sum + node.time, 0);
  const waiting = [];
  const put = (siblings, depth, from) => {
    const placed = siblings.map((node) => {
      const one = { node, depth, begin: from };
      from += node.time;
      return one;
    });
    waiting.push(...placed.reverse());
  };
  put([...nodes].sort((one, other) => other.time - one.time), 0, 0);
  while (waiting.length) {
    const { node, depth, begin } = waiting.pop();
    columns.begin.push(begin);
    columns.duration.push(node.time);
    columns.depth.push(depth);
    columns.region.push(node.region);
    columns.visits.push(node.visits);
    put(node.sorted(), depth + 1, begin);
  }
  return [new Row(columns), total];
}
