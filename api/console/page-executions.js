// Search for executions, and the list of stuck executions.

import { h, show } from './dom.js';
import { address, get, getOr, keys, may, post } from './api.js';
import { dialog, field, typed } from './dialog.js';
import { many, span, time, words } from './format.js';
import { filters, list } from './list.js';
import { watch } from './live.js';
import {
  empty,
  execution,
  heading,
  id,
  into,
  more,
  slot,
  standing,
  table,
  tenant,
  toast,
  trouble,
  stateName,
} from './components.js';
import { go, here, place } from './route.js';

const PHASES = ['forward', 'compensating', 'parked', 'paused', 'finished'];
const SAVED = [
  ['Open', { open: 'true' }],
  ['Parked', { phase: 'parked' }],
  ['Paused', { phase: 'paused' }],
  ['Waiting for approval', { filter: 'open and has asked' }],
  ['Last day', { filter: 'created > ', since: 1 }],
  ['Failed or rolled back', { filter: 'finished and not reason in (completed)' }],
  ['Long open', { filter: 'open and age > 1d' }],
];

export const title = 'Executions';

const columns = () => [
  { label: 'execution', cell: (row) => id(row.id, { href: place('executions', row.id) }) },
  { label: 'workflow', cell: (row) => words(row.workflow) },
  { label: 'subject', kind: 'wide', cell: (row) => row.subject },
  { label: 'tenant', cell: (row) => tenant(row.tenant) },
  { label: 'state', cell: (row) => stateName(row.state) },
  { label: 'status', cell: standing },
  { label: 'requested by', cell: (row) => row.requested_by },
  { label: 'changed', cell: (row) => time(row.updated_at) },
];

function saved(params) {
  const today = new Date(Date.now() - 86_400_000).toISOString().slice(0, 19);
  return h(
    'nav.saved',
    { key: 'saved', 'aria-label': 'Saved filters' },
    SAVED.map(([label, { since, ...to }]) => {
      const said = since ? { filter: `${to.filter}${today}Z` } : to;
      const isHere =
        Object.entries(to).every(([name, value]) =>
          since ? params[name]?.startsWith(value) : params[name] === value,
        ) && Object.keys(params).filter((name) => name !== 'cursor').length === Object.keys(to).length;
      return h('a', { href: place('executions', said), 'aria-current': isHere ? 'page' : undefined }, label);
    }),
  );
}

export function render(root) {
  const { params } = here();
  const fields = [
    { name: 'filter', label: 'filter', wide: true, hint: 'tenant = acme and phase = parked and age > 2h' },
    { name: 'workflow', label: 'workflow', list: 'workflows' },
    { name: 'tenant', label: 'tenant' },
    { name: 'phase', label: 'phase', kind: 'select', options: PHASES },
    {
      name: 'open',
      label: 'open',
      kind: 'select',
      options: [
        ['true', 'open'],
        ['false', 'finished'],
      ],
    },
  ];
  show(
    root,
    heading('Executions', {
      about: 'All runs of workflows, oldest first. The URL contains the filters.',
      aside: bulk(params),
    }),
    saved(params),
    filters(fields, { onhelp: help() }),
    h('datalist', { id: 'workflows', still: 'workflows' }),
    slot('list'),
  );
  getOr({ items: [] }, '/v1/workflows', { limit: 1000 })
    .then((page) =>
      show(
        root.querySelector('#workflows'),
        page.items.map((one) => h('option', { value: one.name })),
      ),
    )
    .catch(() => {});
  const { filter, workflow, tenant: whose, phase, open, state: at, reason, subject, parent, requested_by: by } = params;
  const wanted = { filter, workflow, tenant: whose, phase, open, state: at, reason, subject, parent, requested_by: by };
  return [
    list(into(root, 'list'), {
      path: '/v1/executions',
      params: wanted,
      hears: address('/v1/watch', { ...wanted, limit: 1 }),
      columns: columns(),
      href: (row) => place('executions', row.id),
      caption: 'Executions',
      none: Object.keys(params).length
        ? empty('No execution matches.', h('a', { href: place('executions') }, 'Show all executions'))
        : empty(
            'No execution has run yet.',
            'Onboard a tenant with',
            h('code', 'tenure tenant onboard -f docs/examples/acme.yaml --wait'),
          ),
    }),
  ];
}

