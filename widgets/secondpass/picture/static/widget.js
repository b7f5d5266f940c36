// @ts-check
/**
 * The player: it plays a recording on the picture that Python drew.
 *
 * One module for two hosts: anywidget calls `render({model, el})`; a page without a kernel calls
 * `mountAll()`. Nothing here lays out, and no text is ever parsed as HTML: all of it goes through
 * textContent, the picture through an XML parser.
 *
 * Sections: 1 words and the fold (pure; the same as state.py and words.py, a test holds the two together) ·
 * 2 elements · 3 picture · 4 pan and zoom · 5 source · 6 time line · 7 details · 8 memory ·
 * 9 player · 10 page without a kernel.
 */

/**
 * @typedef {{name: string, type: string, nbytes: number|null, storage?: number|null}} Slot
 * @typedef {{title: string, name: string, gives: string, line: number[]|null, born_in: number|null, after?: number, slots: Slot[]}} NodeFacts
 * @typedef {{name: string, type: string, value: string, source?: string}} TensorFacts
 * @typedef {{id: string, source: string, target: string}} Edge
 * @typedef {{kind: string, call: number|null, node: string|null, leaf: string|null, line: number[]|null,
 *   before: string|null, incoming: string|null, after: string|null, text: string,
 *   gradients: Record<string, string>, slots: Record<string, [string, number|null]>, held: number, born: string[]}} Frame
 * @typedef {{calls: {number: number, title: string, stopped: boolean, line: number[]|null}[],
 *   sources: {name: string, first: number, lines: string[]}[], frames: Frame[],
 *   start: {slots: Record<string, [string, number|null]>, leaves: Record<string, {grad: string|null}>, held: number},
 *   nodes: Record<string, NodeFacts>, leaves: Record<string, TensorFacts>, roots: Record<string, TensorFacts>,
 *   edges: Edge[], left_out: string, summary: string}} Recording
 * @typedef {{grad: string|null, segments: [number|null, string][]}} Stack
 * @typedef {{done: Record<string, string>, here: string[], carried: Record<string, string>}} Pass
 * @typedef {{slots: Record<string, [string, number|null]>, leaves: Record<string, Stack>, unborn: Record<string, boolean>,
 *   held: number, call: number|null, passes: Record<string, Pass>, marks: Record<string, string>,
 *   carried: Record<string, string>, now: string[]}} State
 * @typedef {{get: (name: string) => any, set: (name: string, value: any) => void, save_changes: () => void,
 *   on: (name: string, handler: () => void) => void, off: (name: string, handler: () => void) => void}} Model
 */

// ---- 1 Words and the fold ---------------------------------------------------------------------

const SUM_LENGTH = 34;
const FEW = 4;
const SEGMENT = 62;
const SPACE = 3;
const LEAST = 26;
const PADDING = 14;
const LABEL = 44;
const LETTER = 7.1;
const SUM_LETTER = 7.4;
const PILL_LETTERS = 24;
const BORDER = 176;
const HOLDING = ["held", "kept", "changed", "packed"];
const SLOT_WORDS = {
  held: "held",
  kept: "kept",
  freed: "freed",
  none: "nothing saved",
  packed: "packed by hooks",
  changed: "changed in place",
  unknown: "cannot be seen",
  unborn: "not made yet",
};
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

/** Text as one line in which every character can be seen. */
export function clean(/** @type {unknown} */ text, most = 2000) {
  const whole = String(text ?? "");
  const part = whole.slice(0, most).split(/\s+/).filter(Boolean).join(" ");
  return (part + (whole.length > most ? "…" : "")).replace(HIDDEN, "\ufffd");
}

/** The width of text in a fixed-width font, in letters. */
export function cells(/** @type {string} */ text) {
  let sum = 0;
  for (const char of text) sum += /\p{M}/u.test(char) ? 0 : WIDE.test(char) ? 2 : 1;
  return sum;
}

/** Text of at most so many letters, an ellipsis in place of the rest. */
export function cut(/** @type {unknown} */ text, /** @type {number} */ width) {
  const whole = clean(text);
  if (cells(whole) <= width) return whole;
  let kept = "";
  let used = 1;
  for (const char of whole) {
    used += cells(char);
    if (used > width) break;
    kept += char;
  }
  return kept + "…";
}

/** A number of bytes for people, 1 KB being 1,000 B: as bytes_text in saved.py. */
export function bytesText(/** @type {number} */ nbytes) {
  let size = nbytes;
  let unit = "B";
  for (unit of ["B", "KB", "MB", "GB"]) {
    if (size < 999.5 || unit === "GB") break;
    size /= 1000;
  }
  const isSmall = size < 9.95 && unit !== "B";
  return `${isSmall ? Math.floor(size * 10 + 0.5) / 10 : Math.floor(size + 0.5)} ${unit}`;
}

/** The state of a slot in words. */
export function slotWords(/** @type {string} */ state, /** @type {number|null} */ by) {
  const words = /** @type {Record<string, string>} */ (SLOT_WORDS)[state] ?? state;
  return by !== null && (state === "freed" || state === "kept") ? `${words} by call ${by}` : words;
}

/** The state of a slot, and the call that put it there. @returns {[string, number|null]} */
export function slotState(/** @type {State} */ state, /** @type {string} */ node, /** @type {string} */ slot) {
  return node in state.unborn ? ["unborn", null] : (state.slots[`${node}.${slot}`] ?? ["held", null]);
}

/** A value with a real minus sign, and with a plus sign where that is wanted. */
export function signed(/** @type {string} */ value, plus = false) {
  return value.startsWith("-") ? `\u2212${value.slice(1)}` : plus ? `+${value}` : value;
}

/** What lies in `.grad` as a sum: the result in any case, of the parts what has room. */
export function sumWords(/** @type {Stack} */ stack, room = SUM_LENGTH) {
  if (stack.grad === null) return "None";
  const parts = stack.segments.map((segment) => String(segment[1]));
  const told = [stack.grad, ...parts].some((part) => part.includes("norm ")); // norms do not add up
  if (parts.length <= 1) return told ? stack.grad : `= ${signed(stack.grad)}`;
  if (told) return `sum of ${parts.length}: ${stack.grad}`;
  const [first, ...rest] = parts.map((part, index) => signed(part, index > 0));
  const more = rest.map((part) => `${part[0]} ${part.slice(1)}`);
  const end = `= ${signed(stack.grad)}`;
  const fits = (/** @type {string} */ words) => [...words].length <= Math.min(room, SUM_LENGTH);
  const whole = [first, ...more, end].join(" ");
  if (fits(whole)) return whole;
  const short = [first, "+ …", more[more.length - 1], end].join(" ");
  if (parts.length > 2 && parts.length <= FEW && fits(short)) return short;
  const counted = `sum of ${parts.length} ${end}`;
  return [...counted].length <= room ? counted : end;
}

const grad = (/** @type {string|null|undefined} */ text) => (text === "None" || text === undefined ? null : text);

/** @type {WeakMap<Recording, Map<string, Edge[]>>} */
const edgesOf = new WeakMap();

function edgesFrom(/** @type {Recording} */ data, /** @type {string} */ source) {
  let index = edgesOf.get(data);
  if (!index) {
    index = new Map();
    for (const edge of data.edges) index.set(edge.source, [...(index.get(edge.source) ?? []), edge]);
    edgesOf.set(data, index);
  }
  return index.get(source) ?? [];
}

/** @returns {State} what stood before the first frame */
export function startState(/** @type {Recording} */ data) {
  /** @type {Record<string, Stack>} */
  const leaves = {};
  for (const leaf of Object.keys(data.leaves)) {
    const before = grad(data.start.leaves[leaf]?.grad);
    leaves[leaf] = { grad: before, segments: before === null ? [] : [[null, before]] };
  }
  /** @type {Record<string, boolean>} */
  const unborn = {};
  for (const frame of data.frames) for (const node of frame.born) unborn[node] = true;
  return {
    slots: { ...data.start.slots },
    leaves,
    unborn,
    held: data.start.held,
    call: null,
    passes: {},
    marks: {},
    carried: {},
    now: [],
  };
}

/** The state after the first `step` frames; `from` may be the state of an earlier step. */
export function stateAt(
  /** @type {Recording} */ data,
  /** @type {number} */ step,
  /** @type {State|null} */ from = null,
  /** @type {number} */ at = 0,
) {
  const state = from ?? startState(data);
  for (const frame of data.frames.slice(from ? at : 0, step)) applyFrame(state, frame, data);
  return state;
}

function applyFrame(/** @type {State} */ state, /** @type {Frame} */ frame, /** @type {Recording} */ data) {
  for (const node of frame.born) delete state.unborn[node];
  for (const [key, [name, by]] of Object.entries(frame.slots)) {
    // A slot that is held after a call went through its Node was kept by that call.
    state.slots[key] = frame.kind === "node" && name === "held" ? ["kept", frame.call] : [name, by];
  }
  state.held = frame.held;
  if (frame.leaf !== null && frame.kind === "accumulate") {
    const stack = state.leaves[frame.leaf] ?? { grad: null, segments: [] };
    const before = grad(frame.before);
    // Where it was changed while nobody looked, the sum begins anew.
    const segments = before === stack.grad ? stack.segments : before === null ? [] : [[null, before]];
    state.leaves[frame.leaf] = {
      grad: grad(frame.after),
      segments: /** @type {[number|null, string][]} */ ([...segments, [frame.call, frame.incoming]]),
    };
  } else if (frame.leaf !== null && (frame.kind === "zero" || frame.kind === "write")) {
    const after = grad(frame.after);
    const whole = frame.kind === "write" && after !== null;
    state.leaves[frame.leaf] = { grad: after, segments: whole ? [[null, after]] : [] };
  }
  moveTo(state, frame, data);
}

/** Mark where the present call is, what it has gone through and what travels. */
function moveTo(/** @type {State} */ state, /** @type {Frame} */ frame, /** @type {Recording} */ data) {
  let here = [frame.node, frame.leaf].filter((name) => name !== null);
  if (frame.call === null) {
    // Between calls only the place where the last one stopped stays marked.
    const stopped = Object.entries(state.marks).filter((pair) => pair[1] === "stopped");
    state.marks = Object.fromEntries(stopped);
    if (!stopped.length) state.call = null;
    state.carried = {};
    state.now = [];
    for (const name of [...here, ...frame.born]) state.marks[name] = "now";
    return;
  }
  if (frame.kind === "call") {
    state.passes[frame.call] = { done: {}, here: [], carried: {} };
    here = Object.keys(frame.gradients);
  }
  state.call = frame.call;
  const progress = (state.passes[frame.call] ??= { done: {}, here: [], carried: {} });
  for (const name of progress.here) progress.done[name] = "done";
  progress.here = frame.kind === "return" ? [] : here;
  for (const name of progress.here) progress.done[name] = frame.kind === "stop" ? "stopped" : "now";
  Object.assign(progress.carried, frame.gradients);
  state.marks = progress.done;
  state.carried = progress.carried;
  state.now = Object.keys(frame.gradients);
  if (frame.kind === "accumulate" || frame.kind === "stop") {
    const arrived = here.flatMap((name) => edgesFrom(data, name)).map((edge) => carrier(edge, state.carried));
    state.now = arrived.filter((key) => key !== null);
  }
}

