"use strict";
// Heads of columns become buttons that sort; without scripts the tables are as they were written.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = table.tBodies[0];
  if (rows.rows.length < 2) continue;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const number = head.classList.contains("number");
      const key = (row) => {
        const text = row.cells[column].dataset.value;
        return number ? parseFloat(text) : text;
      };
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (number && (isNaN(x) || isNaN(y))) return isNaN(x) - isNaN(y);  // undefined ones last
        const order = x < y ? -1 : x > y ? 1 : 0;
        return down ? -order : order;
      };
      rows.append(...[...rows.rows].sort(compare));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
