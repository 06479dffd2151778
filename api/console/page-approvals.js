// The inbox: open approvals, the plan of each, and the decision on that plan.

import { h, show } from './dom.js';
import { get, getOr, keys, may, me, post } from './api.js';
import { field, quoted, typed, change, WHY } from './dialog.js';
import { exact, span, time, words } from './format.js';
import { refreshSoon, watch } from './live.js';
import {
  command,
  copy,
  empty,
  execution,
  facts,
  heading,
  id,
  into,
  loading,
  more,
  section,
  slot,
  state,
  table,
  tenant,
  toast,
  trouble,
} from './components.js';
import { destroys, shown } from './plan.js';
import { here, place } from './route.js';

/** Returns true if the user may take the seat: `seats` are the user's roles and groups. */
function suits(seat) {
  return seat.any_of.some((name) => me.seats.includes(name));
}

/** Returns the reason why the user cannot decide, if any. This is only a hint; the server decides. */
export function barred(approval) {
  if (!may('decide')) return 'None of your roles may decide on approvals.';
  if (approval.ruling) return `Decided: ${approval.ruling}.`;
  if (approval.requested_by === me.name) return 'You are the requester; another person must decide.';
  if (approval.votes.some((vote) => vote.person === me.name))
    return 'You have voted. You can withdraw the vote while the approval is open.';
  if (!approval.seats.some(suits)) return 'None of your roles or groups may decide on this request.';
  return null;
}

export const title = 'Approvals';

/** The stream of all opened, changed and closed approvals. */
export const STREAM = '/v1/approvals/events?all=true&limit=1';

export function render(root) {
  const {
    parts: [, ...rest],
    params,
  } = here();
  if (rest.length) return detail(root, rest.join('/'));
  const mine = params.show !== 'all';
  const tab = (label, to, count) =>
    h(
      'a',
      { href: place('approvals', to), 'aria-current': (params.show ?? '') === (to.show ?? '') ? 'page' : undefined },
      label,
      count !== undefined && h('span.count', String(count)),
    );
  show(
    root,
    heading('Approvals', {
      about:
        'A vote is valid for one plan, identified by its digest. If the plan changes, all votes are void and the approvers must vote again.',
    }),
    slot('tabs'),
    slot('inbox'),
    slot('proposals'),
    slot('reviews'),
  );
  return [
    watch(
      (signal) => get('/v1/approvals', { limit: 200 }, { signal }),
      (page) => {
        const open = page.items.filter((item) => !barred(item));
        const items = mine ? open : page.items;
        show(
          into(root, 'tabs'),
          h(
            'nav.tabs',
            { 'aria-label': 'Approvals to show' },
            tab('Waiting for me', {}, open.length),
            tab('All', { show: 'all' }, `${page.items.length}${page.next ? '+' : ''}`),
          ),
        );
        show(
          into(root, 'inbox'),
          items.length ? h('ul.inbox', items.sort(byDeadline).map(card)) : nothing(mine, page.items.length),
        );
      },
      { hears: STREAM, failed: (problem) => show(into(root, 'inbox'), trouble(problem)) },
    ),
    watch(
      (signal) => getOr({ items: [] }, '/v1/proposals', { limit: 50 }, { signal }),
      (page) => show(into(root, 'proposals'), proposals(page.items)),
      { every: 8000 },
    ),
    watch(
      (signal) => getOr({ items: [] }, '/v1/approvals/reviews', {}, { signal }),
      (page) => show(into(root, 'reviews'), reviews(page.items)),
      { every: 15_000 },
    ),
  ];
}

function nothing(mine, others) {
  if (mine && others)
    return empty(
      'No approval waits for you.',
      h('a', { href: place('approvals', { show: 'all' }) }, `${others} wait for others`),
    );
  return empty(
    'No approval is open.',
    'This list shows only requests that need approval, such as an onboarding above the self-service size.',
  );
}

function byDeadline(a, b) {
  return (a.deadline ?? '9').localeCompare(b.deadline ?? '9') || a.id.localeCompare(b.id);
}

