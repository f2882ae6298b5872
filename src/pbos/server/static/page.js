// The page asks the server about what is typed, shows the answers, and keeps its state in the address.
// All text is inserted as text, never as HTML; the drawing is parsed as XML that the server has escaped.

import { make, makeSvg } from "./make.js";
import { authorization } from "./token.js";

const WAIT = 120; // milliseconds from the last key until the server is asked
const RETRY = 2000; // milliseconds until a server that does not respond is asked again
const SHOWN = 10; // weights shown at first
const [SMALL, READABLE] = [0.44, 0.75]; // smallest scale of a whole drawing; the scale of one that scrolls

const $ = (id) => document.getElementById(id);
const state = { word: "", other: "", map: [] };
let about = null; // the server's description of its model
let explained = null; // the last response about the word
let mapped = null; // the last response about the map

// -- small helpers ----------------------------------------------------------------------------------------------------

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1%";
  return `${(100 * share).toFixed(1)}%`;
}

function directionOf(text) {
  const probe = make("span", { dir: "auto", class: "hidden" }, text);
  document.body.append(probe);
  const { direction } = getComputedStyle(probe);
  probe.remove();
  return direction;
}

// -- asking the server ------------------------------------------------------------------------------------------------

class Gone extends Error {}

const pending = new Map(); // path: the controller of its last request

