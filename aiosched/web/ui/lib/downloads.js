// Links to files: whether the session still goes on is asked first, since a browser only says that a download failed.
import { get } from "./api.js";

document.addEventListener("click", async (event) => {
  if (
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const target = /** @type {Partial<Element>} */ (event.target);
  const link = /** @type {HTMLAnchorElement | null | undefined} */ (target.closest?.("a[download]"));
  if (!link) return;
  if (link.dataset.asked !== undefined) return void delete link.dataset.asked;
  event.preventDefault();
  try {
    await get("me");
  } catch (problem) {
    if (problem.status === 401) return; // the page shows the login
  }
  link.dataset.asked = "";
  link.click();
});