/** The key under which a gradient travelled along an edge: its id, or its root's. */
export function carrier(/** @type {Edge} */ edge, /** @type {Record<string, string>} */ carried) {
  return edge.id in carried ? edge.id : edge.target in carried ? edge.target : null;
}

/** The ids of the edges that led the present call to where it stopped. */
export function failedWay(/** @type {Recording} */ data, /** @type {State} */ state) {
  const queue = Object.keys(state.marks).filter((name) => state.marks[name] === "stopped");
  const reached = new Set(queue);
  const found = new Set();
  const travels = Object.keys(state.carried).length;
  // After the call has ended nothing travels any more, but the way that it went stays.
  const carried = travels ? state.carried : (state.passes[state.call ?? ""]?.carried ?? {});
  if (!Object.keys(carried).length) return shortestWay(data, queue);
  for (const here of queue) {
    for (const edge of edgesFrom(data, here)) {
      if (carrier(edge, carried) === null) continue;
      found.add(edge.id);
      if (!reached.has(edge.target)) {
        reached.add(edge.target);
        queue.push(edge.target);
      }
    }
  }
  return found;
}

/** The ids of the edges on the shortest way forward from some Nodes to a root. @returns {Set<string>} */
function shortestWay(/** @type {Recording} */ data, /** @type {string[]} */ queue) {
  /** @type {Map<string, Edge|null>} */
  const came = new Map(queue.map((name) => [name, null]));
  for (const here of queue) {
    const edges = edgesFrom(data, here);
    if (!edges.length) {
      const found = new Set();
      for (let edge = came.get(here); edge; edge = came.get(edge.source)) found.add(edge.id);
      return found;
    }
    for (const edge of edges) {
      if (came.has(edge.target)) continue;
      came.set(edge.target, edge);
      queue.push(edge.target);
    }
  }
  return new Set();
}

/** The ids of the edges at which the present call, which stopped, left the new graph: as in boundary.py. */
export function boundary(/** @type {Recording} */ data, /** @type {State} */ state, failed = failedWay(data, state)) {
  const calls = new Set();
  for (const [name, mark] of Object.entries(state.marks)) {
    if (mark !== "stopped") continue;
    for (const slot of data.nodes[name]?.slots ?? []) {
      const [kind, by] = state.slots[`${name}.${slot.name}`] ?? ["held", null];
      if (kind === "freed" && by !== null) calls.add(by);
    }
  }
  if (!calls.size) return new Set();
  const over = (/** @type {Edge} */ edge) => {
    const [old, young] = [data.nodes[edge.source], data.nodes[edge.target]];
    return old && young && [...calls].some((call) => (old.after ?? 0) < call && call <= (young.after ?? 0));
  };
  return new Set(data.edges.filter((edge) => failed.has(edge.id) && over(edge)).map((edge) => edge.id));
}

/** What the saved tensors of some Nodes are in words, and the share freed (null: they save nothing). */
export function groupWords(
  /** @type {Recording} */ data,
  /** @type {string[]} */ members,
  /** @type {State} */ state,
) {
  /** @type {Record<string, number>} */
  const states = {};
  /** @type {Map<string|number, number>} */
  const held = new Map();
  let slots = 0;
  for (const node of members) {
    const unborn = node in state.unborn;
    for (const slot of data.nodes[node].slots) {
      const key = `${node}.${slot.name}`;
      const name = unborn ? "unborn" : (state.slots[key]?.[0] ?? "held");
      states[name] = (states[name] ?? 0) + 1;
      if (name !== "none") slots += 1; // where nothing was saved, nothing can go
      if (HOLDING.includes(name)) held.set(slot.storage ?? key, slot.nbytes ?? 0);
    }
  }
  if (!slots) return { words: "saves nothing", freed: null };
  const freed = states.freed ?? 0;
  const kept = HOLDING.reduce((sum, name) => sum + (states[name] ?? 0), 0);
  const parts = freed ? [`${freed.toLocaleString("en")} freed`] : [];
  const bytes = [...held.values()].reduce((sum, size) => sum + size, 0);
  if (kept) parts.push(`${kept.toLocaleString("en")} held`, bytesText(bytes));
  const other = slots - freed - kept;
  if (other) parts.push(`${other.toLocaleString("en")} not seen or made`);
  return { words: parts.join(" · "), freed: freed / slots };
}

/** A value without the type that its leaf has too: "norm 4" for "f32[8] norm 4". */
export function bare(/** @type {string|null} */ text, /** @type {string} */ type) {
  return text?.startsWith(`${type} `) ? text.slice(type.length + 1) : text;
}

/** The name of a root, and which it is where several have that name. */
export function rootName(/** @type {Recording} */ data, /** @type {string} */ root) {
  const { name } = data.roots[root];
  const alike = Object.keys(data.roots).filter((one) => data.roots[one].name === name);
  if (alike.length < 2) return name;
  const number = alike.indexOf(root) + 1;
  const last = [11, 12, 13].includes(number % 100) ? 0 : number % 10;
  return `${name}, ${number}${["th", "st", "nd", "rd"][last] ?? "th"}`;
}

/** How many of some leaves have a `.grad`. */
export function leavesWords(/** @type {string[]} */ leaves, /** @type {State} */ state) {
  const count = leaves.filter((leaf) => (state.leaves[leaf]?.grad ?? null) !== null).length;
  const noun = leaves.length === 1 ? "leaf" : "leaves";
  return `${count.toLocaleString("en")} of ${leaves.length.toLocaleString("en")} ${noun} with .grad`;
}

const callName = (/** @type {number|null} */ call) => (call === null ? "so far" : `call ${call}`);
const segmentWidth = (/** @type {string} */ words) => Math.max(LEAST, Math.ceil(cells(words) * LETTER) + 8);

/** How many of the last segments fit, all equally wide, and how wide they must be. */
function shownOf(/** @type {string[]} */ words, /** @type {number} */ room) {
  const least = Math.max(...words.slice(-12).map(segmentWidth));
  if (words.length * (least + SPACE) <= room + SPACE) return { shown: words.length, least };
  const folded = segmentWidth(`${words.length} calls`) + SPACE;
  const shown = Math.floor(Math.max(0, room - folded + SPACE) / (least + SPACE));
  return { shown: Math.min(words.length - 1, shown), least };
}

/** What a stack of gradients shows, every value or every call's name: as `segments` in stacks.py. */
export function segmentsOf(/** @type {Stack} */ stack, /** @type {number} */ room) {
  const parts = stack.segments;
  if (!parts.length) return [];
  let words = parts.map(([, value], index) => signed(String(value), index > 0));
  let { shown, least } = shownOf(words, room);
  if (shown < Math.min(2, parts.length)) {
    words = parts.map(([call]) => callName(call));
    ({ shown, least } = shownOf(words, room));
  }
  shown = Math.max(1, shown);
  const folded = parts.length - shown;
  const found = [];
  let left = 0;
  if (folded) {
    const many = `${folded} calls`;
    const width = Math.min(segmentWidth(many), Math.floor(room / 2));
    found.push({ kind: "segment many", words: cut(many, Math.floor((width - 4) / LETTER)), left, width, title: many });
    left = width + SPACE;
  }
  const wide = Math.max(least, Math.min(SEGMENT, Math.floor((room - left) / shown) - SPACE));
  const width = Math.min(wide, room - left);
  parts.slice(folded).forEach(([call, value], place) => {
    const last = place === shown - 1 ? " last" : "";
    const kind = (call === null ? "segment before" : "segment") + last;
    const told = cut(words[place + folded], Math.max(1, Math.floor((width - 4) / LETTER)));
    found.push({ kind, words: told, left, width, title: `${callName(call)}: ${value}` });
    left += width + SPACE;
  });
  return found;
}

/**
 * Leave out what was never saved, as an optional weight that was not given.
 * @param {[string, number|null][]} states
 */
function filled(states) {
  const saved = states.filter(([state]) => state !== "none");
  return saved.length ? saved : states.slice(0, 1);
}

/** The width of a badge of so many letters: as `badge_width` in boxes.py. */
const badgeWidth = (/** @type {number} */ letters) => Math.round(letters * 6.4) + 16;

/** How often each of some words occurs: "5 held, 2 freed by call 1"; "all 2 held". */
export function counted(/** @type {string[]} */ words) {
  /** @type {Map<string, number>} */
  const count = new Map();
  for (const word of words) count.set(word, (count.get(word) ?? 0) + 1);
  if (count.size === 1 && words.length) return words.length === 1 ? words[0] : `all ${words.length} ${words[0]}`;
  return [...count].map(([word, number]) => `${number} ${word}`).join(", ");
}

/** The points of a Bézier path. */
export function curveOf(/** @type {string} */ path) {
  return path.slice(1).split(/[C ]/).map((pair) => pair.split(",").map(Number));
}

/** The point of a Bézier path at a share of its pieces: as `points` in stills.py; asking the browser would make it lay out. */
export function pointAt(/** @type {number[][]} */ curve, /** @type {number} */ share) {
  const pieces = (curve.length - 1) / 3;
  const piece = Math.min(Math.floor(share * pieces), pieces - 1);
  const t = share * pieces - piece;
  const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  const four = curve.slice(3 * piece, 3 * piece + 4);
  return [0, 1].map((axis) => weights.reduce((sum, weight, at) => sum + weight * four[at][axis], 0));
}

/** What happened between two calls, in a word: a write to no one's `.grad` or saved tensor is a graph's end. */
function betweenWord(/** @type {Frame} */ { kind, node, leaf }) {
  if (kind === "write") return node === null && leaf === null ? "gone" : "change";
  return kind === "zero" ? "reset" : kind;
}

/** What stands above a lane, the words that matter first: those that have no room are left out from the end. */
function laneParts(/** @type {string} */ title, /** @type {boolean} */ alone) {
  const parts = title.split(" · ");
  const isPlace = (/** @type {string} */ part) => /(^| )line \d+$/.test(part);
  const rank = (/** @type {string} */ part) =>
    part === "autograd.grad" ? 3 : isPlace(part) ? 2 : /^(stopped|goes on|inside|\w+_graph$)/.test(part) ? 1 : 0;
  const short = (/** @type {string} */ part) => (alone && isPlace(part) ? part.replace(/^.* (?=line \d+$)/, "") : part);
  return [parts[0], ...parts.slice(1).sort((a, b) => rank(a) - rank(b)).map(short)];
}

/** The place that the head of an arrow back takes: as `head_at` in stills.py. @returns {[number, number, number, number]} */
export function headAt(/** @type {number[][]} */ curve) {
  const [[x, y], [toX, toY]] = curve;
  const length = Math.hypot(toX - x, toY - y) || 1;
  return [x + (5 * (toX - x)) / length, y + (5 * (toY - y)) / length, 10, 17];
}

