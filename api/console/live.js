// What is shown is kept up to date by asking again: often while something happens, ever more seldom while nothing does, not at all
// while the page is hidden. Whoever watches does not learn how: a stream of events can take the place of this one module.

const SLOWEST = 15_000;
const WORST = 60_000;

const watches = new Set();
let told = () => {};
let state = 'live';

function tell(next) {
  if (next === state) return;
  state = next;
  told(state);
}

/** Calls `then` with `live`, `paused` or `offline` whenever that changes. */
export function onState(then) {
  told = then;
  then(state);
}

class Watch {
  constructor(load, show, { every = 3000, failed = () => {} }) {
    Object.assign(this, {
      load,
      show,
      failed,
      every,
      wait: every,
      last: undefined,
      timer: 0,
      stopped: false,
      running: null,
    });
  }

  /** Asks now, and then from time to time. */
  async turn() {
    clearTimeout(this.timer);
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
      tell('live');
    } catch (problem) {
      if (this.stopped || problem.name === 'AbortError') return;
      this.wait = Math.min(this.wait * 2, WORST);
      this.last = undefined;
      if (problem.status === 0 || problem.status >= 500) tell('offline');
      this.failed(problem);
    }
    this.running = null;
    if (!document.hidden) this.timer = setTimeout(() => this.turn(), this.wait);
  }

  hurry() {
    this.wait = this.every;
    this.turn();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.running?.abort();
    watches.delete(this);
  }
}

/**
 * Watches what `load(signal)` answers: `show(data)` is called at once and whenever it has changed, `failed(problem)` when it could not be
 * had. Answers `{hurry, stop}`.
 */
export function watch(load, show, options = {}) {
  const watched = new Watch(load, show, options);
  watches.add(watched);
  watched.turn();
  return watched;
}

/** Everything that is watched is asked for now: something was just changed. */
export function hurry() {
  for (const watched of watches) watched.hurry();
}

/** Nothing is watched any more: another page comes. */
export function stopAll() {
  for (const watched of [...watches]) watched.stop();
}

document.addEventListener('visibilitychange', () => {
  tell(document.hidden ? 'paused' : 'live');
  if (!document.hidden) hurry();
  else for (const watched of watches) clearTimeout(watched.timer);
});
