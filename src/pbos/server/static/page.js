// The page asks the server about what is typed, shows the answers, and keeps its state in the address.
// All text is inserted as text, never as HTML; the drawing is parsed as XML that the server has escaped.

import { make, makeBar } from "./make.js";
import { drawing, nearest } from "./map.js";
import { send } from "./send.js";

const WAIT = 120; // milliseconds from the last key until the server is asked
const RETRY = 2000; // milliseconds until a server that does not respond is asked again
const SHOWN = 10; // subwords and rows of the table shown at first
const [SHARING, NEAR] = [12, 5]; // words that share a subword, and nearest words in the table and of a subword
const AT_A_TIME = 50; // words of the table that are asked for together
const LONGEST_LINK = 6000; // characters; servers and proxies refuse addresses that are too long
const [SMALL, READABLE] = [0.44, 0.75]; // smallest scale of a whole drawing; the scale of one that scrolls

const $ = (id) => document.getElementById(id);
const state = { word: "", contexts: "", subword: "", other: "", map: [], leftOut: 0 }; // no subword: `picked` chooses one
let about = null; // the server's description of its model
let explained = null; // the last response about the word
let compared = null; // about two words
let mapped = null; // about the map
const rows = new Map(); // word: its row of the table

// -- small helpers ----------------------------------------------------------------------------------------------------

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1%";
  return `${(100 * share).toFixed(1)}%`;
}

function number(value) {
  return value.toLocaleString("en");
}

function signed(value) {
  return value.toFixed(3).replace(/^-(0\.000)$/, "$1").replace("-", "−");
}

function directionOf(text) { // that of its first letter
  const letter = text.match(/\p{L}/u)?.[0] ?? "";
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(letter) ? "rtl" : "ltr";
}

// -- asking the server ------------------------------------------------------------------------------------------------

class Gone extends Error {}

const pending = new Map(); // path: the controller of its last request
let waiting = 0; // for how many answers

function wait(change) {
  waiting += change;
  document.querySelector("main").setAttribute("aria-busy", waiting > 0);
}

async function ask(path, parameters, body) {
  pending.get(path)?.abort(); // a newer request replaces an older one
  const controller = new AbortController();
  pending.set(path, controller);
  const query = parameters ? `?${new URLSearchParams(parameters)}` : "";
  let response;
  let answer;
  wait(+1);
  try {
    response = await send(path + query, body && JSON.stringify(body), { signal: controller.signal });
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Gone("The server does not respond. Is pbos serve still running? Trying again.");
  } finally {
    wait(-1);
  }
  if (!response.ok) {
    throw new Error(`${answer.error[0].toUpperCase()}${answer.error.slice(1)}.`);
  }
  return answer;
}

// Ask, and show the answer; if there is none although the server responds, `otherwise` hides the last one.
async function showAnswer(path, [parameters, body], show, otherwise = () => {}, asking = ask) {
  try {
    const answer = await asking(path, parameters, body);
    report(path);
    show(answer);
  } catch (error) {
    if (!(error instanceof Gone) && error.name !== "AbortError") otherwise();
    report(path, error);
  }
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
    forget("subword");
    explained = null;
    $("results").hidden = true;
    contextsOf(word);
    $("summary").textContent = "Type a word to see the nearest words, its segmentations, and the subwords that make up its vector.";
    return;
  }
  const slow = setTimeout(() => $("results").classList.add("stale"), 300);
  await showAnswer("explain", [{ word, n: 10 }, contextsOf(word)], (answer) => {
    explained = answer;
    showExplained();
    $("results").classList.remove("stale");
  }, () => {
    $("results").hidden = true;
    $("summary").textContent = "";
  }, askInContexts);
  clearTimeout(slow);
}

