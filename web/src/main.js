/* The bundle's entry: what the loader calls.
 *
 * draw shows data in the place of an output; append adds samples to a plot that is live in
 * this page, by its key. Nothing else is global: the loader takes the object from the one
 * name below and keeps it under the bundle's version.
 */
import { Page } from "./page.js";
import { unpack } from "./columns.js";

const live = new Map();

globalThis[Symbol.for("holdfast.views.newest")] = {
  draw(place, buffer, key) {
    const page = new Page(place, unpack(buffer));
    if (key) {
      live.set(key, page);
    }
  },

  append(place, buffer, key) {
    place.hidden = true;
    live.get(key)?.append(unpack(buffer));
  },
};
