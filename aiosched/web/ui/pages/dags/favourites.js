// The favourite DAGs of a user in this browser.
import { computed, html, signal } from "../../lib/html.js";
import { me } from "../../lib/api.js";

const changes = signal(0);
const key = () => `aiosched.favourites.${me.value?.name ?? ""}`;

/** The ids, in the order in which they were chosen. */
export const favourites = computed(() => {
  changes.value; // read again after each change
  try {
    const found = JSON.parse(localStorage.getItem(key()) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // somebody has edited it
  }
});

/** @param {string} dagId */
function toggle(dagId) {
  const others = favourites.value.filter((one) => one !== dagId);
  const next = others.length < favourites.value.length ? others : [...others, dagId];
  localStorage.setItem(key(), JSON.stringify(next.slice(-500)));
  changes.value++;
}

/**
 * A button that makes a DAG a favourite.
 * @param {{ dagId: string }} props
 */
export function Favourite({ dagId }) {
  const is = favourites.value.includes(dagId);
  return html`
    <button
      class=${is ? "star on" : "star"}
      aria-pressed=${is ? "true" : "false"}
      aria-label=${`Favourite ${dagId}`}
      title=${is ? "Remove from favourites" : "Add to favourites (in this browser)"}
      onClick=${() => toggle(dagId)}
    >
      ${is ? "★" : "☆"}
    </button>
  `;
}