// The sentences that have the word, as many as the server takes.
function contextsOf(word) {
  const all = state.contexts.split("\n").map((line) => line.trim()).filter(Boolean);
  const plain = (text) => text.normalize("NFC").toLowerCase();
  let room = about.limits.context_letters;
  const used = word ? all.filter((line) => plain(line).includes(plain(word)) && (room -= [...line].length) >= 0) : [];
  const others = used.length === all.length ? "" : ` The others do not contain the word${room < 0 ? ", or exceed the limit" : ""}.`;
  const link = contextsInLink(state) || !all.length ? "" : " They are too long to fit in the link.";
  $("contexts-note").textContent = !all.length || !word ? "They are combined with its spelling."
    : `Used: ${number(used.length)} of ${number(all.length)}.${others}${link}`;
  return used;
}

async function askInContexts(path, parameters, contexts) {
  try {
    if (contexts.length) return await ask(path, null, { ...parameters, contexts });
  } catch (error) {
    if (error instanceof Gone || error.name === "AbortError") throw error;
    $("contexts-note").textContent = error.message; // and the spelling alone explains the word
  }
  return ask(path, parameters);
}

function showExplained() {
  const { word, confidence, coverage, entropy, known, segmentations, neighbors, context_share: share } = explained;
  const direction = directionOf(word);
  showSummary();
  showMixture();
  showLattice();
  $("trust").hidden = confidence === null;
  $("confidence").textContent = (confidence ?? 0).toFixed(2);
  $("trust").querySelector(".fill").style.width = `${100 * (confidence ?? 0)}%`;
  $("coverage").textContent = `${Math.round(100 * coverage)}%`;
  $("entropy").textContent = entropy.toFixed(2);
  $("known").textContent = known ? "yes" : "no";
  $("known-hint").textContent = share ? "its vector is composed of its subwords and its contexts"
    : coverage === 0 ? "and none of its subwords is known"
    : known ? "its vector is still composed of subwords" : "its vector is composed of its subwords";
  for (const id of ["segmentations", "weights", "neighbors"]) $(id).dir = direction;
  fill("neighbors", neighbors, (one) => [linkTo(one.word), one.cosine.toFixed(3), one.cosine, why(one.word)],
    "None: the word has no known subword.");
  fill("segmentations", segmentations, (one) => [withSlashes(one.pieces), percent(one.probability), one.probability]);
  showWeights();
  showSubword();
  $("results").hidden = false;
  fitLattice();
}

function showSummary() {
  const { word, read_as: readAs, confidence, coverage, known, segmentations, weights, context_share: share } = explained;
  const summary = $("summary");
  const trust = confidence === null ? "" : `, with confidence ${confidence.toFixed(2)}`;
  if (coverage === 0 && share) {
    summary.replaceChildren(
      "The model knows no subword of ", make("bdi", {}, word), `: its vector comes from its contexts alone${trust}.`,
    );
    return;
  }
  if (coverage === 0) {
    summary.replaceChildren(
      "The model knows no subword of ", make("bdi", {}, word),
      ": its vector is all zeros. None of its characters is in the training words, not even in lower case or without accents; the model was probably trained on another script.",
    );
    return;
  }
  const best = segmentations[0];
  const cut = make("b", {}, make("bdi", {}, best.pieces.join(" / ")));
  const contexts = share ? ` and of its contexts (${percent(share)})` : "";
  const source = known
    ? "It is a training word."
    : `It is not a training word; its vector is composed of ${weights.length} subwords${contexts}${trust}.`;
  const reading = readAs === word ? [] : ["Read as ", make("b", {}, make("bdi", {}, readAs)), ". "];
  summary.replaceChildren(...reading, "Most probably ", cut, ` (${percent(best.probability)}). ${source}`);
}

