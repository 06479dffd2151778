// The overview: open approvals, stuck executions, capacity, and sweeps.

import { h, show } from './dom.js';
import { getOr, isStaff, may } from './api.js';
import { report } from './requests.js';
import { barred } from './page-approvals.js';
import { many, number, resource, time, words } from './format.js';
import { watch } from './live.js';
import { bar, empty, figure, heading, into, section, slot, standing, state, table, trouble } from './components.js';
import { place } from './route.js';

export const title = 'Overview';

const none = { items: [], next: null };

export function render(root) {
  show(
    root,
    heading('Overview', {
      aside: may('report_incident') && h('button.danger', { type: 'button', 'data-order': 'incident', onclick: () => report() }, 'Report an incident…'),
    }),
    slot('figures'),
    h('div.columns.even', { key: 'columns' }, slot('left'), slot('right')),
  );
  const failed = (problem) => show(into(root, 'figures'), trouble(problem));
  const watches = [
    watch(
      (signal) => waiting(signal),
      (seen) => {
        show(into(root, 'figures'), h('div.figures', figures(seen)));
        show(into(root, 'left'), mine(seen.approvals), parked(seen.stuck), running(seen.open));
      },
      { failed, hears: '/v1/watch?open=true&limit=1' },
    ),
  ];
  if (!isStaff())
    watches.push(
      watch(
        (signal) => getOr(none, '/v1/workspaces', { limit: 100 }, { signal }),
        (page) => show(into(root, 'right'), spaces(page.items)),
        { every: 8000 },
      ),
    );
  else
    watches.push(
      watch(
        (signal) => platform(signal),
        (seen) => show(into(root, 'right'), capacity(seen.clusters), sweeps(seen.sweeps), engines(seen.engines)),
        { every: 8000 },
      ),
    );
  return watches;
}

async function waiting(signal) {
  const list = (path, params) => getOr(none, path, params, { signal });
  const [approvals, stuck, open, missed, proposals] = await Promise.all([
    list('/v1/approvals', { limit: 200 }),
    list('/v1/stuck', { limit: 100 }),
    list('/v1/executions', { open: true, limit: 200 }),
    list('/v1/reclaims-missed', { limit: 100 }),
    list('/v1/proposals', { limit: 50 }),
  ]);
  // Void proposals wait for no confirmation.
  const standing = { ...proposals, items: proposals.items.filter((proposal) => !proposal.void) };
  return { approvals, stuck, open, missed, proposals: standing };
}

async function platform(signal) {
  const list = (path, params) => getOr(none, path, params, { signal });
  const [clusters, sweeps_, engines_] = await Promise.all([
    list('/v1/clusters', { limit: 200 }),
    list('/v1/schedules', { limit: 200 }),
    list('/v1/engines'),
  ]);
  return { clusters: clusters.items, sweeps: sweeps_.items, engines: engines_.items };
}

const count = ({ items, next }) => `${items.length}${next ? '+' : ''}`;

function figures({ approvals, stuck, open, missed, proposals }) {
  const own = approvals.items.filter((item) => !barred(item));
  const parked_ = stuck.items.filter((row) => row.phase === 'parked');
  const letters = [...(stuck.channels ?? []), ...(stuck.limits ?? [])];
  return [
    figure(String(own.length), 'waiting for my vote', {
      href: place('approvals'),
      tone: own.length ? 'busy' : 'calm',
      note: `open approvals: ${count(approvals)}`,
    }),
    figure(`${stuck.items.length + letters.length}${stuck.next ? '+' : ''}`, 'stuck', {
      href: place('stuck'),
      tone: stuck.items.length + letters.length ? 'bad' : 'calm',
      note: letters.length
        ? `${parked_.length} parked, ${many(letters.length, 'channel')} with dead letters`
        : `${parked_.length} parked`,
    }),
    figure(count(missed), many(missed.items.length, 'missed guarantee').replace(/^[\d,]+ /, ''), {
      href: place('borrowing'),
      tone: missed.items.length ? 'bad' : 'calm',
      note: 'reclaims that missed their deadline',
    }),
    proposals.items.length > 0 &&
      figure(count(proposals), 'commands for a second person', { href: place('approvals'), tone: 'wait' }),
    figure(count(open), 'open executions', {
      href: place('executions', { open: 'true' }),
      tone: 'calm',
      note: `of ${many(new Set(open.items.map((row) => row.workflow)).size, 'workflow')}`,
    }),
  ];
}

