/* The data of an output: JSON, and behind it the numbers in columns.
 *
 * holdfast/pages/page.py writes this. The first four bytes are the length of the JSON, in which
 * a column is {"$": [offset, count, bytes, kind]}. Integers lie as planes: first the lowest
 * bytes of all numbers, then the next, as many planes as the largest number needs, since equal
 * bytes side by side pack well. Kind "int" holds the numbers, "delta" the zigzag differences from
 * one to the next (so it may fall), "float" single precision in four planes, NaN where nothing
 * was measured. Integers are exact up to 2^53.
 */

function integers(bytes, count, planes) {
  const values = new Float64Array(count);
  let weight = 1;
  for (let plane = 0; plane < planes; plane++, weight *= 256) {
    const start = plane * count;
    for (let at = 0; at < count; at++) {
      values[at] += bytes[start + at] * weight;
    }
  }
  return values;
}

function deltas(values) {
  let sum = 0;
  for (let at = 0; at < values.length; at++) {
    const folded = values[at];
    sum += folded % 2 ? -(folded + 1) / 2 : folded / 2;
    values[at] = sum;
  }
  return values;
}

function floats(bytes, count) {
  const raw = new Uint8Array(4 * count);
  for (let plane = 0; plane < 4; plane++) {
    for (let at = 0; at < count; at++) {
      raw[4 * at + plane] = bytes[plane * count + at];
    }
  }
  const view = new DataView(raw.buffer);
  return Float64Array.from({ length: count }, (_, at) => view.getFloat32(4 * at, true));
}

/** The data that a buffer holds, its columns as Float64Array. */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const bytes = new Uint8Array(buffer, 4 + length);
  const column = ([offset, count, planes, kind]) => {
    const part = bytes.subarray(offset, offset + count * planes);
    if (kind === "float") {
      return floats(part, count);
    }
    const values = integers(part, count, planes);
    return kind === "delta" ? deltas(values) : values;
  };
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  return JSON.parse(text, (_, value) => (value && value.$ ? column(value.$) : value));
}
