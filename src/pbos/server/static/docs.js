// The API documentation: the content of /openapi.json, with a form to try each endpoint.

import { make } from "./make.js";
import { send } from "./send.js";

const SHOWN = 4000; // characters of a response

function paragraphs(text) {
  return text.split("\n\n").map((part) => make("p", {}, ...part.split("`").map((piece, at) => (at % 2 ? make("code", {}, piece) : piece))));
}

function follow(spec, schema) {
  return schema?.$ref ? schema.$ref.slice(2).split("/").reduce((at, key) => at[key], spec) : schema;
}

function typeOf(spec, schema) {
  const found = follow(spec, schema) ?? {};
  if (found.prefixItems) return `[${found.prefixItems.map((item) => typeOf(spec, item)).join(", ")}]`;
  if (found.type === "array") return `list of ${typeOf(spec, found.items)}`;
  if (found.properties) return `{${Object.keys(found.properties).join(", ")}}`;
  return found.type ?? "anything";
}

function fields(spec, schema) {
  const list = make("dl");
  for (const [name, value] of Object.entries(follow(spec, schema)?.properties ?? {})) {
    const preset = value.default === undefined ? "" : `, default ${value.default}`;
    list.append(make("dt", {}, name), make("dd", {}, `${typeOf(spec, value)}${preset}. ${value.description ?? ""}`));
  }
  return list;
}

function example(spec, schema) {
  const properties = Object.entries(follow(spec, schema).properties);
  return JSON.stringify(Object.fromEntries(properties.map(([name, value]) => [name, value.examples?.[0] ?? value.default])));
}

function section(spec, path, method, operation) {
  const title = make("h3", {}, make("span", { class: "method" }, method.toUpperCase()), ` ${path}`);
  const card = make("section", { class: "card" }, title, ...paragraphs(operation.description));
  const form = make("form");
  const inputs = (operation.parameters ?? []).map((parameter) => {
    const preset = parameter.schema.default ?? parameter.schema.examples?.[0] ?? "";
    const input = make("input", { name: parameter.name, value: preset, dir: "auto", autocapitalize: "none", spellcheck: "false" });
    form.append(make("label", {}, `${parameter.name} (${typeOf(spec, parameter.schema)})`, input));
    return input;
  });
  const body = operation.requestBody?.content["application/json"].schema;
  let area;
  if (body) {
    card.append(make("p", { class: "note" }, "Request"), fields(spec, body));
    area = make("textarea", { rows: "3", spellcheck: "false" });
    area.value = example(spec, body);
    form.append(make("label", {}, "Body (JSON)", area));
  }
  const answer = operation.responses["200"].content["application/json"]?.schema;
  if (answer && follow(spec, answer)?.properties) card.append(make("p", { class: "note" }, "Response"), fields(spec, answer));
  const output = make("pre", { "aria-live": "polite", hidden: "", tabindex: "0" });
  form.append(make("button", { "aria-label": `Try it: ${method.toUpperCase()} ${path}` }, "Try it"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams(inputs.map((input) => [input.name, input.value]));
    const address = path.slice(1) + (inputs.length ? `?${query}` : "");
    output.hidden = false;
    try {
      const response = await send(address, area?.value);
      const text = await response.text();
      const rest = text.length > SHOWN ? ` … (${(text.length - SHOWN).toLocaleString("en")} more characters)` : "";
      output.textContent = `${response.status} ${response.headers.get("content-type")}\n${text.slice(0, SHOWN)}${rest}`;
    } catch {
      output.textContent = "The server does not respond. Is pbos serve still running?";
    }
  });
  card.append(form, output);
  return card;
}

async function start() {
  let spec;
  try {
    spec = await (await fetch("openapi.json")).json();
  } catch {
    const message = document.getElementById("message");
    message.textContent = "The server does not respond. Is pbos serve still running? Reload this page when it is.";
    message.hidden = false;
    return;
  }
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag] = operation.tags;
      if (!groups.has(tag)) groups.set(tag, [make("h2", {}, tag)]);
      groups.get(tag).push(section(spec, path, method, operation));
    }
  }
  document.getElementById("endpoints").replaceChildren(...[...groups.values()].flat());
}

start();
