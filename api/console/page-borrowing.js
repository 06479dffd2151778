// Loans of GPUs between workspaces, running reclaims, and a preview of victims.

import { h, s, show } from './dom.js';
import { get, getOr, may, post } from './api.js';
import { field, typed } from './dialog.js';
import { number, relative, resource, time, words } from './format.js';
import { filters, list } from './list.js';
import { watch } from './live.js';
import {
  empty,
  execution,
  heading,
  id,
  into,
  section,
  slot,
  standing,
  state,
  table,
  tenant,
  trouble,
} from './components.js';
import { candidates, shown } from './plan.js';
import { here, place } from './route.js';

export const title = 'Borrowing';

export function render(root) {
  const { params } = here();
  show(
    root,
    heading('Borrowing', {
      about: 'Workspaces of a tenant can borrow each other’s unused GPUs. A lender gets them back by a reclaim.',
    }),
    filters([
      { name: 'tenant', label: 'tenant' },
      {
        name: 'state',
        label: 'loans',
        kind: 'select',
        options: ['active', 'recall_notified', 'draining', 'overdue', 'returned'],
      },
    ]),
    slot('flow'),
    slot('loans'),
    slot('reclaims'),
    slot('planner'),
    slot('missed'),
  );
  if (!into(root, 'planner').firstChild) show(into(root, 'planner'), planner(params.tenant));
  const { tenant: whose, state: at } = params;
  show(into(root, 'loans'), section('Loans', {}, slot('loan-list')));
  return [
    watch(
      (signal) => get('/v1/loans', { tenant: whose, limit: 500 }, { signal }),
      (page) => show(into(root, 'flow'), flow(page.items.filter((loan) => loan.state !== 'returned'))),
      { failed: (problem) => show(into(root, 'flow'), trouble(problem)) },
    ),
    list(into(root, 'loan-list'), {
      path: '/v1/loans',
      params: { tenant: whose, state: at },
      columns: columns(),
      caption: 'Loans',
      none: empty('No GPUs are lent.', 'A loan begins when a workload is admitted above its workspace’s own quota.'),
    }),
    watch(
      (signal) => reclaims(whose, signal),
      (seen) => show(into(root, 'reclaims'), reclaimed(seen)),
      { every: 4000, failed: (problem) => show(into(root, 'reclaims'), trouble(problem)) },
    ),
    watch(
      (signal) => getOr({ items: [] }, '/v1/reclaims-missed', { tenant: whose, limit: 100 }, { signal }),
      (page) => show(into(root, 'missed'), missed(page.items)),
      { every: 15_000 },
    ),
  ];
}

function columns() {
  return [
    { label: 'loan', cell: (row) => row.id },
    { label: 'lender', cell: (row) => row.lender },
    { label: 'borrower', cell: (row) => row.borrower },
    { label: 'GPUs', kind: 'number', cell: (row) => `${number(row.amount)} × ${resource(row.resource)}` },
    {
      label: 'workload',
      cell: (row) => h('a', { href: place('workloads', `${row.tenant}/${row.workload}`) }, row.workload),
    },
    { label: 'since', cell: (row) => time(row.granted_at) },
    {
      label: 'protected until',
      cell: (row) =>
        Date.parse(row.protected_until) > Date.now() ? time(row.protected_until) : h('span.faint', 'expired'),
    },
    { label: 'due', cell: (row) => time(row.due) },
    { label: 'status', cell: (row) => state(row.state) },
  ];
}

/** Lenders on the left, borrowers on the right, with bands as wide as the lent GPUs. */
function flow(loans) {
  if (!loans.length) return null;
  const bands = new Map();
  for (const loan of loans) {
    const key = `${loan.tenant}\n${loan.lender}\n${loan.borrower}\n${loan.resource}`;
    const band = bands.get(key) ?? { ...loan, amount: 0, since: loan.granted_at, workloads: [] };
    band.amount += loan.amount;
    band.workloads.push(loan.workload);
    if (loan.granted_at < band.since) band.since = loan.granted_at;
    bands.set(key, band);
  }
  const all = [...bands.values()].slice(0, 24);
  const scale = Math.max(3, Math.min(14, 180 / all.reduce((sum, band) => sum + band.amount, 0)));
  const sides = { left: new Map(), right: new Map() };
  const end = (side, name) => {
    if (!sides[side].has(name)) sides[side].set(name, { name, amount: 0, used: 0 });
    return sides[side].get(name);
  };
  for (const band of all) {
    end('left', `${band.tenant} / ${band.lender}`).amount += band.amount;
    end('right', `${band.tenant} / ${band.borrower}`).amount += band.amount;
  }
  let height = 0;
  for (const side of Object.values(sides)) {
    let y = 14;
    for (const node of side.values()) {
      node.y = y;
      y += Math.max(node.amount * scale, 18) + 16;
    }
    height = Math.max(height, y);
  }
  const band = (one) => {
    const [from, to] = [end('left', `${one.tenant} / ${one.lender}`), end('right', `${one.tenant} / ${one.borrower}`)];
    const wide = one.amount * scale;
    const [a, b] = [from.y + from.used + wide / 2, to.y + to.used + wide / 2];
    from.used += wide;
    to.used += wide;
    return s(
      'g',
      {},
      s('path.band', { d: `M190,${a} C320,${a} 380,${b} 510,${b}`, 'stroke-width': wide }),
      s(
        'text',
        { x: 350, y: (a + b) / 2 + 4, 'text-anchor': 'middle' },
        `${one.amount} × ${resource(one.resource)}, ${relative(one.since)}`,
      ),
      s(
        'title',
        {},
        `${one.lender} lends ${one.amount} ${resource(one.resource)} to ${one.borrower} (${one.workloads.join(', ')})`,
      ),
    );
  };
  const ends = (side, x, anchor, word) =>
    [...sides[side].values()].map((node) =>
      s(
        'g',
        {},
        s('rect.end', {
          x: side === 'left' ? 184 : 510,
          y: node.y,
          width: 6,
          height: Math.max(node.amount * scale, 4),
        }),
        s('text', { x, y: node.y + Math.max(node.amount * scale, 18) / 2 + 4, 'text-anchor': anchor }, node.name),
        s('title', {}, `${node.name} ${word} ${node.amount}`),
      ),
    );
  const about = all
    .map((one) => `${one.tenant}: ${one.lender} lends ${one.amount} ${resource(one.resource)} to ${one.borrower}`)
    .join('; ');
  return section(
    'Lenders and borrowers',
    { note: 'Lenders on the left, borrowers on the right; the width of a band is the number of lent GPUs.' },
    h(
      'div.scroll',
      s(
        'svg.flow',
        { viewBox: `0 0 700 ${height}`, role: 'img', 'aria-label': about, key: `flow ${about}` },
        all.map(band),
        ends('left', 176, 'end', 'lends'),
        ends('right', 524, 'start', 'borrows'),
      ),
    ),
  );
}

