// Schedules and their occurrences.

import { h, show } from './dom.js';
import { get, may, post } from './api.js';
import { WHY, change, quoted } from './dialog.js';
import { time, words } from './format.js';
import { filters, list } from './list.js';
import { watch } from './live.js';
import {
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
  trouble,
} from './components.js';
import { brief, told } from './plan.js';
import { here, place } from './route.js';

export const title = 'Schedules';

export function render(root) {
  const {
    parts: [, name],
    params,
  } = here();
  if (name) return one(root, name, params);
  show(
    root,
    heading('Schedules', {
      about: 'Workflows that start at set times. Each occurrence is recorded with its result and reason. Built-in schedules maintain the platform.',
    }),
    slot('list'),
  );
  return list(into(root, 'list'), {
    path: '/v1/schedules',
    key: (row) => row.name,
    href: (row) => place('schedules', row.name),
    caption: 'Schedules',
    size: 100,
    every: 8000,
    none: empty('No schedule exists.', h('code', 'tenure schedules set NAME -f schedule.yaml')),
    columns: [
      {
        label: 'schedule',
        cell: (row) => [
          h('a', { href: place('schedules', row.name) }, row.name),
          row.kind === 'built_in' && h('span.faint', ' built in'),
        ],
      },
      { label: 'when', cell: (row) => [h('code', row.cron), h('span.faint', ` ${row.zone}`)] },
      { label: 'workflow', cell: (row) => (row.start ? words(row.start.workflow) : 'built-in task') },
      { label: 'next', cell: (row) => time(row.next) },
      {
        label: 'status',
        cell: (row) =>
          row.paused ? state('paused', { title: row.paused.reason }) : state('in force', { as: 'alive' }),
      },
      { label: 'set by', cell: (row) => row.set_by ?? h('span.faint', 'policy') },
      { label: 'note', kind: 'wide', cell: (row) => row.note },
    ],
  });
}

function one(root, name, params) {
  const at = `/v1/schedules/${encodeURIComponent(name)}`;
  if (!into(root, 'about'))
    show(root, slot('about'), section('Occurrences', { key: 'occurrences' }, slot('filters'), slot('list')));
  if (!into(root, 'about').firstChild) show(into(root, 'about'), loading());
  show(
    into(root, 'filters'),
    filters([
      {
        name: 'fate',
        label: 'result',
        kind: 'select',
        options: ['pending', 'buffered', 'fired', 'missed', 'skipped', 'merged', 'failed'],
      },
      { name: 'origin', label: 'started by', kind: 'select', options: ['clock', 'trigger', 'backfill'] },
      { name: 'from', label: 'from', kind: 'date' },
      { name: 'to', label: 'to', kind: 'date' },
    ]),
  );
  const day = (text) => (text ? `${text}T00:00:00Z` : undefined);
  return [
    watch(
      (signal) => get(at, {}, { signal }),
      (item) => show(into(root, 'about'), ...about(item)),
      {
        every: 5000,
        failed: (problem) =>
          show(into(root, 'about'), heading('Schedule', { back: [place('schedules'), 'Schedules'] }), trouble(problem)),
      },
    ),
    list(into(root, 'list'), {
      path: `${at}/occurrences`,
      params: { fate: params.fate, origin: params.origin, from: day(params.from), to: day(params.to) },
      key: (row) => `${row.nominal} ${row.origin}`,
      caption: 'Occurrences',
      none: empty('No occurrence is recorded yet.'),
      every: 5000,
      columns: [
        { label: 'time', cell: (row) => time(row.nominal) },
        { label: 'result', cell: (row) => state(row.fate) },
        { label: 'by', cell: (row) => [words(row.origin), row.by && ` (${row.by})`] },
        { label: 'reason', kind: 'wide', cell: (row) => row.reason },
        { label: 'execution', cell: (row) => row.execution && execution(row.execution) },
        { label: 'outcome', cell: (row) => row.outcome && state(row.outcome) },
        {
          label: '',
          cell: (row) =>
            row.fate === 'buffered' &&
            may('manage_schedules') &&
            h('button', { type: 'button', onclick: () => skip(name, row) }, 'Skip…'),
        },
      ],
    }),
  ];
}

