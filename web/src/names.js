/* What regions are called where there is little room, and whose they are.
 *
 * Recorders write `module:function`, with the class of a method: `json.decoder:JSONDecoder`
 * has `json.decoder.JSONDecoder:decode`. A block has room for the function. Some names say nothing alone
 * (`<module>`, `run`, `__call__`): those have their class or, without one, their file beside them.
 */

const GENERIC = new Set(
  ("run main start stop wrapper wrapped inner call apply get set put execute process handle handler callback update " +
    "forward invoke step close open read write send submit func function f g fn go do work worker task target init " +
    "setup load save new copy next iter enter exit")
    .split(" "),
);

const isGeneric = (name) => GENERIC.has(name) || name.startsWith("__") || name.startsWith("<");

/** [module, class, function]; the first two may be empty. */
export function parts(name) {
  const colon = name.lastIndexOf(":");
  if (colon < 0) {
    return ["", "", name];
  }
  const words = name.slice(0, colon).split(".");
  const first = words.findIndex((word, at) => at > 0 && /^_?[A-Z]/.test(word));
  const module = first < 0 ? words : words.slice(0, first);
  const owner = first < 0 ? [] : words.slice(first);
  return [module.join("."), owner.join("."), name.slice(colon + 1)];
}

/** The end of a path; of a package's own file with its directory. */
function fileName(file) {
  const words = file.split("/");
  const last = words.at(-1);
  return last === "__init__.py" || last === "__main__.py" ? words.slice(-2).join("/") : last;
}

/** A name for a block. */
export function shortName(name, file) {
  const [, owner, own] = parts(name);
  const last = own.slice(own.lastIndexOf(".") + 1) || own;
  if (!isGeneric(last)) {
    return last || name;
  }
  if (owner) {
    return `${owner.split(".").at(-1)}.${last}`;
  }
  const outer = own.split(".").findLast((word) => word && !word.startsWith("<") && word !== last);
  if (outer) {
    return `${outer}.${last}`;
  }
  return file ? `${last} (${fileName(file)})` : last;
}

export const OWN = "own code"; // of the notebook, or of the script

/** Whose a region is: one's own, or the package's that has the colour. */
export function ownerOf(name, file, isOwn) {
  const [module] = parts(name);
  if (isOwn || module === "__main__" || module === "__mp_main__") {
    return OWN;
  }
  if (/^P?MPI_/i.test(name) || module.startsWith("mpi4py")) {
    return "MPI";
  }
  const first = (module || fileName(file)).split(".")[0];
  return first.startsWith("namedtuple_") ? "collections" : first || "other"; // what it generates is in no file
}
