/* Questions to the kernel that has shown a trace, while there is one.
 *
 * In JupyterLab and Notebook a page reaches the server that it came from as the person's own session: one
 * more client of the kernel. A question is a comm that is opened, the answer a message of it
 * (holdfast/views/kernel.py). The page closes it: JupyterLab hears the kernel's messages, too, and complains of the
 * close of a comm that it doesn't know. Elsewhere, in a saved page, and after the kernel's end there is nobody to
 * ask: `ask` rejects, and what was drawn stays.
 */
import { unpack } from "./columns.js";

const TARGET = "holdfast.views";
const IDLE_MS = 30_000; // then the connection is closed; it would keep an idle kernel from being culled
const PATIENCE_MS = 60_000; // a cell that runs is waited for

/** Where the server is, as JupyterLab and Notebook say it in their pages; null elsewhere. */
function server() {
  try {
    const text = document.getElementById("jupyter-config-data")?.textContent;
    return text && location.protocol.startsWith("http") ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

async function unpackText(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpack(await new Response(stream).arrayBuffer());
}

export class Kernel {
  /** where: the data's `detail`. */
  constructor(where) {
    this.where = where;
    this.config = where?.kernel ? server() : null;
    this.session = crypto.randomUUID?.() ?? String(Math.random());
    this.waiting = new Map(); // by the comm's id
    this.socket = null;
  }

  get there() {
    return Boolean(this.config);
  }

  address() {
    const { baseUrl = "/", token } = this.config;
    const url = new URL(`${baseUrl}api/kernels/${this.where.kernel}/channels`, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.searchParams.set("session_id", this.session);
    token && url.searchParams.set("token", token);
    return url;
  }

  connect() {
    if (!this.socket) {
      const socket = new WebSocket(this.address());
      socket.onmessage = ({ data }) => typeof data === "string" && this.hear(JSON.parse(data));
      this.socket = new Promise((done, failed) => {
        socket.onopen = () => done(socket);
        socket.onerror = () => failed(new Error("this notebook's kernel is gone"));
      });
      socket.onclose = () => this.closed();
    }
    return this.socket;
  }

  closed() {
    this.socket = null;
    this.waiting.forEach(({ failed }) => failed(new Error("the connection to the kernel ended")));
    this.waiting.clear();
  }

  hear({ header, content }) {
    const waiting = this.waiting.get(content?.comm_id);
    if (!waiting) {
      return;
    }
    if (["comm_msg", "comm_close"].includes(header.msg_type)) {
      this.waiting.delete(content.comm_id);
    }
    if (header.msg_type === "comm_msg") {
      this.socket.then((socket) => socket.send(JSON.stringify(this.message("comm_close", { comm_id: content.comm_id, data: {} }))));
    }
    if (header.msg_type === "comm_msg" && content.data.error) {
      waiting.failed(new Error(content.data.error));
    } else if (header.msg_type === "comm_msg") {
      unpackText(content.data.data).then(waiting.done, waiting.failed);
    } else if (header.msg_type === "comm_close") {
      waiting.failed(new Error("the kernel has shown no trace since its start"));
    }
  }

  /** The data of a window of the trace, in seconds since its begin. */
  async ask(begin, end, slices) {
    if (!this.there) {
      throw new Error("no kernel");
    }
    clearTimeout(this.idle);
    const socket = await this.connect().catch((error) => {
      this.config = null; // and don't try again
      throw error;
    });
    const id = crypto.randomUUID?.() ?? String(Math.random());
    const answer = new Promise((done, failed) => this.waiting.set(id, { done, failed }));
    const patience = setTimeout(() => this.waiting.get(id)?.failed(new Error("the kernel doesn't answer")), PATIENCE_MS);
    const data = { trace: this.where.trace, begin, end, slices };
    socket.send(JSON.stringify(this.message("comm_open", { comm_id: id, target_name: TARGET, data })));
    return answer.finally(() => {
      clearTimeout(patience);
      this.waiting.delete(id);
      clearTimeout(this.idle);
      this.idle = setTimeout(() => this.waiting.size || socket.close(), IDLE_MS);
    });
  }

  message(type, content) {
    const header = {
      msg_id: crypto.randomUUID?.() ?? String(Math.random()),
      msg_type: type,
      session: this.session,
      username: "",
      date: new Date().toISOString(),
      version: "5.3",
    };
    return { channel: "shell", header, parent_header: {}, metadata: {}, content };
  }
}