/** The lanes of the time line: runs of frames of one call, or of what happened between two. */
export function lanesOf(/** @type {Recording} */ data) {
  const titles = new Map(data.calls.map((call) => [call.number, call.title]));
  const alone = new Set(data.calls.map((call) => call.line?.[0])).size < 2; // all calls stand in one source
  /** @type {{call: number|null, title: string, parts: string[], first: number, count: number, stopped: boolean}[]} */
  const lanes = [];
  data.frames.forEach((frame, index) => {
    const between = betweenWord(frame);
    const last = lanes[lanes.length - 1];
    if (last && last.call === frame.call) {
      last.count += 1;
      if (frame.kind === "stop") last.stopped = true;
      if (frame.call === null && !last.parts.includes(between)) {
        last.parts.push(between);
        last.title = last.parts.join(" · ");
      }
      return;
    }
    const seen = lanes.some((lane) => lane.call !== null && lane.call === frame.call);
    const called = frame.call === null ? between : (titles.get(frame.call) ?? `call ${frame.call}`);
    const title = seen ? `${called} · goes on` : called;
    lanes.push({
      call: frame.call,
      title,
      parts: laneParts(title, alone),
      first: index,
      count: 1,
      stopped: frame.kind === "stop",
    });
  });
  return lanes;
}

/** What a step is, in a few words. */
export function stepWords(/** @type {Recording} */ data, /** @type {number} */ index) {
  const { kind, call, node, leaf } = data.frames[index];
  const name = data.nodes[node ?? ""]?.title ?? data.leaves[leaf ?? ""]?.name ?? "";
  const told = {
    forward: "the forward pass",
    call: `call ${call} begins`,
    node: `${name} runs`,
    accumulate: `into ${name}.grad`,
    zero: `${name}.grad is reset`,
    write: leaf ? `${name}.grad is changed` : node ? `a tensor that ${name} saved is changed` : "a graph is gone",
    stop: `call ${call} stops in ${name || "a Node"}`,
    return: `call ${call} ends`,
  };
  return clean(`Step ${index + 1}: ${/** @type {Record<string, string>} */ (told)[kind] ?? kind}`, 200);
}

const ROOM = 500;

/** The longest of the sentences, which room is kept for: one with more wide letters may be the highest. */
export function longest(/** @type {Recording} */ data, most = 3) {
  const texts = data.frames.map((frame) => clean(frame.text, ROOM));
  return texts.sort((a, b) => cells(b) - cells(a)).slice(0, most);
}

// ---- 2 Elements -------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  back: "M3 2h2v10H3zM12 2v10L5 7z",
  play: "M3 1.5v11L12 7z",
  pause: "M3 2h3v10H3zM8 2h3v10H8z",
  forward: "M9 2h2v10H9zM2 2v10l7-5z",
  plus: "M6 2h2v4h4v2H8v4H6V8H2V6h4z",
  minus: "M2 6h10v2H2z",
  legend: "M4 4.6C4 2.9 5.3 1.8 7 1.8s3 1.1 3 2.7c0 1.3-.8 2-1.6 2.6-.7.5-.8.8-.8 1.6v.3H6.2v-.5c0-1.3.5-1.9 1.3-2.5.7-.5 1-.8 1-1.5S7.9 3.2 7 3.2s-1.5.6-1.5 1.4zM6.1 10.2h1.7V12H6.1z",
  fit: "M2 2h4v2H4v2H2zM8 2h4v4h-2V4H8zM2 8h2v2h2v2H2zM10 8h2v4H8v-2h2z",
};

/**
 * Jupyter takes keys, arrows among them, before they get here, unless the element that has the
 * focus says not to. With Shift, Ctrl or Cmd held they are Jupyter's: Shift+Enter runs the cell.
 * What is typed into a field is the field's.
 */
