// The building blocks of all pages.

import { h, s } from './dom.js';
import { words } from './format.js';
import { place } from './route.js';
import { Problem } from './api.js';

/** Tone and sign of each state name: shown by colour, sign and word. */
const TONES = {
  good: [
    '✓',
    'completed active in_service free admitted granted approved fired alive open done settled ok returned admit current writable ready signed closed_out migrated approve',
  ],
  busy: ['▸', 'forward onboarding claimed provisioning validating pending begun buffered in_force running draining'],
  wait: [
    '◔',
    'waiting paused queue planned left_alone tried_once full reserved leaving approval recall_notified due maintenance onhold cordoned',
  ],
  turn: ['↩', 'compensating cancelled rolled_back undone withdrawn reclaimed destroying cleaning sanitising wiping'],
  bad: [
    '!',
    'parked failed rejected refused outcome_unknown compensation_blocked past_pivot_failure protection_failed poisoned commit_refused limit_reached overdue missed quarantined reject closed_limit void dead expired no_worker faulty terminated unreadable refuse',
  ],
  calm: ['·', 'finished closed discovered skipped merged over older kept retired'],
};
const TONE_OF = new Map(
  Object.entries(TONES).flatMap(([tone, [sign, all]]) => all.split(' ').map((word) => [word, [tone, sign]])),
);

/** A state as a word with a sign, in its colour. `as` uses the tone of another word. */
export function state(word, { as, label, title } = {}) {
  if (!word) return h('span.faint', '–');
  const [tone, sign] = TONE_OF.get(as ?? String(word).replace(/ /g, '_')) ?? ['calm', '·'];
  return h(`span.state.${tone}`, { title }, h('span.sign', { 'aria-hidden': 'true' }, sign), label ?? words(word));
}

/** The name of a state, with possible line breaks between its words. */
export function stateName(name) {
  const parts = String(name).split(/(?<=[a-z0-9])(?=[A-Z])/);
  return h(
    'span.machine-state',
    parts.map((part, at) => [at > 0 && h('wbr'), part]),
  );
}

/** The status of an execution: its phase, with the reason where needed. */
export function standing(row) {
  if (row.phase === 'finished') return state(row.reason ?? 'finished');
  if (row.reason)
    return state(row.reason, {
      as: row.phase === 'parked' ? 'parked' : row.reason,
      label: row.phase === 'parked' ? `parked: ${words(row.reason)}` : words(row.reason),
    });
  return state(row.phase, { label: row.phase === 'forward' ? 'running' : words(row.phase) });
}

/** An id, shown short and copied in full. */
export function id(text, { href, digits = 13, whole = false } = {}) {
  const plain = text.replace(/^sha256:/, '');
  const shown = whole || plain.length <= digits + 3 ? text : `${plain.slice(0, digits)}…`;
  const label = href ? h('a.id', { href, title: text }, shown) : h('code.id', { title: text }, shown);
  return h('span.copyable', label, copy(text, 'id'));
}

/** A button that copies `text`. */
export function copy(text, what = 'it') {
  return h(
    'button.copy',
    {
      type: 'button',
      title: `Copy ${what}`,
      'aria-label': `Copy ${what}`,
      onclick: async (event) => {
        event.stopPropagation();
        const button = event.currentTarget;
        const done = await toClipboard(text);
        button.dataset.copied = done ? 'yes' : 'no';
        toast(done ? 'Copied.' : 'The browser does not allow copying here; select the text instead.');
        setTimeout(() => delete button.dataset.copied, 1500);
      },
    },
    s(
      'svg',
      { viewBox: '0 0 16 16', width: 13, height: 13, 'aria-hidden': 'true' },
      s('rect', { x: 5.5, y: 5.5, width: 8, height: 8, rx: 1.5 }),
      s('path', { d: 'M3.5 10.5h-1v-8h8v1' }),
    ),
  );
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // The only way to copy without HTTPS.
    const field = h('textarea.offscreen', { 'aria-hidden': 'true' });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    return done;
  }
}

/** A short message that disappears; screen readers read it. */
export function toast(text) {
  const note = h('p.toast', text);
  document.getElementById('toasts').append(note);
  setTimeout(() => note.remove(), 5000);
}

/** A link to an execution. */
export function execution(text, label) {
  return label
    ? h('a', { href: place('executions', text), title: text }, label)
    : id(text, { href: place('executions', text) });
}

/** A link to a tenant; the platform has no page. */
export function tenant(name) {
  return name ? h('a', { href: place('tenants', name) }, name) : h('span.faint', 'platform');
}

/** The title of a page, with its actions. */
export function heading(title, { about, aside, back } = {}) {
  return h(
    'header.heading',
    { key: 'heading' },
    back && h('a.back', { href: back[0] }, `‹ ${back[1]}`),
    h('div.row', h('h1', { tabindex: '-1' }, title), aside && h('div.aside', aside)),
    about && h('p.about', about),
  );
}

/** A titled part of a page. */
export function section(title, { aside, note, key, wide } = {}, ...children) {
  return h(
    `section.card${wide ? '.wide' : ''}`,
    { key: key ?? title },
    h('div.row', h('h2', title), aside && h('div.aside', aside)),
    note && h('p.note', note),
    children,
  );
}

