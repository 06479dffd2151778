// An execution: its state, awaited conditions, actions and undos, and its commands.

import { h, show } from './dom.js';
import { get, getOr } from './api.js';
import { buttons } from './actions.js';
import { listed, picture } from './diagram.js';
import { clock, many, relative, time, words } from './format.js';
import { watch } from './live.js';
import {
  bar,
  command,
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
  standing,
  state,
  table,
  tenant,
  trouble,
} from './components.js';
import { brief, shown as plan, told } from './plan.js';
import { here, place } from './route.js';

export const title = 'Execution';

export function render(root) {
  const [, name] = here().parts;
  show(root, loading('Loading the execution'));
  let diagram = null;
  return watch(
    async (signal) => {
      const at = `/v1/executions/${encodeURIComponent(name)}`;
      const [item, journal] = await Promise.all([get(at, {}, { signal }), get(`${at}/journal`, {}, { signal })]);
      diagram ??=
        (await getOr(null, `/v1/workflows/${item.workflow}/diagram`, { format: 'json' }, { signal }))?.diagram ?? null;
      return { item, journal: journal.items };
    },
    ({ item, journal }) => {
      document.title = `${item.subject} · ${words(item.workflow)} · Tenure`;
      show(root, ...whole(item, journal, diagram));
      paint(root, item, journal, diagram);
    },
    {
      every: 2000,
      hears: `/v1/executions/${encodeURIComponent(name)}/events`,
      failed: (problem) =>
        show(
          root,
          heading('Execution', { back: [place('executions'), 'Executions'] }),
          trouble(problem),
          gone(problem),
        ),
    },
  );
}

function gone(problem) {
  return (
    problem.status === 404 &&
    empty(
      'It may have been removed.',
      'Finished executions are removed after the retention period; the audit keeps their entries.',
      h('a', { href: place('audit') }, 'Search the audit'),
    )
  );
}

/** Redraws the diagram only after a change. */
function paint(root, item, journal, diagram) {
  const frame = into(root, 'picture');
  const seen = JSON.stringify([item.state, item.phase, journal.length, item.trail.map((mark) => mark.fate)]);
  if (!diagram || frame.dataset.seen === seen) return;
  frame.dataset.seen = seen;
  frame.replaceChildren(picture(diagram, { current: item.state, journal, trail: item.trail, phase: item.phase }));
}

function whole(item, journal, diagram) {
  return [
    heading([words(item.workflow), ' of ', h('b', item.subject)], {
      back: [place('executions'), 'Executions'],
      about: [
        id(item.id, { whole: true }),
        ' · ',
        tenant(item.tenant),
        ' · requested by ',
        h('b', item.requested_by),
        ' ',
        time(item.created_at),
        item.parent && [' · part of ', execution(item.parent, 'another')],
        item.labels.map((label) => h('span.label', label)),
      ],
    }),
    h(
      'div.standing',
      { key: 'standing' },
      h('span.big', item.state),
      standing(item),
      h('span.faint', 'since ', time(item.since)),
      item.pivot && state('past_pivot', { as: 'destroying', label: 'past its point of no return' }),
    ),
    far(item.progress),
    h('div.buttons.orders', { key: 'orders' }, buttons(item, diagram)),
    h(
      'div.columns',
      { key: 'columns' },
      section(
        'State machine',
        { key: 'machine', aside: h('span.faint', `schema ${item.schema}`) },
        slot('picture'),
        diagram && more('As a list', listed(diagram, item.state)),
      ),
      h('div.side', { key: 'side' }, now(item), attempts(item), trail(item), children(item)),
    ),
    section(
      'Timeline',
      { key: 'timeline', note: `${many(journal.length, 'entry', 'entries')}, the latest first.` },
      timeline(journal),
    ),
    section(
      'Plan',
      { key: 'plan', aside: item.digest && h('span.digest', 'digest ', id(item.digest, { digits: 18 })) },
      item.plan ? [h('p', h('b', item.plan.title)), plan(item.plan)] : h('p.faint', 'This workflow has no plan to approve.'),
    ),
    section(
      'Data',
      { key: 'data' },
      more('Stored data', json(item.data)),
      command(`tenure executions show ${item.id}`),
    ),
  ];
}

