// The sealed audit: search by tenant and time, and an export that verifies offline.

import { h, show } from './dom.js';
import { address, ask, get } from './api.js';
import { clock, number, words } from './format.js';
import { filters, list } from './list.js';
import { watch } from './live.js';
import {
  command,
  empty,
  execution,
  facts,
  heading,
  id,
  into,
  json,
  more,
  save,
  section,
  slot,
  state,
  tenant,
  toast,
} from './components.js';
import { here, refine } from './route.js';

export const title = 'Audit';

const day = (text, later = 0) =>
  text ? new Date(Date.parse(`${text}T00:00:00Z`) + later * 86_400_000).toISOString() : undefined;

export function render(root) {
  const { params } = here();
  const { tenant: whose, from, to, event, actor, kind, oldest, text = '' } = params;
  const order = oldest === 'yes' ? 'oldest' : 'newest';
  const meant = { tenant: whose, from: day(from), to: day(to, 1) };
  show(
    root,
    heading('Audit', {
      about:
        'Each entry contains the digest of the previous one, and checkpoints are signed. The audit is kept after executions are removed.',
      aside: h(
        'button',
        { type: 'button', onclick: () => exported(meant) },
        whose ? `Export ${whose === '-' ? 'the platform’s audit' : whose}` : 'Export the platform’s audit',
      ),
    }),
    filters([
      { name: 'tenant', label: 'tenant', hint: 'acme; - is the platform' },
      { name: 'from', label: 'from', kind: 'date' },
      { name: 'to', label: 'to (inclusive)', kind: 'date' },
      { name: 'event', label: 'event', hint: 'access.denied' },
      { name: 'actor', label: 'actor', hint: 'olga' },
      { name: 'kind', label: 'kind', kind: 'select', options: ['person', 'service', 'engine'] },
      { name: 'oldest', label: 'oldest first', kind: 'check' },
      { name: 'text', label: 'text (this page)', wide: true, hint: 'voted, eu1-h100-01, an execution id…' },
    ]),
    h(
      'p.note',
      { key: 'note' },
      'The filter “text” searches only the shown page, the other filters the whole audit. The newest entry is first. ',
      !whose && order === 'oldest' && 'Oldest first without a tenant: sorted by tenant, then by time.',
    ),
    slot('list'),
    slot('proof'),
  );
  const needle = text.toLowerCase();
  const columns = [
    { label: 'when', cell: (row) => clock(row.at) },
    { label: 'chain', cell: (row) => tenant(row.tenant) },
    { label: 'number', kind: 'number', cell: (row) => number(row.number) },
    {
      label: 'actor',
      cell: (row) =>
        h(
          'button.copy',
          { type: 'button', title: 'This tenant only', onclick: () => refine({ actor: row.actor, cursor: '' }) },
          row.actor,
        ),
    },
    {
      label: 'event',
      kind: 'wide',
      cell: (row) => [
        row.says.length > 260 ? `${row.says.slice(0, 260)}…` : row.says,
        ' ',
        row.outcome && row.outcome !== 'done' && state(row.outcome),
      ],
    },
    { label: 'execution', cell: (row) => row.execution && execution(row.execution, words(row.workflow)) },
    { label: 'policy', cell: (row) => row.policy && `${row.policy.name} ${row.policy.version}` },
    { label: 'plan', cell: (row) => row.plan?.digest && id(row.plan.digest, { digits: 12 }) },
    { label: '', cell: (row) => more('details', json(row)) },
  ];
  return [
    list(into(root, 'list'), {
      path: '/v1/audit',
      params: { ...meant, event, actor, kind, order },
      columns,
      size: 100,
      every: 8000,
      caption: 'Audit',
      none: empty('No entry matches.', 'Extend the period, or remove the tenant.'),
      pick: (items) =>
        items.filter((row) => !needle || JSON.stringify(row).toLowerCase().includes(needle)),
    }),
    watch(
      (signal) => get('/v1/audit/checkpoints', { limit: 1000 }, { signal }),
      (page) => show(into(root, 'proof'), proof(page)),
      { every: 60_000 },
    ),
  ];
}

function proof({ items, next }) {
  const last = items.at(-1);
  return section(
    'Proof',
    { note: 'Store checkpoints outside of Tenure: they reveal any later change of the entries before them.' },
    last
      ? facts({
          'last checkpoint': [number(last.checkpoint.number), next && ' and later', ' · ', clock(last.checkpoint.at)],
          'sealed entries': number(last.checkpoint.entries),
          'signed with': id(last.by.keyid, { digits: 18 }),
          digest: id(last.digest, { digits: 18 }),
        })
      : h('p.faint', 'No checkpoint was signed yet.'),
    command('tenure audit verify acme.jsonl --key public.pem'),
    h('p.note', 'Works offline. Exit code 0: valid. Exit code 1: shows the invalid entry.'),
  );
}

async function exported(meant) {
  try {
    const answer = await ask('GET', address('/v1/audit/export', meant));
    save(
      `audit-${meant.tenant && meant.tenant !== '-' ? meant.tenant : 'platform'}.jsonl`,
      'application/jsonl',
      await answer.text(),
    );
    toast('The file verifies with `tenure audit verify`.');
  } catch (problem) {
    toast(problem.message);
  }
}
