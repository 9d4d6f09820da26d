// Plays a run: moves the cursor, and shows the knowledge and the events at its time.

import { byId, element, seconds } from "./elements.js";
import * as picture from "./picture.js";

const [slider, now, when, play, speed, messages, announcement] =
  ["time", "now", "when", "play", "speed", "messages", "announcement"].map(byId);
const [table, log] = [byId("knowledge").tBodies[0], byId("events")];

// The number of events in the list.
const LISTED = 8;

// The time between two steps for readers who prefer reduced motion.
const STILL = 700;

let view = null;
let time = 0;
let frame = null;

export const current = () => time;

export function load(loaded, start) {
  stop();
  view = loaded;
  const { from, until } = view.picture;
  [slider.min, slider.max] = [from, until];
  picture.moveMark(view.moment);
  seek(start);
}

export function seek(to) {
  const { from, until } = view.picture;
  time = Math.min(Math.max(to, from), until);
  slider.value = time;
  now.textContent = seconds(time);
  when.textContent = seconds(time);
  picture.moveCursor(time);
  const past = view.events.filter((event) => event.at <= time && isStep(event));
  slider.setAttribute("aria-valuetext", [seconds(time), past.at(-1)?.text].filter(Boolean).join(": "));
  showKnowledge();
  showEvents(past.slice(-LISTED));
}

// Plays from the cursor, or from the beginning if the cursor is at the end, or where the run opens.
export function start() {
  if (time >= view.picture.until || time === view.moment) seek(view.picture.from);
  play.textContent = "Pause";
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const timer = isStill ? jump : move;
  timer();
}

export function stop() {
  cancelAnimationFrame(frame);
  clearTimeout(frame);
  frame = null;
  play.textContent = "Play";
}

function move() {
  let before = performance.now();
  const tick = (moment) => {
    const passed = Math.max(moment - before, 0) / 1000;
    before = moment;
    seek(time + passed * Number(speed.value));
    if (time >= view.picture.until) return stop();
    frame = requestAnimationFrame(tick);
  };
  frame = requestAnimationFrame(tick);
}

function jump() {
  const next = neighbor(1);
  seek(next?.at ?? view.picture.until);
  if (!next) return stop();
  frame = setTimeout(jump, STILL);
}

const isStep = (event) => messages.checked || !event.is_message;

// The next event in a direction, at another time than the cursor.
function neighbor(direction) {
  const steps = view.events.filter(isStep);
  return direction > 0
    ? steps.find((event) => event.at > time)
    : steps.findLast((event) => event.at < time);
}

function step(direction) {
  stop();
  const next = neighbor(direction);
  seek(next?.at ?? (direction > 0 ? view.picture.until : view.picture.from));
  const same = view.events.filter((event) => event.at === time && isStep(event));
  announcement.textContent = [seconds(time), ...same.map((event) => event.text)].join(", ");
}

function showKnowledge() {
  const known = view.facts.filter((fact) => fact.from <= time && time < fact.until);
  const rows = places().map((place) => {
    const texts = known.filter((fact) => fact.place === place).map(text);
    return [place, texts.length ? texts : [nothing(place)]];
  });
  table.replaceChildren(...rows.map(([place, texts]) => {
    const lines = texts.map((text) => element("div", {}, text));
    return element("tr", {}, element("th", { scope: "row" }, place), element("td", {}, ...lines));
  }));
}

// The lanes of the picture. Those of paths are listed only while they have a fault.
function places() {
  const known = new Set(view.facts.filter((fact) => fact.from <= time && time < fact.until).map((fact) => fact.place));
  const lanes = view.picture.lanes.map((lane) => lane.name);
  return lanes.filter((name) => !isPath(name) || known.has(name));
}

const isPath = (name) => name.includes("-") || name === "net";

function text({ text, deadline }) {
  if (!deadline) return text;
  const [at, label] = deadline;
  return `${text}, ${label} ${seconds(Math.max(at - time, 0))}`;
}

function nothing(place) {
  if (place.startsWith("c")) return "holds no lock";
  return place.startsWith("n") ? "no key" : "no token seen";
}

function showEvents(events) {
  log.replaceChildren(...events.map((event) =>
    element("li", { class: event.is_message ? "minor" : null }, element("span", { class: "at" }, seconds(event.at)), ` ${event.text}`)));
}

play.addEventListener("click", () => (frame ? stop() : start()));
byId("back").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("moment").addEventListener("click", () => {
  stop();
  seek(view.moment);
});
slider.addEventListener("input", () => {
  stop();
  seek(Number(slider.value));
});
messages.addEventListener("change", () => seek(time));
picture.scrub((time) => {
  stop();
  seek(time);
});
