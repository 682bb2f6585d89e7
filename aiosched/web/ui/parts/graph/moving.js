// Keyboard, pointer and wheel input in the graph: select, open, fold, pan and zoom.
import { useEffect, useRef } from "../../lib/html.js";
import { nodeWords } from "./chosen.js";
import { neighbour, nodeAt } from "./scene.js";

/** @typedef {import("./scene.js").Position} Position */
/** @typedef {import("../canvas.js").CanvasRef} CanvasRef */
/** @typedef {{ x: number, y: number, moved: boolean }} Drag */

/**
 * @typedef {object} Actions
 * @property {(position: Position) => void} move
 * @property {(factor: number, point?: number[]) => void} zoom around a point, or the middle
 * @property {(point: number[]) => boolean} map moves to a point of the small map; false if it is not there
 * @property {() => void} fit shows the whole graph
 * @property {(node: Api["GraphNode"]) => void} show moves so that a node is in view
 * @property {(id: string | null) => void} choose
 * @property {(node: Api["GraphNode"]) => void} fold folds or unfolds a group
 * @property {(node: Api["GraphNode"]) => void} open opens a task, folds a group
 *
 * What the pointer listeners need: `chosen` is the id of a node, `hover` that of the node under the pointer.
 * @typedef {{ chosen: string | null, position: Ref<Position>, hover: Ref<string | null>, canvas: CanvasRef,
 *   tip: import("../canvas.js").Tip, redraw: () => void, actions: Actions }} Pointed
 */

/**
 * @param {Api["DagGraph"]} graph
 * @param {Api["GraphNode"] | undefined} selected
 * @param {Ref<Position | null>} position null until the first paint
 * @param {Actions} actions
 * @returns {(event: KeyboardEvent) => void}
 */
export function keyListener(graph, selected, position, { zoom, fit, show, choose, open }) {
  /** @param {string} key */
  const step = (key) => {
    const next = neighbour(graph, selected, key);
    if (!next) return;
    choose(next.id);
    show(next);
  };
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !position.current) return;
    if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else if (event.key.startsWith("Arrow")) step(event.key);
    else if ((event.key === "Enter" || event.key === " ") && selected) open(selected);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/**
 * The position of an event in the canvas.
 * @param {CanvasRef} canvas
 * @param {MouseEvent} event
 */
function pointIn(canvas, event) {
  const frame = canvas.current.getBoundingClientRect();
  return [event.clientX - frame.left, event.clientY - frame.top];
}

/**
 * Pointer listeners for panning, selecting and opening.
 * @param {Api["DagGraph"]} graph
 * @param {Pointed} pointed
 * @returns {Record<string, (event: PointerEvent) => void>}
 */
export function usePointer(graph, { chosen, position, hover, canvas, tip, redraw, actions }) {
  /** @type {Ref<Drag | null>} */
  const drag = useRef(null);
  /** @param {PointerEvent} event */
  const under = (event) => nodeAt(graph.nodes, position.current, pointIn(canvas, event));
  /**
   * @param {PointerEvent} event
   * @param {Drag} from
   */
  const pan = (event, from) => {
    const dx = event.clientX - from.x;
    const dy = event.clientY - from.y;
    if (!from.moved && Math.abs(dx) + Math.abs(dy) <= 3) return;
    drag.current = { x: event.clientX, y: event.clientY, moved: true };
    tip.hide();
    actions.move({ ...position.current, x: position.current.x + dx, y: position.current.y + dy });
  };
  return {
    onPointerDown(event) {
      if (!position.current || event.button || /** @type {Element} */ (event.target).closest("button")) return;
      drag.current = { x: event.clientX, y: event.clientY, moved: false };
      canvas.current.parentElement.setPointerCapture(event.pointerId);
    },
    onPointerMove(event) {
      if (!position.current) return;
      if (drag.current) return void pan(event, drag.current);
      const node = under(event);
      if ((node?.id ?? null) !== hover.current) {
        hover.current = node?.id ?? null;
        redraw();
        canvas.current.parentElement.style.cursor = node ? "pointer" : "";
      }
      if (node) tip.show(nodeWords(node), event);
      else tip.hide();
    },
    onPointerUp(event) {
      const was = drag.current;
      drag.current = null;
      if (!was || was.moved || actions.map(pointIn(canvas, event))) return;
      const node = under(event);
      if (node?.kind === "group" && node.id === chosen) actions.fold(node);
      else actions.choose(node?.id ?? null);
    },
    onPointerLeave() {
      hover.current = null;
      tip.hide();
      redraw();
    },
    onDblClick(event) {
      const node = under(event);
      if (node?.kind === "task") actions.open(node);
    },
  };
}

/**
 * Zoom with the wheel. Preact's wheel listeners are passive, so they could not prevent the page from scrolling.
 * @param {CanvasRef} canvas
 * @param {import("../canvas.js").Tip} tip
 * @param {Actions} actions
 */
export function useWheel(canvas, tip, { zoom }) {
  useEffect(() => {
    const target = canvas.current.parentElement;
    /** @param {WheelEvent} event */
    const onWheel = (event) => {
      event.preventDefault();
      tip.hide();
      zoom(Math.exp(-event.deltaY * 0.0015), pointIn(canvas, event));
    };
    target.addEventListener("wheel", onWheel, { passive: false });
    return () => target.removeEventListener("wheel", onWheel);
  });
}