function claimKeys(/** @type {any} */ event) {
  const claimed = event.target.tagName === "INPUT" || !(event.shiftKey || event.ctrlKey || event.metaKey);
  event.target.toggleAttribute("data-lm-suppress-shortcuts", claimed);
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @returns {HTMLElementTagNameMap[T]}
 */
function make(tag, className = "", /** @type {(Node|string)[]} */ ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function makeSvg(
  /** @type {string} */ tag,
  /** @type {Record<string, string|number>} */ attributes = {},
  /** @type {(Node|string)[]} */ ...children
) {
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

function icon(/** @type {string} */ path) {
  return makeSvg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, makeSvg("path", { d: path }));
}

function button(/** @type {string} */ label, /** @type {string} */ path, /** @type {() => void} */ act) {
  const made = make("button", "", icon(path));
  made.type = "button";
  made.title = label;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

/** A sentence in which the call that it speaks of stands out. */
function sentence(/** @type {string} */ text) {
  const begin = /^Call \d+/.exec(text)?.[0] ?? "";
  return [make("b", "", begin), text.slice(begin.length)];
}

/** The element that has the focus; inside a shadow tree the document names only its host. */
function active(/** @type {Element} */ inside) {
  return /** @type {Document|ShadowRoot} */ (inside.getRootNode()).activeElement ?? null;
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// ---- 3 Picture --------------------------------------------------------------------------------

let views = 0;
const GAP = 5;

/** The picture of one view: takes the SVG that Python drew and shows states on it. */
class Picture {
  constructor(/** @type {string} */ source, /** @type {Recording} */ data) {
    const parsed = new DOMParser().parseFromString(source, "image/svg+xml");
    if (parsed.querySelector("parsererror")) throw new Error("The picture is not valid XML.");
    this.svg = /** @type {SVGSVGElement} */ (
      /** @type {unknown} */ (document.importNode(parsed.documentElement, true))
    );
    this.data = data;
    this.width = Number(this.svg.getAttribute("width"));
    this.height = Number(this.svg.getAttribute("height"));
    views += 1;
    /** @type {Map<string, {element: SVGGElement, kind: string, id: string, shown: string, title: string, members: string[], leaves: string[], roots: string[], words?: string}>} */
    this.boxes = new Map();
    /** Which box shows a Node or leaf: itself, or the closed group that it lies in. @type {Map<string, any>} */
    this.places = new Map();
    /** @type {{element: Element, node: string, keys: string[], words: Element|null, shown: string}[]} */
    this.chips = [];
    /** @type {{element: Element, edges: Edge[], way: SVGPathElement, shown: string, curve?: number[][]}[]} */
    this.edges = [];
    /** @type {{element: Element, ids: string[], x: number, y: number}[]} */
    this.borders = [];
    this.pills = /** @type {Element} */ (this.svg.querySelector("g.pills"));
    this.#adopt();
    this.svg.classList.toggle("big", this.boxes.size > 150);
  }

  #adopt() {
    const byId = new Map(this.data.edges.map((edge) => [edge.id, edge]));
    const list = (/** @type {string|null} */ text) => (text ? text.split(" ") : []);
    for (const element of /** @type {NodeListOf<SVGGElement>} */ (this.svg.querySelectorAll("g[data-id]"))) {
      const kind = element.classList[0];
      const id = element.dataset.id ?? "";
      if (element.id) element.id = `sp${views}-${id}`;
      element.setAttribute("role", "button");
      element.setAttribute("tabindex", "-1");
      if (kind === "group" || kind === "frame") element.setAttribute("aria-expanded", String(kind === "frame"));
      // A button is called by the texts in it. A title would stand in their place; the details
      // tell what it would have told.
      const title = element.querySelector("title")?.textContent ?? "";
      for (const one of element.querySelectorAll("title")) one.remove();
      element.dataset.class = element.getAttribute("class") ?? "";
      const members = list(element.getAttribute("data-members"));
      const leaves = list(element.getAttribute("data-leaves"));
      const roots = list(element.getAttribute("data-roots"));
      const box = { element, kind, id, shown: "", title, members, leaves, roots };
      this.boxes.set(id, box);
      for (const name of [...members, ...leaves, ...roots]) this.places.set(name, box);
      for (const chip of element.querySelectorAll("g[data-slot]")) {
        const keys = (chip.getAttribute("data-slots") ?? chip.getAttribute("data-slot") ?? "").split("|");
        this.chips.push({ element: chip, node: id, keys, words: chip.querySelector(".words"), shown: "" });
      }
    }
    for (const [id, box] of this.boxes) this.places.set(id, box);
    for (const element of this.svg.querySelectorAll("g[data-border]")) {
      const [x, y] = (element.getAttribute("transform")?.match(/-?\d+/g) ?? []).map(Number);
      this.borders.push({ element, ids: list(element.getAttribute("data-border")), x, y });
    }
    for (const element of this.svg.querySelectorAll("g[data-edge]")) {
      const ids = list(element.getAttribute("data-edges") ?? element.getAttribute("data-edge"));
      const edges = /** @type {Edge[]} */ (ids.map((id) => byId.get(id)).filter(Boolean));
      const way = /** @type {SVGPathElement} */ (element.querySelector("path.way"));
      this.edges.push({ element, edges, way, shown: "" });
    }
  }

  /** Show a state; only what differs from what is shown is touched. */
  paint(/** @type {State} */ state, /** @type {boolean} */ landing) {
    for (const box of this.boxes.values()) {
      if (box.kind === "node") this.#paintNode(box, state);
      else if (box.kind === "leaf") this.#paintLeaf(box, state, landing);
      else if (box.kind === "root") {
        const gone = (this.data.roots[box.id].source ?? "") in state.unborn;
        this.#dress(box, [state.marks[box.id], gone ? "unborn" : ""], "");
      } else if (box.kind === "group") this.#paintGroup(box, state);
    }
    for (const chip of this.chips) this.#paintChip(chip, state);
    this.#paintEdges(state);
  }

  /** Set the classes of a box; returns whether anything about it changed. */
  #dress(/** @type {any} */ box, /** @type {(string|undefined)[]} */ names, /** @type {string} */ words) {
    const classes = names.filter(Boolean).join(" ");
    const shown = `${classes}|${words}`;
    if (box.shown === shown) return false;
    box.shown = shown;
    const picked = ["selected", "picked", "found", "at"].filter((name) => box.element.classList.contains(name));
    box.element.setAttribute("class", [box.element.dataset.class, classes, ...picked].filter(Boolean).join(" "));
    return true;
  }

  #badge(/** @type {any} */ box, /** @type {string|undefined} */ mark, /** @type {number|null} */ call) {
    const badge = box.element.querySelector(":scope > g.badge");
    const words = mark === "now" ? "runs now" : mark === "stopped" ? "stopped" : "";
    if (!badge) return;
    badge.replaceChildren();
    if (!words || call === null) return;
    const whole = `call ${call} ${words}`;
    const width = badgeWidth(cells(whole));
    badge.append(makeSvg("rect", { class: "box", x: 0, y: 0, width, height: 20, rx: 10 }));
    badge.append(makeSvg("text", { x: 8, y: 14 }, whole));
  }

  #paintNode(/** @type {any} */ box, /** @type {State} */ state) {
    const mark = state.marks[box.id];
    const unborn = box.id in state.unborn ? "unborn" : "";
    if (this.#dress(box, [mark, unborn], String(state.call))) this.#badge(box, mark, state.call);
  }

  #paintChip(/** @type {any} */ chip, /** @type {State} */ state) {
    const all = chip.keys.map((/** @type {string} */ key) =>
      slotState(state, chip.node, key.slice(chip.node.length + 1)),
    );
    const states = filled(all);
    const words = states.map((/** @type {[string, number|null]} */ one) => slotWords(...one));
    const shown = counted(words);
    if (chip.shown === shown) return;
    chip.shown = shown;
    const kinds = new Set(states.map((/** @type {[string, number|null]} */ one) => one[0]));
    chip.element.setAttribute("class", `slot ${kinds.size === 1 ? [...kinds][0] : "mixed"}`);
    if (chip.words) chip.words.textContent = shown;
  }

  #paintLeaf(/** @type {any} */ box, /** @type {State} */ state, /** @type {boolean} */ landing) {
    const { type } = this.data.leaves[box.id];
    const whole = state.leaves[box.id] ?? { grad: null, segments: [] };
    const words = JSON.stringify(whole);
    const old = box.words;
    this.#dress(box, [state.marks[box.id]], "");
    if (old === words) return;
    box.words = words;
    /** @type {Stack} */
    const stack = {
      grad: bare(whole.grad, type),
      segments: whole.segments.map(([call, value]) => [call, bare(value, type) ?? ""]),
    };
    const room = Number(box.element.dataset.width) - 2 * PADDING - LABEL;
    const place = box.element.querySelector("g.stack");
    const lands = landing && old !== undefined && state.marks[box.id] === "now";
    place.replaceChildren(
      ...segmentsOf(stack, room).flatMap(({ kind, words, left, width }) => [
        makeSvg(
          "g",
          { class: kind + (lands && kind.endsWith("last") ? " landing" : "") },
          makeSvg("rect", { class: "box", x: left, y: 0, width, height: 24, rx: 4 }),
          makeSvg("text", { x: left + Math.floor(width / 2), y: 16 }, words),
        ),
        " ",
      ]),
    );
    if (!stack.segments.length) {
      const none = cut(stack.grad ?? "None", Math.floor(room / LETTER));
      place.append(makeSvg("text", { class: "none", x: 0, y: 16 }, none));
    }
    const sum = box.element.querySelector("text.sum");
    const told = stack.segments.length ? sumWords(stack, Math.floor((room + LABEL) / SUM_LETTER)) : "";
    const fits = cells(told) * SUM_LETTER <= room; // a long sum may begin below its label
    sum.setAttribute("x", String(fits ? PADDING + LABEL : PADDING));
    sum.textContent = cut(told, Math.floor((fits ? room : room + LABEL) / SUM_LETTER));
  }

  #paintGroup(/** @type {any} */ box, /** @type {State} */ state) {
    const marks = new Set([...box.members, ...box.leaves].map((name) => state.marks[name]));
    const mark = ["stopped", "now", "done"].find((name) => marks.has(name));
    if (box.members[0]?.startsWith("l")) {
      const words = leavesWords(box.members, state);
      if (this.#dress(box, [mark], words)) box.element.querySelector("text.words").textContent = words;
      return;
    }
    const { words, freed } = groupWords(this.data, box.members, state);
    const leaves = box.leaves.length ? leavesWords(box.leaves, state) : "";
    const unborn = box.members.every((/** @type {string} */ name) => name in state.unborn);
    const all = [words, leaves, freed, state.call].join("|");
    if (!this.#dress(box, [mark, unborn ? "unborn" : ""], all)) return;
    this.#badge(box, mark, state.call);
    box.element.querySelector("text.words").textContent = words;
    if (leaves) box.element.querySelector("text.words.leaves").textContent = leaves;
    if (freed === null) return;
    const width = Number(box.element.dataset.width) - 28;
    const part = width - Math.round(width * freed);
    box.element.querySelector("g.bar").replaceChildren(
      makeSvg("rect", { class: "all", x: 0, y: 0, width, height: 5, rx: 2 }),
      makeSvg("rect", { class: "held", x: 0, y: 0, width: part, height: 5, rx: 2 }),
    );
  }

  #paintEdges(/** @type {State} */ state) {
    const failed = failedWay(this.data, state);
    const meets = boundary(this.data, state, failed);
    const now = new Set(state.now);
    /** @type {[number, number, number, number][]} */
    const taken = [];
    for (const border of this.borders) {
      const on = border.ids.some((id) => meets.has(id));
      border.element.classList.toggle("on", on);
      if (on) taken.push([border.x + BORDER / 2, border.y, BORDER, 32]);
    }
    const pills = [];
    for (const line of this.edges) {
      const keys = line.edges.map((edge) => carrier(edge, state.carried)).filter((key) => key !== null);
      const travelling = keys.filter((key) => now.has(key)).map((key) => state.carried[key]);
      const unborn = line.edges.every((edge) => edge.source in state.unborn || edge.target in state.unborn);
      const classes = ["edge"];
      if (keys.length) classes.push("carried");
      if (travelling.length) classes.push("now");
      if (failed.size && line.edges.some((edge) => failed.has(edge.id))) classes.push("failed");
      if (meets.size && line.edges.some((edge) => meets.has(edge.id))) classes.push("boundary");
      if (unborn) classes.push("unborn");
      const shown = classes.join(" ");
      if (line.shown !== shown) {
        line.shown = shown;
        line.element.setAttribute("class", shown);
      }
      if (travelling.length) {
        line.curve ??= curveOf(line.way.getAttribute("d") ?? "");
        taken.push(headAt(line.curve));
        const words = travelling.length === 1 ? travelling[0] : `${travelling.length} gradients`;
        pills.push(this.#pill(words, line, taken));
      }
    }
    this.pills.replaceChildren(...pills);
  }

  /** Draw a value on its way, where no other value is in the way. */
  #pill(/** @type {string} */ words, /** @type {{way: SVGPathElement, shown: string, curve?: number[][]}} */ line, /** @type {[number, number, number, number][]} */ taken) {
    const shown = cut(words, PILL_LETTERS);
    const width = Math.max(28, Math.round(cells(shown) * LETTER) + 18);
    const curve = /** @type {number[][]} */ (line.curve);
    let best = { x: 0, y: 0, clashes: Infinity };
    for (const share of [0.5, 0.36, 0.64, 0.24, 0.76]) {
      const [x, y] = pointAt(curve, share);
      const clashes = taken.filter(
        ([a, b, other, tall]) => Math.abs(x - a) < (width + other) / 2 && Math.abs(y - b) < tall,
      ).length;
      if (clashes < best.clashes) best = { x, y, clashes };
    }
    taken.push([best.x, best.y, width, 22]);
    return makeSvg(
      "g",
      { class: line.shown.includes("failed") ? "pill failed" : "pill", transform: `translate(${Math.round(best.x)},${Math.round(best.y)})` },
      makeSvg("title", {}, clean(words)),
      makeSvg("rect", { class: "box", x: -Math.floor(width / 2), y: -10, width, height: 20, rx: 10 }),
      makeSvg("text", { x: 0, y: 4 }, shown),
    );
  }

  /** Which box shows a Node or leaf: itself, or the closed group that it lies in. */
  boxOf(/** @type {string} */ id) {
    return this.places.get(id);
  }

  /** Give a box a ring to be chosen by: its own border says what state it is in. */
  ring(/** @type {Element|null|undefined} */ element) {
    const border = element?.querySelector(":scope > rect.box");
    if (!element || !border || element.querySelector(":scope > .ring")) return;
    const [x, y, width, height, rx] = ["x", "y", "width", "height", "rx"].map((name) => Number(border.getAttribute(name)));
    const ring = { class: "ring", x: x - GAP, y: y - GAP, width: width + 2 * GAP, height: height + 2 * GAP, rx: rx + GAP };
    element.insertBefore(makeSvg("rect", ring), border);
  }

  /** Mark boxes as selected, picked, found or at (the one found that is looked at). */
  mark(/** @type {string} */ name, /** @type {string[]} */ ids) {
    const wanted = new Set(ids.map((id) => this.boxOf(id)));
    for (const box of wanted) this.ring(box?.element);
    for (const box of this.boxes.values()) box.element.classList.toggle(name, wanted.has(box));
  }
}

// ---- 4 Pan and zoom ---------------------------------------------------------------------------

const LOWEST = 330;
const SMALLEST = 0.86; // text of 10 pixels, if that shows the whole picture
const READABLE = 0.9;
const AROUND = 260; // a notebook's bars, the buttons, the time line and the sentence take so much of a window

const BELOW = 125;

/** How high a stage may be: what the window has, within reason; a frame grows with what is in it. */
function tallest(/** @type {HTMLElement} */ stage) {
  // In a page of its own, what stands above the player is known.
  const top = stage.closest("[data-secondpass]") ? stage.getBoundingClientRect().top + window.scrollY : Infinity;
  if (top < window.innerHeight / 2) return Math.min(900, Math.max(480, window.innerHeight - top - BELOW));
  return Math.min(900, Math.max(600, window.innerHeight - AROUND));
}

/** Shows a part of the picture; a wheel without ctrl scrolls the page as ever. */
class Camera {
  constructor(/** @type {HTMLElement} */ stage, /** @type {Picture} */ picture, /** @type {Camera|null} */ before) {
    this.stage = stage;
    this.picture = picture;
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.shown = 0;
    this.wide = 560;
    this.tall = LOWEST;
    this.touched = false;
    this.frame = 0;
    this.dragged = false;
    if (before?.touched) Object.assign(this, { x: before.x, y: before.y, scale: before.scale, touched: true });
    this.onWheel = this.onWheel.bind(this);
    this.onDown = this.onDown.bind(this);
    stage.addEventListener("wheel", this.onWheel, { passive: false });
    stage.addEventListener("pointerdown", this.onDown);
    this.watch = new ResizeObserver(() => {
      this.#measure();
      if (this.touched) return this.show();
      this.fit();
      this.follow(this.last, true);
    });
    /** @type {string[]} */
    this.last = [];
    this.watch.observe(stage);
    this.fit(this.touched);
  }

