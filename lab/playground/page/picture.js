// The picture of a run, as the server drew it, with a cursor over it.

import { byId } from "./elements.js";

const [stage, drawing, veil, mark, cursor] = ["stage", "drawing", "veil", "mark", "cursor"].map(byId);

let picture = null;

// The width at which the texts of a picture have their natural size.
export function width(container = stage) {
  return Math.round(Math.min(Math.max(container.clientWidth, 300), 1200));
}

export function show(drawn, label) {
  picture = drawn;
  drawing.innerHTML = drawn.svg;
  drawing.setAttribute("aria-label", label);
}

// The position of a moment, as a share of the width.
export function share(time) {
  const { left, right, width, scale } = picture;
  return (left + between(scale, time, 0, 1) * (right - left)) / width;
}

// The moment at a position of the window.
export function timeAt(clientX) {
  const box = drawing.getBoundingClientRect();
  const { left, right, width, scale } = picture;
  const x = ((clientX - box.left) / box.width) * width;
  return between(scale, (x - left) / (right - left), 1, 0);
}

// The axis is even between the knots of its scale. Returns the value of one column for a value of the other.
function between(knots, value, given, wanted) {
  const index = knots.findIndex((knot) => knot[given] > value);
  if (index <= 0) return knots.at(index)[wanted];
  const [before, after] = [knots[index - 1], knots[index]];
  const passed = (value - before[given]) / (after[given] - before[given]);
  return before[wanted] + passed * (after[wanted] - before[wanted]);
}

export const lanes = () => picture.lanes;

// The lane with this name, in shares of the height.
export function lane(name) {
  const found = picture.lanes.find((lane) => lane.name === name);
  return found && { top: found.top / picture.height, bottom: found.bottom / picture.height };
}

// The name of the lane at a position of the window.
export function laneAt(clientY) {
  const box = drawing.getBoundingClientRect();
  const y = ((clientY - box.top) / box.height) * picture.height;
  return picture.lanes.find((lane) => lane.top <= y && y < lane.bottom)?.name;
}

export function moveCursor(time) {
  place(cursor, time);
  place(veil, time);
  veil.style.right = `${(1 - picture.right / picture.width) * 100}%`;
}

export const moveMark = (time) => place(mark, time);

// Puts an overlay at a moment, across all lanes.
function place(overlay, time) {
  const first = picture.lanes[0], last = picture.lanes.at(-1);
  overlay.style.left = `${share(time) * 100}%`;
  overlay.style.top = `${((first?.top ?? 0) / picture.height) * 100}%`;
  overlay.style.bottom = `${(1 - (last?.bottom ?? picture.height) / picture.height) * 100}%`;
}

// Calls `onTime` while the pointer is pressed on the picture.
export function scrub(onTime) {
  drawing.addEventListener("pointerdown", (event) => {
    drawing.setPointerCapture(event.pointerId);
    onTime(timeAt(event.clientX));
  });
  drawing.addEventListener("pointermove", (event) => {
    if (drawing.hasPointerCapture(event.pointerId)) onTime(timeAt(event.clientX));
  });
}
