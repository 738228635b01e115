"use strict";
// Both are conveniences: without them every value is on the page, in the order it was written in.

// A table's heading sorts it; pressed again, the other way round. What has no value stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    const numbers = rows.some(([value]) => typeof value === "number");
    const missing = ([value]) => numbers ? typeof value !== "number" : value === "";
    rows.sort((one, other) => {
      if (missing(one) || missing(other)) return missing(one) - missing(other);
      const order = numbers ? one[0] - other[0]
        : one[0].localeCompare(other[0], "en", { numeric: true });
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  }));
}

// A plot is read out point by point, by pointer or by the arrow keys.
for (const area of document.querySelectorAll(".area[data-points]")) {
  const points = JSON.parse(area.dataset.points);
  if (!points.length) continue;
  const stairs = "stairs" in area.dataset;
  const output = area.parentElement.querySelector("output");
  const cursor = document.createElement("span");
  cursor.className = "cursor";
  let at = -1;
  const show = (index) => {
    at = Math.max(0, Math.min(points.length - 1, index));
    const [x, y, text] = points[at];
    cursor.style.left = x / 100 + "%";
    cursor.style.bottom = y / 100 + "%";
    area.append(cursor);
    output.textContent = text;
  };
  const nearest = (x, y, width, height) => {
    let best = 0, least = Infinity;
    points.forEach(([a, b], index) => {
      // A value of stairs holds until the next one; otherwise the nearest point is meant.
      const across = (x - a / 10000) * width, up = (y - b / 10000) * height;
      const far = stairs ? (across < 0 ? Infinity : across) : Math.hypot(across, up);
      if (far < least || (stairs && far === least)) { best = index; least = far; }
    });
    return best;
  };
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = (box.bottom - event.clientY) / box.height;
    show(nearest(x, y, box.width, box.height));
  });
  area.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: points.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
}
