// Tenants: purchased and used GPUs, rules, holds, and the progress of an offboarding.

import { h, show } from './dom.js';
import { address, ask, get, getOr, may, post } from './api.js';
import { WHY, change, quoted } from './dialog.js';
import { leave, onboard, requota, reterm } from './requests.js';
import { many, number, resource, span, time, words } from './format.js';
import { filters, list } from './list.js';
import { watch } from './live.js';
import {
  bar,
  empty,
  execution,
  facts,
  heading,
  id,
  into,
  loading,
  more,
  save,
  section,
  slot,
  standing,
  state,
  table,
  tenant,
  toast,
  trouble,
} from './components.js';
import { told } from './plan.js';
import { here, place } from './route.js';

export const title = 'Tenants';

export function render(root) {
  const {
    parts: [, name],
    params,
  } = here();
  if (name) return one(root, name);
  show(
    root,
    heading('Tenants', {
      about: 'A tenant is the unit of isolation, contract, keys and data destruction.',
      aside: may('onboard') && h('button', { type: 'button', 'data-order': 'onboard', onclick: onboard }, 'Onboard a tenant…'),
    }),
    filters([
      {
        name: 'state',
        label: 'state',
        kind: 'select',
        options: ['onboarding', 'active', 'leaving', 'destroying', 'closed'],
      },
      { name: 'tier', label: 'tier', kind: 'select', options: ['enterprise', 'standard', 'research'] },
    ]),
    slot('list'),
  );
  const { state: at, tier } = params;
  return list(into(root, 'list'), {
    path: '/v1/tenants',
    params: { state: at, tier },
    href: (row) => place('tenants', row.id),
    caption: 'Tenants',
    none: empty(
      'No tenant exists yet.',
      'Onboard one with',
      h('code', 'tenure tenant onboard -f docs/examples/acme.yaml --dry-run'),
    ),
    columns: [
      { label: 'tenant', cell: (row) => tenant(row.id) },
      {
        label: 'state',
        cell: (row) =>
          state(row.state, { as: row.state === 'closed' ? 'kept' : row.state === 'leaving' ? 'leaving' : undefined }),
      },
      { label: 'tier', cell: (row) => row.tier },
      { label: 'isolation', cell: (row) => words(row.isolation) },
      { label: 'cluster', cell: (row) => row.cluster },
      { label: 'compliance', cell: (row) => row.compliance.join(', ') },
      { label: 'workspaces', kind: 'wide', cell: (row) => row.workspaces.join(', ') },
      { label: 'active since', cell: (row) => time(row.activated_at) },
    ],
  });
}

async function read(name, signal) {
  const none = { items: [] };
  const of = (path, params = {}) => getOr(none, path, { tenant: name, limit: 200, ...params }, { signal });
  const [item, spaces, quotas, usage, holds, released, certificates, policy, leaving] = await Promise.all([
    get(`/v1/tenants/${encodeURIComponent(name)}`, {}, { signal }),
    of('/v1/workspaces'),
    of('/v1/quotas'),
    getOr(none, `/v1/usage/${encodeURIComponent(name)}`, {}, { signal }),
    of('/v1/holds'),
    of('/v1/holds', { state: 'released' }),
    of('/v1/certificates'),
    getOr(null, `/v1/tenants/${encodeURIComponent(name)}/policy`, {}, { signal }),
    of('/v1/executions', { workflow: 'offboarding', limit: 5 }),
  ]);
  return {
    item,
    spaces: spaces.items,
    quotas: quotas.items,
    usage: usage.items,
    holds: [...holds.items, ...released.items],
    certificates: certificates.items,
    policy,
    leaving: leaving.items,
  };
}

function one(root, name) {
  show(root, loading('Loading the tenant'));
  return watch(
    (signal) => read(name, signal),
    (seen) => show(root, ...whole(seen)),
    {
      every: 5000,
      failed: (problem) => show(root, heading('Tenant', { back: [place('tenants'), 'Tenants'] }), trouble(problem)),
    },
  );
}

