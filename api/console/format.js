// Formats values for readers.

import { h } from './dom.js';

const STEPS = [
  [60, 1, 's'],
  [3600, 60, 'min'],
  [86400, 3600, 'h'],
  [Infinity, 86400, 'd'],
];

/** A span of seconds in one unit, or two where the first is small: `42 s`, `1 h 5 min`, `12 d`. */
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const place = STEPS.findIndex(([below]) => whole < below);
  const [, unit, word] = STEPS[place];
  const count = Math.floor(whole / unit);
  if (place < 2 || count >= 10) return `${count} ${word}`;
  const [, lower, lowerWord] = STEPS[place - 1];
  const rest = Math.floor((whole - count * unit) / lower);
  return rest ? `${count} ${word} ${rest} ${lowerWord}` : `${count} ${word}`;
}

/** A time relative to now: `5 min ago`, `in 3 h`. */
export function relative(at, now = Date.now()) {
  const seconds = (now - Date.parse(at)) / 1000;
  if (Math.abs(seconds) < 1.5) return 'now';
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

/** An exact time, in the reader's time zone and in UTC. */
export function exact(at) {
  const date = new Date(at);
  const own = date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  return `${own} (here) · ${date.toISOString()}`;
}

/** A `<time>` with a relative time, and the exact one on hover. It is updated automatically. */
export function time(at, { none = '–' } = {}) {
  if (!at) return h('span.faint', none);
  return h('time', { datetime: at, title: exact(at), 'data-relative': '' }, relative(at));
}

/** A time with seconds; today's without the date. */
export function clock(at) {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  const text = today
    ? date.toLocaleTimeString()
    : date.toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' });
  return h('time', { datetime: at, title: exact(at) }, text);
}

/** Updates every relative time of the page. */
export function tick() {
  const now = Date.now();
  for (const node of document.querySelectorAll('time[data-relative]')) {
    const text = relative(node.dateTime, now);
    if (node.textContent !== text) node.textContent = text;
  }
}

/** `CreatingNamespaces` as `creating namespaces`, `past_pivot_failure` as `past pivot failure`. */
export function words(name) {
  if (/[/.]/.test(String(name))) return String(name);
  return String(name ?? '')
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/_/g, ' ')
    .toLowerCase();
}

/** A number with separators between thousands. */
export function number(value, digits = 0) {
  if (value === null || value === undefined) return '-';
  return Number(value).toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: 0 });
}

/** Bytes in a suitable unit: `1.3 GiB`. */
export function bytes(value) {
  let [rest, unit] = [Number(value), 0];
  while (rest >= 1024 && unit < 4) {
    rest /= 1024;
    unit += 1;
  }
  return `${number(rest, rest < 10 ? 1 : 0)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}

/** `1 node`, `2 nodes`. */
export function many(count, one, several = `${one}s`) {
  return `${number(count)} ${Number(count) === 1 ? one : several}`;
}

/** `gpu/H100` as `H100`, to keep tables narrow; other names unchanged. */
export function resource(name) {
  return String(name).replace(/^gpu\//, '');
}