function about(item) {
  return [
    heading(h('span', 'Schedule ', h('b', item.name)), {
      back: [place('schedules'), 'Schedules'],
      about: [h('code', item.cron), ` in ${item.zone}`, item.note && ` — ${item.note}`],
      aside: may('manage_schedules') && h('div.buttons', buttons(item)),
    }),
    item.paused && h('div.callout.wait', { key: 'paused' }, h('b', 'Paused'), told(item.paused)),
    h(
      'div.columns.even',
      { key: 'columns' },
      section(
        'Next',
        { key: 'next' },
        item.firing.length
          ? table(
              [
                { label: `in ${item.zone}`, cell: (row) => row.local.replace('T', ' ') },
                item.zone !== 'UTC' && { label: 'in UTC', cell: (row) => row.utc.slice(0, 19).replace('T', ' ') },
                { label: 'with jitter', cell: (row) => time(row.due) },
              ].filter(Boolean),
              item.firing,
              { key: (row) => row.utc, caption: 'The next five occurrences' },
            )
          : h('p.faint', item.paused ? 'None while the schedule is paused.' : 'None.'),
      ),
      section(
        'Rules',
        { key: 'rules' },
        facts({
          workflow: item.start
            ? [words(item.start.workflow), ' ', h('span.faint', brief(item.start.data))]
            : 'built-in task',
          overlap: words(item.overlap),
          'catch-up': words(item.catch_up),
          'catch-up window': item.window,
          jitter: item.jitter,
          'skipped local hour': item.skipped_hour,
          'repeated local hour': item.repeated_hour,
          'pauses on failure': item.pause_on_failure ? 'yes' : 'no',
          'set by': item.set_by,
          'excluded days': item.exclude.length > 0 && told(item.exclude),
          version: String(item.version),
        }),
        item.waiting.length > 0 && h('p', `Waiting: ${item.waiting.length}`),
        item.backfills.length > 0 && h('p', 'Backfills: ', told(item.backfills)),
        more('Stored record', json(item)),
      ),
    ),
  ];
}

function buttons(item) {
  const act = (verb, title_, more_ = {}) =>
    change(title_, {
      cli: (values) =>
        `tenure schedules ${verb} ${item.name}${values.reason ? ` --reason ${quoted(values.reason)}` : ''}${values.from ? ` --from ${values.from} --to ${values.to}` : ''}`,
      does: (values, { key }) =>
        post(
          `/v1/schedules/${encodeURIComponent(item.name)}:${verb}`,
          verb === 'trigger' || verb === 'resume' ? {} : values,
          { key },
        ),
      ...more_,
    });
  return [
    item.paused
      ? h(
          'button',
          {
            type: 'button',
            onclick: () =>
              act('resume', 'Resume', {
                preview: 'The schedule fires again. Its catch-up rule decides about missed occurrences.',
              }),
          },
          'Resume…',
        )
      : h(
          'button',
          {
            type: 'button',
            onclick: () =>
              act('pause', 'Pause', { preview: 'The schedule starts nothing until it is resumed.', fields: [WHY] }),
          },
          'Pause…',
        ),
    h(
      'button',
      {
        type: 'button',
        onclick: () =>
          act('trigger', 'Run now', {
            preview: 'Triggers an occurrence now. If a run is open, the overlap rule decides.',
            done: ({ body }) => `Result: ${words(body?.fate ?? 'requested')}.`,
          }),
      },
      'Run now…',
    ),
    item.kind !== 'built_in' &&
      h(
        'button',
        {
          type: 'button',
          onclick: () =>
            act('backfill', 'Backfill a period', {
              preview: 'Starts every occurrence of the period, the oldest first.',
              fields: [
                { name: 'from', label: 'From', required: true, hint: '2026-11-01T00:00:00Z' },
                { name: 'to', label: 'To', required: true, hint: '2026-11-02T00:00:00Z' },
              ],
            }),
        },
        'Backfill…',
      ),
  ];
}

function skip(name, row) {
  change('Skip occurrence', {
    fields: [WHY],
    cli: ({ reason }) => `tenure schedules skip ${name} ${row.nominal} --reason ${quoted(reason || 'why')}`,
    does: ({ reason }, { key }) =>
      post(`/v1/schedules/${encodeURIComponent(name)}:skip`, { nominal: row.nominal, reason }, { key }),
  });
}