function whole({ item, spaces, quotas, usage, holds, certificates, policy, leaving }) {
  const bought = item.entitlement;
  return [
    heading(h('span', 'Tenant ', h('b', item.id)), {
      back: [place('tenants'), 'Tenants'],
      about: [
        state(item.state),
        ' · ',
        item.tier,
        ' · ',
        words(item.isolation),
        ' on ',
        item.cluster,
        ' · ',
        h('a', { href: place('executions', { tenant: item.id }) }, 'its executions'),
        ' · ',
        h('a', { href: place('audit', { tenant: item.id }) }, 'its audit'),
      ],
      aside:
        item.state === 'active' &&
        may('offboard') &&
        h('button.danger', { type: 'button', 'data-order': 'leave', onclick: () => leave(item.id) }, 'Offboard…'),
    }),
    section(
      'Contract',
      {
        key: 'bought',
        aside:
          item.state === 'active' &&
          may('change_sla') &&
          h('button', { type: 'button', 'data-order': 'terms', onclick: () => reterm(item.id) }, 'Change terms…'),
      },
      facts({
        entitlement: bought && `${number(bought.gpus)} × ${bought.gpu_model}`,
        region: bought && (bought.region ?? 'any allowed by residency'),
        from: bought?.from,
        to: bought?.to,
        nodes: item.holding && `${many(Object.keys(item.holding.nodes).length, 'node')} on ${item.holding.cluster}`,
        'data residency': told(item.data_residency?.within ?? item.data_residency),
        'preemption allowed': item.allow_preemption ? 'yes' : 'no',
        'GPU sharing allowed': item.allow_gpu_sharing ? 'yes' : 'no',
        compliance: item.compliance.join(', '),
        'onboarded by': item.onboarded_by && execution(item.onboarded_by),
        'active since': item.activated_at && time(item.activated_at),
      }),
      item.holding && h('p', h('a', { href: place('fleet', { owner: item.id }) }, 'Show nodes')),
    ),
    leaving.length > 0 && way(item, leaving, certificates),
    item.open_executions.length > 0 &&
      section(
        'Open executions',
        { key: 'open' },
        table(
          [
            { label: 'execution', cell: (row) => id(row.id, { href: place('executions', row.id) }) },
            { label: 'subject', cell: (row) => `${words(row.workflow)} of ${row.subject}` },
            { label: 'state', cell: (row) => row.state },
            { label: 'status', cell: standing },
          ],
          item.open_executions,
          { caption: 'Open executions' },
        ),
      ),
    section(
      'Quotas and usage',
      {
        key: 'quotas',
        aside:
          item.state === 'active' &&
          spaces.length > 0 &&
          may('change_quota') &&
          h('button', { type: 'button', 'data-order': 'quota', onclick: () => requota(item.id, spaces) }, 'Change quota…'),
        note: h(
          'span',
          h('i.key-bar'),
          'own',
          h('i.key-bar.over-key'),
          'borrowed',
          h('i.key-bar.lent-key'),
          'lent to others',
          h('i.key-bar.free-key'),
          'unused',
        ),
      },
      quota(spaces, quotas),
    ),
    section(
      'Usage this month',
      {
        key: 'usage',
        aside: ['csv', 'focus'].map((form) =>
          h('button', { type: 'button', 'data-order': form, onclick: () => bill(item.id, form) }, form === 'csv' ? 'Export CSV with prices' : 'Export FOCUS'),
        ),
        note: 'GPU-hours until now.',
      },
      spent(usage),
    ),
    section(
      'Holds',
      {
        key: 'holds',
        aside: may('hold') && h('button', { type: 'button', onclick: () => place_(item.id) }, 'Place a hold…'),
        note: 'Data under a hold is not destroyed.',
      },
      held(holds),
    ),
    certificates.length > 0 &&
      section(
        'Certificates',
        { key: 'certificates' },
        h(
          'ul.plain',
          certificates.map((row) =>
            h(
              'li',
              { key: row.id },
              h('a', { href: place('certificates', row.id) }, row.title),
              ' ',
              time(row.issued_at),
            ),
          ),
        ),
      ),
    policy &&
      section(
        'Rules',
        { key: 'rules', note: `Policy ${policy.policy.name} version ${policy.policy.version}` },
        more(many(policy.rules.length, 'rule'), rules(policy.rules)),
      ),
  ];
}

