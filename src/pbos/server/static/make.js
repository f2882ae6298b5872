// Make an HTML or SVG element with attributes and children, in one call.
export function make(tag, attributes = {}, ...children) {
  return complete(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return complete(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function complete(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A bar that is as long as a share of 1; those who cannot see it have the number beside it.
export function makeBar(share) {
  const fill = make("span", { class: share < 0 ? "fill minus" : "fill" });
  fill.style.width = `${100 * Math.min(1, Math.abs(share))}%`;
  return make("span", { class: "track", "aria-hidden": "true" }, fill);
}
