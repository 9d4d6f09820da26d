// Creates elements. Attributes that are functions become listeners. Attributes that are `false` or `null` are omitted.

export function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") created.addEventListener(key, value);
    else if (value !== false && value !== null && value !== undefined) {
      created.setAttribute(key, value === true ? "" : value);
    }
  }
  created.append(...children);
  return created;
}

export const byId = (id) => document.getElementById(id);

export const seconds = (time) => `${time.toFixed(3)} s`;

// A field with its label. `onValue` is called with the new value when the field has changed.
export function field(id, label, input, onValue) {
  const value = () => (input.type === "checkbox" ? input.checked : input.value);
  input.id = id;
  input.addEventListener("change", () => onValue(value()));
  const parts = input.type === "checkbox" ? [input, ` ${label}`] : [`${label} `, input];
  return element("label", { for: id }, ...parts);
}

// A field with a sentence of help below it.
export function described(labeled, help) {
  const id = `${labeled.htmlFor}-help`;
  labeled.querySelector("input, select").setAttribute("aria-describedby", id);
  return element("div", {}, labeled, element("div", { id, class: "hint" }, help));
}

export function number(value, [min, max], step = 1) {
  return element("input", { type: "number", inputmode: "numeric", value, min, max, step, required: true });
}

export function checkbox(checked) {
  return element("input", { type: "checkbox", checked });
}

// Choices are pairs of a value and a label.
export function select(value, choices) {
  const option = ([choice, label]) =>
    element("option", { value: choice, selected: String(choice) === String(value) }, label);
  return element("select", {}, ...choices.map(option));
}
