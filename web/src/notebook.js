/* The way from a region to the line of the cell that it stands in.
 *
 * In JupyterLab, Notebook and pages that nbconvert made, cells are in the same document and
 * are found by the number in their prompt. Elsewhere (VS Code shows outputs in a frame of their own) the
 * output shows the cell's text itself.
 */
import { element } from "./dom.js";

const PROMPTS = ".jp-InputPrompt, .input_prompt, .prompt";
const CELLS = ".jp-Cell, .cell";

function cellOf(number) {
  const wanted = new RegExp(`\\[\\s*${number}\\s*\\]`);
  const prompts = [...document.querySelectorAll(PROMPTS)];
  return prompts.find((prompt) => wanted.test(prompt.textContent))?.closest(CELLS);
}

/** Scrolls to a line of a cell, and lets it flash. False where the notebook isn't in this document. */
export function reveal(number, line, colour) {
  const cell = cellOf(number);
  if (!cell) {
    return false;
  }
  const lines = cell.querySelectorAll(".jp-InputArea .cm-line");
  const target = lines[line - 1] ?? cell.querySelector(".jp-InputArea, .input_area, .input") ?? cell;
  target.scrollIntoView({ block: "center", behavior: "smooth" });
  target.animate([{ background: colour }, { background: colour, offset: 0.6 }, {}], 2500);
  return true;
}

/** The text of a cell around a line. */
export function excerpt(source, line) {
  const lines = source.split("\n");
  const begin = Math.max(0, line - 4);
  return element(
    "pre",
    { class: "excerpt" },
    ...lines.slice(begin, line + 3).map((text, at) => {
      const number = begin + at + 1;
      const shown = `${String(number).padStart(4)}  ${text}\n`;
      return element(number === line ? "mark" : "span", {}, shown);
    }),
  );
}
