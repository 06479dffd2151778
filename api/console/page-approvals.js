// The inbox: what waits for the consent of people, the plan of each, and the decision, which counts for that plan alone.

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

/** Whether a seat is for whoever looks: `seats` are the roles and groups under which the server lets them sit. */
function suits(seat) {
  return seat.any_of.some((name) => me.seats.includes(name));
}

/** Why whoever looks cannot decide here, or nothing. What is said here is to save a try; the server decides. */
export function barred(approval) {
  if (!may('decide')) return 'None of your roles decides on approvals.';
  if (approval.ruling) return `It is decided: ${approval.ruling}.`;
  if (approval.requested_by === me.name) return 'You asked for it yourself; another person decides.';
  if (approval.votes.some((vote) => vote.person === me.name))
    return 'You have voted. You may take the vote back while nothing is decided.';
  if (!approval.seats.some(suits)) return 'No seat of it is for one of your roles or groups.';
  return null;
}

export const title = 'Approvals';

/** Tells when an approval opens, changes or closes, of whomever. */
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
        'A vote counts for one plan, named by its digest. If the plan changes, all votes are void and people are asked again.',
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
            { 'aria-label': 'Which' },
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
      'Nothing waits for you.',
      h('a', { href: place('approvals', { show: 'all' }) }, `${others} wait for others`),
    );
  return empty(
    'Nothing waits for people.',
    'Requests that policy lets through by itself never come here; onboardings above the self-service size do.',
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
        ' · asked by ',
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
  return `${item.votes.filter((vote) => vote.verdict === 'approve').length} of ${needed} agreed: ${item.wanted}`;
}

function detail(root, name) {
  show(root, loading('Reading the plan'));
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
      if (changed) toast('The plan has changed. Read it again: votes for the plan before are void.');
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
        ' · asked by ',
        h('b', item.requested_by),
        ' ',
        time(item.opened_at),
      ],
      aside:
        item.plan?.decides?.simulated &&
        state('simulated', { as: 'discovered', title: 'Nothing real is behind the cluster' }),
    }),
    h(
      'div.columns',
      { key: 'columns' },
      section(
        'What will be done',
        { key: 'plan', aside: h('span.digest', 'digest ', id(item.digest, { digits: 18 })) },
        h('div', { key: item.digest }, shown(item.plan)),
      ),
      h(
        'div.side',
        { key: 'side' },
        section('Decision', { key: 'decision' }, decision(item, from, form)),
        section('Who must agree', { key: 'seats' }, seats(item)),
        !item.ruling && section('At the deadline', { key: 'deadline' }, deadline(item)),
        section('What happened', { key: 'history' }, history(item)),
      ),
    ),
  ];
}

/** The seats, and the votes. Who takes which seat is the core's affair. */
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
      vote.break_glass && h('span.state.bad', 'alone, in an emergency'),
      vote.not_separate && h('span.state.bad', 'separation not enforced'),
      vote.not_separate && ` ${vote.not_separate} `,
      vote.removed && h('span.state.bad', 'the user was removed since'),
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
        : `${missing} more must agree; one refusal is enough to end it. Never whoever asked, and nobody twice.`,
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
          h('b', rest > 0 ? `${span(rest)} left` : 'It has passed'),
          ` (${exact(item.deadline)}). Without enough votes by then it lapses; that never counts as consent.`,
        )
      : h('p', 'It has none.'),
    (procedure.escalate ?? []).map((step) =>
      h(
        'p',
        `After ${step.after}, others are asked in place of these: ${(step.seats ?? []).map((seat) => `${seat.count} of ${seat.any_of.map(words).join(' or ')}`).join(' and ')}.`,
      ),
    ),
    procedure.extend && h('p', `It is moved once, by ${procedure.extend}.`),
    procedure.break_glass &&
      h(
        'p',
        `${(procedure.break_glass.any_of ?? []).map(words).join(' or ')} may agree alone in an emergency; another person reviews that afterwards.`,
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
    h('li', clockOf(item.opened_at), `asked by ${item.requested_by}`),
    said,
    item.closed_at && h('li', clockOf(item.closed_at), `closed: ${item.ruling}`),
  );
}

const clockOf = (at) => [time(at), ' '];

