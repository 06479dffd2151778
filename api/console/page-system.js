// The service itself: whether it is well, how much may be asked of what, who works on the store, and which versions of workflows are open.

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
      heading('System', { about: 'What this service is made of and how it stands.' }),
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
  if (!page) return show(into(root, 'part'), empty('There is no such part.'));
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
        { label: 'stands', cell: (row) => state(row.ok ? 'ok' : 'failed') },
        { label: 'says', kind: 'wide', cell: (row) => row.says },
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
            ? h('button.primary', { type: 'button', onclick: release }, 'Let it go…')
            : h('button', { type: 'button', onclick: hold }, 'Hold it…'),
        ),
    },
    held && h('div.callout.wait', h('b', 'Held: nothing is performed'), h('p', told(held))),
    facts({
      kind: item.kind,
      commits: number(item.sequence),
      'on disk': item.disk_bytes !== undefined && bytes(item.disk_bytes),
      tasks: number(item.tasks),
      held: held ? 'yes' : 'no',
    }),
    more(
      'What waits to be performed',
      pending.items.length
        ? table(
            [
              { label: 'execution', cell: (row) => execution(row.execution) },
              { label: 'what', cell: (row) => `${words(row.workflow)} of ${row.subject}` },
              { label: 'state', cell: (row) => row.state },
              { label: 'does', cell: (row) => words(row.does) },
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
      'Nothing is performed, nothing begins and nothing fires until it is let go. Reading, votes and repairs go on.',
    fields: [WHY],
    danger: true,
    label: 'Hold it',
    cli: ({ reason }) => `tenure store hold --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post('/v1/store:hold', { reason }, { key }),
    done: () => 'The store is held.',
  });
}

async function release() {
  const { held } = await get('/v1/store');
  change('Let the store go', {
    preview: [
      'What waits is performed at once, wherever the world has gone meanwhile. Look at what waits first.',
      h('p', told(held)),
    ],
    fields: [WHY],
    danger: true,
    label: 'Let it go',
    confirm: 'release',
    cli: ({ reason }) => `tenure store release --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post('/v1/store:release', { reason }, { key }),
    done: () => 'Work goes on.',
  });
}

function engines(all) {
  return section(
    'Engines',
    { note: 'The processes that share the store; each does a part of the work, and takes over from one that is lost.' },
    table(
      [
        { label: 'engine', cell: (row) => [h('b', row.name), row.here && h('span.faint', ' (this one)')] },
        { label: 'id', cell: (row) => id(row.id) },
        { label: 'stands', cell: (row) => state(row.state) },
        { label: 'version', cell: (row) => row.version },
        { label: 'more', cell: (row) => more('all of it', json(row)) },
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
            note: 'How much may be asked of a tenant, a cluster or an action; who is inside, who waits, and what is closed.',
          },
          items.length
            ? table(
                [
                  { label: 'key', cell: (row) => h('b', row.key) },
                  {
                    label: 'stands',
                    cell: (row) => [
                      state(row.state, { as: row.state === 'closed' ? 'closed_limit' : undefined }),
                      row.until && [' until ', time(row.until)],
                      row.closed && h('p.message', `${row.closed.by}: ${row.closed.why}`),
                    ],
                  },
                  {
                    label: 'at once',
                    kind: 'number',
                    cell: (row) => [number(row.in_use), row.concurrency !== null && ` of ${number(row.concurrency)}`],
                  },
                  {
                    label: 'pace',
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
                    label: 'from',
                    cell: (row) => [row.limit !== row.key && row.limit, ' ', h('span.faint', row.set_by)],
                  },
                  {
                    label: 'inside',
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
                        ? h('button', { type: 'button', onclick: () => open(row) }, 'Open…')
                        : h('button', { type: 'button', onclick: () => close(row) }, 'Close…')),
                  },
                ],
                items,
                { key: (row) => row.key, caption: 'Limits' },
              )
            : empty('Nothing is limited.', h('code', 'tenure limits set cluster/eu-1 --concurrency 4')),
        ),
      ),
    { every: 3000, failed: failing(root) },
  );
}

function close(row) {
  change(`Close ${row.key}`, {
    preview: 'No new attempt is let in; those inside end. What waits, waits.',
    fields: [WHY, { name: 'for', label: 'For how long', hint: '30m; without it until it is opened' }],
    danger: true,
    label: 'Close it',
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
    preview: 'It lets attempts in again, and its breaker is as new.',
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
              { label: 'begins in', cell: (row) => stateName(row.initial) },
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
            'Of earlier versions',
            { note: 'These keep an old schema in use. tenure workflow migrate rewrites those that can be.' },
            table(
              [
                { label: 'execution', cell: (row) => id(row.id, { href: place('executions', row.id) }) },
                { label: 'what', cell: (row) => `${words(row.workflow)} of ${row.subject}` },
                { label: 'schema', kind: 'number', cell: (row) => row.schema },
                {
                  label: 'can be',
                  cell: (row) => state(row.answer === 'migratable' ? 'ok' : row.answer, { label: row.answer }),
                },
                { label: 'why', kind: 'wide', cell: (row) => row.why },
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
            note: 'Finished executions that are old enough to be forgotten. The audit outlives them.',
            aside:
              may('run_retention') &&
              items.length > 0 &&
              h(
                'button',
                {
                  type: 'button',
                  onclick: () =>
                    change('Forget them now', {
                      preview: 'Those that nothing keeps are forgotten; what they did stays in the audit.',
                      danger: true,
                      cli: () => 'tenure retention run',
                      does: (_, { key }) => post('/v1/retention:run', {}, { key }),
                      done: ({ body }) => `Forgotten: ${told(body)}`,
                    }),
                },
                'Forget them…',
              ),
          },
          items.length
            ? table(
                [
                  {
                    label: 'execution',
                    cell: (row) => id(row.id ?? row.execution, { href: place('executions', row.id ?? row.execution) }),
                  },
                  { label: 'what', kind: 'wide', cell: (row) => `${words(row.workflow)} of ${row.subject ?? ''}` },
                  { label: 'stays', kind: 'wide', cell: (row) => row.stays },
                ],
                items,
                { key: (row) => row.id ?? row.execution, caption: 'Retention' },
              )
            : empty(
                'Nothing is old enough.',
                'retention.keep in the configuration says how long finished executions are kept.',
              ),
          next && h('p.note', 'and more'),
        ),
      ),
    { every: 30_000, failed: failing(root) },
  );
}
