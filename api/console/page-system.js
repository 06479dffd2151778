// The service: health, limits, store, engines and workflow versions.

import { access } from './access.js';
import { h, show } from './dom.js';
import { get, getOr, may, post, readiness } from './api.js';
import { WHY, change, quoted } from './dialog.js';
import { channels } from './channels.js';
import { picture, listed } from './diagram.js';
import { bytes, many, number, time, words } from './format.js';
import { watch } from './live.js';
import {
  empty,
  execution,
  facts,
  heading,
  id,
  into,
  json,
  loading,
  more,
  section,
  slot,
  state,
  table,
  trouble,
  stateName,
} from './components.js';
import { batches } from './page-executions.js';
import { told } from './plan.js';
import { people } from './people.js';
import { here, place } from './route.js';

export const title = 'System';

const TABS = [
  ['', 'Health and store'],
  ['limits', 'Limits'],
  ['workflows', 'Workflows'],
  ['batches', 'Batches'],
  ['retention', 'Retention'],
  ['channels', 'Channels'],
  ['people', 'People'],
  ['access', 'Access'],
];

export function render(root) {
  const {
    parts: [, tab = '', name],
  } = here();
  const pages = { '': health, limits, workflows, batches, retention, channels, people, access };
  if (!root.firstChild) {
    show(
      root,
      heading('System', { about: 'Health and configuration of this service.' }),
      h(
        'nav.tabs',
        { key: 'tabs', 'aria-label': 'Parts' },
        TABS.filter(([to]) => !['people', 'access'].includes(to) || may('read_users')).map(([to, label]) =>
          h(
            'a',
            { href: to ? place('system', to) : place('system'), 'aria-current': to === tab ? 'page' : undefined },
            label,
          ),
        ),
      ),
      slot('part'),
    );
    show(into(root, 'part'), loading());
  }
  const page = pages[tab];
  if (!page) return show(into(root, 'part'), empty('This section does not exist.'));
  return page(into(root, 'part'), name);
}

const failing = (root) => (problem) => show(root, trouble(problem));

function health(root) {
  return watch(
    async (signal) => {
      const none = { items: [] };
      const [ready, version, store, engines, pending] = await Promise.all([
        readiness(signal),
        fetch('/version', { signal }).then((answer) => answer.json()),
        getOr(null, '/v1/store', {}, { signal }),
        getOr(none, '/v1/engines', { limit: 1000 }, { signal }),
        getOr(none, '/v1/store/pending', { limit: 20 }, { signal }),
      ]);
      return { ready, version, store, engines: engines.items, pending };
    },
    (seen) => show(root, checks(seen), store(seen.store, seen.pending), engines(seen.engines)),
    { every: 5000, failed: failing(root) },
  );
}

function checks({ ready, version }) {
  return section(
    'Health',
    { aside: `version ${version.version}` },
    table(
      [
        { label: 'check', cell: (row) => h('b', row.name) },
        { label: 'status', cell: (row) => state(row.ok ? 'ok' : 'failed') },
        { label: 'details', kind: 'wide', cell: (row) => row.says },
        { label: 'facts', kind: 'wide', cell: (row) => row.facts && more('facts', h('div', told(row.facts))) },
      ],
      ready.checks,
      { key: (row) => row.name, caption: 'Checks' },
    ),
  );
}

function store(item, pending) {
  if (!item) return null;
  const held = item.held;
  return section(
    'Store',
    {
      aside:
        may('hold_store') &&
        h(
          'div.buttons',
          held
            ? h('button.primary', { type: 'button', onclick: release }, 'Release store…')
            : h('button', { type: 'button', onclick: hold }, 'Hold store…'),
        ),
    },
    held && h('div.callout.wait', h('b', 'On hold: no tasks are performed'), h('p', told(held))),
    facts({
      kind: item.kind,
      commits: number(item.sequence),
      'on disk': item.disk_bytes !== undefined && bytes(item.disk_bytes),
      tasks: number(item.tasks),
      'on hold': held ? 'yes' : 'no',
    }),
    more(
      'Waiting tasks',
      pending.items.length
        ? table(
            [
              { label: 'execution', cell: (row) => execution(row.execution) },
              { label: 'subject', cell: (row) => `${words(row.workflow)} of ${row.subject}` },
              { label: 'state', cell: (row) => row.state },
              { label: 'task', cell: (row) => words(row.does) },
              { label: 'due', cell: (row) => time(row.due) },
            ],
            pending.items,
            { key: (row) => `${row.execution}.${row.slot}.${row.due}`, caption: 'Pending' },
          )
        : h('p.faint', 'Nothing.'),
      pending.next && h('p.note', 'and more: tenure store held'),
    ),
  );
}

