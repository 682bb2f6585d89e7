// A button that opens a small box beside it; Esc, a click elsewhere and a choice in it close it.
import { html, useLayoutEffect, useRef, useState } from "../lib/html.js";

let last = 0;

/**
 * `words` are on the button, `label` names it and the box; `opener` is a ref to the button. The children are rendered
 * while the box is open.
 * @param {{ words: Content, label: string, class?: string, opener?: Ref<HTMLElement>,
 *   children?: Content | ((close: () => void) => Content), [attribute: string]: unknown }} props
 */
export function Menu({ words, label, class: look = "button small quiet", opener, children, ...rest }) {
  const [id] = useState(() => `menu-${++last}`);
  const [open, setOpen] = useState(false);
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  /** @type {Ref<HTMLElement>} */
  const own = useRef(null);
  const button = opener ?? own;
  const close = () => box.current.hidePopover();
  /** @param {KeyboardEvent} event */
  const keyed = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // else a field that is searched in takes the first one
    event.stopPropagation();
    close();
    button.current.focus();
  };
  /** Below the button, inside the window. */
  const place = () => {
    const { left, bottom, top } = button.current.getBoundingClientRect();
    const { width, height } = box.current.getBoundingClientRect();
    const below = bottom + 4 + height <= innerHeight || bottom < innerHeight - top;
    box.current.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8))}px`;
    box.current.style.top = `${Math.max(8, below ? bottom + 4 : top - height - 4)}px`;
  };
  useLayoutEffect(() => {
    if (!open) return;
    place();
    /** @type {HTMLElement | null} */ (box.current.querySelector("input, button"))?.focus();
  }, [open]);
  return html`
    <button
      ref=${button}
      type="button"
      class=${look}
      aria-label=${label}
      aria-expanded=${open ? "true" : "false"}
      popovertarget=${id}
      ...${rest}
    >
      ${words}
    </button>
    <div
      ref=${box}
      id=${id}
      popover
      class="popup"
      role="group"
      aria-label=${label}
      onToggle=${(/** @type {Event & { newState: string }} */ event) => setOpen(event.newState === "open")}
      onKeyDown=${keyed}
    >
      ${open && (typeof children === "function" ? children(close) : children)}
    </div>
  `;
}
