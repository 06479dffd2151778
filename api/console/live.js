// Keeps pages up to date: by a stream where the server has one, otherwise by polling. Polling is frequent during activity, slower without, and stops while the
// page is hidden. Pages do not depend on the method.

import { listen } from './stream.js';

const SLOWEST = 15_000;
const WORST = 60_000;
/** Changes come in bursts: one request serves all changes within this time. */
const SOON = 100;
const SPACING = 1000;

const watches = new Set();
let told = () => {};
let state = 'asking';
let answers = true;
/** The single stream of this page: `path`, `up`, `stop`. Browsers limit connections per server, over all tabs. */
let stream = null;
let tuning = 0;

function tell(next) {
  if (next === state) return;
  state = next;
  told(state);
}

/** `offline` without an answer of the server, `live` with a stream, `asking` while polling. */
function tellState() {
  const isHeard = stream?.up && [...watches].some((watched) => watched.hears === stream.path && !watched.aside);
  if (document.hidden) tell('paused');
  else if (!answers) tell('offline');
  else tell(isHeard ? 'live' : 'asking');
}

/** Opens the stream of the last watcher: the page's content comes before its frame. */
function tune() {
  clearTimeout(tuning);
  tuning = setTimeout(() => {
    const wants = document.hidden ? [] : [...watches].filter((watched) => watched.hears);
    const path = wants.at(-1)?.hears;
    if (path !== stream?.path) {
      stream?.stop();
      stream = path ? open(path) : null;
    }
    tellState();
  }, SOON);
}

function open(path) {
  const one = { path, up: false };
  const hearers = () => [...watches].filter((watched) => watched.hears === path && one === stream);
  const { stop } = listen(
    path,
    () => hearers().forEach((watched) => watched.ring()),
    (up) => {
      one.up = up;
      tellState();
      // Slow polling becomes fast again.
      if (!up) hearers().forEach((watched) => watched.ring());
    },
  );
  return Object.assign(one, { stop });
}

/** Calls `then` with `live`, `asking`, `paused` or `offline` on every change. */
export function onState(then) {
  told = then;
  then(state);
}

class Watch {
  constructor(load, show, { every = 3000, failed = () => {}, hears, aside = false }) {
    Object.assign(this, {
      load,
      show,
      failed,
      every,
      hears,
      aside,
      wait: every,
      last: undefined,
      timer: 0,
      asked: 0,
      rung: 0,
      again: false,
      stopped: false,
      running: null,
    });
  }

  /** Loads now, and then regularly. */
  async turn() {
    clearTimeout(this.timer);
    clearTimeout(this.rung);
    this.rung = 0;
    this.again = false;
    this.asked = Date.now();
    this.running?.abort();
    const running = (this.running = new AbortController());
    try {
      const data = await this.load(running.signal);
      if (this.stopped || running.signal.aborted) return;
      const text = JSON.stringify(data);
      this.wait = text === this.last ? Math.min(this.wait * 1.3, Math.max(SLOWEST, this.every)) : this.every;
      if (text !== this.last) {
        this.last = text;
        this.show(data);
      }
      answers = true;
      tellState();
    } catch (problem) {
      if (this.stopped || problem.name === 'AbortError') return;
      this.wait = Math.min(this.wait * 2, WORST);
      this.last = undefined;
      if (problem.status === 0 || problem.status >= 500) answers = false;
      tellState();
      this.failed(problem);
    }
    this.running = null;
    if (document.hidden) return;
    const heard = this.hears && stream?.up && stream.path === this.hears;
    this.timer = setTimeout(() => this.turn(), heard ? Math.max(this.wait, SLOWEST) : this.wait);
    if (this.again) this.ring();
  }

  /** After a change: loads soon, once for all changes until then. */
  ring() {
    // A pending answer may be older than the change.
    if (this.running) this.again = true;
    else if (!this.rung && !this.stopped) {
      this.wait = this.every;
      this.rung = setTimeout(() => this.turn(), Math.max(SOON, this.asked + SPACING - Date.now()));
    }
  }

  refreshSoon() {
    this.wait = this.every;
    this.turn();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.rung);
    this.running?.abort();
    watches.delete(this);
    tune();
  }
}

/**
 * Watches the result of `load(signal)`: calls `show(data)` now and after every change, and `failed(problem)` after an error. `hears` is the path of a stream
 * that reports changes; `aside` marks data that is not the page's main content. Returns `{refreshSoon, stop}`.
 */
export function watch(load, show, options = {}) {
  const watched = new Watch(load, show, options);
  watches.add(watched);
  tune();
  watched.turn();
  return watched;
}

/** Reloads everything now, after a change by the user. */
export function refreshSoon() {
  for (const watched of watches) watched.refreshSoon();
}

/** Stops all watchers: another page is shown. */
export function stopAll() {
  for (const watched of [...watches]) watched.stop();
}

/** Stops the stream after a sign-out. */
export function stopPolling() {
  stopAll();
  clearTimeout(tuning);
  stream?.stop();
  stream = null;
}

document.addEventListener('visibilitychange', () => {
  tune();
  tellState();
  if (!document.hidden) refreshSoon();
  else for (const watched of watches) clearTimeout(watched.timer);
});