function hold() {
  change('Hold the store', {
    preview:
      'No tasks, starts or schedules run until the hold is released. Reads, votes and repairs still work.',
    fields: [WHY],
    danger: true,
    label: 'Hold store',
    cli: ({ reason }) => `tenure store hold --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post('/v1/store:hold', { reason }, { key }),
    done: () => 'The store is on hold.',
  });
}

async function release() {
  const { held } = await get('/v1/store');
  change('Release the store', {
    preview: [
      'All waiting tasks run immediately, even if other systems have changed since. Check the waiting tasks first.',
      h('p', told(held)),
    ],
    fields: [WHY],
    danger: true,
    label: 'Release store',
    confirm: 'release',
    cli: ({ reason }) => `tenure store release --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post('/v1/store:release', { reason }, { key }),
    done: () => 'The store is released.',
  });
}

function engines(all) {
  return section(
    'Engines',
    { note: 'The processes that share the store and its work. If one fails, others take over its tasks.' },
    table(
      [
        { label: 'engine', cell: (row) => [h('b', row.name), row.here && h('span.faint', ' (this one)')] },
        { label: 'id', cell: (row) => id(row.id) },
        { label: 'status', cell: (row) => state(row.state) },
        { label: 'version', cell: (row) => row.version },
        { label: '', cell: (row) => more('details', json(row)) },
      ],
      all,
      { caption: 'Engines' },
    ),
  );
}

function limits(root) {
  return watch(
    (signal) => get('/v1/limits', { limit: 1000 }, { signal }),
    ({ items }) =>
      show(
        root,
        section(
          'Limits',
          {
            note: 'Limits of tenants, clusters and actions, with their holders, waiting attempts and closed keys.',
          },
          items.length
            ? table(
                [
                  { label: 'key', cell: (row) => h('b', row.key) },
                  {
                    label: 'status',
                    cell: (row) => [
                      state(row.state, { as: row.state === 'closed' ? 'closed_limit' : undefined }),
                      row.until && [' until ', time(row.until)],
                      row.closed && h('p.message', `${row.closed.by}: ${row.closed.why}`),
                    ],
                  },
                  {
                    label: 'in use',
                    kind: 'number',
                    cell: (row) => [number(row.in_use), row.concurrency !== null && ` of ${number(row.concurrency)}`],
                  },
                  {
                    label: 'rate',
                    cell: (row) => row.rate && [row.rate, row.burst && h('span.faint', `, burst ${row.burst}`)],
                  },
                  {
                    label: 'waiting',
                    kind: 'number',
                    cell: (row) => [number(row.queued), row.oldest && [', since ', time(row.oldest)]],
                  },
                  {
                    label: 'breaker',
                    cell: (row) => row.breaker && `after ${row.breaker.after} in ${row.breaker.span}`,
                  },
                  {
                    label: 'set by',
                    cell: (row) => [row.limit !== row.key && row.limit, ' ', h('span.faint', row.set_by)],
                  },
                  {
                    label: 'holders',
                    cell: (row) =>
                      row.places.length > 0 &&
                      more(
                        many(row.places.length, 'execution'),
                        h(
                          'ul',
                          row.places.map((place_) =>
                            h('li', execution(place_.execution), ', since ', time(place_.since)),
                          ),
                        ),
                      ),
                  },
                  {
                    label: '',
                    cell: (row) =>
                      may('manage_limits') &&
                      (row.state === 'closed' || row.state === 'left alone'
                        ? h('button', { type: 'button', onclick: () => open(row) }, 'Open key…')
                        : h('button', { type: 'button', onclick: () => close(row) }, 'Close key…')),
                  },
                ],
                items,
                { key: (row) => row.key, caption: 'Limits' },
              )
            : empty('No limit is set.', h('code', 'tenure limits set cluster/eu-1 --concurrency 4')),
        ),
      ),
    { every: 3000, failed: failing(root) },
  );
}

function close(row) {
  change(`Close ${row.key}`, {
    preview: 'New attempts wait; running attempts continue.',
    fields: [WHY, { name: 'for', label: 'Duration', hint: '30m; empty: until it is opened' }],
    danger: true,
    label: 'Close key',
    cli: (values) =>
      `tenure limits close ${row.key} --reason ${quoted(values.reason || 'why')}${values.for ? ` --for ${values.for}` : ''}`,
    does: (values, { key }) =>
      post(
        `/v1/limits/${encodeURIComponent(row.key)}:close`,
        { reason: values.reason, ...(values.for ? { for: values.for } : {}) },
        { key },
      ),
  });
}