function card(item) {
  const bar_ = barred(item);
  return h(
    'li',
    { key: item.id, 'data-row': '' },
    h(
      'a.card',
      { href: place('approvals', item.id) },
      h(
        'span.row',
        h('b', item.title),
        destroys(item.plan) && h('span.state.bad', h('span.sign', '×'), 'destroys data'),
      ),
      h(
        'span.meta',
        words(item.workflow),
        ' · ',
        item.tenant || 'platform',
        ' · requested by ',
        item.requested_by,
        ' ',
        time(item.opened_at),
      ),
      h('span.meta', seatsLine(item), item.deadline && [' · ends ', time(item.deadline)]),
      bar_ ? h('span.meta.faint', bar_) : h('span.meta.mine', 'waits for you'),
    ),
  );
}

function seatsLine(item) {
  const needed = item.seats.reduce((sum, seat) => sum + seat.count, 0);
  return `${item.votes.filter((vote) => vote.verdict === 'approve').length} of ${needed} approved: ${item.wanted}`;
}

function detail(root, name) {
  show(root, loading('Loading the plan'));
  let item = null;
  const form = { made: '' };
  return watch(
    async (signal) => {
      const [approval, delegations] = await Promise.all([
        get(`/v1/approvals/${encodeURIComponent(name)}`, {}, { signal }),
        getOr({ items: [] }, '/v1/delegations', { to: me?.name, state: 'in_force' }, { signal }),
      ]);
      return { approval, from: delegations.items.map((delegation) => delegation.from) };
    },
    ({ approval, from }) => {
      const changed = item && item.digest !== approval.digest;
      if (changed) toast('The plan has changed. Read it again: votes for the previous plan are void.');
      item = approval;
      show(root, ...whole(approval, from, form));
    },
    {
      every: 3000,
      hears: STREAM,
      failed: (problem) =>
        show(root, heading('Approval', { back: [place('approvals'), 'Approvals'] }), trouble(problem)),
    },
  );
}

function whole(item, from, form) {
  return [
    heading(item.title, {
      back: [place('approvals'), 'Approvals'],
      about: [
        words(item.workflow),
        ' for ',
        tenant(item.tenant),
        ' · ',
        execution(item.execution, 'the execution'),
        ' · requested by ',
        h('b', item.requested_by),
        ' ',
        time(item.opened_at),
      ],
      aside:
        item.plan?.decides?.simulated &&
        state('simulated', { as: 'discovered', title: 'The cluster is simulated' }),
    }),
    h(
      'div.columns',
      { key: 'columns' },
      section(
        'Plan',
        { key: 'plan', aside: h('span.digest', 'digest ', id(item.digest, { digits: 18 })) },
        h('div', { key: item.digest }, shown(item.plan)),
      ),
      h(
        'div.side',
        { key: 'side' },
        section('Decision', { key: 'decision' }, decision(item, from, form)),
        section('Approvers', { key: 'seats' }, seats(item)),
        !item.ruling && section('Deadline', { key: 'deadline' }, deadline(item)),
        section('History', { key: 'history' }, history(item)),
      ),
    ),
  ];
}

/** The seats and votes. The engine's core assigns votes to seats. */
function seats(item) {
  const rows = item.seats.map((seat, at) =>
    h('li', { key: `${at}` }, h('b', `${seat.count} of `), seat.any_of.map(words).join(' or ')),
  );
  const votes = item.votes.map((vote) =>
    h(
      'li',
      { key: `${vote.person}${vote.at}` },
      state(vote.verdict === 'approve' ? 'approved' : 'refused'),
      ' ',
      h('b', vote.person),
      vote.on_behalf_of && ` for ${vote.on_behalf_of}`,
      vote.break_glass && h('span.state.bad', 'break-glass'),
      vote.not_separate && h('span.state.bad', 'separation not enforced'),
      vote.not_separate && ` ${vote.not_separate} `,
      vote.removed && h('span.state.bad', 'user was removed later'),
      vote.claim && h('span', ` (credential ${vote.claim}${vote.issued_by ? ` by ${vote.issued_by}` : ''})`),
      ' ',
      time(vote.at),
      vote.reason && h('q', vote.reason),
    ),
  );
  const needed = item.seats.reduce((sum, seat) => sum + seat.count, 0);
  const missing = Math.max(0, needed - item.votes.filter((vote) => vote.verdict === 'approve').length);
  return [
    h('ul.seats', rows),
    h('ul.votes', votes),
    h(
      'p.note',
      item.ruling
        ? `Decided: ${item.ruling}${item.takes_effect ? `; takes effect ${item.takes_effect}` : ''}.`
        : `Missing approvals: ${missing}. One refusal rejects the request. The requester cannot vote, and each person votes once.`,
    ),
  ];
}

