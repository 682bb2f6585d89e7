// Theme: light, dark, or the system's.
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