async function ask(path, parameters, body) {
  pending.get(path)?.abort(); // a newer request replaces an older one
  const controller = new AbortController();
  pending.set(path, controller);
  const query = parameters ? `?${new URLSearchParams(parameters)}` : "";
  const options = { signal: controller.signal, headers: authorization() };
  if (body) {
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  let answer;
  try {
    response = await fetch(path + query, options);
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Gone("The server does not respond. Is pbos serve still running? Trying again.");
  }
  if (!response.ok) {
    throw new Error(`${answer.error[0].toUpperCase()}${answer.error.slice(1)}.`);
  }
  return answer;
}

function forget(path) {
  pending.get(path)?.abort();
  report(path);
}

const problems = new Map(); // path: its current error
let retry;

function report(path, error) {
  if (error?.name === "AbortError") return;
  if (error) problems.set(path, error);
  else problems.delete(path);
  const all = [...problems.values()];
  const gone = all.find((one) => one instanceof Gone);
  const message = $("message");
  const text = gone ? gone.message : [...new Set(all.map((one) => one.message))].join(" ");
  if (message.textContent !== text) message.textContent = text;
  message.hidden = !text;
  for (const id of ["summary", "results"]) $(id).classList.toggle("stale", Boolean(gone));
  clearTimeout(retry);
  if (gone) retry = setTimeout(() => (about ? refresh() : start()), RETRY);
}

// -- the word ---------------------------------------------------------------------------------------------------------

async function showWord() {
  const { word } = state;
  document.title = word ? `${word} – pbos` : "pbos";
  $("first").textContent = word;
  showAddButton();
  if (!word) {
    forget("explain");
    explained = null;
    $("results").hidden = true;
    $("summary").textContent = "Type a word to see its segmentations, the subwords that make up its vector, and the nearest words.";
    return;
  }
  const slow = setTimeout(() => $("results").classList.add("stale"), 300);
  try {
    explained = await ask("explain", { word, n: 10 });
    report("explain");
    showExplained();
    $("results").classList.remove("stale");
  } catch (error) {
    if (!(error instanceof Gone) && error.name !== "AbortError") {
      $("results").hidden = true;
      $("summary").textContent = "";
    }
    report("explain", error);
  } finally {
    clearTimeout(slow);
  }
}

function showExplained() {
  const { word, confidence, coverage, entropy, known, segmentations, neighbors } = explained;
  const direction = directionOf(word);
  showSummary();
  showLattice();
  $("trust").hidden = confidence === null;
  $("confidence").textContent = (confidence ?? 0).toFixed(2);
  $("trust").querySelector(".fill").style.width = `${100 * (confidence ?? 0)}%`;
  $("coverage").textContent = `${Math.round(100 * coverage)}%`;
  $("entropy").textContent = entropy.toFixed(2);
  $("known").textContent = known ? "yes" : "no";
  $("known-hint").textContent = coverage === 0 ? "and none of its subwords is known"
    : known ? "its vector is still composed of subwords" : "its vector is composed of its subwords";
  for (const id of ["segmentations", "weights", "neighbors"]) $(id).dir = direction;
  fill("segmentations", segmentations, (one) => [withSlashes(one.pieces), percent(one.probability), one.probability]);
  showWeights();
  fill("neighbors", neighbors, (one) => [linkTo(one.word), one.cosine.toFixed(3), one.cosine],
    "None: the word has no known subword.");
  $("results").hidden = false;
  fitLattice();
}

function showSummary() {
  const { word, read_as: readAs, coverage, known, segmentations, weights } = explained;
  const summary = $("summary");
  if (coverage === 0) {
    summary.replaceChildren(
      "The model knows no subword of ", make("bdi", {}, word),
      ": its vector is all zeros. None of its characters was in the training words, in lower case or without accents either; the model was probably trained on another script.",
    );
    return;
  }
  const best = segmentations[0];
  const cut = make("b", {}, make("bdi", {}, best.pieces.join(" / ")));
  const source = known
    ? "It is a training word."
    : `It is not a training word; its vector is composed of ${weights.length} subwords.`;
  const reading = readAs === word ? [] : ["Read as ", make("b", {}, make("bdi", {}, readAs)), ". "];
  summary.replaceChildren(...reading, "Most probably ", cut, ` (${percent(best.probability)}). ${source}`);
}

function showLattice() {
  const picture = new DOMParser().parseFromString(explained.svg, "image/svg+xml").documentElement;
  $("lattice").replaceChildren(document.importNode(picture, true));
  $("marks-note").hidden = !about.boundaries;
}

function fitLattice() {
  const box = $("lattice");
  const picture = box.firstElementChild;
  if (!picture || !box.clientWidth) return;
  const width = Number(picture.getAttribute("width"));
  const long = width * SMALL > box.clientWidth;
  box.classList.toggle("long", long);
  box.classList.toggle("small", !long && width * READABLE > box.clientWidth); // with larger letters
  picture.style.width = long ? `${Math.round(width * READABLE)}px` : "";
  if (long) { // it scrolls, with the keyboard too
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Drawing, scrollable");
    box.dir = picture.getAttribute("direction"); // scrolled to the start of the word
  } else {
    for (const name of ["tabindex", "role", "aria-label", "dir"]) box.removeAttribute(name);
  }
}

function showWeights() {
  const all = $("more").getAttribute("aria-expanded") === "true";
  const { weights } = explained;
  const largest = weights[0]?.weight ?? 1;
  fill("weights", all ? weights : weights.slice(0, SHOWN),
    (one) => [make("bdi", {}, one.subword), percent(one.weight), one.weight / largest],
    "None: no subword of this word has a vector.");
  $("more").hidden = weights.length <= SHOWN;
  $("more").textContent = all ? "Show fewer" : `Show all ${weights.length}`;
}

function withSlashes(pieces) {
  const label = make("span", { class: "pieces" });
  pieces.forEach((piece, at) => {
    if (at) label.append(make("span", { class: "slash" }, "/"));
    label.append(make("bdi", {}, piece));
  });
  return label;
}

function linkTo(word) {
  return make("a", { href: addressOf({ ...state, word }), "data-word": word }, make("bdi", {}, word));
}

function fill(id, items, row, otherwise = "") {
  const rows = items.map((item) => {
    const [label, value, share] = row(item);
    const bar = make("span", { class: "fill" });
    bar.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
    const text = make("span", { class: "text" }, label, make("span", { class: "value", dir: "ltr" }, value));
    return make("li", {}, text, make("span", { class: "track", "aria-hidden": "true" }, bar));
  });
  $(id).replaceChildren(...(rows.length ? rows : [make("li", { class: "none", dir: "ltr" }, otherwise)]));
}

// -- two words --------------------------------------------------------------------------------------------------------

async function showSimilarity() {
  const { word, other } = state;
  const note = $("compare-note");
  note.textContent = "The cosine of their vectors: 1 means the same direction, about 0 means unrelated words.";
  if (!word || !other) {
    forget("similarity");
    $("cosine").textContent = "";
    return;
  }
  try {
    const { cosine } = await ask("similarity", { first: word, second: other });
    report("similarity");
    $("cosine").textContent = cosine.toFixed(3);
    if (cosine === 0) note.textContent = "The cosine is 0 if one of the words has no known subword.";
  } catch (error) {
    if (!(error instanceof Gone)) $("cosine").textContent = "";
    report("similarity", error);
  }
}

// -- the map ----------------------------------------------------------------------------------------------------------

async function showMap() {
  if (!state.map.length) {
    forget("map");
    mapped = null;
    drawMap();
    $("map-note").textContent = "Type some words to see which are close to each other.";
    return;
  }
  try {
    mapped = await ask("map", null, { words: state.map });
    report("map");
    drawMap();
    const without = mapped.without_vector.length ? ` Without a known subword: ${mapped.without_vector.join(", ")}.` : "";
    $("map-note").textContent =
      `${mapped.points.length} words; the map shows ${Math.round(100 * mapped.spread)}% of their variance.${without}`;
  } catch (error) {
    report("map", error);
  }
}

function drawMap() {
  const box = $("map");
  const points = mapped?.points ?? [];
  $("map-text").hidden = !points.length;
  if (!points.length) {
    box.replaceChildren();
    return;
  }
  const width = Math.max(260, box.clientWidth);
  const height = Math.round(Math.min(460, Math.max(300, 0.62 * width)));
  const [margin, size] = [28, 13];
  const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  const reach = (values) => Math.max(...values) - Math.min(...values) || 1e-9;
  const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
  // One scale for both directions keeps distances true; labels need more room at the sides.
  const scale = Math.min((width - 2 * Math.min(84, 0.16 * width)) / reach(xs), (height - 2 * margin) / reach(ys), 1e6);
  const near = nearest(points);
  const words = near.slice(0, 12).map(([word, others]) => `${word} is nearest to ${others[0] ?? "nothing"}`).join("; ");
  const picture = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Map of ${points.length} words: ${words}` });
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  const placed = points.map((p) => ({
    word: p.word,
    x: width / 2 + (p.x - middle(xs)) * scale,
    y: height / 2 - (p.y - middle(ys)) * scale,
  }));
  const taken = placed.map((p) => [p.x - 4, p.y - 4, p.x + 4, p.y + 4]);
  placed.sort((a, b) => (b.word === state.word) - (a.word === state.word)); // the current word's label first
  for (const { word, x, y } of placed) {
    const group = makeSvg("g", word === state.word ? { class: "current" } : {});
    group.append(makeSvg("title", {}, word), makeSvg("circle", { cx: x, cy: y, r: 3.5 }));
    const long = pen.measureText(word).width;
    const [after, before, over] = [x + 7, x - 7 - long, x - long / 2];
    const spots = [[after, y + 4], [before, y + 4], [over, y - 8], [over, y + 17],
      [after, y - 5], [before, y - 5], [after, y + 13], [before, y + 13]];
    const free = spots.find(([left, base]) => {
      const box = [left, base - size + 2, left + long, base + 3];
      const inside = box[0] > 2 && box[2] < width - 2 && box[1] > 2 && box[3] < height - 2;
      if (!inside || taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) return false;
      taken.push(box);
      return true;
    });
    if (free) group.append(makeSvg("text", { x: free[0] + long / 2, y: free[1], "text-anchor": "middle" }, word));
    picture.append(group);
  }
  box.replaceChildren(picture);
  $("map-list").replaceChildren(...near.map(([word, others]) =>
    make("li", {}, make("bdi", {}, word), others.length ? `: near ${others.join(", ")}` : "")));
}

function nearest(points) {
  return points.map((p) => {
    const others = points.filter((q) => q !== p).map((q) => [Math.hypot(q.x - p.x, q.y - p.y), q.word]);
    return [p.word, others.sort((a, b) => a[0] - b[0]).slice(0, 2).map(([, word]) => word)];
  });
}

function showAddButton() {
  $("add").textContent = `Add “${state.word}”`;
  $("add").hidden = !state.word || state.map.includes(state.word);
}

// -- the address ------------------------------------------------------------------------------------------------------

function addressOf({ word, other, map }) {
  const parameters = new URLSearchParams();
  if (word) parameters.set("word", word);
  if (other) parameters.set("other", other);
  if (map.join() !== about.map_examples.join()) parameters.set("map", map.join(","));
  const query = parameters.toString();
  return query ? `?${query}` : location.pathname;
}

function readAddress() {
  const parameters = new URLSearchParams(location.search);
  take("word", parameters.get("word") ?? about.examples[0] ?? "");
  take("other", parameters.get("other") ?? "");
  take("list", (parameters.has("map") ? wordsOf(parameters.get("map")) : about.map_examples).join("\n"));
}

function take(id, value) {
  $(id).value = value;
  BOXES[id].read(value);
}

function wordsOf(text) {
  return [...new Set(text.split(/[\s,،、，]+/u).filter(Boolean))];
}

async function copyLink() {
  const link = new URL(addressOf(state), location.href).href;
  let copied = true;
  try {
    await navigator.clipboard.writeText(link);
  } catch { // for example without https
    const area = make("textarea", { class: "hidden", "aria-hidden": "true" });
    area.value = link;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
    $("copy").focus();
  }
  $("copy").textContent = copied ? "Link copied" : "Copy the address";
  setTimeout(() => { $("copy").textContent = "Copy link"; }, 2000);
}

// -- events -----------------------------------------------------------------------------------------------------------

// What each text box sets in the state, and what has to be shown again after that.
const BOXES = {
  word: { read: (value) => { state.word = value.trim(); }, show: [showWord, showSimilarity, drawMap] },
  other: { read: (value) => { state.other = value.trim(); }, show: [showSimilarity] },
  list: { read: (value) => { state.map = wordsOf(value); }, show: [showAddButton, showMap] },
};
const typed = new Set(); // boxes that were changed before the server first responded; these keep their text

function showAll(functions) {
  for (const show of functions) show();
}

function refresh() {
  showAll([showWord, showSimilarity, showMap]);
}

for (const [id, { read, show }] of Object.entries(BOXES)) {
  let timer;
  const handle = () => {
    read($(id).value);
    typed.add(id);
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!about) return; // `start` will show everything
      history.replaceState(null, "", addressOf(state));
      showAll(show);
    }, WAIT);
  };
  $(id).addEventListener("input", (event) => { if (!event.isComposing) handle(); }); // not while an input method is open
  $(id).addEventListener("compositionend", handle);
}
$("search").addEventListener("submit", (event) => event.preventDefault());
$("copy").addEventListener("click", copyLink);
$("more").addEventListener("click", () => {
  $("more").setAttribute("aria-expanded", $("more").getAttribute("aria-expanded") !== "true");
  showWeights();
});
$("add").addEventListener("click", () => {
  $("list").value = `${$("list").value.trimEnd()}\n${state.word}`.trim();
  $("list").dispatchEvent(new Event("input"));
  $("list").focus();
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-word]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  take("word", link.dataset.word);
  history.pushState(null, "", addressOf(state));
  showAll(BOXES.word.show);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea") && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    $("word").focus();
    $("word").select();
  }
});
addEventListener("popstate", () => { readAddress(); refresh(); });
addEventListener("resize", () => { fitLattice(); drawMap(); });

async function start() {
  try {
    const { version } = await ask("health");
    about = await ask("model");
    $("version").textContent = `pbos ${version}`;
    report("model");
  } catch (error) {
    report("model", error);
    return;
  }
  $("about").textContent = `${about.name}: ${about.words.toLocaleString("en")} words, ${about.dims} dimensions`;
  const kept = [...typed].map((id) => [id, $(id).value]);
  readAddress();
  for (const [id, value] of kept) take(id, value);
  if (!typed.has("word") && document.activeElement === $("word")) $("word").select(); // the next key starts a new word
  history.replaceState(null, "", addressOf(state));
  $("examples").replaceChildren(make("span", {}, "For example"), ...about.examples.map(linkTo));
  refresh();
}

start();
