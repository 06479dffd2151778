// The hardware: regions, clusters, and nodes with their GPUs, by owner, state and workload.

import { h, show } from './dom.js';
import { get, getOr, isStaff, may } from './api.js';
import { report, short } from './requests.js';
import { many, number, words } from './format.js';
import { LABELS, heatmap } from './heatmap.js';
import { filters, list } from './list.js';
import { clusterKey } from './keys.js';
import { watch } from './live.js';
import {
  bar,
  copy,
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
  tenant,
  trouble,
} from './components.js';
import { here, place, refine } from './route.js';

export const title = 'Fleet';

/** The maximum number of nodes of the map; for more, a cluster must be chosen. */
const MOST = 10_000;

let retheme_ = () => {};
export const retheme = () => retheme_();

export function render(root) {
  const {
    parts: [, kind, name],
    params,
  } = here();
  if (kind === 'nodes' && name) return node(root, name);
  const view = params.view ?? 'map';
  const tab = (to, label) =>
    h(
      'a',
      {
        href: place('fleet', { ...params, cursor: '', view: to === 'map' ? '' : to }),
        'aria-current': view === to ? 'page' : undefined,
      },
      label,
    );
  show(
    root,
    heading('Fleet', {
      about: 'A cell is a GPU. Each node belongs to at most one tenant at a time.',
      aside: may('manage_capacity') && h('button', { type: 'button', 'data-order': 'short', onclick: short }, 'Report a shortage…'),
    }),
    isStaff() && slot('clusters'),
    h('nav.tabs', { key: 'tabs', 'aria-label': 'Colours of the map' }, tab('map', 'Map'), tab('list', 'List')),
    filters(fields()),
    slot(view),
  );
  for (const other of ['map', 'list']) if (other !== view) into(root, other)?.remove();
  const watches = [view === 'list' ? nodes(into(root, 'list'), params) : map(into(root, 'map'), params)];
  if (isStaff())
    watches.push(
      watch(
        (signal) => sites(signal),
        (seen) => show(into(root, 'clusters'), clusters(seen)),
        { every: 6000, failed: (problem) => show(into(root, 'clusters'), trouble(problem)) },
      ),
    );
  return watches;
}

function fields() {
  return [
    { name: 'region', label: 'region' },
    { name: 'cluster', label: 'cluster' },
    { name: 'model', label: 'model', hint: 'H100' },
    { name: 'owner', label: 'owner', hint: 'a tenant' },
    {
      name: 'state',
      label: 'state',
      kind: 'select',
      options: [
        'discovered',
        'validating',
        'free',
        'claimed',
        'provisioning',
        'in_service',
        'draining',
        'cleaning',
        'quarantined',
        'maintenance',
        'retired',
      ],
    },
  ];
}

const narrowed = ({ region, cluster, model, owner, state: at }) => ({ region, cluster, model, owner, state: at });

async function sites(signal) {
  const [regions, found] = await Promise.all([
    get('/v1/regions', { limit: 200 }, { signal }),
    get('/v1/clusters', { limit: 200 }, { signal }),
  ]);
  return { regions: regions.items, clusters: found.items };
}

function clusters({ regions, clusters: all }) {
  if (!all.length)
    return empty(
      'No hardware is registered yet.',
      'Import nodes with',
      h('code', 'tenure fleet import docs/examples/nodes.csv --cluster eu-1 --region eu'),
    );
  const law = new Map(regions.map((region) => [region.id, region.jurisdiction]));
  const rows = all.flatMap((cluster) =>
    Object.entries(cluster.gpus).map(([model, gpus]) => ({
      ...cluster,
      id: `${cluster.id}/${model}`,
      cluster: cluster.id,
      model,
      ...gpus,
    })),
  );
  return section(
    'Clusters',
    {},
    table(
      [
        {
          label: 'cluster',
          cell: (row) => [
            h('a', { href: place('fleet', { cluster: row.cluster }) }, h('b', row.cluster)),
            ' ',
            row.simulated && state('simulated', { as: 'discovered' }),
            row.tenancy === 'dedicated' && [
              ' ',
              h('button', { type: 'button', 'data-order': 'key', onclick: () => clusterKey(row.cluster) }, 'Key…'),
            ],
          ],
        },
        {
          label: 'region',
          cell: (row) => [row.region, law.get(row.region) && h('span.faint', `, law of ${law.get(row.region)}`)],
        },
        { label: 'kind', cell: (row) => `${words(row.kind)}, ${words(row.tenancy)}` },
        { label: 'model', cell: (row) => row.model },
        { label: 'nodes', kind: 'number', cell: (row) => number(row.nodes) },
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
              `${number(row.gpus - row.free)} of ${number(row.gpus)} GPUs are owned`,
            ),
        },
      ],
      rows,
      { caption: 'Clusters' },
    ),
  );
}