  /** Note the size of the stage: asking for it at every step would make the browser lay out. */
  #measure() {
    this.wide = this.stage.clientWidth || 560;
    this.tall = this.stage.clientHeight || LOWEST;
  }

  /** Show the whole picture, or, where its text could not be read then, a part of it. */
  fit(keep = false) {
    const { width, height } = this.picture;
    const room = this.stage.clientWidth || 560;
    const most = tallest(this.stage);
    const whole = Math.min(1, room / width, most / height);
    const scale = whole < SMALLEST ? READABLE : whole;
    const tall = Math.round(Math.min(most, Math.max(LOWEST, height * scale)));
    this.stage.style.height = `${tall}px`;
    this.wide = room;
    this.tall = tall;
    if (!keep) {
      this.touched = false;
      this.scale = scale;
      this.x = (width - room / scale) / 2;
      this.y = 0;
    }
    this.show();
  }

  /** Show all of it, however small it becomes. */
  overlook() {
    const { width, height } = this.picture;
    this.fit();
    const scale = Math.min(this.wide / width, this.tall / height);
    if (scale < this.scale) this.zoom(scale / this.scale);
  }

  /** A place for the camera from which no more than a margin beyond the picture is seen. */
  #within(/** @type {number} */ value, /** @type {number} */ size, /** @type {number} */ room, margin = 40) {
    const fits = size < room + 1; // of a picture that was scaled to the room, but for rounding
    return fits ? (size - room) / 2 : Math.min(Math.max(value, -margin), size + margin - room);
  }

  show() {
    const { svg } = this.picture;
    this.x = this.#within(this.x, this.picture.width, this.wide / this.scale);
    this.y = this.#within(this.y, this.picture.height, this.tall / this.scale);
    // The drawing keeps its size and is moved as a whole: nothing in it is laid out or painted anew.
    if (this.shown !== this.scale) {
      this.shown = this.scale;
      svg.style.width = `${this.picture.width * this.scale}px`;
      svg.style.height = `${this.picture.height * this.scale}px`;
    }
    const [left, top] = [this.x, this.y].map((value) => Math.round(-value * this.scale));
    svg.style.transform = `translate(${left}px, ${top}px)`;
    this.#fade();
  }

  /** Let the picture fade out on the sides where it goes on. */
  #fade() {
    const { width, height } = this.picture;
    const beyond = {
      left: this.x > 1,
      right: this.x + this.wide / this.scale < width - 1,
      top: this.y > 1,
      bottom: this.y + this.tall / this.scale < height - 1,
    };
    const sides = Object.entries(beyond).filter((side) => side[1]).map((side) => side[0]).join(" ");
    if (this.stage.dataset.beyond !== sides) this.stage.dataset.beyond = sides;
  }

  zoom(/** @type {number} */ by, left = this.wide / 2, top = this.tall / 2) {
    const scale = Math.min(3, Math.max(0.02, this.scale * by));
    this.x += left / this.scale - left / scale;
    this.y += top / this.scale - top / scale;
    this.scale = scale;
    this.touched = true;
    this.show();
  }

  onWheel(/** @type {WheelEvent} */ event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const area = this.stage.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 300), event.clientX - area.left, event.clientY - area.top);
  }

  onDown(/** @type {PointerEvent} */ event) {
    this.dragged = false;
    if (event.button !== 0 || /** @type {Element} */ (event.target).closest("button")) return;
    const from = { x: this.x, y: this.y };
    const move = (/** @type {PointerEvent} */ now) => {
      const dx = now.clientX - event.clientX;
      const dy = now.clientY - event.clientY;
      if (!this.dragged && Math.hypot(dx, dy) < 4) return;
      if (!this.dragged) this.stage.setPointerCapture(event.pointerId);
      this.dragged = true;
      this.touched = true;
      this.x = from.x - dx / this.scale;
      this.y = from.y - dy / this.scale;
      this.show();
    };
    const up = () => {
      this.stage.removeEventListener("pointermove", move);
      this.stage.removeEventListener("pointerup", up);
      this.stage.removeEventListener("pointercancel", up);
    };
    this.stage.addEventListener("pointermove", move);
    this.stage.addEventListener("pointerup", up);
    this.stage.addEventListener("pointercancel", up);
  }

  /** Bring a box into sight, if it is not. */
  follow(/** @type {string[]} */ ids, quick = false) {
    this.last = ids;
    const boxes = ids.map((id) => this.picture.boxOf(id)?.element).filter((box) => box !== undefined);
    if (!boxes.length) return;
    const [box] = boxes;
    const [, left, top] = /translate\((-?\d+),(-?\d+)\)/.exec(box.getAttribute("transform") ?? "") ?? ["", "0", "0"];
    const frame = box.querySelector(":scope > .box");
    const area = { width: Number(frame?.getAttribute("width")), height: Number(frame?.getAttribute("height")) };
    const room = { width: this.wide / this.scale, height: this.tall / this.scale };
    const [x, y] = [Number(left) + 18, Number(top) + 18];
    const edge = 24;
    let [toX, toY] = [this.x, this.y];
    if (x < this.x + edge || x + area.width > this.x + room.width - edge) toX = x + area.width / 2 - room.width / 2;
    if (y < this.y + edge || y + area.height > this.y + room.height - edge) toY = y + area.height / 2 - room.height / 2;
    toX = this.#within(toX, this.picture.width, room.width, 0);
    toY = this.#within(toY, this.picture.height, room.height, 0);
    if (Math.hypot(toX - this.x, toY - this.y) > 1) this.#glide(toX, toY, quick);
  }

  #glide(/** @type {number} */ toX, /** @type {number} */ toY, now = false) {
    cancelAnimationFrame(this.frame);
    const from = { x: this.x, y: this.y };
    const quick = now || calm() || this.picture.boxes.size > 150;
    let began = 0;
    const tick = (/** @type {number} */ time) => {
      began ||= time;
      const share = quick ? 1 : Math.min(1, (time - began) / 180);
      const eased = share * (2 - share);
      this.x = from.x + (toX - from.x) * eased;
      this.y = from.y + (toY - from.y) * eased;
      this.show();
      if (share < 1) this.frame = requestAnimationFrame(tick);
    };
    if (quick) tick(0);
    else this.frame = requestAnimationFrame(tick);
  }

  remove() {
    cancelAnimationFrame(this.frame);
    this.watch.disconnect();
    this.stage.removeEventListener("wheel", this.onWheel);
    this.stage.removeEventListener("pointerdown", this.onDown);
  }
}

// ---- 5 Source ---------------------------------------------------------------------------------

/** The recorded lines; one is marked, a click on one picks the Nodes that it made. */
class Source {
  constructor(/** @type {(line: number[]) => void} */ onPick) {
    this.element = make("div", "source");
    this.element.setAttribute("role", "listbox");
    this.element.setAttribute("aria-label", "Source: choose a line to find its Nodes");
    this.onPick = onPick;
    /** @type {Map<string, HTMLElement>} */
    this.lines = new Map();
    this.shown = "";
    this.element.addEventListener("click", (event) => {
      const line = /** @type {HTMLElement} */ (event.target).closest("[data-line]");
      if (line) this.#pick(/** @type {HTMLElement} */ (line));
    });
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
  }

  load(/** @type {Recording} */ data) {
    this.lines.clear();
    this.shown = "";
    /** @type {HTMLElement[]} */
    const parts = [];
    data.sources.forEach((source, place) => {
      const heading = make("div", "heading", clean(source.name).replace(/^.*[/\\]/, ""));
      heading.title = clean(source.name);
      heading.setAttribute("role", "presentation");
      parts.push(heading);
      source.lines.forEach((text, index) => {
        const number = make("span", "number", String(source.first + index));
        const code = text.slice(0, 400).replace(/\t/g, "    ").replace(HIDDEN, "\ufffd");
        const words = make("span", "code", code.trimStart());
        // What does not fit goes on below, further in than it began.
        words.style.setProperty("--in", `${code.length - code.trimStart().length}ch`);
        const line = make("div", "code-line", number, words);
        line.dataset.line = `${place}:${source.first + index}`;
        line.title = clean(text);
        line.setAttribute("role", "option");
        line.setAttribute("aria-selected", "false");
        line.tabIndex = this.lines.size ? -1 : 0;
        this.lines.set(line.dataset.line, line);
        parts.push(line);
      });
    });
    this.element.hidden = !parts.length;
    this.element.replaceChildren(...parts);
  }

  #pick(/** @type {HTMLElement} */ line) {
    this.onPick((line.dataset.line ?? "").split(":").map(Number));
  }

  #onKey(/** @type {KeyboardEvent} */ event) {
    const lines = [...this.lines.values()];
    const at = lines.indexOf(/** @type {HTMLElement} */ (event.target));
    const to = event.key === "ArrowDown" ? at + 1 : event.key === "ArrowUp" ? at - 1 : null;
    if (event.key === "Enter" || event.key === " ") this.#pick(lines[at]);
    else if (to === null) return;
    else if (lines[to]) {
      lines[at].tabIndex = -1;
      lines[to].tabIndex = 0;
      lines[to].focus({ preventScroll: true });
      this.#scrollTo(lines[to]);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Mark a line as the one that runs (`now`), that made the Node that runs (`made`) or a chosen one (`picked`). */
  mark(/** @type {string} */ name, /** @type {number[]|null|undefined} */ place) {
    const key = place ? `${place[0]}:${place[1]}` : "";
    for (const [other, line] of this.lines) {
      const on = other === key;
      if (line.classList.contains(name) === on) continue;
      line.classList.toggle(name, on);
      if (name === "picked") line.setAttribute("aria-selected", String(on));
      else if (name === "made") line.setAttribute("aria-description", on ? "made the Node that runs" : "");
      else if (on) line.setAttribute("aria-current", "step");
      else line.removeAttribute("aria-current");
    }
    const line = this.lines.get(key);
    if (!line || this.shown === key) return;
    this.shown = key;
    requestAnimationFrame(() => this.#scrollTo(line));
  }

  /** Bring a line into sight; scrollIntoView would scroll the page too. */
  #scrollTo(/** @type {HTMLElement} */ line) {
    const box = this.element;
    const top = line.offsetTop - box.offsetTop;
    if (top < box.scrollTop) box.scrollTop = top - 8;
    else if (top + line.offsetHeight > box.scrollTop + box.clientHeight) {
      box.scrollTop = top + line.offsetHeight - box.clientHeight + 8;
    }
  }
}

// ---- 6 Time line ------------------------------------------------------------------------------

const DOTS = 40;
const LANES = 7; // more have no room for their names
const NAME_LETTER = 6.6;
const LOUD = ["accumulate", "stop", "zero", "write"];

/** Where a step stands on its line, as a share: the first at its beginning, the last at its end. */
const along = (/** @type {number} */ index, /** @type {number} */ count) =>
  count < 2 ? 0 : Math.min(1, Math.max(0, index / (count - 1)));

