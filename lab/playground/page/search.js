// The search for a seed that violates an invariant.

import * as api from "./api.js";
import { byId, element, field, number, seconds, select } from "./elements.js";
import * as picture from "./picture.js";

const [form, progress, status, found] = ["search-form", "progress", "search-status", "found"].map(byId);

let running = null;

export function prepare(catalog) {
  const { searches, bounds } = catalog;
  const settings = addressed() ?? { faults: searches[0].name, nodes: 3, clients: 3, first: 0, seeds: 300 };
  const set = (name) => (value) => { settings[name] = name === "faults" ? value : Number(value); };
  const numbers = [["nodes", "Nodes", bounds.nodes], ["clients", "Clients", bounds.clients],
    ["first", "First seed", [0, Number.MAX_SAFE_INTEGER]], ["seeds", "Seeds", bounds.seeds]];
  const choices = searches.map(({ name, label }) => [name, label]);
  form.append(
    field("search-faults", "Assumptions", select(settings.faults, choices), set("faults")),
    ...numbers.map(([name, label, range]) => field(`search-${name}`, label, number(settings[name], range), set(name))),
    element("button", { type: "submit", id: "search-start" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) running.abort();
    else start({ ...settings });
  });
  if (addressed()) byId("search").scrollIntoView();
}

// The settings in the fragment of the address, such as #search=bounded,3,3,0,300.
function addressed() {
  const [, text] = location.hash.match(/^#search=(.*)/) ?? [];
  if (!text) return null;
  const [faults, ...numbers] = text.split(",");
  const [nodes, clients, first, seeds] = numbers.map(Number);
  return { faults, nodes, clients, first, seeds };
}

async function start(settings) {
  const { faults, nodes, clients, first, seeds } = settings;
  history.replaceState(null, "", `#search=${[faults, nodes, clients, first, seeds]}`);
  running = new AbortController();
  byId("search-start").textContent = "Stop";
  found.hidden = true;
  [progress.hidden, progress.max, progress.value] = [false, settings.seeds, 0];
  status.textContent = "Searching";
  let isDone = false;
  const onProgress = (line) => {
    if (line.tried !== undefined) {
      progress.value = line.tried;
      return;
    }
    isDone = true;
    if (line.found) showFound(line.found);
    else showNothing(line.nothing);
  };
  try {
    await api.search({ ...settings, width: picture.width(form) }, onProgress, running.signal);
    if (!isDone) status.textContent = "The search has ended early: a run has failed.";
  } catch (error) {
    const isStopped = error.name === "AbortError";
    status.textContent = isStopped ? `Stopped after ${progress.value} seeds, without a violation.` : error.message;
  }
  running = null;
  progress.hidden = true;
  byId("search-start").textContent = "Search";
}

function showNothing({ tried, out_of_time: outOfTime }) {
  const runs = tried === 1 ? "1 seed was tried" : `${tried} seeds were tried`;
  status.textContent = outOfTime ? `The time limit is reached: ${runs}, without a violation.` : `${runs}, without a violation.`;
}

function showFound({ seed, tried, address, violation, prefix, picture }) {
  status.textContent = `Seed ${seed} violates an invariant, after ${tried} ${tried === 1 ? "seed" : "seeds"}.`;
  const drawing = element("div", { class: "drawing", role: "img", "aria-label": `Timeline of the violation: ${violation.text}` });
  drawing.innerHTML = picture.svg;
  found.replaceChildren(
    element("p", {}, "Violated: ", element("strong", {}, violation.sentence), ` ${describe(violation)}`),
    drawing,
    element("p", {}, element("a", { href: `/?${address}` }, `Open the whole run of seed ${seed}`)),
    element("details", {}, element("summary", {}, "Shortest prefix of the history that shows it"), element("pre", {}, prefix)));
  found.hidden = false;
}

export function describe({ at, text, assumption }) {
  const broken = assumption ? `The assumption that was broken: ${assumption}.` : "No assumption was broken: this is a defect.";
  return `At ${seconds(at)}: ${text}. ${broken}`;
}
