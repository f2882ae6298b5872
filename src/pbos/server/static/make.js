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