/** An empty list: the reason, and what to do. */
export function empty(title, ...hints) {
  return h(
    'div.empty',
    h('p.title', title),
    hints.map((hint) => h('p', hint)),
  );
}

/** An error: what happened, why, and what to do. */
export function trouble(problem, { again } = {}) {
  if (!(problem instanceof Problem)) {
    return h(
      'div.problem',
      { role: 'alert' },
      h('p.title', 'Error in the console'),
      h('p', String(problem?.message ?? problem)),
      h(
        'p.remedy',
        h('b', 'Remedy: '),
        'reload the page; if the error remains, report it with the browser’s log',
      ),
    );
  }
  const faults = problem.errors.map((fault) =>
    h(
      'li',
      fault.pointer && h('code', fault.pointer),
      ' ',
      fault.message,
      fault.line ? ` (line ${fault.line}${fault.column ? `, column ${fault.column}` : ''})` : '',
    ),
  );
  return h(
    'div.problem',
    { role: 'alert' },
    h('p.title', problem.title),
    problem.detail && h('p', problem.detail),
    faults.length > 0 && h('ul', faults),
    problem.remedy && h('p.remedy', h('b', 'Remedy: '), problem.remedy),
    h(
      'p.meta',
      problem.code && h('code', problem.code),
      problem.status > 0 && ` · status ${problem.status}`,
      problem.requestId && [' · request ', id(problem.requestId)],
    ),
    again && h('button', { type: 'button', onclick: again }, 'Try again'),
  );
}

/** A place that another part fills; redrawing the page does not change it. */
export function slot(name) {
  return h('div', { key: name, still: name, 'data-slot': name });
}

/** Returns the place with this name. */
export function into(root, name) {
  return root.querySelector(`[data-slot="${name}"]`);
}

/** Shown while loading. */
export function loading(what = 'Loading') {
  return h('p.loading', { role: 'status' }, `${what}…`);
}

/** A list of facts by name, without empty values. */
export function facts(pairs) {
  const told = Object.entries(pairs).filter(
    ([, value]) => value !== null && value !== undefined && value !== false && value !== '',
  );
  return h(
    'dl.facts',
    told.map(([name, value]) => h('div', { key: name }, h('dt', name), h('dd', value))),
  );
}

/** Columns `{label, cell(row), kind}` over rows; below 700 pixels each row is a card. `kind` is `number` or `wide`. */
export function table(columns, rows, { key = (row) => row.id, caption, href } = {}) {
  const head = h(
    'thead',
    h(
      'tr',
      columns.map((column) => h(`th${column.kind ? `.${column.kind}` : ''}`, { scope: 'col' }, column.label)),
    ),
  );
  const cell = (column, row) => {
    const value = column.cell(row);
    const isEmpty = value === undefined || value === null || value === '' || value === false;
    return h(
      `td${column.kind ? `.${column.kind}` : ''}${isEmpty ? '.nothing' : ''}`,
      { 'data-label': column.label },
      h('div', isEmpty ? column.label && h('span.faint', '–') : value),
    );
  };
  const body = rows.map((row) =>
    h(
      'tr',
      {
        key: key(row),
        'data-row': '',
        onclick:
          href &&
          ((event) => {
            if (event.target.closest('a, button, input, summary') || String(getSelection())) return;
            location.hash = href(row);
          }),
        class: href ? 'linked' : undefined,
      },
      columns.map((column) => cell(column, row)),
    ),
  );
  return h(
    'div.scroll',
    { tabindex: '0', role: 'region', 'aria-label': caption ?? 'Table' },
    h('table', caption && h('caption.offscreen', caption), head, h('tbody', body)),
  );
}

/** A bar of parts `[{value, tone, label}]` of `total`. */
export function bar(parts, total, label) {
  const whole = Math.max(
    total,
    parts.reduce((sum, part) => sum + part.value, 0),
    1,
  );
  return h(
    'div.bar',
    { role: 'img', 'aria-label': label, title: label },
    parts
      .filter((part) => part.value > 0)
      .map((part) => h(`i.${part.tone}`, { key: part.tone, vars: { '--share': `${(100 * part.value) / whole}%` } })),
  );
}

/** A key figure with its label, as a link to its source. */
export function figure(value, label, { href, tone, note } = {}) {
  return h(
    `a.figure${tone ? `.${tone}` : ''}`,
    { href, key: label },
    h('b', value),
    h('span', label),
    note && h('small', note),
  );
}

/** Indented JSON with a copy button. */
export function json(value) {
  const text = JSON.stringify(value, null, 2);
  return h('div.code', copy(text, 'JSON'), h('pre', { tabindex: '0' }, text));
}

/** A command line with a copy button. */
export function command(text) {
  return h('div.code.command', copy(text, 'the command'), h('pre', { tabindex: '0' }, text));
}

/** Content that is shown on demand. */
export function more(label, ...children) {
  return h('details.more', { key: label }, h('summary', label), children);
}

/** Saves a file that was made in the browser. */
export function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = h('a', { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
