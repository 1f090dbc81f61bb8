/* A range of time, or of weight, that several plots show together: all that there is, or less where
 * it is bound to a part of that.
 *
 * Who changes it calls `set`; all plots that follow are called once before the next frame, so
 * that a movement costs one drawing however many events it had. Values are seconds since the
 * data's begin (or plain seconds of weight in a flame graph). The marks of the axis come from
 * here too: the grid of the timeline and those of the tracks are the same lines.
 */

const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400];
const UNITS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const NARROWEST_S = 1e-8;

function step(span, count) {
  const least = span / count;
  if (least > 30) {
    return STEPS.find((one) => one >= least) ?? Math.ceil(least / 86400) * 86400;
  }
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least * 0.999);
}

/** A time in its best unit, with digits for steps of the given size. */
export function time(seconds, digits = 3) {
  if (!seconds) {
    return "0 s";
  }
  if (Math.abs(seconds) >= 600) {
    return clock(seconds);
  }
  const [scale, unit] = UNITS.find(([one]) => Math.abs(seconds) >= one * 0.99995) ?? UNITS[3];
  const value = seconds / scale;
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1;
  return `${value.toFixed(Math.max(0, digits - whole))} ${unit}`;
}

function clock(seconds) {
  const whole = Math.round(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)}`;
}

const digitsOf = (increment, scale) =>
  Math.max(0, -Math.floor(Math.log10(increment / scale) + 1e-9));

/** The unit that suits the largest value, or a smaller one where steps would need many digits. */
function unitOf(largest, increment) {
  const first = UNITS.findIndex(([scale]) => largest >= scale * 0.99);
  const fitting = UNITS.slice(Math.max(0, first));
  return fitting.find(([scale]) => digitsOf(increment, scale) <= 4) ?? UNITS[3];
}

function label(seconds, [scale, name], increment) {
  if (increment >= 60) {
    return clock(seconds);
  }
  return `${(seconds / scale).toFixed(digitsOf(increment, scale))} ${name}`;
}

export class View {
  constructor(first, last) {
    this.begin = first;
    this.end = Math.max(last, first + NARROWEST_S);
    this.bounds = [-Infinity, Infinity];
    this.low = this.first;
    this.high = this.last;
    this.followers = new Set();
    this.frame = 0;
  }

  get first() {
    return Math.max(this.begin, Math.min(this.bounds[0], this.end - NARROWEST_S));
  }

  get last() {
    return Math.max(this.first + NARROWEST_S, Math.min(this.bounds[1], this.end));
  }

  /** Show no more than this, and all of it. */
  bound(first, last) {
    if (first !== this.bounds[0] || last !== this.bounds[1]) {
      this.bounds = [first, last];
      this.reset();
      this.tell();
    }
  }

  get span() {
    return this.high - this.low;
  }

  get whole() {
    return this.low <= this.first && this.high >= this.last;
  }

  follow(follower) {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }

  set(low, high) {
    const span = Math.min(Math.max(high - low, NARROWEST_S), this.last - this.first);
    const begin = Math.min(Math.max(low, this.first), this.last - span);
    if (begin === this.low && begin + span === this.high) {
      return;
    }
    this.low = begin;
    this.high = begin + span;
    this.tell();
  }

  /**
   * More came at the end: who looked at everything, or at the end, goes on doing so. With a `window` what
   * is older than that goes.
   */
  extend(last, window) {
    const { whole } = this;
    const before = this.last;
    this.end = Math.max(this.end, last);
    if (window) {
      this.begin = Math.max(this.begin, this.end - window);
    }
    const by = this.high >= before ? this.last - before : 0;
    if (whole) {
      this.reset();
    } else {
      this.set(this.low + by, this.high + by);
    }
    this.tell();
  }

  tell() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.followers.forEach((follower) => follower());
    });
  }

  reset() {
    this.set(this.first, this.last);
  }

  zoom(factor, around = (this.low + this.high) / 2) {
    const span = Math.min(Math.max(this.span * factor, NARROWEST_S), this.last - this.first);
    const low = around - ((around - this.low) / this.span) * span;
    this.set(low, low + span);
  }

  pan(part) {
    const by = this.span * part;
    this.set(this.low + by, this.high + by);
  }

  /** Where the axis has its marks, and what stands there. */
  marks(width) {
    const increment = step(this.span, Math.max(2, width / 100));
    const marks = [];
    const begin = Math.ceil(this.low / increment - 1e-9);
    for (let at = begin; at * increment <= this.high * (1 + 1e-12); at++) {
      marks.push(at * increment);
    }
    const unit = unitOf(Math.max(Math.abs(this.low), Math.abs(this.high)), increment);
    return { at: marks, labels: marks.map((mark) => label(mark, unit, increment)) };
  }
}
