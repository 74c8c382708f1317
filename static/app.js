// Comfort only: every page can be read and worked without this file.
"use strict";

// `/` goes to the page's search field.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector(".find .in");
  const writing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && field && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
  }
});

// A swap that failed says so; without this the page would just stay as it is.
const failed = (event) => {
  const toast = document.createElement("p");
  toast.className = "pop toast";
  toast.setAttribute("role", "alert");
  const status = event.detail.xhr && event.detail.xhr.status;
  toast.textContent = status
    ? `Not done: the server answered ${status}. Reload the page and try again.`
    : "Not done: the server can't be reached.";
  document.getElementById("toasts").replaceChildren(toast);
};
document.addEventListener("htmx:responseError", failed);
document.addEventListener("htmx:sendError", failed);

// Copy buttons take the text of the field they name; without this file one selects and copies by hand.
for (const button of document.querySelectorAll("[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      document.execCommand("copy"); // no clipboard outside https and localhost
    }
    button.querySelector("span").textContent = "Copied";
  });
}

// X-ray: `n` and `p` go from change to change, `[` and `]` from step to step.
const writes = (event) =>
  event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]");

const goToChange = (step) => {
  const notes = [...document.querySelectorAll("#result .chgnote")];
  if (!notes.length) return;
  const at = notes.findIndex((note) => note.classList.contains("at"));
  const next = at < 0 ? (step > 0 ? 0 : notes.length - 1) : Math.min(notes.length - 1, Math.max(0, at + step));
  for (const marked of document.querySelectorAll("#result .at")) marked.classList.remove("at");
  const note = notes[next];
  note.classList.add("at");
  for (const mark of document.querySelectorAll(`#result a.mark[href="#${CSS.escape(note.id)}"]`)) mark.classList.add("at");
  note.scrollIntoView({ block: "center" });
  note.querySelector("a.mark").focus({ preventScroll: true });
};

const goToStep = (step) => {
  const stops = [...document.querySelectorAll("#result .steps a")];
  const at = stops.findIndex((stop) => stop.hasAttribute("aria-current"));
  const next = stops[at + step];
  if (next) next.click();
};

document.addEventListener("keydown", (event) => {
  if (!document.querySelector("#result .steps") || writes(event)) return;
  const act = { n: () => goToChange(1), p: () => goToChange(-1), "]": () => goToStep(1), "[": () => goToStep(-1) }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// The matrix is one stop for Tab; arrows go on to the next cell that leads somewhere.
const cells = [...document.querySelectorAll(".matrix a.cell")];
cells.forEach((cell, i) => {
  cell.tabIndex = i ? -1 : 0;
});

const cellBeyond = (cell, key) => {
  const rows = [...cell.closest("table").querySelectorAll("tbody tr")];
  const row = cell.closest("tr");
  const column = [...row.children].indexOf(cell.closest("td"));
  const linkAt = (r, c) => rows[r] && rows[r].children[c] && rows[r].children[c].querySelector("a.cell");
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
  let r = rows.indexOf(row) + down;
  let c = column + right;
  while (r >= 0 && r < rows.length && c > 0 && c < row.children.length) {
    const found = linkAt(r, c);
    if (found) return found;
    r += down;
    c += right;
  }
  return null;
};

document.addEventListener("keydown", (event) => {
  const cell = event.target.closest(".matrix a.cell");
  if (!cell || !event.key.startsWith("Arrow") || writes(event)) return;
  event.preventDefault();
  const next = cellBeyond(cell, event.key);
  if (!next) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
});