/** The progress of an offboarding, and its certificate. */
function way(item, leaving, certificates) {
  const steps = [
    ['leaving', 'frozen, the export window is open'],
    ['destroying', 'destruction has begun'],
    ['closed', 'only the name is left'],
  ];
  const at = steps.findIndex(([name]) => name === item.state);
  return section(
    'Offboarding',
    { key: 'way' },
    h(
      'ol.steps',
      steps.map(([name, what], i) =>
        h(
          'li',
          {
            'aria-current': i === at ? 'step' : undefined,
            class: i < at || item.state === 'closed' ? 'done' : undefined,
          },
          h('b', words(name)),
          ` ${what}`,
        ),
      ),
    ),
    h(
      'ul.plain',
      leaving.map((row) => h('li', execution(row.id, `offboarding, ${row.state}`), ' ', standing(row))),
    ),
    h(
      'p',
      certificates.length
        ? ['Evidence: ', h('a', { href: place('certificates', certificates[0].id) }, certificates[0].title)]
        : h('span.faint', 'No certificate yet.'),
    ),
  );
}

function quota(spaces, quotas) {
  const rows = spaces.flatMap((space) =>
    Object.entries(space.use ?? {}).map(([what, use]) => ({
      id: `${space.id} ${what}`,
      space,
      what,
      use,
      allowance: quotas.find((one) => one.id === space.id)?.allowances?.[what],
    })),
  );
  if (!rows.length) return empty('No quota is set.');
  return table(
    [
      { label: 'workspace', cell: (row) => [h('b', row.space.name), h('span.faint', ` ${row.space.class}`)] },
      { label: 'resource', cell: (row) => resource(row.what) },
      { label: 'own', kind: 'number', cell: (row) => number(row.use.nominal) },
      { label: 'used', kind: 'number', cell: (row) => number(row.use.used) },
      {
        label: 'borrowed',
        kind: 'number',
        cell: (row) => [
          number(row.use.borrowed),
          row.allowance && h('span.faint', ` of ${number(row.allowance.borrowing_limit)}`),
        ],
      },
      {
        label: 'lent',
        kind: 'number',
        cell: (row) => [
          number(row.use.lent),
          row.allowance && h('span.faint', ` of ${number(row.allowance.lending_limit)}`),
        ],
      },
      {
        label: 'usage',
        kind: 'wide',
        cell: ({ use }) =>
          bar(
            [
              { value: use.used - use.borrowed, tone: 'busy' },
              { value: use.borrowed, tone: 'over' },
              { value: use.lent, tone: 'lent' },
              { value: Math.max(0, use.nominal - use.lent - (use.used - use.borrowed)), tone: 'free' },
            ],
            use.nominal + use.borrowed,
            `own ${number(use.nominal)}, used ${use.used}, borrowed ${use.borrowed}, lent ${use.lent}`,
          ),
      },
      {
        label: 'waiting',
        kind: 'number',
        cell: (row) =>
          row.space.waiting
            ? h(
                'a',
                {
                  href: place('workloads', { tenant: row.space.tenant, workspace: row.space.name, state: 'waiting' }),
                  title: row.space.waiting_since,
                },
                number(row.space.waiting),
              )
            : '0',
      },
    ],
    rows,
    { caption: 'Quotas' },
  );
}

/** The ledger counts GPU-milliseconds. */
/** Exports all months of a tenant with list prices. */
async function bill(tenant, form) {
  try {
    const answer = await ask('GET', address(`/v1/usage/${tenant}:export`, { format: form }));
    save(`usage-${tenant}-${form}.csv`, 'text/csv', await answer.text());
  } catch (problem) {
    toast(problem.message);
  }
}

