// The incidents on the timeline: handles that are dragged, or moved by keys.

import { byId, element, seconds } from "./elements.js";
import * as picture from "./picture.js";

const [handles, palette] = ["handles", "palette"].map(byId);

// Steps of the arrow keys in milliseconds, without and with Shift. Plus and minus always use the first step, since some
// keyboards need Shift for them.
const STEPS = [100, 1000];

// The duration of a new incident, and the step of a clock.
const NEW = { step: 5000, other: 1500 };

let kinds = [];
let setup = null;
let onChange = () => {};
let timeNow = () => 0;

// `changed` is called with the new incidents, and with the number of the one that was changed.
export function prepare(catalog, now, changed) {
  [kinds, timeNow, onChange] = [catalog.kinds, now, changed];
  palette.replaceChildren(...kinds.map((kind) => {
    const add = () => insert(kind, Math.round(timeNow() * 1000), kind.node ? "n0" : "c0");
    const button = element("button", { type: "button", class: "new", click: add }, `+ ${kind.label}`);
    dragged(button, {
      move: (event) => floating(button, event),
      drop: (event) => {
        floating(button, null);
        const name = laneOf(kind, event.clientY);
        if (name) insert(kind, Math.round(picture.timeAt(event.clientX) * 1000), name);
      },
    });
    return button;
  }));
}

export function show(shown) {
  setup = shown;
  handles.replaceChildren(...(setup?.incidents ?? []).map(handle));
}

// Marks the incident that the server rejects, or no incident.
export function mark(index) {
  [...handles.children].forEach((handle, other) => handle.classList.toggle("wrong", other === index));
}

export function focus(index) {
  handles.children[index]?.focus();
}

const kindOf = (incident) => kinds.find((kind) => kind.name === incident.kind);

// The name of the place of an incident. A partition is on the lane of its node.
const placeOf = (incident) => (kindOf(incident).node ? `n${incident.node}` : `c${incident.client}`);

function insert(kind, at, name) {
  const number = Number(name.slice(1));
  const incident = {
    at: Math.min(Math.max(at, 0), setup.lasts),
    kind: kind.name,
    node: kind.node ? number : null,
    client: kind.client ? (kind.node ? 0 : number) : null,
    ms: NEW[kind.name] ?? NEW.other,
  };
  onChange([...setup.incidents, incident], setup.incidents.length);
}

function change(index, changes) {
  onChange(setup.incidents.map((incident, other) => (other === index ? { ...incident, ...changes } : incident)), index);
}

function remove(index) {
  onChange(setup.incidents.filter((_, other) => other !== index), Math.max(index - 1, 0));
}

// The lane at a position, if an incident of that kind can be there.
function laneOf(kind, clientY) {
  const name = picture.laneAt(clientY);
  const letter = kind.node ? "n" : "c";
  const end = name?.split("-").at(-1);
  return end?.startsWith(letter) ? end : null;
}

export function describe(incident) {
  const { label, client, node } = kindOf(incident);
  const places = [client && `c${incident.client}`, node && `n${incident.node}`].filter(Boolean).join(" and ");
  const lasts = incident.kind === "step" ? `by ${incident.ms} ms` : `for ${seconds(incident.ms / 1000)}`;
  return `${places}: ${label}, at ${seconds(incident.at / 1000)} ${lasts}`;
}

function handle(incident, index) {
  const lane = picture.lane(`c${incident.client}-n${incident.node}`) ?? picture.lane(placeOf(incident))
    ?? { top: 0.9, bottom: 1 };
  const begin = incident.at / 1000;
  const lasts = incident.kind === "step" ? 0 : incident.ms / 1000;
  const [left, right] = [picture.share(begin), picture.share(begin + lasts)];
  const created = element("button", {
    type: "button",
    class: "handle",
    title: describe(incident),
    "aria-label": describe(incident),
    "aria-describedby": "handle-help",
    style: `left: ${left * 100}%; width: max(${(right - left) * 100}%, 1.5rem); top: ${lane.top * 100}%; `
      + `height: ${(lane.bottom - lane.top) * 100}%`,
    keydown: (event) => pressed(event, incident, index),
  });
  dragged(created, {
    move: (event, by) => { created.style.transform = `translate(${by.x}px, ${by.y}px)`; },
    drop: (event, by) => {
      created.style.transform = "";
      // The axis is not even, so the time is that of the new left edge.
      const at = Math.round(picture.timeAt(created.getBoundingClientRect().left + by.x) * 1000);
      moved(index, incident, at, laneOf(kindOf(incident), event.clientY));
    },
  });
  return created;
}

function moved(index, incident, at, name) {
  const place = name ? { [name.startsWith("n") ? "node" : "client"]: Number(name.slice(1)) } : {};
  change(index, { at: Math.min(Math.max(at, 0), setup.lasts), ...place });
}

function pressed(event, incident, index) {
  const step = STEPS[Number(event.shiftKey)];
  const key = { "=": "+", _: "-" }[event.key] ?? event.key;
  const actions = {
    ArrowLeft: () => moved(index, incident, incident.at - step),
    ArrowRight: () => moved(index, incident, incident.at + step),
    ArrowUp: () => shift(index, incident, -1),
    ArrowDown: () => shift(index, incident, 1),
    "+": () => change(index, { ms: incident.ms + STEPS[0] }),
    "-": () => change(index, { ms: Math.max(incident.ms - STEPS[0], incident.kind === "step" ? -60000 : STEPS[0]) }),
    Delete: () => remove(index),
  };
  if (!actions[key]) return;
  event.preventDefault();
  actions[key]();
}

// Moves an incident to the next place of its kind.
function shift(index, incident, by) {
  const [key, count] = kindOf(incident).node ? ["node", setup.nodes] : ["client", setup.clients.length];
  change(index, { [key]: (incident[key] + by + count) % count });
}

// Calls `move` and `drop` while an element is dragged. A press without a movement stays a click.
function dragged(target, { move, drop }) {
  let from = null;
  let isMoved = false;
  const by = (event) => ({ x: event.clientX - from.x, y: event.clientY - from.y, from });
  target.addEventListener("pointerdown", (event) => {
    target.setPointerCapture(event.pointerId);
    [from, isMoved] = [{ x: event.clientX, y: event.clientY }, false];
  });
  target.addEventListener("pointermove", (event) => {
    if (!from) return;
    const distance = by(event);
    isMoved ||= Math.hypot(distance.x, distance.y) > 4;
    if (isMoved) move(event, distance);
  });
  target.addEventListener("pointerup", (event) => {
    if (from && isMoved) drop(event, by(event));
    from = null;
  });
  target.addEventListener("pointercancel", () => { from = null; });
  // The click after a drag does not add an incident.
  target.addEventListener("click", (event) => {
    if (isMoved) event.stopImmediatePropagation();
    isMoved = false;
  }, { capture: true });
}

// Moves an element with the pointer, or puts it back.
function floating(target, event) {
  target.classList.toggle("floating", Boolean(event));
  if (!event) return target.style.removeProperty("transform");
  target.style.transform = "";
  const box = target.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
  target.style.transform = `translate(${x}px, ${y}px)`;
}
