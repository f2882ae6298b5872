// Send a request to the server, with its token if it needs one: taken from the address (#token=...), kept until the
// window is closed.
const given = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
if (/^[!-~]+$/.test(given)) { // others cannot be sent
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.search); // not in links to this page
}

export function send(path, body, options = {}) { // a body, as JSON, makes it a POST
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body === undefined) return fetch(path, { ...options, headers });
  return fetch(path, { ...options, method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body });
}