/** The progress: completed steps, the action's report, and the estimated end, where known. */
function far(progress) {
  if (!progress) return null;
  const { done, total, current, eta } = progress;
  const steps = total && `${done} of ${total} steps completed`;
  if (!steps && !current.beat && !eta) return null;
  return h(
    'div.progress',
    { key: 'progress' },
    steps && bar([{ value: done, tone: 'busy', label: 'completed' }], total, steps),
    h(
      'span.faint',
      [
        steps,
        current.beat,
        eta && [
          'estimated ',
          h('span', { title: 'Estimated from recent runs of this workflow' }, 'end '),
          time(eta),
        ],
      ]
        .filter(Boolean)
        .map((part, at) => [at > 0 && ' · ', part]),
    ),
  );
}

/** The condition that it waits for, the reason for a stop, and the next action. */
function now(item) {
  const waits = item.waiting_for;
  const approval = waits?.approval;
  const lines = [
    item.phase === 'parked' &&
      h(
        'div.callout.bad',
        h('b', `Parked: ${words(item.reason)}`),
        h('p', 'Waits for an operator: fix the cause, then retry or repair the execution.'),
        errors(item.errors),
      ),
    item.paused_by &&
      h(
        'div.callout.wait',
        h('b', `Paused by ${item.paused_by.by ?? item.paused_by}`),
        item.paused_by.reason && h('q', item.paused_by.reason),
      ),
    item.cancelled_by &&
      h(
        'p',
        `Cancelled by ${item.cancelled_by.by ?? item.cancelled_by}`,
        item.cancelled_by.reason && h('q', item.cancelled_by.reason),
      ),
    approval &&
      h(
        'div.callout.busy',
        h('b', 'Waits for approval: '),
        approval.wanted,
        approval.deadline && [', until ', time(approval.deadline)],
        h('p', h('a', { href: place('approvals', approval.id) }, 'Read the plan and decide')),
      ),
    approval?.ruling &&
      h('p', `Decided: ${approval.ruling}`, approval.takes_effect && `; takes effect ${approval.takes_effect}`),
    waits?.limits?.length > 0 &&
      h(
        'ul',
        waits.limits.map((limit) =>
          h('li', limit.why, ', since ', time(limit.since), '; next check ', time(limit.looks_again_at)),
        ),
      ),
    waits?.next_action_at &&
      h(
        'p',
        approval ? 'Next automatic action: ' : 'Next: ',
        time(waits.next_action_at),
        h('span.faint', ` (${many(waits.tasks, 'task')})`),
      ),
    item.cause && h('div.callout.turn', h('b', 'Rolled back because of '), errors([item.cause])),
    item.left_behind.length > 0 &&
      h(
        'div.callout.bad',
        h('b', 'Left behind:'),
        h(
          'ul',
          item.left_behind.map((mark) => h('li', mark.action, ' ', h('span.faint', brief(mark.arguments)))),
        ),
      ),
    item.authorisation &&
      h(
        'p.note',
        'Authorised by ',
        by(item.authorisation.by),
        ' for the plan ',
        id(item.authorisation.digest, { digits: 14 }),
      ),
    item.last_failure &&
      h(
        'p.note',
        'Last failure, handled by another path: ',
        h('code', item.last_failure.code),
        ' ',
        item.last_failure.message,
        ' ',
        time(item.last_failure.at),
      ),
  ].filter(Boolean);
  if (!item.open && !lines.length)
    return section('Outcome', { key: 'now' }, h('p', standing(item), ' ', time(item.updated_at)));
  return section(item.open ? 'Now' : 'Outcome', { key: 'now' }, lines.length ? lines : h('p.faint', 'It is running.'));
}

function by(authority) {
  if (authority?.people) return authority.people.join(' and ');
  if (authority?.waiver) return `policy rule ${authority.waiver.name}`;
  if (authority?.break_glass) return `${authority.break_glass.name ?? authority.break_glass} (break-glass)`;
  return told(authority);
}

function errors(all) {
  return h(
    'ul.errors',
    all.map((error) =>
      h('li', h('code', error.code), ' ', h('span.faint', classOf(error)), h('p.message', error.message)),
    ),
  );
}

function attempts(item) {
  if (!item.attempts.length) return null;
  return section(
    'Attempts',
    { key: 'attempts' },
    h(
      'ul.plain',
      item.attempts.map((slot_) =>
        h(
          'li',
          { key: `${slot_.slot}` },
          h('b', `Slot ${slot_.slot}`),
          slot_.failed > 0 && ` · failed ${many(slot_.failed, 'time')}`,
          slot_.doubt && [' ', state('outcome_unknown', { label: 'outcome unknown' })],
          slot_.edition > 0 && ` · changed by operators ${many(slot_.edition, 'time')}`,
          slot_.last && errors([slot_.last]),
          slot_.beat && h('p.note', 'last report: ', told(slot_.beat)),
        ),
      ),
    ),
  );
}

