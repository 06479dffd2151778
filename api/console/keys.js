// The key of a tenant's own cluster: show, rotate and revoke. A secret is shown once, in a dialog that stays open.

import { h, show } from './dom.js';
import { get, may, post } from './api.js';
import { WHY, change, dialog, quoted } from './dialog.js';
import { time, words } from './format.js';
import { command, facts, trouble } from './components.js';

const at = (cluster, what = '') => `/v1/clusters/${encodeURIComponent(cluster)}/key${what}`;

/** Shows the key of a cluster, with buttons to change it. */
export function clusterKey(cluster) {
  dialog(`The key of ${cluster}`, (close, body) => {
    get(at(cluster)).then(
      (key) => show(body, seen(cluster, key, close)),
      (problem) => show(body, trouble(problem)),
    );
    return h('p.faint', 'Loading…');
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
      'the previous key': key.earlier && [`number ${key.earlier.version} is valid until `, time(key.earlier.holds_until)],
      revoked: key.revoked_at && [time(key.revoked_at), ' by ', key.revoked_by ?? 'an execution'],
      why: key.revoked_for,
    }),
    may('manage_cluster_keys') &&
      h(
        'div.buttons',
        h('button.primary', { type: 'button', onclick: then(rotate) }, 'Issue next key…'),
        key.state !== 'revoked' && h('button.danger', { type: 'button', onclick: then(revoke) }, 'Revoke key…'),
      ),
  ];
}

function rotate(cluster, key) {
  change(`Issue the next key of ${cluster}`, {
    preview: 'The new key is shown once and not stored. The previous key stays valid for a while.',
    label: 'Issue key',
    fields: [
      { name: 'overlap', label: 'Keep the previous key for', value: '1h', required: true, note: '0 ends it now; 7d at most' },
      key.earlier && {
        name: 'lost',
        label: `Key ${key.version}`,
        kind: 'select',
        options: [
          ['', 'is in use'],
          ['lost', 'was lost: it ends, and the previous key stays valid'],
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
        h('p', h('b', 'The key is shown only once.'), ' Install it on the cluster, and store it nowhere else.'),
        command(answer.body.key),
      ]);
      return answer;
    },
    done: () => 'The new key is valid.',
  });
}

function revoke(cluster) {
  change(`Revoke the key of ${cluster}`, {
    preview: 'Both keys become invalid now. The cluster cannot report facts until it has the next key.',
    label: 'Revoke key',
    danger: true,
    confirm: cluster,
    fields: [WHY],
    cli: ({ reason }) => `tenure cluster key revoke ${quoted(cluster)} --reason ${quoted(reason || 'why')}`,
    does: ({ reason }) => post(at(cluster, ':revoke'), { reason }),
    done: () => 'Key revoked.',
  });
}