function showMixture() {
  const { word, known, context_share: share, context_words: around } = explained;
  $("mixture").hidden = share === undefined;
  $("telling-part").hidden = !share;
  if (share === undefined) return;
  fill("sources", [["Spelling", 1 - share], ["Contexts", share]], ([label, part]) => [make("span", {}, label), percent(part), part]);
  $("mixture-note").textContent = known ? "It is a training word, so contexts change nothing."
    : share ? "The comparison and the list of words use the spelling alone."
    : around.length ? "Its contexts add nothing to its spelling." : "There are no words around it.";
  const telling = around.filter((one) => one.share > 0).slice(0, SHOWN);
  $("telling").dir = directionOf(word);
  fill("telling", telling, (one) => [linkTo(one.word), percent(one.share), one.share / telling[0].share]);
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
  const { weights } = explained;
  const largest = weights[0]?.weight ?? 1;
  fill("weights", firstOf(weights, SHOWN, "more"),
    (one) => [picker(one.subword), percent(one.weight), one.weight / largest],
    "None: no subword of this word has a vector.");
  showPicked();
}

function withSlashes(pieces) {
  const label = make("span", { class: "pieces", dir: directionOf(pieces.join("")) });
  pieces.forEach((piece, at) => {
    if (at) label.append(make("span", { class: "slash" }, "/"));
    label.append(make("bdi", {}, piece));
  });
  return label;
}

function listed(words) { // each as a text of its own, so that none turns what follows
  return make("span", { dir: directionOf(words.join("")) }, ...words.flatMap((word, at) => [at ? ", " : "", make("bdi", {}, word)]));
}

function linkTo(word) {
  return make("a", { href: addressOf({ ...state, word, subword: "" }), "data-word": word }, make("bdi", {}, word));
}

function why(word) {
  const label = `Why is ${word} near ${explained.word}?`;
  return make("button", { type: "button", class: "why", dir: "ltr", "data-other": word, "aria-label": label, title: label }, "why?");
}

function fill(id, items, row, otherwise = "") {
  const lines = items.map((item) => {
    const [label, value, share, ...more] = row(item);
    const text = make("span", { class: "text" }, label, ...more, make("span", { class: "value" }, make("bdi", { dir: "ltr" }, value)));
    return make("li", {}, text, makeBar(Math.max(0, share)));
  });
  $(id).replaceChildren(...(lines.length ? lines : [make("li", { class: "none", dir: "ltr" }, otherwise)]));
}

// The first n items, or all of them if the button says so.
function firstOf(items, n, button) {
  const all = $(button).getAttribute("aria-expanded") === "true";
  $(button).hidden = items.length <= n;
  $(button).textContent = all ? "Show fewer" : `Show all ${number(items.length)}`;
  return all ? items : items.slice(0, n);
}

// -- a subword --------------------------------------------------------------------------------------------------------

function picker(subword) {
  return make("button", { type: "button", class: "pick", "data-subword": subword }, make("bdi", {}, subword));
}

function picked() { // or the one with the largest weight that is not the whole word
  const { weights, spelled } = explained;
  return state.subword || (weights.find(({ subword }) => subword !== spelled) ?? weights[0])?.subword || "";
}

function showPicked() {
  if (!explained) return;
  for (const button of document.querySelectorAll("button[data-subword]")) {
    button.setAttribute("aria-pressed", button.dataset.subword === picked());
  }
}

function showSubword() {
  const subword = picked();
  $("subword").hidden = !subword;
  $("subword-head").setAttribute("aria-live", state.subword ? "polite" : "off"); // what was asked for is announced
  showPicked();
  if (!subword) {
    forget("subword");
    return;
  }
  showAnswer("subword", [{ subword, n: SHARING }], (found) => {
    const { n_words: sharing, words, neighbors } = found;
    const direction = directionOf(subword);
    $("subword-name").textContent = found.subword;
    $("subword-note").textContent = !about.words ? "This model has no list of words, so there are no neighbors."
      : `In ${number(sharing)} of ${number(about.words)} training words.${found.has_vector ? "" : " It has no vector of its own."}`;
    $("sharing-part").hidden = !words.length;
    $("subword-near-part").hidden = !neighbors.length;
    for (const id of ["sharing", "subword-near"]) $(id).dir = direction;
    const rest = sharing > words.length ? [make("li", {}, "…")] : [];
    $("sharing").replaceChildren(...words.map((word) => make("li", {}, linkTo(word))), ...rest);
    fill("subword-near", neighbors.slice(0, NEAR), (one) => [linkTo(one.word), one.cosine.toFixed(3), one.cosine]);
  });
}

