// Keeps the live parts of pages fresh. All tabs of one browser share one event stream: the tab that
// holds the lock opens it and passes on what it hears. A tab that hears nothing asks for its own
// fragment. Forms are never part of a fragment. Without this script every page works too.
"use strict";

(() => {
  const INTERVAL_MS = 1000;
  const ANSWER_MS_MAX = 3000;
  const MISSED_MAX = 3;
  // A tab says this often that it is still there; the stream forgets it after three times as long.
  const RENEW_MS = 4000;
  const VIEWS_MAX = 8;
  const STREAM_AGAIN_MS = 5000;
  const LOCK = "bulkhead-live";

  const live = () => document.querySelectorAll("[data-live]");
  if (live().length === 0) return;

  const pause = document.getElementById("pause");
  const announce = document.getElementById("announce");
  const opened = document.getElementById("strip")?.dataset.generation;
  const here = new URL(location.href);
  here.hash = "";
  here.searchParams.delete("saved");
  const view = here.pathname + here.search;
  here.searchParams.set("fragment", "live");

  let paused = false;
  let isStale = false;
  let asking = false;
  let heard = performance.now();
  let patience_ms = INTERVAL_MS;
  let verdict = document.getElementById("verdict")?.dataset.title;

  // One node becomes the other, in place: whoever has the focus keeps it.
  function morph(mine, theirs) {
    if (mine.nodeType !== theirs.nodeType || mine.nodeName !== theirs.nodeName) {
      mine.replaceWith(document.importNode(theirs, true));
      return;
    }
    if (mine.nodeType !== Node.ELEMENT_NODE) {
      if (mine.nodeValue !== theirs.nodeValue) mine.nodeValue = theirs.nodeValue;
      return;
    }
    if (mine.isEqualNode(theirs)) return;
    for (const { name } of [...mine.attributes]) {
      // What the reader opened stays open.
      const isOpen = name === "open" && mine.nodeName === "DETAILS";
      if (!isOpen && !theirs.hasAttribute(name)) mine.removeAttribute(name);
    }
    for (const { name, value } of theirs.attributes) {
      if (mine.getAttribute(name) !== value) mine.setAttribute(name, value);
    }
    morphChildren(mine, theirs);
  }

  // Rows keep their key, so that a row that moves is moved, not rewritten.
  function morphChildren(mine, theirs) {
    const keyed = new Map();
    const stay = new Set([...theirs.children].map((child) => child.dataset?.key));
    for (const child of [...mine.children]) {
      const key = child.dataset?.key;
      if (key === undefined) continue;
      // Gone first: then those that stay need not move.
      if (stay.has(key)) keyed.set(key, child); else child.remove();
    }
    let at = mine.firstChild;
    for (const wanted of [...theirs.childNodes]) {
      const known = keyed.get(wanted.dataset?.key);
      if (known !== undefined) {
        if (known !== at) moveBefore(mine, known, at);
        keyed.delete(wanted.dataset.key);
        morph(known, wanted);
        at = known.nextSibling;
      } else if (at !== null && at.dataset?.key === undefined) {
        const next = at.nextSibling;
        morph(at, wanted);
        at = next;
      } else {
        mine.insertBefore(document.importNode(wanted, true), at);
      }
    }
    while (at !== null) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  // An element that moves loses the focus.
  function moveBefore(parent, row, at) {
    const focused = row.contains(document.activeElement) ? document.activeElement : null;
    parent.insertBefore(row, at);
    focused?.focus({ preventScroll: true });
  }

  function badge(words, kind) {
    const element = document.getElementById("badge");
    if (element === null) return;
    element.className = `badge ${kind}`;
    document.getElementById("badge-words").textContent = words;
  }

  function show(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const theirs of [...fresh.body.children]) {
      const mine = document.getElementById(theirs.id);
      if (mine !== null && mine.hasAttribute("data-live")) morph(mine, theirs);
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

  function hear(html, every_ms) {
    if (paused || document.hidden) return;
    if (isStale) {
      // What was marked as old need not be among what moved: all of it is taken anew.
      isStale = false;
      announce.textContent = "The figures are live again.";
      ask();
    }
    heard = performance.now();
    patience_ms = Math.max(INTERVAL_MS, every_ms);
    show(html);
  }

  function age() {
    return `${Math.max(1, Math.round((performance.now() - heard) / 1000))} s`;
  }

  // After three missed intervals the figures stay, marked as old, with their age.
  function doubt() {
    if (performance.now() - heard < (MISSED_MAX + 0.5) * patience_ms) return;
    if (!isStale) announce.textContent = "The figures are stale: the server does not answer.";
    isStale = true;
    badge(`stale, no answer for ${age()}`, "stale");
    for (const part of live()) {
      if (!["strip", "verdict", "side"].includes(part.id)) part.classList.add("old");
    }
  }

  // Asks for this page's own fragment: where there is no stream, or none that speaks of this page.
  async function ask() {
    if (asking || paused || document.hidden) return;
    asking = true;
    const started = performance.now();
    try {
      const signal = AbortSignal.timeout(ANSWER_MS_MAX);
      const answer = await fetch(here, { signal, cache: "no-store", redirect: "manual" });
      if (answer.status === 401 || answer.type === "opaqueredirect") {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const html = await answer.text();
      // A slow server or a long page is asked less often, never more than a quarter of the time.
      hear(html, 4 * (performance.now() - started));
    } catch {
      // The age says it.
    } finally {
      asking = false;
    }
  }

  // --- One stream for all tabs of this browser ---

  const canShare = "locks" in navigator && "BroadcastChannel" in globalThis && "EventSource" in globalThis;
  const channel = canShare ? new BroadcastChannel(LOCK) : null;
  const me = crypto.randomUUID?.() ?? String(Math.random());
  const wanted = new Map();
  let stream = null;
  let streamed = "";
  let letGo = null;
  let waiting = null;
  let renewed = 0;
  let streamAt = 0;

  function tell(message) {
    channel?.postMessage({ from: me, ...message });
  }

  function want() {
    renewed = performance.now();
    wanted.set(me, { view, at: renewed });
    tell({ kind: "want", view });
    follow();
  }

  function deliver(message) {
    if (message.view === view && message.html !== undefined) hear(message.html, message.every_ms);
  }

  // The holder of the lock keeps one stream open, of all views that tabs in sight show.
  function follow() {
    if (letGo === null) return;
    const now = performance.now();
    for (const [id, { at }] of wanted) {
      if (id !== me && now - at > 3 * RENEW_MS) wanted.delete(id);
    }
    const views = [...new Set([...wanted.values()].map((one) => one.view))].slice(0, VIEWS_MAX);
    const query = views.sort().map((one) => `view=${encodeURIComponent(one)}`).join("&");
    if (query === streamed && stream !== null && stream.readyState !== EventSource.CLOSED) return;
    if (query === streamed && now < streamAt) return;
    stream?.close();
    streamed = query;
    streamAt = now + STREAM_AGAIN_MS;
    stream = new EventSource(`/live?${query}`);
    stream.addEventListener("parts", (event) => {
      const { every_ms, views: parts } = JSON.parse(event.data);
      for (const { view: of, html } of parts) {
        deliver({ view: of, html, every_ms });
        tell({ kind: "part", view: of, html, every_ms });
      }
    });
  }

  function lead() {
    if (waiting === null) return undefined;
    return new Promise((resolve) => {
      letGo = resolve;
      wanted.clear();
      tell({ kind: "who" });
      want();
    });
  }

  // Only tabs in sight stand in line: a browser may put the others to sleep, lock and all.
  function join() {
    if (!canShare || waiting !== null) return;
    waiting = new AbortController();
    navigator.locks.request(LOCK, { signal: waiting.signal }, lead).catch(() => {});
    want();
    // Whoever only listens hears what moves from now on, so it takes the whole once.
    setTimeout(() => { if (letGo === null) ask(); }, INTERVAL_MS / 4);
  }

  function leave() {
    waiting?.abort();
    waiting = null;
    stream?.close();
    stream = null;
    streamed = "";
    letGo?.();
    letGo = null;
    wanted.clear();
    tell({ kind: "bye" });
  }

  channel?.addEventListener("message", ({ data }) => {
    if (data.kind === "part") deliver(data);
    else if (data.kind === "who" && waiting !== null) want();
    else if (data.kind === "want" && letGo !== null) {
      wanted.set(data.from, { view: data.view, at: performance.now() });
      follow();
    } else if (data.kind === "bye" && wanted.delete(data.from)) follow();
  });

  function look() {
    if (paused || document.hidden) return;
    const now = performance.now();
    if (now - renewed > RENEW_MS && waiting !== null) want();
    else follow();
    if (now - heard > (canShare ? 1.5 : 0.9) * patience_ms) ask();
    doubt();
  }

  function turn() {
    if (paused || document.hidden) {
      leave();
    } else {
      join();
      look();
    }
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (paused) badge(`paused, ${age()} old`, "paused");
    turn();
  });
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", leave);
  // The browser may bring a page back from its history with old figures.
  addEventListener("pageshow", (event) => { if (event.persisted) turn(); });
  setInterval(look, INTERVAL_MS);
  turn();
})();