function deadline(item) {
  const { procedure = {} } = item;
  const now = Date.now();
  const rest = item.deadline ? (Date.parse(item.deadline) - now) / 1000 : null;
  const lines = [
    item.deadline
      ? h(
          'p',
          h('b', rest > 0 ? `${span(rest)} left` : 'The deadline has passed'),
          ` (${exact(item.deadline)}). Without enough votes by then, the approval lapses, and the request is not approved.`,
        )
      : h('p', 'No deadline.'),
    (procedure.escalate ?? []).map((step) =>
      h(
        'p',
        `After ${step.after}, other approvers replace these: ${(step.seats ?? []).map((seat) => `${seat.count} of ${seat.any_of.map(words).join(' or ')}`).join(' and ')}.`,
      ),
    ),
    procedure.extend && h('p', `The deadline is extended once, by ${procedure.extend}.`),
    procedure.break_glass &&
      h(
        'p',
        `${(procedure.break_glass.any_of ?? []).map(words).join(' or ')} may approve without others in an emergency (break-glass); another person reviews it afterwards.`,
      ),
  ];
  return lines;
}

function history(item) {
  const said = item.history.map((entry) =>
    h(
      'li',
      clockOf(entry.at),
      words(entry.event),
      entry.person && ` ${entry.person}`,
      entry.by && ` by ${entry.by}`,
      entry.to && `: ${entry.to}`,
      entry.people && `: ${entry.people.join(', ')}`,
      entry.reason && h('q', entry.reason),
    ),
  );
  return h(
    'ul.votes',
    h('li', clockOf(item.opened_at), `requested by ${item.requested_by}`),
    said,
    item.closed_at && h('li', clockOf(item.closed_at), `closed: ${item.ruling}`),
  );
}

const clockOf = (at) => [time(at), ' '];

/** The form is kept while the user fills it in, unless the plan or the permitted decisions change. */
function decision(item, from, form) {
  const bar_ = barred(item);
  const standing = `${item.digest} ${bar_ ?? ''} ${from.join()}`;
  const mine = item.votes.some((vote) => vote.person === me?.name) && !item.ruling;
  if (bar_ && !from.length) {
    return h(
      'div',
      { key: 'barred', still: standing },
      h('p', bar_),
      mine && h('button', { type: 'button', onclick: () => withdraw(item) }, 'Withdraw vote…'),
    );
  }
  return h('div', { key: 'form', still: standing }, vote(item, from, bar_, form));
}

function vote(item, from, bar_, form) {
  const keyOf = keys();
  const answer = h('div.answer', { 'aria-live': 'polite' });
  const line = h('div.line');
  const gone = destroys(item.plan);
  const word = item.tenant || item.subject;
  const cast = async (verb) => {
    const said = typed(node);
    if (verb !== 'approve' && !said.reason)
      return show(answer, h('p.problem', { role: 'alert' }, 'Enter a reason: a refusal needs one.'));
    if (verb === 'approve' && gone && said.confirm !== word)
      return show(answer, h('p.problem', { role: 'alert' }, `Type ${word} first: this plan destroys data permanently.`));
    const body = { digest: item.digest, reason: said.reason };
    if (said.on_behalf_of) body.on_behalf_of = said.on_behalf_of;
    node.inert = true;
    try {
      await post(`/v1/approvals/${item.id}:${verb}`, body, { key: keyOf([verb, body]) });
      toast(verb === 'refuse' ? 'Refused. The execution follows its path for refusals.' : 'Vote counted.');
      refreshSoon();
    } catch (problem) {
      show(answer, trouble(problem));
    }
    node.inert = false;
  };
  const said = () => {
    const values = typed(node);
    form.made = values.reason;
    show(
      line,
      command(
        `tenure approvals approve ${item.id}${values.on_behalf_of ? ` --for ${values.on_behalf_of}` : ''} --reason ${quoted(values.reason || 'why')}`,
      ),
    );
  };
  const node = h(
    'form',
    { onsubmit: (event) => event.preventDefault(), oninput: said },
    bar_ && h('p.note', bar_, ' You may vote for users who have delegated their vote to you.'),
    from.length > 0 &&
      field({
        name: 'on_behalf_of',
        label: 'Vote for',
        kind: 'select',
        required: true,
        options: [...(bar_ ? [] : [['', `${me.name} (myself)`]]), ...from],
      }),
    field({
      name: 'reason',
      label: 'Reason',
      kind: 'area',
      rows: 3,
      hint: 'stored with the vote; required to refuse',
      value: form.made,
    }),
    gone && field({ name: 'confirm', label: `This plan destroys data. Type ${word} to approve`, required: true }),
    h('p.bound', 'Your vote is for the plan ', id(item.digest, { digits: 18 })),
    answer,
    h(
      'div.buttons',
      h(
        'button.primary',
        { type: 'button', 'data-verb': 'approve', onclick: () => cast('approve') },
        'Approve plan',
      ),
      h('button.danger', { type: 'button', 'data-verb': 'refuse', onclick: () => cast('refuse') }, 'Refuse plan'),
      item.procedure?.break_glass &&
        h('button', { type: 'button', onclick: () => cast('break-glass') }, 'Approve by break-glass'),
    ),
    h('details.more', h('summary', 'Command line'), line),
  );
  show(line, command(`tenure approvals approve ${item.id} --reason ${quoted('why')}`));
  return node;
}

