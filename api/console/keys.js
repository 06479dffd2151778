// The key of a tenant's own cluster: which it has, the next one, and its end. A secret is shown once, in a dialog that goes on standing.

import { h, show } from './dom.js';
import { get, may, post } from './api.js';
import { WHY, change, dialog, quoted } from './dialog.js';
import { time, words } from './format.js';
import { command, facts, trouble } from './components.js';

const at = (cluster, what = '') => `/v1/clusters/${encodeURIComponent(cluster)}/key${what}`;

/** Shows which key a cluster has, and lets whoever may change it. */
export function clusterKey(cluster) {
  dialog(`The key of ${cluster}`, (close, body) => {
    get(at(cluster)).then(
      (key) => show(body, seen(cluster, key, close)),
      (problem) => show(body, trouble(problem)),
    );
    return h('p.faint', 'Reading it…');
  });
}

function seen(cluster, key, close) {
  const then = (next) => () => {
    close();
    next(cluster, key);
  };
  return [
    facts({
      tenant: key.tenant,
      key: `number ${key.version}, ${words(key.state)}`,
      issued: [time(key.issued_at), ' by ', key.issued_by ?? 'an execution'],
      'the one before': key.earlier && [`number ${key.earlier.version} holds until `, time(key.earlier.holds_until)],
      revoked: key.revoked_at && [time(key.revoked_at), ' by ', key.revoked_by ?? 'an execution'],
      why: key.revoked_for,
    }),
    may('manage_cluster_keys') &&
      h(
        'div.buttons',
        h('button.primary', { type: 'button', onclick: then(rotate) }, 'Issue the next…'),
        key.state !== 'revoked' && h('button.danger', { type: 'button', onclick: then(revoke) }, 'Revoke it…'),
      ),
  ];
}

function rotate(cluster, key) {
  change(`The next key of ${cluster}`, {
    preview: 'It is shown once, and kept by nobody. The one before holds for a while beside it.',
    label: 'Issue it',
    fields: [
      { name: 'overlap', label: 'The one before holds for', value: '1h', required: true, note: '0 ends it at once; 7d at most' },
      key.earlier && {
        name: 'lost',
        label: `Key ${key.version}`,
        kind: 'select',
        options: [
          ['', 'is in use'],
          ['lost', 'was lost: it ends, and the one before it holds on'],
        ],
      },
      { ...WHY, required: false },
    ].filter(Boolean),
    cli: ({ overlap, lost, reason }) =>
      `tenure cluster key rotate ${quoted(cluster)} --overlap ${quoted(overlap || '1h')}${lost ? ' --lost' : ''}${
        reason ? ` --reason ${quoted(reason)}` : ''
      }`,
    does: async ({ overlap, lost, reason }, { key: once }) => {
      const answer = await post(at(cluster, ':rotate'), { overlap, lost: Boolean(lost), reason }, { key: once });
      dialog(`Key ${answer.body.version} of ${cluster}`, () => [
        h('p', h('b', 'It is shown this once:'), ' put it where the cluster reads it, and nowhere else.'),
        command(answer.body.key),
      ]);
      return answer;
    },
    done: () => 'The next key holds.',
  });
}

function revoke(cluster) {
  change(`Revoke the key of ${cluster}`, {
    preview: 'It opens nothing from then on, and the one before neither: nothing is heard of the cluster until it has the next one.',
    label: 'Revoke it',
    danger: true,
    confirm: cluster,
    fields: [WHY],
    cli: ({ reason }) => `tenure cluster key revoke ${quoted(cluster)} --reason ${quoted(reason || 'why')}`,
    does: ({ reason }) => post(at(cluster, ':revoke'), { reason }),
    done: () => 'The key opens nothing any more.',
  });
}
