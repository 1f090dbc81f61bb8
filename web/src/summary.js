/* What a range of a timeline holds: the functions in it, calls, and each track's part.
 *
 * Of the blocks that are drawn: calls that reach beyond the range are cut to it. What was joined isn't known
 * call by call; it makes a line of its own (region −1), and the sums say so. The kernel, where there is
 * one, counts the same in the trace, call by call.
 */
import { Paths } from "./paths.js";

export const JOINED = -1;

const emptyRow = (region) => ({ region, visits: 0, inclusive: 0, exclusive: 0 });

/** Adds a row's blocks between two times to `rows`, by region. Returns [calls, time in calls, is exact]. */
function add(row, low, high, rows) {
  const open = []; // of each level: what was met last
  const inside = new Map(); // of a region, how many of its blocks are open
  let [calls, time, exact] = [0, 0, true];
  const rowOf = (region) => rows.get(region) ?? rows.set(region, emptyRow(region)).get(region);
  for (let at = 0; at < row.begin.length && row.begin[at] <= high; at++) {
    const depth = row.depthOf[at];
    while (open.length > depth) {
      const { region } = open.pop();
      inside.set(region, inside.get(region) - 1);
    }
    const joined = row.joined(at);
    const region = joined ? JOINED : row.region[at];
    const seen = Math.min(row.end(at), high) - Math.max(row.begin[at], low);
    const part = row.duration[at] ? Math.max(0, Math.min(1, seen / row.duration[at])) : Number(seen >= 0);
    const took = row.took(at) * part;
    if (part > 0) {
      exact &&= !joined;
      const mine = rowOf(region);
      mine.visits += joined ? Math.round(joined * part) : 1;
      calls += joined ? Math.round(joined * part) : 1;
      mine.exclusive += took;
      mine.inclusive += inside.get(region) ? 0 : took;
      if (depth && open[depth - 1]) {
        rowOf(open[depth - 1].region).exclusive -= took;
      } else {
        time += took;
      }
    }
    inside.set(region, (inside.get(region) ?? 0) + 1);
    open.push({ region });
  }
  return [calls, time, exact];
}

/** {rows, calls, exact, tracks: [{title, calls, time}]} of the blocks between two times. */
export function summarize(lanes, low, high) {
  const rows = new Map();
  let exact = true;
  const tracks = lanes.map(({ own, title }) => {
    const [calls, time, isExact] = add(own, low, high, rows);
    exact &&= isExact;
    return { title, calls, time };
  });
  return { rows, exact, tracks, calls: tracks.reduce((sum, track) => sum + track.calls, 0) };
}

/** The same of a kernel's answer; numbers: of its regions, ours. */
export function counted({ locations, paths, table }, numbers, titleOf) {
  const rows = new Map();
  table.region.forEach((region, at) => {
    const known = numbers[region];
    const [visits, inclusive, exclusive] = [table.visits[at], table.inclusive[at] / 1e9, table.exclusive[at] / 1e9];
    rows.set(known, { region: known, visits, inclusive, exclusive });
  });
  const timeOf = (location) => {
    const chosen = new Paths(paths[0], location.costs ? [location] : null, null);
    return chosen.inclusive.reduce((sum, time, at) => sum + (chosen.depth[at] ? 0 : time), 0);
  };
  const tracks = locations.map((one) => ({ title: titleOf(one), calls: one.calls, time: timeOf(one) }));
  return { rows, exact: true, tracks, calls: tracks.reduce((sum, track) => sum + track.calls, 0) };
}