// -- two words --------------------------------------------------------------------------------------------------------

function showComparison() {
  const { word, other } = state;
  const hide = () => {
    $("cosine").textContent = "";
    $("compared").hidden = true;
  };
  if (!word || !other) {
    forget("compare");
    compared = null;
    hide();
    $("compare-note").textContent =
      "Type another word, or choose “why?” next to a neighbor, to see how similar they are and which subwords make them similar.";
    return;
  }
  showAnswer("compare", [{ first: word, second: other }], (answer) => {
    compared = answer;
    showCompared();
  }, hide);
}

function showCompared() {
  const { words, cosine, subwords } = compared;
  const shared = subwords.filter(({ weights }) => weights[0] && weights[1]);
  const sum = (some) => signed(some.reduce((total, one) => total + one.contribution, 0));
  const rest = subwords.filter((one) => !shared.includes(one));
  $("cosine").textContent = signed(cosine);
  $("compare-note").textContent = words.some((one) => one.coverage === 0)
    ? "The cosine is 0 if one of the words has no known subword."
    : `The cosine of their vectors: 1 means the same direction, about 0 unrelated words. ${shared.length
      ? `The ${number(shared.length)} subwords they share add ${sum(shared)}, the other ${number(rest.length)} add ${sum(rest)}.`
      : "They share no subword."}`;
  $("pair").replaceChildren(...words.map((one) => make("div", {}, make("dt", {}, make("bdi", {}, one.word)),
    make("dd", {}, withSlashes(one.pieces)),
    make("dd", { class: "hint" }, one.known ? "training word" : "not a training word",
      one.confidence === null ? "" : `, confidence ${one.confidence.toFixed(2)}`))));
  $("in-first").textContent = words[0].word;
  $("in-second").textContent = words[1].word;
  showShares();
  $("compared").hidden = !subwords.length;
}

function showShares() {
  const { subwords } = compared;
  const largest = Math.max(...subwords.map((one) => Math.abs(one.contribution)));
  const weight = (value) => make("td", { class: value ? "" : "none" }, value ? percent(value) : "–");
  $("shares").tBodies[0].replaceChildren(...firstOf(subwords, SHOWN, "more-shares").map((one) => make("tr", {},
    make("th", { scope: "row", class: one.weights[0] && one.weights[1] ? "shared" : "" }, picker(one.subword)),
    ...one.weights.map(weight),
    make("td", { class: "part" }, signed(one.contribution), makeBar(one.contribution / largest)))));
  showPicked();
}

// -- a list: its map and its table ------------------------------------------------------------------------------------

function showMap() {
  if (!state.map.length) {
    forget("map");
    mapped = null;
    drawMap();
    $("map-note").textContent = "Type or paste some words to see which are close to each other.";
    return;
  }
  const most = about.limits.map_words;
  showAnswer("map", [null, { words: state.map.slice(0, most) }], (answer) => {
    mapped = answer;
    drawMap();
    const without = mapped.without_vector.length ? [" Without a known subword: ", listed(mapped.without_vector), "."] : [];
    const some = state.map.length > most ? "the first " : "";
    const link = linkIsLong() ? " The list is too long to fit in the link." : "";
    $("map-note").replaceChildren(
      `The map shows ${Math.round(100 * mapped.spread)}% of the variance of ${some}${mapped.points.length} words.`, ...without, link,
    );
  });
}