function spent(usage) {
  const hours = (value) => number((value ?? 0) / 3_600_000, 2);
  const rows = usage.flatMap((month) =>
    Object.entries(month.spent ?? {}).map(([what, parts]) => ({
      id: `${month.workspace} ${what}`,
      ...month,
      what,
      parts,
    })),
  );
  if (!rows.length) return h('p.faint', 'No usage this month.');
  return table(
    [
      { label: 'workspace', cell: (row) => h('b', row.workspace) },
      { label: 'resource', cell: (row) => resource(row.what) },
      { label: 'own', kind: 'number', cell: (row) => hours(row.parts.own) },
      { label: 'borrowed', kind: 'number', cell: (row) => hours(row.parts.borrowed) },
      { label: 'lent to others', kind: 'number', cell: (row) => hours(row.parts.lent) },
      { label: 'over quota', kind: 'number', cell: (row) => hours(row.parts.over) },
      { label: 'period', cell: (row) => `${row.month}, ${span((Date.parse(row.to) - Date.parse(row.from)) / 1000)}` },
    ],
    rows,
    { caption: 'Usage in GPU-hours' },
  );
}

function held(holds) {
  if (!holds.length) return h('p.faint', 'No hold is placed.');
  return table(
    [
      { label: 'hold', cell: (row) => row.id },
      { label: 'kind', cell: (row) => row.kind },
      { label: 'scope', cell: (row) => told(row.scope) },
      { label: 'reason', kind: 'wide', cell: (row) => row.reason },
      { label: 'by', cell: (row) => row.placed_by },
      { label: 'since', cell: (row) => time(row.placed_at) },
      {
        label: 'status',
        cell: (row) =>
          state(row.state, {
            as: row.state === 'open' ? 'onhold' : 'over',
            label: row.state === 'open' ? 'in force' : row.state,
          }),
      },
      {
        label: '',
        cell: (row) =>
          row.state === 'open' &&
          may('hold') &&
          h('button', { type: 'button', onclick: () => release(row) }, 'Release…'),
      },
    ],
    holds,
    { caption: 'Holds' },
  );
}

function place_(name) {
  change(`Place a hold on ${name}`, {
    preview: 'Data in its scope is not destroyed until another person releases the hold.',
    fields: [
      { name: 'id', label: 'Name', required: true, hint: 'case-9' },
      { name: 'kind', label: 'Kind', kind: 'select', required: true, options: ['legal', 'incident', 'billing'] },
      { name: 'workspace', label: 'Only this workspace' },
      WHY,
    ],
    cli: (values) =>
      `tenure hold place ${name}/${quoted(values.id || 'case-9')} --kind ${values.kind} --reason ${quoted(values.reason || 'why')}`,
    does: (values, { key }) =>
      post(
        '/v1/holds',
        {
          tenant: name,
          id: values.id,
          kind: values.kind,
          reason: values.reason,
          ...(values.workspace ? { workspace: values.workspace } : {}),
        },
        { key },
      ),
    done: () => 'Hold placed.',
  });
}

function release(row) {
  change(`Release the hold ${row.id}`, {
    preview: [
      'The data may be destroyed again. The hold was placed by ',
      h('b', row.placed_by),
      ', who cannot release it.',
    ],
    fields: [WHY],
    danger: true,
    label: 'Release hold',
    cli: ({ reason }) => `tenure hold release ${row.id} --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post(`/v1/holds/${row.id}:release`, { reason }, { key }),
    done: () => 'Hold released.',
  });
}

function rules(all) {
  const topics = [...new Set(all.map((rule) => rule.topic))];
  return topics.map((topic) =>
    h(
      'section.group',
      { key: topic },
      h('h3', topic),
      table(
        [
          { label: 'rule', cell: (row) => h('code', row.rule) },
          { label: 'value', kind: 'wide', cell: (row) => row.says },
          {
            label: 'source',
            cell: (row) => (row.by ? `${row.by.document} ${row.by.version}, line ${row.by.line}` : 'its own request'),
          },
        ],
        all.filter((rule) => rule.topic === topic),
        { key: (row) => `${row.rule} ${row.says}`, caption: topic },
      ),
    ),
  );
}