async function reclaims(whose, signal) {
  const open = await get('/v1/executions', { workflow: 'reclaim', open: true, tenant: whose, limit: 20 }, { signal });
  return Promise.all(open.items.map((row) => get(`/v1/executions/${row.id}`, {}, { signal })));
}

function reclaimed(items) {
  return section(
    'Running reclaims',
    {},
    items.length
      ? h(
          'ul.plain',
          items.map((item) =>
            h(
              'li.reclaim',
              { key: item.id },
              h(
                'div.row',
                h('b', h('a', { href: place('executions', item.id) }, item.plan?.title ?? item.subject)),
                standing(item),
              ),
              h(
                'p',
                tenant(item.tenant),
                ' · ',
                item.state,
                ' · requested by ',
                item.requested_by,
                ' ',
                time(item.created_at),
                item.waiting_for?.approval && [
                  ' · ',
                  h('a', { href: place('approvals', item.waiting_for.approval.id) }, 'waits for approval'),
                ],
              ),
              candidates(item.plan?.placement?.explanation),
              item.children.length > 0 &&
                h(
                  'p',
                  'Evictions: ',
                  item.children.map((child) => [
                    execution(child.execution, child.subject),
                    ' ',
                    child.outcome ? state(child.outcome) : state('running'),
                    ' ',
                  ]),
                ),
            ),
          ),
        )
      : h('p.faint', 'No reclaim is running.'),
  );
}

/** Previews the victims of a reclaim. */
function planner(whose) {
  if (!may('reclaim')) return null;
  const answer = h('div.answer', { 'aria-live': 'polite' });
  const form = h(
    'form',
    {
      onsubmit: async (event) => {
        event.preventDefault();
        const { tenant: of, resource: what, workload, workspace, amount } = typed(form);
        const body = { tenant: of, resource: what };
        if (workload) body.workload = workload;
        else if (workspace) Object.assign(body, { workspace, amount: Number(amount) || 1 });
        else body.overdue = true;
        try {
          const { body: found } = await post('/v1/reclaims:plan', body);
          show(
            answer,
            h(
              'div.preview',
              { key: 'found' },
              h(
                'p',
                h('b', found.plan?.title ?? 'Plan'),
                ' — ',
                h('b', words(found.verdict ?? '')),
                found.why &&
                  ` (${words(typeof found.why === 'string' ? found.why : (found.why.code ?? JSON.stringify(found.why)))})`,
              ),
              shown(found.plan),
            ),
          );
        } catch (problem) {
          show(answer, trouble(problem));
        }
      },
    },
    h(
      'div.inline',
      field({ name: 'tenant', label: 'Tenant', required: true, value: whose ?? '' }),
      field({ name: 'resource', label: 'Resource', required: true, value: 'gpu/H100' }),
      field({ name: 'workload', label: 'For a queued workload' }),
      field({ name: 'workspace', label: 'Or for a workspace above its quota' }),
      field({ name: 'amount', label: 'Amount', kind: 'number' }),
    ),
    h('p.note', 'Without a workload and a workspace: overdue loans.'),
    h('div.buttons', h('button', { type: 'submit' }, 'Preview victims')),
    answer,
  );
  return section('Preview a reclaim', { note: 'Shows the plan that a reclaim would make now. Changes nothing.' }, form);
}

function missed(items) {
  return section(
    'Missed guarantees',
    { note: 'Reclaims that did not finish by their deadline.' },
    items.length
      ? table(
          [
            { label: 'tenant', cell: (row) => tenant(row.tenant) },
            { label: 'workspace', cell: (row) => row.workspace },
            { label: 'resource', cell: (row) => resource(row.resource) },
            { label: 'workload', cell: (row) => row.workload },
            { label: 'deadline', cell: (row) => time(row.deadline) },
            { label: 'missed at', cell: (row) => time(row.noticed_at) },
            {
              label: 'reclaim',
              cell: (row) => row.reclaim && id(row.reclaim, { href: place('executions', row.reclaim) }),
            },
            {
              label: 'held by',
              kind: 'wide',
              cell: (row) =>
                (row.held_by ?? [])
                  .map((one) => (typeof one === 'string' ? one : (one.workload ?? JSON.stringify(one))))
                  .join(', '),
            },
          ],
          items,
          { key: (row) => row.id ?? `${row.tenant}/${row.workload}/${row.deadline}`, caption: 'Missed guarantees' },
        )
      : h('p.faint', 'None: every reclaim met its deadline.'),
  );
}