function drawMap() {
  const points = mapped?.points ?? [];
  $("map-text").hidden = !points.length;
  $("map").replaceChildren(...(points.length ? [drawing(points, state.word, Math.max(260, $("map").clientWidth))] : []));
  $("map-list").replaceChildren(...nearest(points).map(([word, others]) =>
    make("li", {}, make("bdi", {}, word), ...(others.length ? [": near ", listed(others)] : []))));
}

function showAddButton() {
  $("add").replaceChildren("Add “", make("bdi", {}, state.word), "”");
  $("add").hidden = !state.word || state.map.includes(state.word);
}

async function showTable() {
  pending.get("table")?.abort(); // of another list
  const unknown = state.map.filter((word) => !rows.has(word));
  showRows();
  try {
    for (let first = 0; first < unknown.length; first += AT_A_TIME) {
      const { results } = await ask("table", null, { words: unknown.slice(first, first + AT_A_TIME), n: NEAR });
      for (const row of results) rows.set(row.word, row);
      showRows();
    }
    report("table");
  } catch (error) {
    report("table", error);
  }
}

function rowsOfList() {
  return state.map.filter((word) => rows.has(word)).map((word) => rows.get(word));
}

function showRows() {
  const known = rowsOfList();
  const [done, all] = [known.length, state.map.length];
  $("rows-part").hidden = !all;
  $("rows-part").setAttribute("aria-busy", done < all);
  const left = state.leftOut ? `; left out (too long or too many): ${number(state.leftOut)}` : "";
  $("rows-note").textContent = `${done < all ? `${number(done)} of ` : ""}${number(all)} words${left}`;
  $("download").disabled = done < all;
  for (const cell of $("rows").querySelectorAll("th.trust")) cell.hidden = !about.confidence;
  $("rows").tBodies[0].replaceChildren(...firstOf(known, SHOWN, "more-rows").map((one) => make("tr", {},
    make("th", { scope: "row" }, linkTo(one.word)),
    ...(about.confidence ? [make("td", { class: "part" }, one.confidence.toFixed(2), makeBar(one.confidence))] : []),
    make("td", { class: "extra" }, `${Math.round(100 * one.coverage)}%`),
    make("td", { class: "extra" }, withSlashes(one.pieces)),
    make("td", { class: "none" }, one.neighbors.length
      ? listed(one.neighbors.map(({ word }) => word)) : "none: no known subword"))));
}

function cell(value) { // text in quotes, and with ' before what spreadsheets would take for a formula
  if (typeof value !== "string") return value ?? "";
  return `"${value.replace(/^[\s\0=+\-@＝＋－＠]/, "'$&").replaceAll('"', '""')}"`;
}