/** Loads all matching nodes, page by page, and their workloads. */
async function everything(params, signal, some) {
  const all = [];
  let cursor;
  do {
    const page = await get('/v1/nodes', { ...narrowed(params), limit: 1000, cursor }, { signal });
    all.push(...page.items);
    cursor = page.next;
    if (cursor) some(all);
  } while (cursor && all.length < MOST);
  return { all, rest: Boolean(cursor), use: await usage(params, signal) };
}

/** The GPUs that a workload uses on each node, and whether they are borrowed. */
async function usage({ owner }, signal) {
  const of = (path, params) => getOr({ items: [] }, path, { limit: 1000, tenant: owner, ...params }, { signal });
  const [admitted, reclaimed, loans] = await Promise.all([
    of('/v1/workloads', { state: 'admitted' }),
    of('/v1/workloads', { state: 'reclaimed' }),
    of('/v1/loans', {}),
  ]);
  const lent = new Set(
    loans.items.filter((loan) => loan.state !== 'returned').map((loan) => `${loan.tenant}/${loan.workload}`),
  );
  const use = new Map();
  for (const workload of [...admitted.items, ...reclaimed.items]) {
    const word = workload.state === 'reclaimed' ? 'recalled' : lent.has(workload.id) ? 'lent' : 'used';
    for (const { node: name, gpus } of workload.placed) {
      const on = use.get(name) ?? {};
      for (const gpu of Object.keys(gpus)) on[gpu] = { word, workload: workload.id };
      use.set(name, on);
    }
  }
  return Object.fromEntries(use);
}

function map(root, params) {
  const by = params.by ?? 'owner';
  const told = h('p.told', { id: 'node-told', 'aria-live': 'polite' }, 'Point at a node, or use the arrow keys.');
  const legend = h('p.legend');
  let heat = root.querySelector('.heat');
  const choice = h(
    'div.choices',
    { role: 'group', 'aria-label': 'Colour by' },
    [
      ['owner', 'by owner'],
      ['state', 'by state'],
      ['use', 'by use and loan'],
    ].map(([to, label]) =>
      h(
        'button',
        { type: 'button', 'aria-pressed': String(by === to), onclick: () => refine({ by: to === 'owner' ? '' : to }) },
        label,
      ),
    ),
  );
  if (!heat) {
    heat = heatmap({
      told: (one) => show(root.querySelector('.told'), line(one)),
      chosen: (one) => {
        location.hash = place('fleet', 'nodes', one.id);
      },
    });
    root.replaceChildren(h('div.list-card', choice, h('div.problem-slot'), heat, told, legend));
  } else {
    root.querySelector('.choices').replaceWith(choice);
  }
  const draw = ({ all, rest, use }) => {
    const with_ = all.map((one) => ({
      ...one,
      on: use?.[one.id],
      use: Object.fromEntries(Object.entries(use?.[one.id] ?? {}).map(([gpu, { word }]) => [gpu, word])),
    }));
    const key = heat.update(with_, by);
    retheme_ = () => draw({ all, rest, use });
    show(
      root.querySelector('.legend'),
      key.map(([label, colour]) =>
        h('span', h('i.key', { vars: { background: colour, 'border-color': colour } }), label),
      ),
      h('span', `${many(all.length, 'node')}, ${number(all.reduce((sum, one) => sum + one.gpu.count, 0))} GPUs`),
    );
    show(
      root.querySelector('.problem-slot'),
      rest && `Only the first ${number(MOST)} nodes are drawn: choose a cluster.`,
      !all.length && empty('No node matches.'),
    );
  };
  return watch((signal) => everything(params, signal, (all) => draw({ all, rest: false })), draw, {
    every: 8000,
    failed: (problem) => show(root.querySelector('.problem-slot'), trouble(problem)),
  });
}