/** A lane per call; a slider over all frames. */
class TimeLine {
  constructor(/** @type {(step: number) => void} */ onStep) {
    this.onStep = onStep;
    this.element = make("div", "lanes");
    this.element.setAttribute("role", "slider");
    this.element.setAttribute("aria-label", "Step");
    this.element.tabIndex = 0;
    this.thumb = make("div", "thumb");
    /** @type {{first: number, count: number, title: string, element: HTMLElement, track: HTMLElement, fill: HTMLElement, dots: HTMLElement[]}[]} */
    this.lanes = [];
    this.element.addEventListener("pointerdown", (event) => this.#onDown(event));
  }

  load(/** @type {Recording} */ data) {
    const count = data.frames.length;
    const runs = lanesOf(data);
    const start = { call: null, title: "", parts: [], first: -1, count: 1, stopped: false };
    this.lanes = [start, ...runs].map((run) => {
      const fill = make("div", "fill");
      const track = make("div", "track", fill);
      const name = make("div", "name", ...run.parts.map((part) => make("span", "", part)));
      const element = make("div", "lane", name, track);
      element.title = run.title;
      element.classList.toggle("start", run.first < 0);
      element.classList.toggle("one", run.count < 2);
      element.classList.toggle("stopped", run.stopped);
      const words = run.parts.slice(0, 2).join(" · "); // room for these comes first, then for the steps
      const least = runs.length > LANES ? 0 : cells(words) * NAME_LETTER;
      if (run.first >= 0) element.style.flex = `${Math.max(run.count, count / 9)} 1 ${least}px`;
      const dots = [];
      const kinds = run.first < 0 ? ["start"] : data.frames.slice(run.first, run.first + run.count).map((one) => one.kind);
      const crowded = kinds.filter((kind) => LOUD.includes(kind)).length > DOTS;
      for (const [index, kind] of kinds.entries()) {
        if (count > DOTS && kind !== "start" && kind !== "stop" && (crowded || !LOUD.includes(kind))) continue;
        const dot = make("div", `dot ${kind}`);
        dot.style.left = `${along(index, run.count) * 100}%`;
        dot.dataset.step = String(run.first + index + 1);
        dot.title = kind === "start" ? "Before the first step" : stepWords(data, run.first + index);
        dots.push(dot);
      }
      track.append(...dots);
      return { ...run, element, track, fill, dots };
    });
    this.element.classList.toggle("many", runs.length > LANES);
    this.element.replaceChildren(...this.lanes.map((lane) => lane.element));
    this.element.setAttribute("aria-valuemin", "0");
    this.element.setAttribute("aria-valuemax", String(count));
  }

  show(/** @type {number} */ step, /** @type {string} */ text) {
    this.element.setAttribute("aria-valuenow", String(step));
    let told = "";
    for (const lane of this.lanes) {
      const inside = step - 1 - lane.first;
      const on = inside >= 0 && inside < lane.count;
      lane.element.classList.toggle("on", on);
      const share = along(inside, lane.count);
      lane.fill.style.width = `${share * 100}%`;
      for (const dot of lane.dots) dot.classList.toggle("done", Number(dot.dataset.step) <= step);
      if (on) {
        this.thumb.style.left = `${share * 100}%`;
        this.thumb.classList.toggle("stopped", lane.element.classList.contains("stopped") && inside === lane.count - 1);
        lane.track.append(this.thumb);
        told = lane.title;
      }
    }
    this.element.setAttribute("aria-valuetext", told ? `${text} (${told})` : text);
  }

  #onDown(/** @type {PointerEvent} */ event) {
    if (event.button !== 0) return;
    const areas = this.lanes.map((lane) => lane.track.getBoundingClientRect());
    const seek = (/** @type {PointerEvent} */ now) => {
      let lane = areas.findLastIndex((area) => now.clientX >= area.left);
      lane = Math.max(0, lane);
      const { first, count } = this.lanes[lane];
      const share = (now.clientX - areas[lane].left) / (areas[lane].width || 1);
      const inside = Math.min(count - 1, Math.max(0, Math.round(share * (count - 1))));
      this.onStep(first + inside + 1);
    };
    const up = () => {
      this.element.removeEventListener("pointermove", seek);
      this.element.removeEventListener("pointerup", up);
      this.element.removeEventListener("pointercancel", up);
    };
    this.element.setPointerCapture(event.pointerId);
    this.element.addEventListener("pointermove", seek);
    this.element.addEventListener("pointerup", up);
    this.element.addEventListener("pointercancel", up);
    seek(event);
  }
}

// ---- 7 Details --------------------------------------------------------------------------------

const LISTED = 60;

/** All about one Node, leaf, root or group, in words. */
function detailsOf(
  /** @type {Recording} */ data,
  /** @type {Picture|null} */ picture,
  /** @type {string} */ id,
  /** @type {State} */ state,
  /** @type {boolean} */ closed,
) {
  /** @type {HTMLElement[]} */
  const parts = [];
  const fact = (/** @type {string} */ name, /** @type {string} */ value) => {
    if (value) parts.push(make("dt", "", name), make("dd", "", value));
  };
  const node = data.nodes[id];
  const leaf = data.leaves[id];
  const root = data.roots[id];
  const box = picture?.boxes.get(id);
  let heading = "";
  let below = null;
  if (node) {
    heading = node.name;
    fact("state", markWords(state, id));
    if (node.slots.length > 1) fact("saved tensors", savedWords(state, id));
    fact("made on", lineWords(data, node.line));
    fact("made by", node.born_in === null ? "" : `call ${node.born_in} (create_graph)`);
    fact("gives", clean(node.gives));
    fact("gradient", gradientWords(data, state, id));
    if (!node.slots.length) fact("saves", "nothing: it can be run through any number of times");
    below = node.slots.length ? slotTable(node, id, state) : null;
  } else if (leaf) {
    const stack = state.leaves[id] ?? { grad: null, segments: [] };
    heading = leaf.name;
    fact("leaf", clean(leaf.type));
    fact("value", clean(leaf.value));
    fact(".grad", clean(stack.segments.length > 1 ? sumWords(stack) : (stack.grad ?? "None")));
    stack.segments.slice(-LISTED).forEach(([call, value]) => fact(call === null ? "so far" : `call ${call}`, clean(value)));
  } else if (root) {
    heading = rootName(data, id);
    fact("root", clean(root.type));
    fact("value", clean(root.value));
  } else if (box) {
    const members = [...box.members, ...box.leaves];
    const leaves = members.filter((name) => name in data.leaves).length;
    const parts = [manyWords(members.length - leaves, "Node", "Nodes"), manyWords(leaves, "leaf", "leaves")];
    heading = box.title;
    if (box.kind === "frame") fact("to close", "press its \u2212 sign");
    else fact("inside", parts.filter(Boolean).join(" and "));
    if (closed) fact("to open", "in Jupyter: this page does not hold what is inside");
    below = make("ul", "");
    for (const name of members.slice(0, LISTED)) {
      const title = data.nodes[name]?.title ?? data.leaves[name]?.name ?? name;
      const words = data.nodes[name] ? nodeWords(state, name) : clean(state.leaves[name]?.grad ?? "None");
      below.append(make("li", "", make("b", "", clean(title, 80)), ` ${words}`));
    }
    if (members.length > LISTED) below.append(make("li", "", `and ${members.length - LISTED} more`));
  }
  return [make("div", "subject", clean(heading, 300)), make("dl", "", ...parts), ...(below ? [below] : [])];
}

const manyWords = (/** @type {number} */ count, /** @type {string} */ one, /** @type {string} */ more) =>
  count ? `${count.toLocaleString("en")} ${count === 1 ? one : more}` : "";

/** What the present call does with a Node. */
function markWords(/** @type {State} */ state, /** @type {string} */ id) {
  if (id in state.unborn) return "not made yet";
  const call = state.call === null ? "" : `call ${state.call} `;
  const words = { now: call && `${call}runs now`, done: `${call}ran`, stopped: `${call}stopped here` };
  return words[/** @type {"now"|"done"|"stopped"} */ (state.marks[id])] ?? "";
}

/** How the saved tensors of a Node are. */
function savedWords(/** @type {State} */ state, /** @type {string} */ id) {
  const slots = Object.entries(state.slots).filter(([key]) => key.startsWith(`${id}.`));
  return counted(filled(slots.map(([, one]) => one)).map((one) => slotWords(...one)));
}

function nodeWords(/** @type {State} */ state, /** @type {string} */ id) {
  if (id in state.unborn) return "not made yet";
  return [markWords(state, id), savedWords(state, id) || "saves nothing"].filter(Boolean).join("; ");
}

function gradientWords(/** @type {Recording} */ data, /** @type {State} */ state, /** @type {string} */ id) {
  const keys = edgesFrom(data, id).map((edge) => carrier(edge, state.carried));
  const values = keys.filter((key) => key !== null).map((key) => clean(state.carried[key]));
  return values.length ? `came in: ${values.join(" + ")}` : "";
}

function lineWords(/** @type {Recording} */ data, /** @type {number[]|null} */ line) {
  if (!line) return "";
  const source = data.sources[line[0]];
  const code = source?.lines[line[1] - source.first] ?? "";
  return clean(`${data.sources.length > 1 ? `${source.name}, ` : ""}line ${line[1]}: ${code.trim()}`, 300);
}

function slotTable(/** @type {NodeFacts} */ node, /** @type {string} */ id, /** @type {State} */ state) {
  const head = make("tr", "", ...["saved", "type", "bytes", "state"].map((name) => make("th", "", name)));
  const rows = node.slots.map((slot) => {
    const one = slotState(state, id, slot.name);
    const row = make("tr", one[0]);
    const size = slot.nbytes === null ? "" : bytesText(slot.nbytes);
    row.append(...[slot.name, slot.type, size, slotWords(...one)].map((text) => make("td", "", clean(text, 200))));
    return row;
  });
  return make("table", "", make("thead", "", head), make("tbody", "", ...rows));
}

/** What the signs mean. @type {[string, [string, string][]][]} */
const LEGEND = [
  ["Steps", [
    ["dot done", "a step: a line of the forward pass, a Node that runs, a call that begins or ends"],
    ["dot accumulate done", "a gradient goes into a leaf's .grad"],
    ["dot zero done", "a .grad is reset"],
    ["dot stop", "the call stops"],
  ]],
  ["Edges", [
    ["edge", "a tensor, in the direction of the forward pass"],
    ["edge carried", "a gradient went this way back, in the present call"],
    ["edge failed", "the way to where the call stopped"],
    ["edge boundary", "on it: from the new graph into the part that was freed"],
  ]],
  ["Boxes", [
    ["slot held", "a saved tensor that is held (thick: kept by retain_graph=True)"],
    ["slot freed", "one that was freed"],
    ["segment", "a gradient in .grad, one box per call; its width is no scale"],
  ]],
  ["Lines", [
    ["line now", "runs now"],
    ["line made", "made the Node that runs now"],
    ["line picked", "chosen, or made what was chosen"],
  ]],
];

/** The legend as a panel. */
function legend() {
  const panel = make("div", "legend");
  panel.setAttribute("role", "group");
  panel.setAttribute("aria-label", "What the signs mean");
  for (const [title, rows] of LEGEND) {
    panel.append(make("div", "heading", title));
    for (const [sign, words] of rows) {
      const sample = make("span", "sample", make("span", sign));
      sample.setAttribute("aria-hidden", "true");
      panel.append(make("div", "entry", sample, make("span", "", words)));
    }
  }
  return panel;
}

// ---- 8 Memory ---------------------------------------------------------------------------------