function withdraw(item) {
  change('Withdraw vote', {
    preview: 'You can vote again while the approval is open.',
    fields: [{ ...WHY, required: false }],
    cli: ({ reason }) => `tenure approvals withdraw ${item.id} --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post(`/v1/approvals/${item.id}:withdraw`, { reason }, { key }),
    done: () => 'Vote withdrawn.',
  });
}

function proposals(items) {
  if (!items.length) return null;
  const columns = [
    { label: 'command', cell: (row) => h('b', words(row.command)) },
    { label: 'execution', cell: (row) => execution(row.execution) },
    { label: 'by', cell: (row) => row.by },
    { label: 'when', cell: (row) => time(row.at) },
    {
      label: 'status',
      cell: (row) => (row.void ? state('void', { title: 'The execution has changed since' }) : state('waiting')),
    },
    {
      label: '',
      cell: (row) =>
        h(
          'div.buttons',
          !row.void &&
            may('repair') &&
            row.by !== me.name &&
            h('button', { type: 'button', onclick: () => second(row) }, 'Confirm…'),
          may('repair') && h('button', { type: 'button', onclick: () => drop(row) }, 'Withdraw…'),
        ),
    },
  ];
  return section(
    'Commands waiting for a second person',
    { note: 'A proposal is bound to the revision that its author saw; it is void once the execution changes.' },
    table(columns, items, { key: (row) => row.proposal, caption: 'Proposals' }),
  );
}

function second(row) {
  change('Confirm the command', {
    preview: [
      facts({ command: words(row.command), by: row.by, execution: row.execution }),
      more('Details', h('pre', JSON.stringify(row.event, null, 2))),
    ],
    label: 'Confirm command',
    cli: () => `tenure proposals second ${row.proposal}`,
    does: (_, { key }) => post(`/v1/proposals/${row.proposal}:second`, {}, { key }),
    done: () => 'The command has taken effect.',
  });
}

function drop(row) {
  change('Withdraw proposal', {
    preview: 'The command is not performed, and the proposal is removed.',
    cli: () => `tenure proposals withdraw ${row.proposal}`,
    does: (_, { key }) => post(`/v1/proposals/${row.proposal}:withdraw`, {}, { key }),
  });
}

function reviews(items) {
  if (!items.length) return null;
  const columns = [
    { label: 'approval', cell: (row) => h('a', { href: place('approvals', row.id) }, row.title) },
    { label: 'decided by', cell: (row) => row.by },
    { label: 'when', cell: (row) => time(row.at) },
    { label: 'reason', kind: 'wide', cell: (row) => row.reason },
    {
      label: '',
      cell: (row) => may('review') && h('button', { type: 'button', onclick: () => review(row) }, 'Review…'),
    },
  ];
  return section(
    'Break-glass decisions to review',
    {},
    table(columns, items, { key: (row) => row.id, caption: 'Reviews' }),
  );
}

function review(row) {
  change('Review the decision', {
    fields: [{ name: 'note', label: 'Findings', kind: 'area', required: true }],
    cli: ({ note }) => `tenure approvals review ${row.id} --note ${quoted(note || 'note')}`,
    does: ({ note }, { key }) => post(`/v1/approvals/${row.id}:review`, { note }, { key }),
    done: () => 'Reviewed.',
  });
}