function line(one) {
  const on = Object.entries(one.on ?? {});
  const work = [...new Set(on.map(([, { workload, word }]) => `${workload} (${LABELS[word]})`))];
  return [
    h('b', one.id),
    ` · ${one.cluster} · ${one.gpu.count} × ${one.gpu.model} · ${words(one.state)} · `,
    one.owner ? `of ${one.owner}` : 'nobody’s',
    work.length > 0 && ` · runs ${work.join(', ')}`,
  ];
}

function nodes(root, params) {
  return list(root, {
    path: '/v1/nodes',
    params: narrowed(params),
    size: 100,
    href: (row) => place('fleet', 'nodes', row.id),
    none: empty('No node matches.'),
    caption: 'Nodes',
    columns: [
      { label: 'node', cell: (row) => h('a', { href: place('fleet', 'nodes', row.id) }, row.id) },
      { label: 'cluster', cell: (row) => row.cluster },
      { label: 'region', cell: (row) => row.region },
      { label: 'GPUs', cell: (row) => `${row.gpu.count} × ${row.gpu.model}` },
      { label: 'state', cell: (row) => state(row.state) },
      { label: 'owner', cell: (row) => (row.owner ? tenant(row.owner) : h('span.faint', 'no owner')) },
      { label: 'epoch', kind: 'number', cell: (row) => row.owner_epoch },
    ],
  });
}

function node(root, name) {
  show(root, loading('Loading the node'));
  return watch(
    async (signal) => {
      const item = await get(`/v1/nodes/${encodeURIComponent(name)}`, {}, { signal });
      const none = { items: [] };
      const [runs, work] = await Promise.all([
        getOr(none, '/v1/executions', { subject: `node/${item.id}`, limit: 20 }, { signal }),
        item.owner
          ? getOr(none, '/v1/workloads', { tenant: item.owner, state: 'admitted', limit: 500 }, { signal })
          : none,
      ]);
      return {
        item,
        runs: runs.items,
        work: work.items.filter((one) => one.placed.some((placed) => placed.node === item.id)),
      };
    },
    ({ item, runs, work }) =>
      show(
        root,
        heading(h('span', 'Node ', h('b', item.id)), {
          back: [place('fleet'), 'Fleet'],
          about: [
            state(item.state),
            ' ',
            item.owner ? ['of ', tenant(item.owner)] : 'nobody’s',
            ' ',
            copy(item.id, 'id'),
          ],
          aside:
            item.owner &&
            may('report_incident') &&
            h('button.danger', { type: 'button', 'data-order': 'incident', onclick: () => report(item.id) }, 'Report an incident…'),
        }),
        section(
          'Facts',
          {},
          facts({
            cluster: h('a', { href: place('fleet', { cluster: item.cluster }) }, item.cluster),
            region: item.region,
            GPUs: `${item.gpu.count} × ${item.gpu.model}`,
            driver: item.driver_version,
            CPU: `${number(item.cpu_milli / 1000)} cores`,
            memory: `${number(item.memory_mib / 1024)} GiB`,
            'ownership epoch': item.owner_epoch,
            'claimed by': item.claimed_by && execution(item.claimed_by),
          }),
          more('Stored record', json(item)),
        ),
        section(
          'Workloads here',
          {},
          work.length
            ? table(
                [
                  { label: 'workload', cell: (row) => h('a', { href: place('workloads', row.id) }, row.id) },
                  { label: 'workspace', cell: (row) => row.workspace },
                  {
                    label: 'GPUs',
                    cell: (row) =>
                      row.placed
                        .filter((placed) => placed.node === item.id)
                        .map((placed) => Object.keys(placed.gpus).join(', '))
                        .join('; '),
                  },
                  { label: 'class', cell: (row) => row.class },
                ],
                work,
                { caption: 'Workloads on the node' },
              )
            : h('p.faint', 'No workload of Tenure runs on this node.'),
        ),
        section(
          'Executions for this node',
          {},
          runs.length
            ? table(
                [
                  { label: 'execution', cell: (row) => id(row.id, { href: place('executions', row.id) }) },
                  { label: 'workflow', cell: (row) => words(row.workflow) },
                  { label: 'status', cell: (row) => state(row.reason ?? row.phase) },
                ],
                runs,
                { caption: 'Executions' },
              )
            : h('p.faint', 'None.'),
        ),
      ),
    {
      every: 5000,
      failed: (problem) => show(root, heading('Node', { back: [place('fleet'), 'Fleet'] }), trouble(problem)),
    },
  );
}