function help() {
  const fields = [
    'tenant',
    'workflow',
    'state',
    'phase',
    'reason',
    'subject',
    'requested_by',
    'action',
    'error',
    'approver',
    'asked',
    'voted',
    'parent',
    'label',
    'schedule',
    'age',
    'idle',
    'created',
    'updated',
  ];
  return h(
    'details.more',
    { key: 'help' },
    h('summary', 'Filter syntax'),
    h(
      'p',
      'Conditions with ',
      h('code', 'and'),
      ', ',
      h('code', 'or'),
      ', ',
      h('code', 'not'),
      ' and parentheses; ',
      h('code', '~'),
      ' means “begins with”. Fields: ',
      fields.map((name, at) => [at > 0 && ', ', h('code', name)]),
    ),
    h(
      'ul',
      [
        'phase = parked and age > 2h',
        'reason in (outcome_unknown, overdue) and not workflow = onboarding',
        'error ~ gpu. and idle > 30m',
        'asked = security and not has voted',
        'label = "team=ml"',
      ].map((text) => h('li', h('a', { href: place('executions', { filter: text }) }, h('code', text)))),
    ),
  );
}

/** A command to all executions of a filter: first a preview, then the command with the preview's digest. */
function bulk(params) {
  if (!may('cancel')) return null;
  const filter = [
    params.filter && `(${params.filter})`,
    ...['workflow', 'tenant', 'phase', 'open']
      .filter((name) => params[name])
      .map((name) => `${name} = ${params[name]}`),
  ]
    .filter(Boolean)
    .join(' and ');
  return h(
    'button',
    {
      type: 'button',
      disabled: !filter,
      title: filter
        ? 'Send a command to all executions that match the filter'
        : 'Set a filter first: an empty filter selects all executions',
      onclick: () => ask(filter),
    },
    'Batch command…',
  );
}

function ask(filter) {
  const keyOf = keys();
  let seen = null;
  dialog(
    'Send a command to all matching executions',
    (close) => {
      const answer = h('div.answer', { 'aria-live': 'polite' });
      const begin = h('button.primary', { type: 'submit', disabled: true }, 'Start batch');
      const look = async () => {
        const { verb } = typed(form);
        begin.disabled = true;
        show(answer, h('p.loading', 'Loading…'));
        try {
          ({ body: seen } = await post('/v1/executions:batch', { verb, filter, dry_run: true }));
          show(
            answer,
            h('p', h('b', many(seen.count, 'execution')), ` would get ${verb}; ${seen.refusing} would refuse it.`),
            table(
              [
                { label: 'execution', cell: (row) => execution(row.id) },
                { label: 'subject', cell: (row) => row.subject },
                { label: 'state', cell: (row) => row.state },
                { label: 'refusal', cell: (row) => row.refuses },
              ],
              seen.first,
              { caption: 'First matches' },
            ),
          );
          begin.disabled = seen.count === 0;
        } catch (problem) {
          show(answer, trouble(problem));
        }
      };
      const form = h(
        'form',
        {
          onsubmit: async (event) => {
            event.preventDefault();
            const { verb, reason, rate } = typed(form);
            const body = { verb, filter, reason, digest: seen?.digest, rate: Number(rate) || undefined };
            try {
              const { body: batch } = await post('/v1/executions:batch', body, { key: keyOf(body) });
              close();
              toast('Batch started.');
              go('system', 'batches', batch.id);
            } catch (problem) {
              show(answer, trouble(problem));
            }
          },
        },
        h('p', 'Executions that match ', h('code', filter)),
        field({
          name: 'verb',
          label: 'Command',
          kind: 'select',
          required: true,
          options: ['retry', 'pause', 'resume', 'cancel'],
          oninput: () => look(),
        }),
        field({ name: 'rate', label: 'Maximum per second', kind: 'number' }),
        field({ name: 'reason', label: 'Reason', kind: 'area', rows: 2, required: true, hint: 'recorded in the journal of each execution' }),
        answer,
        h('div.buttons', begin, h('button', { type: 'button', onclick: close }, 'Go back')),
      );
      queueMicrotask(look);
      return form;
    },
    { wide: true },
  );
}

