// Looks that are chosen and remembered in the browser: the theme (light, dark, or the system's), the height of rows.
import { signal } from "./html.js";

export const theme = signal(localStorage.getItem("aiosched.theme") || "system");

/** @param {string} name */
export function setTheme(name) {
  theme.value = name;
  if (name === "system") {
    localStorage.removeItem("aiosched.theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("aiosched.theme", name);
    document.documentElement.dataset.theme = name;
  }
}

/** "comfortable" or "compact": how high rows are. */
export const density = signal(
  localStorage.getItem("aiosched.density") === "compact" ? "compact" : "comfortable",
);

/** @param {string} name */
export function setDensity(name) {
  density.value = name;
  if (name === "compact") localStorage.setItem("aiosched.density", name);
  else localStorage.removeItem("aiosched.density");
  document.documentElement.dataset.density = name;
}