function mine(approvals) {
  const own = approvals.items.filter((item) => !barred(item));
  return section(
    'Waiting for me',
    { aside: h('a', { href: place('approvals') }, 'All approvals') },
    own.length
      ? h(
          'ul.plain.links',
          own
            .slice(0, 6)
            .map((item) =>
              h(
                'li',
                { key: item.id, 'data-row': '' },
                h('a', { href: place('approvals', item.id) }, item.title),
                h('span.faint', ' requested by ', item.requested_by, item.deadline && [', ends ', time(item.deadline)]),
              ),
            ),
        )
      : empty('No approval waits for you.'),
  );
}

function parked(stuck) {
  const letters = stuck.channels ?? [];
  const limits = stuck.limits ?? [];
  const warnings = stuck.warnings ?? [];
  return section(
    'Needs an operator',
    { aside: h('a', { href: place('stuck') }, 'Show all stuck items') },
    stuck.items.length + letters.length + limits.length + warnings.length
      ? h(
          'ul.plain.links',
          warnings.map((warning) => h('li', { key: warning, 'data-row': '' }, h('div.faint', warning))),
          limits.map((row) =>
            h(
              'li',
              { key: row.subject, 'data-row': '' },
              h('a', { href: place('system', 'limits') }, row.subject),
              ' ',
              state(row.state),
              h('div.faint', row.message ?? row.next),
            ),
          ),
          letters.map((row) =>
            h(
              'li',
              { key: row.subject, 'data-row': '' },
              h('a', { href: place('system', 'channels') }, `${many(row.dead, 'dead letter')} of ${row.id}`),
              ' ',
              state('dead'),
              h('div.faint', row.next),
            ),
          ),
          stuck.items
            .slice(0, 6)
            .map((row) =>
              h(
                'li',
                { key: row.id, 'data-row': '' },
                h('a', { href: place('executions', row.id) }, `${words(row.workflow)} of ${row.subject}`),
                ' ',
                standing(row),
                h('div.faint', row.next),
              ),
            ),
        )
      : empty('Nothing is stuck.'),
  );
}

function running(open) {
  const by = new Map();
  for (const row of open.items) {
    const of = by.get(row.workflow) ?? { name: row.workflow, all: 0, forward: 0, waiting: 0, turning: 0, parked: 0 };
    of.all += 1;
    if (row.phase === 'parked') of.parked += 1;
    else if (row.phase === 'paused') of.waiting += 1;
    else if (row.phase === 'compensating') of.turning += 1;
    else of.forward += 1;
    by.set(row.workflow, of);
  }
  const rows = [...by.values()].sort((a, b) => b.all - a.all || a.name.localeCompare(b.name));
  return section(
    'Open executions',
    { note: open.next ? 'Counts the first 200 open executions.' : undefined },
    rows.length
      ? table(
          [
            {
              label: 'workflow',
              cell: (row) =>
                h('a', { href: place('executions', { workflow: row.name, open: 'true' }) }, words(row.name)),
            },
            { label: 'open', kind: 'number', cell: (row) => number(row.all) },
            {
              label: 'phases',
              kind: 'wide',
              cell: (row) =>
                bar(
                  [
                    { value: row.forward, tone: 'busy' },
                    { value: row.waiting, tone: 'wait' },
                    { value: row.turning, tone: 'turn' },
                    { value: row.parked, tone: 'bad' },
                  ],
                  row.all,
                  `${row.forward} running, ${row.waiting} paused, ${row.turning} rolling back, ${row.parked} parked`,
                ),
            },
          ],
          rows,
          { key: (row) => row.name, caption: 'Open executions by workflow' },
        )
      : empty('No execution is open.', h('code', 'tenure tenant onboard -f docs/examples/acme.yaml')),
  );
}

