// What is shown is kept up to date by listening where the server tells of changes, and by asking again: often while something happens, ever
// more seldom while nothing does, not at all while the page is hidden. Whoever watches does not learn how.

import { listen } from './stream.js';

const SLOWEST = 15_000;
const WORST = 60_000;
/** Changes come in bursts: one look serves those that come so soon after each other. */
const SOON = 100;
const SPACING = 1000;

const watches = new Set();
let told = () => {};
let state = 'asking';
let answers = true;
/** The one stream of this page: `path`, `up`, `stop`. Browsers hold few connections to one server, for all tabs together. */
let stream = null;
let tuning = 0;

function tell(next) {
  if (next === state) return;
  state = next;
  told(state);
}

/** `offline` where the server does not answer, `live` where it tells by itself what the page shows, `asking` where it is asked. */
function tellState() {
  const isHeard = stream?.up && [...watches].some((watched) => watched.hears === stream.path && !watched.aside);
  if (document.hidden) tell('paused');
  else if (!answers) tell('offline');
  else tell(isHeard ? 'live' : 'asking');
}

/** Listens to what the last that came wants to hear: the page before what is around it. */
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
      // What was asked seldom is asked as often as ever.
      if (!up) hearers().forEach((watched) => watched.ring());
    },
  );
  return Object.assign(one, { stop });
}

/** Calls `then` with `live`, `asking`, `paused` or `offline` whenever that changes. */
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

  /** Asks now, and then from time to time. */
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

  /** Something has changed: asks soon, and once for all that comes until then. */
  ring() {
    // An answer that is on its way may be older than what has changed.
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
 * Watches what `load(signal)` answers: `show(data)` is called at once and whenever it has changed, `failed(problem)` when it could not be
 * had. `hears` is the address of a stream that tells when it may have changed; what is `aside` is not what the page is about.
 * Answers `{refreshSoon, stop}`.
 */
export function watch(load, show, options = {}) {
  const watched = new Watch(load, show, options);
  watches.add(watched);
  tune();
  watched.turn();
  return watched;
}

/** Everything that is watched is asked for now: something was just changed. */
export function refreshSoon() {
  for (const watched of watches) watched.refreshSoon();
}

/** Nothing is watched any more: another page comes. */
export function stopAll() {
  for (const watched of [...watches]) watched.stop();
}

/** Nothing is listened to any more: who was signed in is not. */
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