function download() {
  const names = ["word", "read_as", "training_word", "confidence", "coverage", "segmentation"];
  const numbers = Array.from({ length: NEAR }, (_, at) => at);
  const head = [...names, ...numbers.flatMap((at) => [`neighbor_${at + 1}`, `cosine_${at + 1}`])];
  const lines = rowsOfList().map((one) => [one.word, one.read_as, one.known ? "yes" : "no", one.confidence, one.coverage,
    one.pieces.join("/"), ...numbers.flatMap((at) => [one.neighbors[at]?.word, one.neighbors[at]?.cosine])]);
  const text = [head, ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
  const file = new Blob(["\ufeff", text], { type: "text/csv" }); // with a mark by which spreadsheets know UTF-8
  const link = make("a", { href: URL.createObjectURL(file), download: "words.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // some browsers start to read only later
}

// -- the address ------------------------------------------------------------------------------------------------------

function mapOf({ map }) {
  return map.join() === about.map_examples.join() ? "" : new URLSearchParams({ map: map.join(",") }).toString();
}

function linkIsLong() {
  return mapOf(state).length > LONGEST_LINK;
}

function contextsInLink({ contexts }) {
  return about.contexts && contexts && new URLSearchParams({ contexts }).toString().length <= LONGEST_LINK / 2;
}

function addressOf(shown) {
  const names = ["word", "subword", "other", ...(contextsInLink(shown) ? ["contexts"] : [])];
  const parts = names.filter((name) => shown[name]).map((name) => [name, shown[name]]);
  const query = [new URLSearchParams(parts).toString(), linkIsLong() ? "" : mapOf(shown)].filter(Boolean).join("&");
  return query ? `?${query}` : location.pathname;
}

function readAddress() {
  const parameters = new URLSearchParams(location.search);
  take("word", parameters.get("word") ?? about.examples[0] ?? "");
  take("contexts", about.contexts ? parameters.get("contexts") ?? "" : "");
  state.subword = parameters.get("subword") ?? "";
  take("other", parameters.get("other") ?? "");
  take("list", (parameters.has("map") ? wordsOf(parameters.get("map")) : about.map_examples).join("\n"));
}

function take(id, value) {
  $(id).value = value;
  BOXES[id].read(value);
}

function wordsOf(text) {
  return [...new Set(text.split(/[\s,;،、，]+/u).filter(Boolean))];
}

function readList(text) {
  const { words, word_length: longest } = about?.limits ?? { words: Infinity, word_length: Infinity };
  const all = wordsOf(text);
  state.map = all.filter((word) => [...word].length <= longest).slice(0, words);
  state.leftOut = all.length - state.map.length;
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
  word: {
    read: (value) => { Object.assign(state, { word: value.trim(), subword: "" }); },
    show: [showWord, showComparison, drawMap],
  },
  contexts: { read: (value) => { state.contexts = value.trim(); }, show: [showWord] },
  other: { read: (value) => { state.other = value.trim(); }, show: [showComparison] },
  list: { read: readList, show: [showAddButton, showMap, showTable] },
};
const typed = new Set(); // boxes that were changed before the server first responded; these keep their text

function showAll(functions) {
  for (const show of functions) show();
}

function refresh() {
  showAll([showWord, showComparison, showMap, showTable]);
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
$("download").addEventListener("click", download);
for (const [id, show] of [["more", showWeights], ["more-shares", showShares], ["more-rows", showRows]]) {
  $(id).addEventListener("click", () => {
    $(id).setAttribute("aria-expanded", $(id).getAttribute("aria-expanded") !== "true");
    show();
  });
}
$("add").addEventListener("click", () => {
  $("list").value = `${$("list").value.trimEnd()}\n${state.word}`.trim();
  $("list").dispatchEvent(new Event("input"));
  $("list").focus();
});
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const target = event.target.closest("[data-word], [data-subword], [data-other]");
  if (!target) return;
  event.preventDefault();
  const { word, subword, other } = target.dataset;
  if (word) {
    take("word", word);
    showAll(BOXES.word.show);
    $("search").scrollIntoView({ block: "nearest" });
    $("summary").focus({ preventScroll: true }); // the link is gone
  } else if (subword && explained) {
    state.subword = subword;
    showSubword();
    $("subword").scrollIntoView({ block: "nearest" });
  } else {
    take("other", other);
    showComparison();
    $("compare-title").focus();
    $("compare-title").scrollIntoView({ block: "center" });
  }
  history.pushState(null, "", addressOf(state));
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
  $("about").textContent = `${about.name}: ${number(about.words)} words, ${about.dims} dimensions`;
  $("contexts-part").hidden = !about.contexts;
  const kept = [...typed].map((id) => [id, $(id).value]);
  readAddress();
  for (const [id, value] of kept) take(id, value);
  if (!typed.has("word") && document.activeElement === $("word")) $("word").select(); // the next key starts a new word
  history.replaceState(null, "", addressOf(state));
  $("examples").replaceChildren(make("span", {}, "For example"), ...about.examples.map(linkTo));
  refresh();
}

start();
