// The pure functions of widget.js, and its model for pages without a kernel. Run: node --test
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

// Node takes a .js file outside of a package for the old kind of module: a copy is a new one.
const folder = mkdtempSync(join(tmpdir(), "secondpass-"));
after(() => rmSync(folder, { recursive: true }));
const source = fileURLToPath(new URL("../widgets/secondpass/picture/static/widget.js", import.meta.url));
copyFileSync(source, join(folder, "widget.mjs"));
const widget = await import(join(folder, "widget.mjs"));

const frame = (kind, call, facts = {}) => ({
  kind, call, node: null, leaf: null, line: null, before: null, incoming: null, after: null,
  text: "", gradients: {}, slots: {}, held: 0, born: [], ...facts,
});
const recording = (frames, calls = []) => ({
  calls, frames, sources: [], nodes: {}, leaves: { l0: {} }, roots: {}, edges: [],
  start: { slots: {}, leaves: {}, held: 0 }, left_out: "", summary: "",
});

test("the module gives anywidget a render function and nothing else", () => {
  assert.deepEqual(Object.keys(widget.default), ["render"]);
});

test("a lane is a run of frames of one call; a call goes on after one inside it", () => {
  const data = recording(
    [frame("forward", null), frame("call", 1), frame("call", 2), frame("stop", 2), frame("return", 1),
      frame("zero", null)],
    [{ number: 1, title: "call 1" }, { number: 2, title: "call 2 · stopped" }],
  );
  assert.deepEqual(
    widget.lanesOf(data).map((lane) => [lane.title, lane.first, lane.count, lane.stopped]),
    [["forward", 0, 1, false], ["call 1", 1, 1, false], ["call 2 · stopped", 2, 2, true],
      ["call 1 · goes on", 4, 1, false], ["reset", 5, 1, false]],
  );
});

test("the words of a lane that matter stand first, and the cell only where there are several", () => {
  const titles = ["call 1 · In [7] line 1 · autograd.grad · create_graph", "call 2 · stopped · In [7] line 9"];
  const parts = (...sources) => {
    const calls = titles.map((title, at) => ({ number: at + 1, title, stopped: false, line: [sources[at], 1] }));
    return widget.lanesOf(recording([frame("call", 1), frame("stop", 2)], calls)).map((lane) => lane.parts);
  };
  assert.deepEqual(parts(0, 0), [["call 1", "create_graph", "line 1", "autograd.grad"], ["call 2", "stopped", "line 9"]]);
  assert.deepEqual(parts(0, 1)[0], ["call 1", "create_graph", "In [7] line 1", "autograd.grad"]);
});

test("what happened between two calls is named, in its order", () => {
  const data = recording(["zero", "forward", "zero", "write"].map((kind) => frame(kind, null)));
  assert.deepEqual(widget.lanesOf(data).map((lane) => lane.title), ["reset · forward · gone"]);
});

test("a step is told in a few words", () => {
  const data = { ...recording([]), nodes: { n0: { title: "Pow" } }, leaves: { l0: { name: "w" } } };
  const told = (kind, call, facts) => widget.stepWords({ ...data, frames: [frame(kind, call, facts)] }, 0);
  assert.equal(told("node", 1, { node: "n0" }), "Step 1: Pow runs");
  assert.equal(told("accumulate", 1, { leaf: "l0" }), "Step 1: into w.grad");
  assert.equal(told("stop", 2, { node: "n0" }), "Step 1: call 2 stops in Pow");
  assert.equal(told("write", null, { node: "n0" }), "Step 1: a tensor that Pow saved is changed");
  assert.equal(told("write", null, {}), "Step 1: a graph is gone");
});

test("a reset empties the stack; a state that was folded before is taken up again", () => {
  const add = { leaf: "l0", incoming: "4", after: "4" };
  const data = recording([frame("accumulate", 1, add), frame("zero", null, { leaf: "l0" })]);
  const first = widget.stateAt(data, 1);
  assert.equal(widget.sumWords(first.leaves.l0), "= 4");
  const second = widget.stateAt(data, 2, first, 1);
  assert.equal(widget.sumWords(second.leaves.l0), "None");
});

test("folding does not change the recording", () => {
  const data = recording([frame("node", 1, { node: "n0", slots: { "n0.self": ["freed", 1] } })]);
  const before = JSON.stringify(data);
  widget.stateAt(data, 1);
  assert.equal(JSON.stringify(data), before);
});

test("hostile text is one harmless line", () => {
  assert.equal(widget.clean("<b>\n\u202e\u0000x"), "<b> \ufffd\ufffdx");
  assert.equal(widget.clean("a".repeat(10_000)).length, 2_001);
  assert.equal(widget.cut("layers.0.weight", 9), "layers.0…");
});

test("words count what occurs", () => {
  assert.equal(widget.counted(["held", "freed by call 1", "held"]), "2 held, 1 freed by call 1");
  assert.deepEqual([["held"], ["held", "held"], []].map(widget.counted), ["held", "all 2 held", ""]);
  assert.equal(widget.slotWords("kept", 2), "kept by call 2");
  assert.equal(widget.bare("f32[8] norm 4", "f32[8]"), "norm 4");
});

test("a search looks at the names of Nodes, leaves, roots and groups", () => {
  const data = {
    ...recording([]),
    nodes: { n0: { title: "Tanh", name: "TanhBackward0" }, n1: { title: "Add", name: "AddBackward0" } },
    leaves: { l0: { name: "net.up.weight" } },
    roots: { r0: { name: "loss" } },
  };
  const groups = [{ id: "g", title: "net.up · layer 1 of 2" }];
  assert.deepEqual(widget.search(data, " TANH ", groups), ["n0"]);
  assert.deepEqual(widget.search(data, "up", groups), ["g", "l0"]);
  assert.deepEqual(widget.search(data, "o", []), ["r0"]);
  assert.deepEqual(widget.search(data, "  ", groups), []);
});

test("the model of a plain page tells its handlers, until they are taken off", () => {
  const model = widget.plainModel({ step: 0 });
  let heard = 0;
  const handler = () => { heard += 1; };
  model.on("change:step", handler);
  model.set("step", 1);
  model.set("step", 1);
  model.off("change:step", handler);
  model.set("step", 2);
  assert.deepEqual([heard, model.get("step")], [1, 2]);
});