/** Completed actions, the last first: the order of undos. */
function trail(item) {
  if (!item.trail.length) return null;
  const marks = [...item.trail].reverse();
  const line = (mark, at) =>
    h(
      'li',
      { key: `${item.trail.length - at}`, class: `fate-${mark.fate}` },
      h('div.row', h('b', mark.action), state(mark.fate)),
      h('div.faint', mark.undo ? `undone by ${mark.undo}` : 'cannot be undone', ' · ', mark.state),
      h('div.faint', brief(mark.arguments)),
    );
  const undone = item.trail.filter((mark) => mark.fate === 'undone').length;
  return section(
    'Trail of compensations',
    {
      key: 'trail',
      note: undone
        ? `${undone} of ${item.trail.length} undone; the last is undone first.`
        : item.open && !item.pivot
          ? 'A rollback now would undo these actions from top to bottom.'
          : 'Completed actions, the last first.',
    },
    h('ol.trail', marks.map(line)),
  );
}

function children(item) {
  if (!item.children.length) return null;
  return section(
    'Children',
    { key: 'children' },
    table(
      [
        { label: 'execution', cell: (row) => id(row.execution, { href: place('executions', row.execution) }) },
        { label: 'subject', cell: (row) => `${words(row.workflow)} of ${row.subject}` },
        { label: 'outcome', cell: (row) => (row.outcome ? state(row.outcome) : state('running')) },
        { label: 'started', cell: (row) => time(row.started_at) },
      ],
      item.children,
      { key: (row) => row.execution, caption: 'Children' },
    ),
  );
}

/** The error of an entry, if it is a real failure and not a pending result. */
function failed({ detail }) {
  const error = detail?.event?.settled?.result?.Err;
  return error && !isPending(error) ? error : null;
}

/** An error that asks for a later check; its class is `{"pending": …}`. */
const isPending = (error) => Boolean(error.class?.pending);

/** The class of an error, in one word. */
const classOf = (error) => (typeof error.class === 'string' ? error.class : Object.keys(error.class ?? {}).join());

/** The summary of a journal entry, in one line. */
function said(entry) {
  const { detail } = entry;
  const inner = detail?.event;
  const settled = inner?.settled;
  const error = settled?.result?.Err;
  if (error) {
    const word = isPending(error) ? state('pending', { as: 'waiting', label: 'not yet' }) : state('failed');
    return [word, ' ', h('code', error.code), ' ', error.message];
  }
  if (settled) return 'done';
  if (inner?.voted)
    return [
      state(inner.voted.vote.verdict === 'approve' ? 'approved' : 'refused'),
      inner.voted.vote.reason && h('q', inner.voted.vote.reason),
    ];
  if (inner?.signalled) return `signal ${inner.signalled.name}`;
  if (detail?.child) return ['started ', execution(detail.child, `${words(detail.workflow)} of ${detail.subject}`)];
  const order = inner && typeof inner === 'object' ? Object.values(inner)[0] : null;
  if (order?.reason) return h('q', order.reason);
  if (detail?.by && detail.by !== 'done') return detail.by;
  return null;
}

function timeline(journal) {
  const start = journal.length ? Date.parse(journal[0].at) : 0;
  const entries = journal.map((entry, at) => ({ ...entry, at_: at })).reverse();
  const limit = 200;
  const line = (entry) =>
    h(
      'li',
      {
        key: `${entry.sequence}.${entry.at_}`,
        class: failed(entry) ? 'bad' : entry.actor !== 'engine' ? 'person' : undefined,
      },
      h('div.when', clock(entry.at), h('small', `+${relativeTo(start, entry.at)}`)),
      h(
        'div.what',
        h(
          'div.line',
          h(
            'span',
            h('b', entry.from === entry.to ? entry.to : [entry.from, ' → ', entry.to]),
            ' ',
            h('span.event', words(entry.event)),
            entry.actor !== 'engine' && [' by ', h('b', entry.actor)],
            entry.detail?.phase && [' ', h('span.state.turn', words(entry.detail.phase))],
          ),
          said(entry) && h('span.said', said(entry)),
          more('raw', json(entry.detail)),
        ),
      ),
    );
  return [
    h('ol.timeline', entries.slice(0, limit).map(line)),
    entries.length > limit &&
      h('p.note', `${entries.length - limit} older entries are not shown: use tenure executions journal.`),
  ];
}

function relativeTo(start, at) {
  const seconds = (Date.parse(at) - start) / 1000;
  return seconds < 60
    ? `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`
    : relative(new Date(start).toISOString(), Date.parse(at)).replace(' ago', '');
}
