// Notification channels with their waiting and dead deliveries, and a test button.

import { h, show } from './dom.js';
import { get, getOr, may, post } from './api.js';
import { WHY, change, quoted } from './dialog.js';
import { number, time, words } from './format.js';
import { watch } from './live.js';
import { empty, section, state, table, trouble } from './components.js';

export function channels(root) {
  return watch(
    async (signal) => {
      const none = { items: [] };
      const { items } = await get('/v1/channels', { limit: 1000 }, { signal });
      const of = (row) => `/v1/channels/${encodeURIComponent(row.id)}/deliveries`;
      const dead = await Promise.all(
        items.map((row) => (row.dead ? getOr(none, of(row), { state: 'dead', limit: 50 }, { signal }) : none)),
      );
      return { items, dead: dead.flatMap((found) => found.items) };
    },
    ({ items, dead }) => show(root, list(items), dead.length > 0 && letters(dead)),
    { every: 5000, failed: (problem) => show(root, trouble(problem)) },
  );
}

function list(items) {
  return section(
    'Channels',
    { note: 'Where notifications are sent. The configuration sets the channels and their events.' },
    items.length
      ? table(
          [
            { label: 'channel', cell: (row) => h('b', row.id) },
            { label: 'kind', cell: (row) => words(row.kind) },
            {
              label: 'quiet hours',
              cell: (row) => row.quiet && `${row.quiet.from} to ${row.quiet.to}, ${row.quiet.zone}`,
            },
            { label: 'waiting', kind: 'number', cell: (row) => number(row.waiting) },
            { label: 'dead letters', kind: 'number', cell: (row) => number(row.dead) },
            {
              label: '',
              cell: (row) =>
                may('manage_channels') && h('button', { type: 'button', onclick: () => test(row) }, 'Test…'),
            },
          ],
          items,
          { key: (row) => row.id, caption: 'Channels' },
        )
      : empty('No channel is configured, so no notifications are sent.', h('code', 'notify.channels'), ' in the configuration adds channels.'),
  );
}

function letters(dead) {
  return section(
    'Dead letters',
    { note: 'Deliveries that failed permanently after all retries.' },
    table(
      [
        { label: 'channel', cell: (row) => row.channel },
        { label: 'event', cell: (row) => [state('dead', { label: row.event }), ' ', time(row.at)] },
        { label: 'text', kind: 'wide', cell: (row) => row.text },
        { label: 'last answer', kind: 'wide', cell: (row) => row.answer },
        {
          label: '',
          cell: (row) =>
            may('manage_channels') && [
              h('button', { type: 'button', onclick: () => resend(row) }, 'Send again…'),
              h('button.plain', { type: 'button', onclick: () => discard(row) }, 'Give up…'),
            ],
        },
      ],
      dead,
      { key: (row) => `${row.channel}/${row.id}`, caption: 'Dead letters' },
    ),
  );
}

function test(row) {
  change(`Test channel ${row.id}`, {
    preview: 'Sends a test notification now.',
    cli: () => `tenure notify test ${row.id}`,
    does: (_, { key }) => post(`/v1/channels/${encodeURIComponent(row.id)}:test`, {}, { key }),
    done: ({ body }) => (body.state === 'delivered' ? `Delivered: ${body.answer}` : `Not delivered: ${body.answer}`),
  });
}

function resend(row) {
  change('Send again', {
    preview: `Sends ${row.event} to ${row.channel} again, as a new delivery.`,
    cli: () => `tenure notify resend ${row.channel} ${row.id}`,
    does: (_, { key }) =>
      post(
        `/v1/channels/${encodeURIComponent(row.channel)}/deliveries/${encodeURIComponent(row.id)}:resend`,
        {},
        { key },
      ),
    done: () => 'Sent again.',
  });
}

function discard(row) {
  change('Give up delivery', {
    preview: `Gives up: ${row.event} is not sent through ${row.channel} again.`,
    fields: [WHY],
    danger: true,
    cli: ({ reason }) => `tenure notify discard ${row.channel} ${row.id} --reason ${quoted(reason || 'TEXT')}`,
    does: ({ reason }, { key }) =>
      post(
        `/v1/channels/${encodeURIComponent(row.channel)}/deliveries/${encodeURIComponent(row.id)}:discard`,
        { reason },
        { key },
      ),
    done: () => 'Delivery given up.',
  });
}
