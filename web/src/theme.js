/* The colours: light or dark, as the page around the output is.
 *
 * What is behind the output decides, and not a list of programs: JupyterLab, Notebook, VS Code
 * and nbviewer each have their own way to say which theme they have, but all of them paint a
 * background. Where nobody does, the system's setting counts if the page follows it. Canvases can't
 * use CSS variables, so their colours are here; style.css takes those of its own from the same
 * table, by variables that are set on the output.
 */

import { OWN } from "./names.js";

const LIGHT = {
  background: "#ffffff",
  raised: "#f4f5f7",
  text: "#24292f",
  faint: "#59636e",
  line: "#d5d9de",
  grid: "#e6e9ed",
  over: "rgba(60, 70, 80, 0.13)",
  accent: "#0b62c4",
  band: "rgba(11, 98, 196, 0.06)",
  failed: "rgba(200, 40, 40, 0.10)",
  worse: "#b42318",
  better: "#1a7f37",
  mark: "#ffcc33",
  dim: "#e9ecef",
  stripes: "rgba(255, 255, 255, 0.5)",
  own: [6, 52, 86, 74],
  saturation: 46,
  lightness: 78,
};

const DARK = {
  background: "#111417",
  raised: "#1d2126",
  text: "#e3e7eb",
  faint: "#9aa4af",
  line: "#3a4149",
  grid: "#262b31",
  over: "rgba(200, 210, 220, 0.10)",
  accent: "#6cb0ff",
  band: "rgba(108, 176, 255, 0.09)",
  failed: "rgba(255, 90, 90, 0.15)",
  worse: "#ff8a80",
  better: "#6fd08c",
  mark: "#a87900",
  dim: "#22262b",
  stripes: "rgba(17, 20, 23, 0.45)",
  own: [6, 50, 58, 37],
  saturation: 32,
  lightness: 34,
};

// Told apart by those who don't see red and green alike (Okabe and Ito, 2008), in two shades.
const SERIES = {
  light: ["#0072b2", "#d55e00", "#009e73", "#a8437f", "#b07d00", "#3a8fc7", "#6b6b6b", "#7a4dbf"],
  dark: ["#56b4e9", "#f0883e", "#2fc79b", "#e08fc0", "#e6c229", "#8cc8f0", "#b0b0b0", "#b79af5"],
};

function backgroundBehind(element) {
  for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) {
    const parts = getComputedStyle(at).backgroundColor.match(/[\d.]+/g)?.map(Number);
    if (parts && (parts[3] ?? 1) > 0.5) {
      return parts;
    }
  }
  return null;
}

function isDark(element) {
  const found = backgroundBehind(element);
  if (found) {
    return 0.299 * found[0] + 0.587 * found[1] + 0.114 * found[2] < 128;
  }
  if (document.body.matches(".vscode-dark, .vscode-high-contrast:not(.vscode-high-contrast-light)")) {
    return true;
  }
  const follows = getComputedStyle(element).colorScheme.includes("dark");
  return follows && matchMedia("(prefers-color-scheme: dark)").matches;
}

function hash(text) {
  let value = 2166136261;
  for (let at = 0; at < text.length; at++) {
    value = Math.imul(value ^ text.charCodeAt(at), 16777619);
  }
  return value >>> 0;
}

/** Stands for the warm hues of the notebook's own functions, and for the grey of packages without a hue. */
export const OWN_HUE = -1;
const OTHERS = -2;
// Hues that are told apart side by side, and what is added to their lightness for that.
const HUES = [[84, 4], [128, -7], [168, 3], [196, -8], [222, 3], [256, -6], [288, 4], [328, -3]];
/** As many packages have a hue of their own, and a name in the legend; one's own code is beside them. */
export const NAMED = HUES.length + 1;

/**
 * A hue for each package, heaviest first: the one that its name asks for, so that it has the same in
 * another trace, or the next that is free. Those that are left are grey.
 */
export function huesOf(owners) {
  const taken = new Set();
  const hues = new Map();
  for (const owner of owners) {
    let slot = hash(owner) % HUES.length;
    while (taken.has(slot) && taken.size < HUES.length) {
      slot = (slot + 3) % HUES.length;
    }
    const own = owner === OWN;
    hues.set(owner, own ? OWN_HUE : taken.size < HUES.length ? slot : OTHERS);
    own || taken.add(slot);
  }
  return hues;
}

function hex(hue, saturation, lightness) {
  const chroma = (saturation / 100) * Math.min(lightness / 100, 1 - lightness / 100);
  const part = (shift) => {
    const turn = (shift + hue / 30) % 12;
    const value = lightness / 100 - chroma * Math.max(-1, Math.min(turn - 3, 9 - turn, 1));
    return Math.round(255 * value).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

export class Theme {
  constructor(element) {
    const dark = isDark(element);
    Object.assign(this, dark ? DARK : LIGHT);
    this.name = dark ? "dark" : "light";
    this.series = SERIES[this.name];
  }

  /**
   * A region's colour: that of its package, names of it differ a little in lightness. The notebook's own
   * functions are warm, and each has a hue of its own there.
   */
  region(name, hue) {
    const value = hash(name);
    const shift = (value % 9) - 4;
    if (hue === OWN_HUE) {
      const [from, to, saturation, lightness] = this.own;
      return hex(from + ((value >>> 4) % (to - from)), saturation, lightness + shift);
    }
    return this.ofPackage(hue, shift);
  }

  ofPackage(slot, shift) {
    if (slot === OTHERS) {
      return hex(220, 6, this.lightness + shift);
    }
    const [hue, more] = HUES[slot];
    return hex(hue + shift / 2, this.saturation, this.lightness + more + shift / 2);
  }

  /** A package's own colour, in the legend. */
  owner(hue) {
    const [from, to, saturation, lightness] = this.own;
    return hue === OWN_HUE ? hex((from + to) / 2, saturation, lightness) : this.ofPackage(hue, 0);
  }

  variables() {
    const names = "background raised text faint line accent worse better mark".split(" ");
    return names.map((name) => `--${name}: ${this[name]};`).join("") + `color-scheme: ${this.name};`;
  }
}

/** Calls back when the page may have changed its theme. */
export function watchTheme(callback) {
  const observer = new MutationObserver(callback);
  const watched = { attributes: true, attributeFilter: ["class", "style", "data-jp-theme-light"] };
  observer.observe(document.body, watched);
  observer.observe(document.documentElement, watched);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
}
