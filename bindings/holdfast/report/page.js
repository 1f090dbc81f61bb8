/* Draws a view when it is opened for the first time, and sorts the table of cells.
 *
 * A view waits in a template. What is taken out of it runs when it comes into the page: the loader
 * (web/src/loader.js), beside the program, which the page has once.
 */
(() => {
  const program = document.querySelector("#program script");
  const draw = (box) => {
    const template = box.querySelector("template");
    if (!box.open || !template || !program) return;
    const output = document.importNode(template.content, true);
    output.querySelector(".holdfast-views").prepend(program.cloneNode(true));
    template.remove();
    box.querySelector(".still").remove();
    box.append(output);
  };
  for (const box of document.querySelectorAll("details.view"))
    box.addEventListener("toggle", () => draw(box));
  const key = (row, at) => row.cells[at].dataset.key ?? row.cells[at].textContent;
  document.querySelectorAll("table.cells th button").forEach((head, at) => {
    let sign = 1;
    head.addEventListener("click", () => {
      sign = -sign;
      const body = head.closest("table").tBodies[0];
      const order = (one, other) =>
        key(one, at).localeCompare(key(other, at), "en", { numeric: true });
      body.append(...[...body.rows].sort((one, other) => sign * order(one, other)));
    });
  });
})();
