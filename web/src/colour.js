/* Stands for the package color, a seventh of the bundle, of which flame-chart-js wants one thing:
 * colours for types that have none in its table. Ours all have one (flame.js), so what is
 * computed here is never seen.
 */
export default class Colour {
  constructor(text = "#888888") {
    this.text = text;
  }

  static hsl() {
    return new Colour();
  }

  rotate() {
    return this;
  }

  alpha() {
    return this;
  }

  rgb() {
    return this;
  }

  toString() {
    return this.text;
  }
}