/** The bytes that saved tensors hold, over the frames. */
class Memory {
  constructor() {
    this.count = 1;
    this.words = make("span", "");
    this.svg = makeSvg("svg", { viewBox: "0 0 120 26", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.element = make("div", "memory", this.words, this.svg);
  }

  load(/** @type {Recording} */ data) {
    const held = [data.start.held, ...data.frames.map((frame) => frame.held)];
    const most = Math.max(1, ...held);
    this.count = held.length;
    const every = Math.max(1, Math.floor(held.length / 400));
    const x = (/** @type {number} */ step) => ((120 * step) / this.count).toFixed(1);
    let path = "";
    for (let step = 0; step < held.length; step += every) {
      const y = (23 - (20 * held[step]) / most).toFixed(1);
      path += `${path ? "H" + x(step) + "V" : "M0 "}${y}`;
    }
    this.cursor = makeSvg("path", { class: "cursor" });
    this.svg.replaceChildren(
      makeSvg("path", { class: "area", d: `${path}H120V26H0Z` }),
      makeSvg("path", { class: "curve", d: `${path}H120` }),
      this.cursor,
    );
    this.svg.toggleAttribute("hidden", held.every((size) => size === held[0]));
  }

  show(/** @type {State} */ state, /** @type {number} */ step) {
    const size = make("b", "", bytesText(state.held));
    this.words.replaceChildren("saved tensors hold ", size);
    this.cursor?.setAttribute("d", `M${((120 * (step + 0.5)) / this.count).toFixed(1)} 0V26`);
  }
}

// ---- 9 Player ---------------------------------------------------------------------------------

const MANY = 30;

/** The Nodes, leaves, roots and groups that have some words in their names. */
export function search(/** @type {Recording} */ data, /** @type {string} */ words, /** @type {{id: string, title: string}[]} */ boxes = []) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const has = (/** @type {string[]} */ ...texts) => texts.some((text) => text.toLowerCase().includes(wanted));
  return [
    ...boxes.filter((box) => has(box.title)).map((box) => box.id),
    ...Object.keys(data.nodes).filter((id) => has(data.nodes[id].title, data.nodes[id].name)),
    ...Object.keys(data.leaves).filter((id) => has(data.leaves[id].name)),
    ...Object.keys(data.roots).filter((id) => has(data.roots[id].name)),
  ].filter((id, at, all) => all.indexOf(id) === at);
}

const SPEEDS = [0.5, 1, 2, 4];

class Player {
  constructor(/** @type {Model} */ model, /** @type {HTMLElement} */ host) {
    this.model = model;
    this.stage = make("div", "stage");
    this.tools = make("div", "tools");
    this.row = make("div", "row");
    this.picture = /** @type {Picture|null} */ (null);
    this.camera = /** @type {Camera|null} */ (null);
    this.source = new Source((line) => this.pickLine(line));
    this.time = new TimeLine((step) => this.seek(step));
    this.memory = new Memory();
    this.details = make("div", "details");
    this.details.setAttribute("role", "group"); // no landmark: a page may have many
    this.details.setAttribute("aria-label", "Details");
    this.details.tabIndex = 0;
    this.say = make("p", "say");
    this.say.setAttribute("role", "status");
    this.room = make("div", "room"); // as high as the longest sentences: nothing moves while it plays
    this.room.setAttribute("aria-hidden", "true");
    this.counter = make("span", "counter");
    this.note = make("p", "note");
    this.back = button("Step back", ICONS.back, () => this.seek(this.step - 1));
    this.play = button("Play", ICONS.play, () => this.toggle());
    this.play.classList.add("play");
    this.forward = button("Step forward", ICONS.forward, () => this.seek(this.step + 1));
    this.speed = this.#speedBox();
    this.help = button("What the signs mean", ICONS.legend, () => this.explain(!this.legend));
    this.help.setAttribute("aria-expanded", "false");
    /** @type {HTMLElement|null} */ this.legend = null;
    this.field = make("input", "find");
    this.finding = make("span", "finding");
    /** @type {string[]} */ this.found = [];
    this.foundAt = -1;
    this.timer = 0;
    /** @type {string|null} */ this.chosen = null;
    /** @type {string|null} */ this.hovered = null;
    /** @type {string|null} */ this.opening = null;
    /** @type {Element|null} */ this.reached = null;
    /** @type {number[]|null} */ this.pickedLine = null;
    /** @type {State|null} */ this.state = null;
    this.at = 0;
    this.root = this.#build();
    host.append(this.root);
    this.waiting = false;
    this.stale = new Set(["_svg", "_recording", "step"]);
    this.handlers = ["_svg", "_recording", "_tree", "step"].map((name) => {
      const handler = () => this.later(name);
      model.on(`change:${name}`, handler);
      return /** @type {[string, () => void]} */ ([`change:${name}`, handler]);
    });
    this.refresh();
  }

  get step() {
    return /** @type {number} */ (this.model.get("step"));
  }

  #build() {
    this.field.type = "search";
    this.field.placeholder = "Find a Node or leaf";
    this.field.setAttribute("aria-label", "Find a Node or leaf by name; Enter goes to the next");
    this.field.addEventListener("input", () => this.find());
    this.finding.setAttribute("role", "status");
    this.tools.append(
      this.field,
      this.finding,
      button("Zoom in", ICONS.plus, () => this.camera?.zoom(1.25)),
      button("Zoom out", ICONS.minus, () => this.camera?.zoom(0.8)),
      button("Fit the graph", ICONS.fit, () => this.camera?.overlook()),
      this.help,
    );
    this.row.append(this.back, this.play, this.forward, this.time.element, this.counter, this.speed);
    const side = make("div", "side", this.source.element, this.details, this.memory.element);
    const view = make("div", "view", make("div", "field", this.tools, this.stage), side, make("div", "bar", this.row, make("div", "told", this.room, this.say), this.note));
    const root = make("div", "secondpass", view);
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Autograd graph");
    root.tabIndex = -1; // a click anywhere in it brings the keys here
    root.addEventListener("pointerdown", () => {
      if (!root.contains(active(root))) root.focus({ preventScroll: true });
    });
    for (const kind of ["focusin", "keydown", "keyup"]) root.addEventListener(kind, claimKeys);
    root.addEventListener("keydown", (event) => this.onKey(event));
    this.stage.addEventListener("click", (event) => this.onClick(event));
    this.stage.addEventListener("focusin", (event) => {
      this.picture?.ring(/** @type {Element} */ (event.target).closest("g[data-id]"));
    });
    this.stage.addEventListener("pointerover", (event) => this.hover(event));
    this.stage.addEventListener("pointerleave", () => this.hover(null));
    return root;
  }

