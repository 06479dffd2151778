// A stream of events from the server. It uses `fetch`, because `EventSource` cannot send a token in a header.

import { ask } from './api.js';

/** The server sends a heartbeat at least every 15 s. */
const SILENCE = 45_000;
const SOON = 1000;
const LATE = 30_000;

/**
 * Reads the stream at `path` until `stop()`: calls `heard(name)` for every event, and `up(true)` and `up(false)` when the connection changes. After a
 * disconnect it continues after the last event; without a stream it retries ever less often.
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
      // The stream has no more events.
      if (answer.status === 204) return;
      wait = SOON;
      const over = await read(answer.body.getReader(), running);
      if (!over) again(SOON);
    } catch (problem) {
      if (stopped) return;
      again(problem.name === 'AbortError' ? SOON : Math.min(wait * 2, LATE));
    }
  }

  /** Reads to the end; returns true if the stream has no more events. */
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
