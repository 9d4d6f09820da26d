// The page: an address, a run, and the forms that change it.

import * as api from "./api.js";
import * as editor from "./editor.js";
import { byId, element } from "./elements.js";
import * as incidents from "./incidents.js";
import * as picture from "./picture.js";
import * as player from "./player.js";
import * as search from "./search.js";

const [stories, message, edit, handles, address] = ["stories", "message", "edit", "handles", "address"].map(byId);

// The number of the latest run. An earlier run that arrives late is not shown.
let latest = 0;
let view = null;

async function run(request, { start = null, push = false } = {}) {
  const number = ++latest;
  byId("run").setAttribute("aria-busy", "true");
  try {
    const loaded = await api.run({ ...request, width: picture.width() });
    if (number !== latest) return false;
    show(loaded, start);
    const url = `/?${loaded.address}`;
    if (push) history.pushState(null, "", url);
    else history.replaceState(null, "", url + (request.setup ? "" : location.hash));
    address.value = location.origin + url;
    message.hidden = true;
    return true;
  } catch (error) {
    if (number === latest) report(error.message);
    return false;
  } finally {
    byId("run").removeAttribute("aria-busy");
  }
}

// Shows a failure. The server names an incident by its number, which is also that of its fields and its handle.
function report(text) {
  [message.textContent, message.hidden] = [text, false];
  const index = Number(/^incident (\d+)/.exec(text)?.[1]) - 1;
  editor.mark(index);
  incidents.mark(index);
}

function show(loaded, start) {
  view = loaded;
  document.title = `${view.title} · Redlock playground`;
  byId("title").textContent = view.title;
  byId("text").textContent = view.sentences.join(" ");
  picture.show(view.picture, `Timeline: ${view.title}. ${result()}`);
  player.load(view, start ?? view.moment);
  byId("result").textContent = result();
  byId("violations").replaceChildren(...view.violations.map(violation));
  byId("history").href = `/api/history?${view.address}`;
  byId("replay").hidden = !view.replay;
  byId("replay").textContent = `On the command line: ${view.replay}`;
  edit.hidden = !view.setup;
  if (view.setup) editor.show(view.setup);
  showHandles();
  for (const link of stories.querySelectorAll("a")) {
    if (link.dataset.story !== view.story) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      // On a phone the list scrolls sideways.
      stories.scrollLeft = link.offsetLeft - stories.offsetLeft;
    }
  }
}

function result() {
  const { length } = view.violations;
  if (!length) return `No invariant is violated. ${view.grants}.`;
  return `${length === 1 ? "1 violation" : `${length} violations`}. ${view.grants}.`;
}

function violation(shown) {
  const seek = () => player.seek(shown.at);
  return element("li", {},
    "Violated: ", element("strong", {}, shown.sentence), ` ${search.describe(shown)} `,
    element("button", { type: "button", click: seek }, "Show"));
}

function showHandles() {
  handles.hidden = !edit.open || !view?.setup;
  incidents.show(view?.setup);
}

const changed = (setup) => run({ setup }, { start: player.current() });

async function changedIncidents(list, index) {
  if (await changed({ ...view.setup, incidents: list })) incidents.focus(index);
}

// Opens an address of the page.
const open = (query, { push }) => run({ address: query }, { push });

function follow(event) {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(link.search, { push: true });
}

async function begin() {
  const catalog = await api.catalog();
  const item = ({ id, title, address }) =>
    element("li", {}, element("a", { href: `/?${address}`, "data-story": id }, title));
  stories.replaceChildren(...catalog.stories.map(item));
  stories.addEventListener("click", follow);
  editor.prepare(catalog, changed);
  incidents.prepare(catalog, player.current, changedIncidents);
  search.prepare(catalog);
  byId("attempts").textContent = catalog.attempts;
  byId("blank").addEventListener("click", async (event) => {
    event.preventDefault();
    edit.open = true;
    await run({ setup: catalog.blank }, { push: true });
  });
  await open(location.search, { push: false });
  if (!view) await run({ address: catalog.stories[0].address });
}

edit.addEventListener("toggle", showHandles);
byId("copy").addEventListener("click", () => navigator.clipboard.writeText(address.value));
addEventListener("popstate", () => open(location.search, { push: false }));

// A picture has texts of a fixed size, so another width needs another picture.
let drawnWidth = picture.width();
addEventListener("resize", () => {
  if (Math.abs(picture.width() - drawnWidth) < 40 || !view) return;
  drawnWidth = picture.width();
  run({ address: view.address }, { start: player.current() });
});

begin().catch((error) => report(error.message));