  #speedBox() {
    const box = make("select", "speed");
    box.setAttribute("aria-label", "Speed");
    box.title = "Speed";
    for (const speed of SPEEDS) {
      const option = make("option", "", `${speed}×`);
      option.value = String(speed);
      option.selected = speed === 1;
      box.append(option);
    }
    return box;
  }

  /** Open or close the legend. */
  explain(/** @type {boolean} */ open) {
    this.legend?.remove();
    this.legend = open ? legend() : null;
    if (this.legend) this.tools.after(this.legend);
    this.help.setAttribute("aria-expanded", String(open));
  }

  /** Several traits may change at once: one refresh for all of them. */
  later(/** @type {string} */ name) {
    this.stale.add(name);
    if (this.waiting) return;
    this.waiting = true;
    queueMicrotask(() => {
      this.waiting = false;
      if (this.root.isConnected || this.stale.size) this.refresh();
    });
  }

  refresh() {
    const stale = this.stale;
    this.stale = new Set();
    const data = /** @type {Recording} */ (this.model.get("_recording"));
    this.data = data;
    if (stale.has("_recording")) {
      this.state = null;
      this.source.load(data);
      this.time.load(data);
      this.memory.load(data);
      this.note.textContent = clean(data.left_out);
      this.note.hidden = !data.left_out;
      this.room.replaceChildren(...longest(data).map((text) => make("p", "", ...sentence(text))));
      const count = data.frames.length;
      this.counter.dataset.widest = `${count} of ${count}`;
    }
    if (stale.has("_svg") || stale.has("_tree") || stale.has("_recording")) this.#draw(data);
    this.show(stale.has("step") && stale.size === 1);
  }

  #draw(/** @type {Recording} */ data) {
    const focused = active(this.root);
    const focus = this.stage.contains(focused) ? focused?.closest("g[data-id]")?.getAttribute("data-id") : null;
    const before = this.camera;
    before?.remove();
    const source = this.model.get("_svg");
    if (!source) {
      this.picture = this.camera = null;
      this.tools.hidden = true;
      this.stage.replaceChildren(make("pre", "", String(this.model.get("_tree") ?? "")));
      return;
    }
    this.tools.hidden = false;
    const all = [data.nodes, data.leaves, data.roots].reduce((sum, one) => sum + Object.keys(one).length, 0);
    this.field.hidden = this.finding.hidden = all <= MANY;
    this.picture = new Picture(source, data);
    this.picture.svg.setAttribute("role", "group");
    this.picture.svg.setAttribute("aria-label", clean(data.summary, 400));
    this.stage.replaceChildren(this.picture.svg);
    this.camera = new Camera(this.stage, this.picture, before);
    for (const box of this.picture.boxes.values()) {
      if (!this.canOpen(box)) box.element.removeAttribute("aria-expanded");
    }
    const first = this.picture.boxOf(focus ?? "") ?? [...this.picture.boxes.values()].find((box) => box.kind !== "frame");
    if (first) this.#reach(first.element);
    if (focus) first?.element.focus({ preventScroll: true }); // the camera brings it into sight
    this.mark();
    if (this.field.value) this.find();
  }

  /** Show the present step. */
  show(/** @type {boolean} */ moved) {
    const data = /** @type {Recording} */ (this.data);
    const count = data.frames.length;
    const step = Math.min(Math.max(this.step, 0), count);
    const forward = this.state !== null && step >= this.at;
    const landing = moved && step === this.at + 1 && !calm();
    this.state = forward ? stateAt(data, step, this.state, this.at) : stateAt(data, step);
    this.at = step;
    const frame = step ? data.frames[step - 1] : null;
    this.picture?.paint(this.state, landing);
    this.memory.show(this.state, step);
    const call = data.calls.find((one) => one.number === frame?.call);
    // A Node's frame has the line that made it: what runs meanwhile is the line of the call.
    this.source.mark("now", (frame?.kind === "node" ? null : frame?.line) ?? call?.line);
    this.source.mark("made", call && data.nodes[frame?.node ?? ""]?.line);
    const text = frame ? clean(frame.text) : "Before the first step: press play.";
    this.time.show(step, text);
    this.#speak(frame, text);
    this.row.hidden = !count || (count === 1 && data.frames[0].kind === "stop"); // one moment is no film
    this.counter.textContent = `${step} of ${count}`;
    this.back.disabled = step === 0;
    this.forward.disabled = step === count;
    this.#tell();
    const place = this.opening !== null && !moved ? [this.opening] : this.#place(frame, moved);
    if (!moved) this.opening = null;
    const seen = place.filter((id) => this.picture?.boxOf(id));
    this.camera?.follow(seen, !moved);
    // What Tab reaches is in sight: the browser would scroll the page to what is not.
    if (seen.length && !this.stage.contains(active(this.root))) this.#reach(this.picture?.boxOf(seen[0]).element);
  }

  /** What must be seen: where the frame is; at first also where a call stopped or went last, or a root. */
  #place(/** @type {Frame|null} */ frame, /** @type {boolean} */ moved) {
    const at = frame ? [frame.node, frame.leaf, ...Object.keys(frame.gradients)] : [];
    const here = /** @type {string[]} */ (at.filter((id) => id !== null));
    if (here.length || moved) return here;
    const { marks } = /** @type {State} */ (this.state);
    const data = /** @type {Recording} */ (this.data);
    const stopped = Object.keys(marks).filter((id) => marks[id] === "stopped");
    const last = data.frames.slice(0, this.at).findLast((one) => one.leaf ?? one.node);
    const went = last?.leaf ?? last?.node;
    return [...stopped, ...(went ? [went] : []), ...Object.keys(data.roots)];
  }

  #speak(/** @type {Frame|null} */ frame, /** @type {string} */ text) {
    this.root.classList.toggle("stopped", frame?.kind === "stop");
    if (!this.data?.frames.length) {
      this.say.replaceChildren(make("span", "hint", "Run backward in another cell: it appears here."));
      return;
    }
    this.say.replaceChildren(...sentence(text));
    this.say.classList.toggle("stop", frame?.kind === "stop");
  }

  /** Fill the details: of what was chosen, else of what the pointer is on, else of the frame's Node. */
  #tell() {
    const data = /** @type {Recording} */ (this.data);
    const frame = this.at ? data.frames[this.at - 1] : null;
    const id = this.chosen ?? this.hovered ?? frame?.node ?? frame?.leaf ?? null;
    const known = id !== null && (id in data.nodes || id in data.leaves || id in data.roots || this.picture?.boxes.has(id));
    if (!known) {
      this.details.replaceChildren(make("p", "hint", "Choose a Node to see what it saved."));
      return;
    }
    const box = this.picture?.boxes.get(id);
    const closed = box?.kind === "group" && !this.canOpen(box);
    this.details.replaceChildren(...detailsOf(data, this.picture, id, /** @type {State} */ (this.state), closed));
  }

  // Moving in time

  seek(/** @type {number} */ step, keep = false) {
    if (!keep) this.pause();
    const to = Math.min(Math.max(step, 0), /** @type {Recording} */ (this.data).frames.length);
    if (to === this.step) return;
    this.model.set("step", to);
    this.later("step");
    this.save();
  }

  save() {
    try {
      this.model.save_changes();
    } catch {
      // The kernel is gone: the view goes on by itself.
    }
  }

  toggle() {
    if (this.timer) return this.pause();
    const count = /** @type {Recording} */ (this.data).frames.length;
    if (!count) return;
    if (this.step >= count) this.seek(0);
    this.say.setAttribute("aria-live", "off"); // a screen reader cannot keep up with a film
    this.play.replaceChildren(icon(ICONS.pause));
    this.play.setAttribute("aria-label", "Pause");
    this.play.title = "Pause";
    const tick = () => {
      this.seek(this.step + 1, true);
      if (this.step >= count) return this.pause();
      const base = Math.min(900, Math.max(60, 60_000 / count));
      this.timer = window.setTimeout(tick, base / Number(this.speed.value));
    };
    this.timer = window.setTimeout(tick, 250);
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.say.setAttribute("aria-live", "polite");
    this.play.replaceChildren(icon(ICONS.play));
    this.play.setAttribute("aria-label", "Play");
    this.play.title = "Play";
  }

  // Keys and pointer

  onKey(/** @type {KeyboardEvent} */ event) {
    if (event.target === this.field) {
      event.stopPropagation();
      if (event.key === "Enter") this.findNext(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") this.field.value = "";
      else return;
      if (event.key === "Escape") this.find();
      return event.preventDefault();
    }
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const target = /** @type {Element} */ (event.target);
    if (target.closest("select")) return event.stopPropagation();
    const box = target.closest("g[data-id]");
    const pressed = event.key === "Enter" || event.key === " ";
    if (pressed && box) this.choose(box.getAttribute("data-id"));
    else if (pressed && target.closest("button")) return event.stopPropagation(); // presses the button
    else if (event.key === "ArrowRight") this.seek(this.step + 1);
    else if (event.key === "ArrowLeft") this.seek(this.step - 1);
    else if (event.key === "Home") this.seek(0);
    else if (event.key === "End") this.seek(Infinity);
    else if (event.key === " ") this.toggle();
    else if (event.key === "Escape" && this.legend) this.explain(false);
    else if (event.key === "Escape" && this.chosen !== null) this.choose(null);
    else if (box && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      this.walk(box, event.key === "ArrowDown" ? 1 : -1);
    } else return;
    // Without this JupyterLab's command mode would take the key too.
    event.preventDefault();
    event.stopPropagation();
  }

  /** Mark what has the words of the field in its name. */
  find() {
    const data = /** @type {Recording} */ (this.data);
    const picture = this.picture;
    if (!picture) return;
    const groups = [...picture.boxes.values()].filter((box) => box.kind === "group" || box.kind === "frame");
    const ids = search(data, this.field.value, groups);
    const boxes = new Set(ids.map((id) => picture.boxOf(id)?.id).filter((id) => id !== undefined));
    this.found = [...boxes];
    this.foundAt = -1;
    picture.mark("found", this.found);
    picture.mark("at", []);
    const many = `${ids.length.toLocaleString("en")} found`;
    this.finding.textContent = this.field.value.trim() ? (ids.length ? many : "none found") : "";
  }

  /** Bring the next of what was found into sight and tell about it. */
  findNext(/** @type {number} */ by) {
    const count = this.found.length;
    if (!count) return;
    this.foundAt = this.foundAt < 0 && by < 0 ? count - 1 : (this.foundAt + by + count) % count;
    const id = this.found[this.foundAt];
    this.picture?.mark("at", [id]);
    this.camera?.follow([id]);
    this.finding.textContent = `${this.foundAt + 1} of ${count}`;
    this.hovered = id;
    this.chosen = null;
    this.mark();
    this.#tell();
  }

  /** Move the focus to the next box, from top to bottom. */
  walk(/** @type {Element} */ from, /** @type {number} */ by) {
    const place = (/** @type {Element} */ box) =>
      (/translate\((-?\d+),(-?\d+)\)/.exec(box.getAttribute("transform") ?? "") ?? ["", "0", "0"]).slice(1).map(Number);
    const boxes = [...(this.picture?.boxes.values() ?? [])].map((box) => box.element);
    boxes.sort((a, b) => place(a)[1] - place(b)[1] || place(a)[0] - place(b)[0]);
    const to = boxes[boxes.indexOf(/** @type {SVGGElement} */ (from)) + by];
    if (!to) return;
    this.#reach(to);
    to.focus({ preventScroll: true });
    this.camera?.follow([to.dataset.id ?? ""]);
    this.hovered = to.dataset.id ?? null;
    this.#tell();
  }

  /** Make one box the one that Tab reaches. */
  #reach(/** @type {Element} */ box) {
    if (this.reached === box) return;
    this.reached?.setAttribute("tabindex", "-1");
    box.setAttribute("tabindex", "0");
    this.reached = box;
  }

  onClick(/** @type {MouseEvent} */ event) {
    if (this.camera?.dragged) return;
    const box = /** @type {Element} */ (event.target).closest("g[data-id]");
    const frame = box?.classList.contains("frame");
    if (frame && !(/** @type {Element} */ (event.target).closest(".sign, .line"))) return this.choose(null);
    this.choose(box?.getAttribute("data-id") ?? null);
  }

  hover(/** @type {PointerEvent|null} */ event) {
    const box = event && /** @type {Element} */ (event.target).closest("g[data-id]:not(.frame)");
    const id = box ? box.getAttribute("data-id") : null;
    if (id === this.hovered) return;
    this.hovered = id;
    if (this.chosen === null) this.#tell();
  }

  /** Choose a box: its line lights up; a group is opened or closed. */
  choose(/** @type {string|null} */ id) {
    const box = id === null ? undefined : this.picture?.boxes.get(id);
    if (box && this.canOpen(box)) return this.open(box);
    this.chosen = id === this.chosen ? null : id;
    this.pickedLine = null;
    this.mark();
    this.#tell();
  }

  /** A kernel lays out whatever is opened; a page holds the views in which one group is open. */
  canOpen(/** @type {{id: string, kind: string}} */ box) {
    if (box.kind !== "group" && box.kind !== "frame") return false;
    return this.model.get("_open") !== undefined || box.id in (this.model.get("_views") ?? {});
  }

  open(/** @type {{id: string, kind: string}} */ box) {
    this.opening = box.id;
    const views = this.model.get("_views");
    if (views) {
      this.model.set("_svg", views[box.kind === "frame" ? views[box.id].around : box.id].svg);
      return;
    }
    const frames = [...(this.picture?.boxes.values() ?? [])].filter((one) => one.kind === "frame");
    const open = frames.map((one) => one.id).filter((id) => id !== box.id);
    this.model.set("_open", box.kind === "frame" ? open : [...open, box.id]);
    this.save();
  }

  pickLine(/** @type {number[]} */ line) {
    const same = this.pickedLine?.join() === line.join();
    this.chosen = null;
    this.pickedLine = same ? null : line;
    this.mark();
    const [first] = this.#made(this.pickedLine);
    if (first) this.camera?.follow([first]);
    this.hovered = first ?? null;
    this.#tell();
  }

  #made(/** @type {number[]|null|undefined} */ line) {
    if (!line) return [];
    const nodes = Object.entries(/** @type {Recording} */ (this.data).nodes);
    return nodes.filter(([, node]) => node.line?.join() === line.join()).map(([id]) => id);
  }

  mark() {
    const data = /** @type {Recording} */ (this.data);
    const line = this.chosen ? data.nodes[this.chosen]?.line : this.pickedLine;
    this.source.mark("picked", line);
    this.picture?.mark("selected", this.chosen ? [this.chosen] : []);
    this.picture?.mark("picked", this.#made(this.pickedLine));
  }

  remove() {
    this.pause();
    this.camera?.remove();
    for (const [name, handler] of this.handlers) this.model.off(name, handler);
    this.root.remove();
  }
}

function render(/** @type {{model: Model, el: HTMLElement}} */ { model, el }) {
  const player = new Player(model, el);
  return () => player.remove();
}

export default { render };

// ---- 10 Page without a kernel -----------------------------------------------------------------

/** A model that nobody else listens to. @returns {Model} */
export function plainModel(/** @type {Record<string, any>} */ values) {
  /** @type {Map<string, Set<() => void>>} */
  const handlers = new Map();
  return {
    get: (name) => values[name],
    set: (name, value) => {
      if (values[name] === value) return;
      values[name] = value;
      for (const handler of handlers.get(`change:${name}`) ?? []) handler();
    },
    save_changes: () => {},
    on: (name, handler) => {
      if (!handlers.has(name)) handlers.set(name, new Set());
      handlers.get(name)?.add(handler);
    },
    off: (name, handler) => handlers.get(name)?.delete(handler),
  };
}

/** Read what was packed as gzip in base64; nothing where the browser cannot. */
async function unpacked(/** @type {string} */ text) {
  if (typeof DecompressionStream === "undefined") return undefined;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

/** Put a player beside every still picture that stands before its recorded data; print shows the still. */
export async function mountAll(root = document) {
  for (const place of root.querySelectorAll("[data-secondpass]")) {
    const data = place.querySelector("script");
    const values = JSON.parse(data?.textContent ?? "{}");
    data?.remove();
    values._views = values._views ? await unpacked(values._views) : undefined;
    render({ model: plainModel(values), el: /** @type {HTMLElement} */ (place) });
  }
}