/** The form is left alone while it is filled in, unless the plan or what may be done changes. */
function decision(item, from, form) {
  const bar_ = barred(item);
  const standing = `${item.digest} ${bar_ ?? ''} ${from.join()}`;
  const mine = item.votes.some((vote) => vote.person === me?.name) && !item.ruling;
  if (bar_ && !from.length) {
    return h(
      'div',
      { key: 'barred', still: standing },
      h('p', bar_),
      mine && h('button', { type: 'button', onclick: () => withdraw(item) }, 'Take the vote back…'),
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
      return show(answer, h('p.problem', { role: 'alert' }, 'Say why: a refusal needs a reason.'));
    if (verb === 'approve' && gone && said.confirm !== word)
      return show(answer, h('p.problem', { role: 'alert' }, `Type ${word} first: this destroys data for good.`));
    const body = { digest: item.digest, reason: said.reason };
    if (said.on_behalf_of) body.on_behalf_of = said.on_behalf_of;
    node.inert = true;
    try {
      await post(`/v1/approvals/${item.id}:${verb}`, body, { key: keyOf([verb, body]) });
      toast(verb === 'refuse' ? 'Refused. The execution takes its way for a refusal.' : 'Your vote counts.');
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
    bar_ && h('p.note', bar_, ' You may vote for whom you stand in for.'),
    from.length > 0 &&
      field({
        name: 'on_behalf_of',
        label: 'For',
        kind: 'select',
        required: true,
        options: [...(bar_ ? [] : [['', `${me.name} (myself)`]]), ...from],
      }),
    field({
      name: 'reason',
      label: 'Why',
      kind: 'area',
      rows: 3,
      hint: 'kept with the vote; a refusal needs it',
      value: form.made,
    }),
    gone && field({ name: 'confirm', label: `This destroys data. Type ${word} to agree`, required: true }),
    h('p.bound', 'Your vote is bound to ', id(item.digest, { digits: 18 })),
    answer,
    h(
      'div.buttons',
      h(
        'button.primary',
        { type: 'button', 'data-verb': 'approve', onclick: () => cast('approve') },
        'Approve this plan',
      ),
      h('button.danger', { type: 'button', 'data-verb': 'refuse', onclick: () => cast('refuse') }, 'Refuse'),
      item.procedure?.break_glass &&
        h('button', { type: 'button', onclick: () => cast('break-glass') }, 'Agree alone (break-glass)'),
    ),
    h('details.more', h('summary', 'The same on the command line'), line),
  );
  show(line, command(`tenure approvals approve ${item.id} --reason ${quoted('why')}`));
  return node;
}

function withdraw(item) {
  change('Take the vote back', {
    preview: 'You may vote again while nothing is decided.',
    fields: [{ ...WHY, required: false }],
    cli: ({ reason }) => `tenure approvals withdraw ${item.id} --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) => post(`/v1/approvals/${item.id}:withdraw`, { reason }, { key }),
    done: () => 'The vote is taken back.',
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
      label: 'stands',
      cell: (row) => (row.void ? state('void', { title: 'The execution has moved on since' }) : state('waiting')),
    },
    {
      label: '',
      cell: (row) =>
        h(
          'div.buttons',
          !row.void &&
            may('repair') &&
            row.by !== me.name &&
            h('button', { type: 'button', onclick: () => second(row) }, 'Agree…'),
          may('repair') && h('button', { type: 'button', onclick: () => drop(row) }, 'Take back…'),
        ),
    },
  ];
  return section(
    'Commands that wait for a second person',
    { note: 'A proposal is bound to the revision that was seen; once the execution moves on, it is void.' },
    table(columns, items, { key: (row) => row.proposal, caption: 'Proposals' }),
  );
}

function second(row) {
  change('Agree to the command', {
    preview: [
      facts({ command: words(row.command), by: row.by, execution: row.execution }),
      more('What exactly', h('pre', JSON.stringify(row.event, null, 2))),
    ],
    label: 'Agree: it takes effect now',
    cli: () => `tenure proposals second ${row.proposal}`,
    does: (_, { key }) => post(`/v1/proposals/${row.proposal}:second`, {}, { key }),
    done: () => 'The command has taken effect.',
  });
}

function drop(row) {
  change('Take the proposal back', {
    preview: 'Nothing is done; the proposal is gone.',
    cli: () => `tenure proposals withdraw ${row.proposal}`,
    does: (_, { key }) => post(`/v1/proposals/${row.proposal}:withdraw`, {}, { key }),
  });
}

function reviews(items) {
  if (!items.length) return null;
  const columns = [
    { label: 'approval', cell: (row) => h('a', { href: place('approvals', row.id) }, row.title) },
    { label: 'alone', cell: (row) => row.by },
    { label: 'when', cell: (row) => time(row.at) },
    { label: 'why', kind: 'wide', cell: (row) => row.reason },
    {
      label: '',
      cell: (row) => may('review') && h('button', { type: 'button', onclick: () => review(row) }, 'Review…'),
    },
  ];
  return section(
    'Decided alone, to be reviewed',
    {},
    table(columns, items, { key: (row) => row.id, caption: 'Reviews' }),
  );
}

function review(row) {
  change('Review the decision', {
    fields: [{ name: 'note', label: 'What you found', kind: 'area', required: true }],
    cli: ({ note }) => `tenure approvals review ${row.id} --note ${quoted(note || 'note')}`,
    does: ({ note }, { key }) => post(`/v1/approvals/${row.id}:review`, { note }, { key }),
    done: () => 'Reviewed.',
  });
}
