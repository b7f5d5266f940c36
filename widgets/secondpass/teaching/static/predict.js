// A question with radio buttons, or with a field for a number. The trait `given` is the answer:
// a choice's letter, the number as text, or nothing. A page without a kernel has the trait `_key`
// too, by which it judges the answer itself.

let views = 0;

/** Append text to an element, what stands in backticks as code. */
function appendText(element, text) {
  text.split("`").forEach((part, index) => {
    const kind = index % 2 ? "code" : "span";
    element.appendChild(document.createElement(kind)).textContent = part;
  });
}

function radioButtons(model, name) {
  return model.get("choices").map((choice, index) => {
    const label = document.createElement("label");
    const input = label.appendChild(document.createElement("input"));
    Object.assign(input, { type: "radio", name, value: String.fromCharCode(97 + index) });
    appendText(label.appendChild(document.createElement("span")), choice);
    return [label, input];
  });
}

function numberField() {
  const label = document.createElement("label");
  const input = label.appendChild(document.createElement("input"));
  Object.assign(input, { type: "text", inputMode: "decimal", placeholder: "a number" });
  input.setAttribute("aria-label", "a number");
  return [[label, input]];
}

/** Say how an answer stands, in the words of `sp.check`; nothing where there is no answer or no key. */
export function verdict(key, given) {
  if (!key?.right || !given.trim()) return "";
  const number = Number(given.trim().replace(",", "."));
  if (Number.isNaN(number) && key.right.every((right) => typeof right === "number")) return "That is no number.";
  const near = (right) => Math.abs(number - right) <= 1e-8 + 1e-5 * Math.abs(right);
  const isRight = key.right.some((right) => (typeof right === "number" ? near(right) : right === given));
  if (isRight) return "Right.";
  return key.look ? `Not yet. Look at: ${key.look}` : "Not yet.";
}

function render({ model, el }) {
  const form = el.appendChild(document.createElement("fieldset"));
  form.className = "secondpass-predict";
  appendText(form.appendChild(document.createElement("legend")), model.get("question"));
  const asksForNumber = model.get("choices").length === 0;
  const fields = asksForNumber ? numberField() : radioButtons(model, `secondpass-${views++}`);
  for (const [label, input] of fields) {
    form.appendChild(label);
    input.addEventListener("change", () => {
      model.set("given", input.value);
      model.save_changes();
    });
  }
  // Jupyter takes keys, arrows among them, before they get here, unless the element that has the
  // focus says not to. With Shift or Ctrl held they are Jupyter's: Shift+Enter still runs the cell.
  const claimKeys = (event) => {
    const claimed = !(event?.shiftKey || event?.ctrlKey);
    for (const [, input] of fields) input.toggleAttribute("data-lm-suppress-shortcuts", claimed);
  };
  form.addEventListener("keydown", claimKeys);
  form.addEventListener("keyup", claimKeys);
  claimKeys();
  const said = form.appendChild(document.createElement("p"));
  said.setAttribute("role", "status");
  const update = () => {
    for (const [, input] of fields) {
      if (asksForNumber) input.value = model.get("given");
      else input.checked = input.value === model.get("given");
    }
    const given = model.get("given").trim();
    // A typed number does not show that it was taken, as a radio button does.
    const noted = asksForNumber && given ? `Noted: ${given}` : "";
    said.textContent = verdict(model.get("_key"), model.get("given")) || noted;
    said.className = said.textContent === "Right." ? "right" : "";
  };
  update();
  model.on("change:given", update);
  return () => model.off("change:given", update);
}

export default { render };

/** Put every question of a page into its place; an answer is told to the page as an event. */
export function mountAll(root = document) {
  for (const place of root.querySelectorAll("[data-secondpass-question]")) {
    const data = place.querySelector("script");
    const values = { given: "", ...JSON.parse(data.textContent) };
    const handlers = [];
    place.replaceChildren();
    const model = {
      get: (name) => values[name],
      set: (name, value) => {
        values[name] = value;
        for (const handler of handlers) handler();
        const detail = verdict(values._key, values.given);
        place.dispatchEvent(new CustomEvent("secondpass-answer", { bubbles: true, detail }));
      },
      save_changes: () => {},
      on: (_, handler) => handlers.push(handler),
      off: () => {},
    };
    render({ model, el: place });
  }
}
