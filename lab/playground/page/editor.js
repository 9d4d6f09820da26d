// The form of an experiment: numbers, clients and incidents. Every change makes a new setup.

import { byId, checkbox, described, element, field, number, select } from "./elements.js";

const form = byId("setup");

let bounds = {};
let attempts = "";
let kinds = [];
let onChange = () => {};

export function prepare(catalog, changed) {
  [bounds, attempts, kinds, onChange] = [catalog.bounds, catalog.attempts, catalog.kinds, changed];
  form.addEventListener("submit", (event) => event.preventDefault());
}

// Shows a setup. The focus stays in the field that was changed.
export function show(setup) {
  const focused = form.contains(document.activeElement) ? document.activeElement.id : null;
  form.replaceChildren(general(setup), clients(setup), incidents(setup));
  if (focused) byId(focused)?.focus();
}

// Marks the incident that the server rejects, or no incident.
export function mark(index) {
  form.querySelectorAll(".incident").forEach((fields, other) => fields.classList.toggle("wrong", other === index));
}

function numeric(id, label, value, range, set) {
  return field(id, label, number(value, range), (text) => set(text === "" ? NaN : Number(text)));
}

function general(setup) {
  const set = (name) => (value) => onChange({ ...setup, [name]: value });
  const numbers = [
    ["nodes", "Nodes", "nodes"],
    ["ttl", "TTL (ms)", "ttl"],
    ["least_delay", "Shortest delay of messages (ms)", "delay"],
    ["most_delay", "Longest delay (ms)", "delay"],
    ["drift", "Clocks drift by up to (ppm)", "drift"],
    ["allowed_drift", "Clients allow for a drift of (ppm)", "drift"],
    ["lasts", "Duration (ms)", "lasts"],
  ];
  return element("fieldset", {}, element("legend", {}, "World"),
    ...numbers.map(([name, label, range]) => numeric(`world-${name}`, label, setup[name], bounds[range], set(name))),
    numeric("world-seed", "Seed", setup.seed, [0, Number.MAX_SAFE_INTEGER], set("seed")),
    field("world-notifies", "Nodes notify waiters", checkbox(setup.notifies), set("notifies")),
    described(field("world-restart_admission", "Restart admission", checkbox(setup.restart_admission), set("restart_admission")),
      "A node that may have lost locks does not count until they have expired."));
}

function clients(setup) {
  const add = () => {
    const last = setup.clients.at(-1);
    onChange({ ...setup, clients: [...setup.clients, { ...last, starts: Math.min(last.starts + 500, setup.lasts) }] });
  };
  const isFull = setup.clients.length >= bounds.clients[1];
  return element("fieldset", {}, element("legend", {}, "Clients"),
    element("p", { class: "hint", id: "attempts-help" }, attempts),
    ...setup.clients.map((client, index) => clientFields(setup, client, index)),
    element("button", { type: "button", id: "add-client", click: add, disabled: isFull }, "Add a client"));
}

function clientFields(setup, client, index) {
  const id = (name) => `client-${index}-${name}`;
  const change = (changes) => onChange({
    ...setup,
    clients: setup.clients.map((other, position) => (position === index ? { ...other, ...changes } : other)),
  });
  const set = (name) => (value) => change({ [name]: value });
  const time = (name, label, range) => numeric(id(name), label, client[name], range, set(name));
  const optional = (name, label, unit, preset, range) => [
    field(id(`has-${name}`), label, checkbox(client[name] !== null), (is) => change({ [name]: is ? preset : null })),
    ...(client[name] === null ? [] : [time(name, unit, range)]),
  ];
  const flag = (name, label) => field(id(name), label, checkbox(client[name]), set(name));
  return element("fieldset", {}, element("legend", {}, `c${index}`),
    time("starts", "Requests the lock at (ms)", [0, setup.lasts]),
    time("works", "Works under it for (ms)", [0, setup.lasts]),
    ...optional("waits", "Waits for it", "Waits up to (ms)", 5000, bounds.waits),
    ...optional("rests", "Requests it again", "Rests before it for (ms)", 1000, bounds.rests),
    flag("renews", "Renews it"),
    flag("fenced", "Uses a fencing token"),
    flag("checks", "Checks its lease before each action"),
    element("button", {
      type: "button",
      disabled: setup.clients.length === 1,
      "aria-label": `Remove c${index}`,
      click: () => onChange(withoutClient(setup, index)),
    }, "Remove"));
}

// Removes a client. Incidents of later clients keep their client.
function withoutClient(setup, index) {
  const incidents = setup.incidents
    .filter((incident) => incident.client !== index)
    .map((incident) => (incident.client > index ? { ...incident, client: incident.client - 1 } : incident));
  return { ...setup, clients: setup.clients.filter((_, other) => other !== index), incidents };
}

function incidents(setup) {
  return element("fieldset", {}, element("legend", {}, "Incidents"),
    ...setup.incidents.map((incident, index) => incidentFields(setup, incident, index)),
    ...(setup.incidents.length ? [] : [element("p", {}, "None yet.")]));
}

function incidentFields(setup, incident, index) {
  const id = (name) => `incident-${index}-${name}`;
  const kind = kinds.find((kind) => kind.name === incident.kind);
  const change = (changes) => onChange({
    ...setup,
    incidents: setup.incidents.map((other, position) => (position === index ? { ...other, ...changes } : other)),
  });
  const numbered = (letter, count) => Array.from({ length: count }, (_, number) => [number, `${letter}${number}`]);
  const place = (name, label, letter, count) =>
    field(id(name), label, select(incident[name], numbered(letter, count)), (value) => change({ [name]: Number(value) }));
  const replace = (name) => {
    const next = kinds.find((kind) => kind.name === name);
    change({
      kind: name,
      node: next.node ? incident.node ?? 0 : null,
      client: next.client ? incident.client ?? 0 : null,
      ms: name === "step" ? incident.ms : Math.max(incident.ms, 1),
    });
  };
  const isStep = incident.kind === "step";
  return element("fieldset", { class: "incident" }, element("legend", {}, `Incident ${index + 1}`),
    field(id("kind"), "Kind", select(incident.kind, kinds.map((kind) => [kind.name, kind.label])), replace),
    ...(kind.client ? [place("client", "Client", "c", setup.clients.length)] : []),
    ...(kind.node ? [place("node", "Node", "n", setup.nodes)] : []),
    numeric(id("at"), "Time (ms)", incident.at, [0, setup.lasts], (at) => change({ at })),
    numeric(id("ms"), isStep ? "Step (ms)" : "Duration (ms)", incident.ms, isStep ? bounds.step : [1, bounds.lasts[1]],
      (ms) => change({ ms })),
    element("button", {
      type: "button",
      "aria-label": `Remove incident ${index + 1}`,
      click: () => onChange({ ...setup, incidents: setup.incidents.filter((_, other) => other !== index) }),
    }, "Remove"));
}