/** `/v1/stuck`: since when, who must act, and the next step. */
export const stuck = {
  title: 'Stuck',
  render(root) {
    const { params } = here();
    show(
      root,
      heading('Stuck', {
        about: 'Open executions that need an operator. No data is lost.',
      }),
      filters([
        { name: 'filter', label: 'filter', wide: true, hint: 'reason = outcome_unknown' },
        { name: 'tenant', label: 'tenant' },
        { name: 'workflow', label: 'workflow' },
      ]),
      slot('channels'),
      slot('list'),
    );
    const { filter, tenant: whose, workflow } = params;
    return [
      watch(
        (signal) => get('/v1/stuck', { filter, tenant: whose, workflow, limit: 1 }, { signal }),
        ({ channels }) => show(into(root, 'channels'), channels.length > 0 && untold(channels)),
        { every: 5000 },
      ),
      list(into(root, 'list'), {
        path: '/v1/stuck',
        params: { filter, tenant: whose, workflow },
        hears: address('/v1/watch', { filter: 'stuck', tenant: whose, workflow, limit: 1 }),
        href: (row) => place('executions', row.id),
        caption: 'Stuck executions',
        every: 3000,
        none: empty(
          'Nothing is stuck.',
          'This list shows parked and overdue executions and unknown outcomes, with the next step. Approvals are listed on their own page.',
        ),
        columns: [
          { label: 'execution', cell: (row) => id(row.id, { href: place('executions', row.id) }) },
          { label: 'subject', cell: (row) => [h('b', words(row.workflow)), h('br'), row.subject] },
          { label: 'reason', cell: standing },
          { label: 'stuck for', cell: (row) => h('span', { title: row.since }, span(row.age_seconds)) },
          { label: 'who acts', cell: (row) => row.owner.map(words).join(', ') },
          {
            label: 'what happened',
            kind: 'wide',
            cell: (row) => [row.errors.map((code) => h('code', code)), row.message && h('p.message', row.message)],
          },
          { label: 'next step', kind: 'wide', cell: (row) => h('b', row.next) },
        ],
      }),
    ];
  },
};

/** Channels with dead letters: notifications that were not delivered. */
function untold(channels) {
  return table(
    [
      { label: 'channel', cell: (row) => h('a', { href: place('system', 'channels') }, row.id) },
      { label: 'dead letters', kind: 'number', cell: (row) => row.dead },
      { label: 'stuck for', cell: (row) => h('span', { title: row.since }, span(row.age_seconds)) },
      { label: 'who acts', cell: (row) => row.owner.map(words).join(', ') },
      { label: 'what happened', kind: 'wide', cell: (row) => row.message && h('p.message', row.message) },
      { label: 'next step', kind: 'wide', cell: (row) => h('b', row.next) },
    ],
    channels,
    { key: (row) => row.id, caption: 'Channels with dead letters' },
  );
}

/** The results of batch commands. */
export function batches(root, batchId) {
  if (!batchId) {
    return [
      list(root, {
        path: '/v1/batches',
        caption: 'Batches',
        href: (row) => place('system', 'batches', row.id),
        none: empty(
          'No batch command was sent yet.',
          'Filter the executions, then press “Batch command…”.',
        ),
        columns: [
          { label: 'batch', cell: (row) => id(row.id, { href: place('system', 'batches', row.id) }) },
          { label: 'command', cell: (row) => row.verb },
          { label: 'filter', kind: 'wide', cell: (row) => h('code', row.filter) },
          { label: 'by', cell: (row) => row.by },
          { label: 'started', cell: (row) => time(row.created_at) },
          { label: 'status', cell: (row) => words(row.state) },
        ],
      }),
    ];
  }
  show(root, slot('batch'), slot('items'));
  return [
    watch(
      (signal) => get(`/v1/batches/${encodeURIComponent(batchId)}`, {}, { signal }),
      (batch) =>
        show(
          into(root, 'batch'),
          h(
            'p',
            h('b', batch.verb),
            ' to executions that match ',
            h('code', batch.filter),
            ' · ',
            words(batch.state),
            ' · by ',
            batch.by,
            ' · ',
            h('q', batch.reason),
          ),
          h(
            'p',
            `${batch.done} of ${batch.total} done, ${batch.refused} refused, ${batch.skipped} skipped; at most ${batch.rate} per second`,
          ),
          !batch.ended_at &&
            h(
              'button',
              {
                type: 'button',
                onclick: () =>
                  post(`/v1/batches/${batch.id}:stop`).then(
                    () => toast('Batch stopped.'),
                    (problem) => toast(problem.message),
                  ),
              },
              'Stop batch',
            ),
          more('Details', h('pre', JSON.stringify(batch, null, 2))),
        ),
      { failed: (problem) => show(into(root, 'batch'), trouble(problem)) },
    ),
    list(into(root, 'items'), {
      path: `/v1/batches/${encodeURIComponent(batchId)}/items`,
      key: (row) => row.execution,
      caption: 'Results',
      columns: [
        { label: 'execution', cell: (row) => execution(row.execution) },
        {
          label: 'result',
          kind: 'wide',
          cell: (row) => [row.result ? words(row.result) : h('span.faint', 'pending'), row.why && `: ${row.why}`],
        },
        { label: 'when', cell: (row) => time(row.at) },
      ],
    }),
  ];
}
