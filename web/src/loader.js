/* What runs first in an output: it unpacks the bundle, once for all outputs of a page that
 * have the same version, and lets it draw this output's data.
 *
 * It stands in the output beside its two parts, which are scripts of types that no browser
 * runs. So it finds them from itself: identifiers would be there twice where a notebook shows
 * an output in two places. Where something is missing (an old browser, a page that forbids
 * scripts), what the output shows without scripts stays.
 */
(() => {
  const place = document.currentScript.parentElement;
  const part = (name) => place.querySelector(`script[type="text/x-holdfast-${name}"]`);
  const [version, action, key] = part("data").textContent.trim().split("\n");
  const unpack = async (name) => {
    const text = part(name).textContent.trim().split("\n").pop();
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  };
  const loaded = Symbol.for(`holdfast.views.${version}`);
  const load = async () => {
    const script = document.createElement("script");
    script.textContent = new TextDecoder().decode(await unpack("bundle"));
    document.head.append(script);
    script.remove();
    return globalThis[Symbol.for("holdfast.views.newest")];
  };
  const run = async () => {
    if (!globalThis[loaded]) {
      if (!part("bundle")) {
        return;
      }
      globalThis[loaded] = load();
    }
    (await globalThis[loaded])[action](place, await unpack("data"), key);
  };
  run().catch((error) => console.error("holdfast:", error));
})();
