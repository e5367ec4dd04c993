// Keeps the live parts of a page fresh: asks for the page's own fragment once a second and morphs
// it into place. Forms are never part of a fragment. Without this script every page works too.
"use strict";

(() => {
  const INTERVAL_MS = 1000;
  const ANSWER_MS_MAX = 3000;
  const MISSED_MAX = 3;

  const live = () => document.querySelectorAll("[data-live]");
  if (live().length === 0) return;

  const pause = document.getElementById("pause");
  const announce = document.getElementById("announce");
  const opened = document.getElementById("strip")?.dataset.generation;
  const address = new URL(location.href);
  address.hash = "";
  address.searchParams.delete("saved");
  address.searchParams.set("fragment", "live");

  let paused = false;
  let missed = 0;
  let heard = performance.now();
  let timer = 0;
  let verdict = document.getElementById("verdict")?.dataset.title;

  // One node becomes the other, in place: whoever has the focus keeps it.
  function morph(here, there) {
    if (here.nodeType !== there.nodeType || here.nodeName !== there.nodeName) {
      here.replaceWith(document.importNode(there, true));
      return;
    }
    if (here.nodeType !== Node.ELEMENT_NODE) {
      if (here.nodeValue !== there.nodeValue) here.nodeValue = there.nodeValue;
      return;
    }
    if (here.isEqualNode(there)) return;
    for (const { name } of [...here.attributes]) {
      if (!there.hasAttribute(name)) here.removeAttribute(name);
    }
    for (const { name, value } of there.attributes) {
      if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    }
    morphChildren(here, there);
  }

  // Rows keep their key, so that a row that moves is moved, not rewritten.
  function morphChildren(here, there) {
    const keyed = new Map();
    for (const child of here.children) {
      if (child.dataset?.key !== undefined) keyed.set(child.dataset.key, child);
    }
    let at = here.firstChild;
    for (const wanted of [...there.childNodes]) {
      const known = keyed.get(wanted.dataset?.key);
      if (known !== undefined) {
        if (known !== at) here.insertBefore(known, at);
        keyed.delete(wanted.dataset.key);
        morph(known, wanted);
        at = known.nextSibling;
      } else if (at !== null && at.dataset?.key === undefined) {
        const next = at.nextSibling;
        morph(at, wanted);
        at = next;
      } else {
        here.insertBefore(document.importNode(wanted, true), at);
      }
    }
    while (at !== null) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function badge(words, kind) {
    const element = document.getElementById("badge");
    if (element === null) return;
    element.className = `badge ${kind}`;
    document.getElementById("badge-words").textContent = words;
  }

  function show(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const there of [...fresh.body.children]) {
      const here = document.getElementById(there.id);
      if (here !== null && here.hasAttribute("data-live")) morph(here, there);
    }
    const title = document.getElementById("verdict")?.dataset.title;
    if (title !== undefined && title !== verdict) {
      verdict = title;
      announce.textContent = title;
      document.title = `${title} Overview · Bulkhead`;
    }
    const moved = document.getElementById("moved");
    const generation = document.getElementById("strip")?.dataset.generation;
    if (moved !== null && generation !== opened) moved.hidden = false;
  }

  function age() {
    return `${Math.max(1, Math.round((performance.now() - heard) / 1000))} s`;
  }

  function miss() {
    missed += 1;
    if (missed < MISSED_MAX) return;
    if (missed === MISSED_MAX) announce.textContent = "The figures are stale: the server does not answer.";
    badge(`stale, no answer for ${age()}`, "stale");
    for (const part of live()) {
      if (!["strip", "verdict", "side"].includes(part.id)) part.classList.add("old");
    }
  }

  async function refresh() {
    const started = performance.now();
    try {
      const signal = AbortSignal.timeout(ANSWER_MS_MAX);
      const answer = await fetch(address, { signal, cache: "no-store", redirect: "manual" });
      if (answer.status === 401 || answer.type === "opaqueredirect") {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const html = await answer.text();
      if (paused) return;
      show(html);
      if (missed >= MISSED_MAX) announce.textContent = "The figures are live again.";
      missed = 0;
      heard = performance.now();
    } catch {
      if (!paused) miss();
    }
    // A slow server or a long page is asked less often, never more than a quarter of the time.
    next(Math.max(INTERVAL_MS, 3 * (performance.now() - started)));
  }

  function next(wait_ms) {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(refresh, wait_ms);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (paused) badge(`paused, ${age()} old`, "paused");
    next(0);
  });
  document.addEventListener("visibilitychange", () => next(0));
  // The browser may bring a page back from its history with old figures.
  addEventListener("pageshow", (event) => { if (event.persisted) next(0); });
  next(INTERVAL_MS);
})();