function open(row) {
  change(`Open ${row.key}`, {
    preview: 'Accepts attempts again, and resets the circuit breaker.',
    cli: () => `tenure limits open ${row.key}`,
    does: (_, { key }) => post(`/v1/limits/${encodeURIComponent(row.key)}:open`, {}, { key }),
  });
}

function workflows(root, name) {
  if (name) return machine(root, name);
  return watch(
    async (signal) => {
      const none = { items: [] };
      const [all, versions, blockers] = await Promise.all([
        get('/v1/workflows', { limit: 1000 }, { signal }),
        getOr(none, '/v1/workflow-versions', { limit: 1000 }, { signal }),
        getOr(none, '/v1/workflow-versions/blockers', {}, { signal }),
      ]);
      return { all: all.items, versions: versions.items, blockers: blockers.items };
    },
    ({ all, versions, blockers }) =>
      show(
        root,
        section(
          'Workflows',
          {},
          table(
            [
              {
                label: 'workflow',
                cell: (row) => h('a', { href: place('system', 'workflows', row.name) }, words(row.name)),
              },
              { label: 'states', kind: 'number', cell: (row) => row.states },
              { label: 'schema', kind: 'number', cell: (row) => row.schema },
              { label: 'initial state', cell: (row) => stateName(row.initial) },
              {
                label: 'open',
                kind: 'wide',
                cell: (row) =>
                  versions
                    .filter((one) => one.workflow === row.name)
                    .map((one) => [number(one.open), ' at schema ', one.schema, ' ', state(one.standing), ' ']),
              },
            ],
            all,
            { key: (row) => row.name, caption: 'Workflows' },
          ),
        ),
        blockers.length > 0 &&
          section(
            'Executions with old schemas',
            { note: 'These executions need an old schema. tenure workflow migrate converts the migratable ones.' },
            table(
              [
                { label: 'execution', cell: (row) => id(row.id, { href: place('executions', row.id) }) },
                { label: 'subject', cell: (row) => `${words(row.workflow)} of ${row.subject}` },
                { label: 'schema', kind: 'number', cell: (row) => row.schema },
                {
                  label: 'migration',
                  cell: (row) => state(row.answer === 'migratable' ? 'ok' : row.answer, { label: row.answer }),
                },
                { label: 'reason', kind: 'wide', cell: (row) => row.why },
                { label: 'waits for', kind: 'wide', cell: (row) => row.waits_for },
              ],
              blockers,
              { caption: 'Blockers' },
            ),
          ),
      ),
    { every: 10_000, failed: failing(root) },
  );
}

function machine(root, name) {
  return watch(
    (signal) => get(`/v1/workflows/${encodeURIComponent(name)}/diagram`, { format: 'json' }, { signal }),
    ({ diagram }) =>
      root.replaceChildren(
        section(
          words(name),
          {
            aside: [
              h('a', { href: place('executions', { workflow: name }) }, 'its executions'),
              ` · schema ${diagram.schema}`,
            ],
          },
          picture(diagram),
          more('As a list', listed(diagram)),
        ),
      ),
    { every: 60_000, failed: failing(root) },
  );
}

function retention(root) {
  return watch(
    (signal) => get('/v1/retention', { limit: 100 }, { signal }),
    ({ items, next }) =>
      show(
        root,
        section(
          'Retention',
          {
            note: 'Finished executions after the end of their retention period. The audit keeps their entries.',
            aside:
              may('run_retention') &&
              items.length > 0 &&
              h(
                'button',
                {
                  type: 'button',
                  onclick: () =>
                    change('Remove executions', {
                      preview: 'Removes the listed executions that nothing keeps. The audit keeps their entries.',
                      danger: true,
                      cli: () => 'tenure retention run',
                      does: (_, { key }) => post('/v1/retention:run', {}, { key }),
                      done: ({ body }) => `Removed: ${told(body)}`,
                    }),
                },
                'Remove executions…',
              ),
          },
          items.length
            ? table(
                [
                  {
                    label: 'execution',
                    cell: (row) => id(row.id ?? row.execution, { href: place('executions', row.id ?? row.execution) }),
                  },
                  { label: 'subject', kind: 'wide', cell: (row) => `${words(row.workflow)} of ${row.subject ?? ''}` },
                  { label: 'kept because', kind: 'wide', cell: (row) => row.stays },
                ],
                items,
                { key: (row) => row.id ?? row.execution, caption: 'Retention' },
              )
            : empty(
                'No finished execution is old enough.',
                'retention.after in the configuration sets how long finished executions are kept.',
              ),
          next && h('p.note', 'and more'),
        ),
      ),
    { every: 30_000, failed: failing(root) },
  );
}
