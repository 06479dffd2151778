// A stream of events from the server. It is read with `fetch`, since what browsers have for it cannot send a token in a header.

import { ask } from './api.js';

/** The server says at least every 15 s that it is there. */
const SILENCE = 45_000;
const SOON = 1000;
const LATE = 30_000;

/**
 * Listens to `path` until `stop()`: `heard(name)` for every event, `up(true)` and `up(false)` as it comes and goes. Whoever was cut off goes on
 * behind the last event; a server without such a stream is asked for one again, ever more seldom.
 */
export function listen(path, heard, up) {
  let stopped = false;
  let last = '';
  let wait = SOON;
  let running = null;
  let timer = 0;

  const again = (how) => {
    if (stopped) return;
    up(false);
    wait = how;
    timer = setTimeout(turn, wait);
  };

  async function turn() {
    running = new AbortController();
    const { signal } = running;
    try {
      const headers = last ? { 'last-event-id': last } : {};
      const answer = await ask('GET', path, { headers, signal, accept: 'text/event-stream' });
      if (stopped) return;
      up(true);
      // Nothing will follow.
      if (answer.status === 204) return;
      wait = SOON;
      const over = await read(answer.body.getReader(), running);
      if (!over) again(SOON);
    } catch (problem) {
      if (stopped) return;
      again(problem.name === 'AbortError' ? SOON : Math.min(wait * 2, LATE));
    }
  }

  /** Reads to the end; says whether nothing will follow. */
  async function read(reader, { signal }) {
    const text = new TextDecoder();
    let rest = '';
    let event = { name: '', data: '' };
    let over = false;
    const hush = () => reader.cancel().catch(() => {});
    signal.addEventListener('abort', hush);
    for (;;) {
      const silence = setTimeout(hush, SILENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return over;
      rest += text.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (line === '') {
          if (event.name === 'end') over = JSON.parse(event.data).why === 'finished';
          else if (event.data) heard(event.name);
          event = { name: '', data: '' };
        } else if (line.startsWith('event: ')) event.name = line.slice(7);
        else if (line.startsWith('data: ')) event.data += line.slice(6);
        else if (line.startsWith('id: ')) last = line.slice(4);
      }
    }
  }

  turn();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      running?.abort();
    },
  };
}
