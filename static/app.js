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
