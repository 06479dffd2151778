// Workloads: their nodes, or since when and why they wait.

import { h, show } from './dom.js';
import { get, getOr } from './api.js';
import { number, resource, time, words } from './format.js';
import { filters, list } from './list.js';
import { watch } from './live.js';
import {
  command,
  empty,
  execution,
  facts,
  heading,
  into,
  json,
  loading,
  more,
  section,
  slot,
  state,
  table,
  tenant,
  trouble,
} from './components.js';
import { told } from './plan.js';
import { here, place } from './route.js';

export const title = 'Workloads';

const wants = (requests) =>
  Object.entries(requests)
    .map(([what, count]) => `${number(count)} × ${resource(what)}`)
    .join(', ');

export function render(root) {
  const {
    parts: [, ...name],
    params,
  } = here();
  if (name.length) return one(root, name.join('/'));
  show(
    root,
    heading('Workloads', { about: 'Requests for GPUs. Each decision is recorded with all its reasons.' }),
    filters([
      { name: 'tenant', label: 'tenant' },
      { name: 'workspace', label: 'workspace' },
      {
        name: 'state',
        label: 'state',
        kind: 'select',
        options: ['waiting', 'admitted', 'reclaimed', 'finished', 'rejected'],
      },
      { name: 'class', label: 'class', kind: 'select', options: ['batch', 'service', 'interactive'] },
    ]),
    slot('list'),
  );
  const { tenant: whose, workspace, state: at, class: kind } = params;
  return list(into(root, 'list'), {
    path: '/v1/workloads',
    params: { tenant: whose, workspace, state: at, class: kind },
    href: (row) => place('workloads', row.id),
    caption: 'Workloads',
    none: empty('No workload was submitted yet.', h('code', 'tenure workload submit -f workload.yaml')),
    columns: [
      { label: 'workload', cell: (row) => h('a', { href: place('workloads', row.id) }, row.name) },
      { label: 'tenant', cell: (row) => tenant(row.tenant) },
      { label: 'workspace', cell: (row) => row.workspace },
      { label: 'requests', cell: (row) => wants(row.requests) },
      { label: 'class', cell: (row) => row.class },
      { label: 'priority', kind: 'number', cell: (row) => row.priority },
      { label: 'state', cell: (row) => state(row.state) },
      { label: 'submitted', cell: (row) => time(row.submitted_at) },
      { label: 'admitted', cell: (row) => time(row.admitted_at) },
      { label: 'runs on', kind: 'wide', cell: (row) => row.placed.map((placed) => placed.node).join(', ') },
    ],
  });
}

function one(root, name) {
  show(root, loading('Loading the workload'));
  return watch(
    async (signal) => {
      const item = await get(`/v1/workloads/${name}`, {}, { signal });
      const [decision, loans] = await Promise.all([
        item.decision ? getOr(null, `/v1/decisions/${decisionOf(item.decision)}`, {}, { signal }) : null,
        getOr({ items: [] }, '/v1/loans', { tenant: item.tenant, workload: item.name }, { signal }),
      ]);
      return { item, decision, loans: loans.items };
    },
    ({ item, decision, loans }) =>
      show(
        root,
        heading(h('span', 'Workload ', h('b', item.name)), {
          back: [place('workloads'), 'Workloads'],
          about: [
            state(item.state),
            ' of ',
            tenant(item.tenant),
            ' / ',
            item.workspace,
            item.reclaimed_by && [' · reclaimed by ', execution(item.reclaimed_by)],
          ],
        }),
        section(
          'Facts',
          {},
          facts({
            requests: wants(item.requests),
            class: item.class,
            priority: String(item.priority),
            preemptible: item.preemptible ? 'yes' : 'no',
            checkpoint: words(item.checkpoint),
            evictions: String(item.evictions),
            submitted: time(item.submitted_at),
            admitted: time(item.admitted_at),
            labels: item.labels.join(', '),
            'runs on': item.placed
              .map((placed) => `${placed.node}: GPU ${Object.keys(placed.gpus).join(', ')}`)
              .join('; '),
          }),
        ),
        decision &&
          section(
            'Admission decision',
            {
              key: 'why',
              aside: state(decision.answer === 'admit' ? 'admitted' : decision.answer, { label: decision.answer }),
              note: [
                'By policy ',
                h('b', `${decision.policy.name} ${decision.policy.version}`),
                ', ',
                time(decision.at),
              ],
            },
            table(
              [
                {
                  label: 'answer',
                  cell: (row) => state(row.answer === 'admit' ? 'ok' : row.answer, { label: row.answer }),
                },
                { label: 'checked', cell: (row) => words(row.dimension) },
                { label: 'resource', cell: (row) => row.resource && resource(row.resource) },
                { label: 'value', kind: 'number', cell: (row) => row.value ?? '' },
                { label: 'limit', kind: 'number', cell: (row) => row.limit ?? '' },
                { label: 'reason', kind: 'wide', cell: (row) => row.why },
                { label: 'code', cell: (row) => h('code', row.code) },
              ],
              decision.weighed,
              { key: (row) => `${row.dimension}/${row.resource ?? ''}/${row.code}`, caption: 'Checks' },
            ),
            more('Facts of the decision', h('div', told(decision.grounds))),
          ),
        loans.length > 0 &&
          section(
            'Loans',
            {},
            table(
              [
                { label: 'lender', cell: (row) => row.lender },
                { label: 'GPUs', kind: 'number', cell: (row) => row.amount },
                { label: 'since', cell: (row) => time(row.granted_at) },
                { label: 'due', cell: (row) => time(row.due) },
                { label: 'status', cell: (row) => state(row.state) },
              ],
              loans,
              { caption: 'Loans' },
            ),
          ),
        section('Stored record', {}, more('JSON', json(item)), command(`tenure workloads show ${item.id} -o json`)),
      ),
    {
      every: 3000,
      failed: (problem) =>
        show(root, heading('Workload', { back: [place('workloads'), 'Workloads'] }), trouble(problem)),
    },
  );
}

/** The path of a decision, from `acme/000000000003`. */
function decisionOf(text) {
  const [whose, count] = text.split('/');
  return `${whose}/${Number(count)}`;
}