/** The capacity of a tenant. */
function spaces(items) {
  const rows = items.flatMap((space) =>
    Object.entries(space.use ?? {}).map(([what, use]) => ({ id: `${space.id} ${what}`, space, what, use })),
  );
  return section(
    'My workspaces',
    { aside: h('a', { href: place('workloads') }, 'Workloads') },
    rows.length
      ? table(
          [
            { label: 'workspace', cell: (row) => h('a', { href: place('tenants', row.space.tenant) }, row.space.name) },
            { label: 'resource', cell: (row) => resource(row.what) },
            { label: 'own', kind: 'number', cell: (row) => number(row.use.nominal) },
            { label: 'used', kind: 'number', cell: (row) => number(row.use.used) },
            { label: 'lent', kind: 'number', cell: (row) => number(row.use.lent) },
            { label: 'waiting', kind: 'number', cell: (row) => number(row.space.waiting ?? 0) },
          ],
          rows,
          { caption: 'Workspaces' },
        )
      : empty('No workspace has a quota in use yet.'),
  );
}

function capacity(clusters) {
  const by = new Map();
  for (const cluster of clusters) {
    for (const [model, gpus] of Object.entries(cluster.gpus)) {
      const of = by.get(model) ?? { model, gpus: 0, free: 0, nodes: 0 };
      of.gpus += gpus.gpus;
      of.free += gpus.free;
      of.nodes += gpus.nodes;
      by.set(model, of);
    }
  }
  const rows = [...by.values()].sort((a, b) => b.gpus - a.gpus);
  return section(
    'Capacity',
    { aside: h('a', { href: place('fleet') }, 'Fleet') },
    rows.length
      ? table(
          [
            { label: 'model', cell: (row) => h('b', row.model) },
            { label: 'GPUs', kind: 'number', cell: (row) => number(row.gpus) },
            { label: 'free', kind: 'number', cell: (row) => number(row.free) },
            {
              label: 'owned',
              kind: 'wide',
              cell: (row) =>
                bar(
                  [
                    { value: row.gpus - row.free, tone: 'busy' },
                    { value: row.free, tone: 'free' },
                  ],
                  row.gpus,
                  `${row.gpus - row.free} of ${row.gpus} owned, ${row.free} free`,
                ),
            },
          ],
          rows,
          { key: (row) => row.model, caption: 'Capacity by model' },
        )
      : empty(
          'No hardware is registered yet.',
          h('code', 'tenure fleet import docs/examples/nodes.csv --cluster eu-1 --region eu'),
        ),
  );
}

function sweeps(schedules) {
  const built = schedules.filter((row) => row.kind === 'built_in');
  return section(
    'Scheduled checks',
    { aside: h('a', { href: place('schedules') }, 'Schedules') },
    built.length
      ? table(
          [
            { label: 'sweep', cell: (row) => h('a', { href: place('schedules', row.name) }, words(row.name)) },
            { label: 'status', cell: (row) => (row.paused ? state('paused') : state('in force', { as: 'alive' })) },
            { label: 'next', cell: (row) => time(row.next) },
          ],
          built,
          { key: (row) => row.name, caption: 'Sweeps' },
        )
      : empty('No sweep is scheduled.'),
  );
}

function engines(all) {
  return section(
    'Engines',
    { aside: h('a', { href: place('system') }, 'System') },
    table(
      [
        { label: 'engine', cell: (row) => [h('b', row.name), row.here && h('span.faint', ' (this one)')] },
        { label: 'status', cell: (row) => state(row.state) },
        { label: 'version', cell: (row) => row.version },
      ],
      all,
      { caption: 'Engines' },
    ),
  );
}
