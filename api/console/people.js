// Users, groups and delegations.

import { h, show } from './dom.js';
import { ask, getOr, may, me, post } from './api.js';
import { change, dialog, quoted } from './dialog.js';
import { time, words } from './format.js';
import { watch } from './live.js';
import { command, section, state, table, trouble } from './components.js';

const ROLES = [
  'platform_ops',
  'capacity_manager',
  'finance',
  'security',
  'compliance',
  'dpo',
  'tenant_owner',
  'auditor',
  'breakglass',
  'admin',
];

/** Adds a user. The token is shown once, in a dialog that stays open. */
function add() {
  change('Add a user', {
    preview: 'The token is shown once and not stored.',
    label: 'Add user',
    fields: [
      { name: 'name', label: 'Name', required: true, hint: 'olga' },
      { name: 'role', label: 'Role', kind: 'select', required: true, options: ROLES.map((role) => [role, words(role)]) },
      { name: 'tenant', label: 'Tenant', note: 'required for a tenant owner; optional for others' },
      {
        name: 'kind',
        label: 'Type',
        kind: 'select',
        options: [
          ['person', 'a person'],
          ['service', 'a service account, which cannot vote'],
        ],
      },
      { name: 'expires', label: 'Token expires after', hint: '90d' },
    ],
    cli: ({ name, role, tenant, kind, expires }) =>
      `tenure user add ${quoted(name || 'olga')} --role ${role}${tenant ? ` --tenant ${quoted(tenant)}` : ''}${
        kind === 'service' ? ' --service' : ''
      }${expires ? ` --expires ${quoted(expires)}` : ''}`,
    does: async ({ name, role, tenant, kind, expires }, { key }) => {
      const more = { ...(tenant ? { tenant } : {}), ...(expires ? { expires } : {}) };
      const answer = await post('/v1/users', { name, roles: [role], kind, ...more }, { key });
      if (answer.body.token)
        dialog(`The token of ${name}`, () => [
          h('p', h('b', 'The token is shown only once.'), ' Give it only to this user.'),
          command(answer.body.token),
        ]);
      return answer;
    },
    done: () => 'User added.',
  });
}

function remove(row) {
  change(`Remove ${row.name}`, {
    preview: 'The user’s tokens become invalid now. The audit keeps the user’s entries.',
    label: 'Remove user',
    danger: true,
    confirm: row.name,
    cli: () => `tenure user remove ${quoted(row.name)}`,
    does: () => ask('DELETE', `/v1/users/${encodeURIComponent(row.name)}`),
    done: () => 'User removed.',
  });
}

/** The users of the service. */
export function people(root) {
  return watch(
    async (signal) => {
      const none = { items: [] };
      const [users, groups, delegations] = await Promise.all([
        getOr(none, '/v1/users', { limit: 500 }, { signal }),
        getOr(none, '/v1/groups', { limit: 200 }, { signal }),
        getOr(none, '/v1/delegations', { limit: 200 }, { signal }),
      ]);
      return { users: users.items, groups: groups.items, delegations: delegations.items };
    },
    ({ users, groups, delegations }) =>
      show(
        root,
        section(
          'Users',
          {
            aside: may('manage_users') && h('button', { type: 'button', 'data-order': 'user', onclick: add }, 'Add user…'),
            note: 'Users of the identity provider are not listed: their groups give them roles.',
          },
          table(
            [
              { label: 'user', cell: (row) => [h('b', row.name), row.kind === 'service' && h('span.faint', ', service account')] },
              { label: 'roles', cell: (row) => row.roles.map(words).join(', ') },
              { label: 'tenant', cell: (row) => row.tenant ?? 'all tenants' },
              { label: 'since', cell: (row) => time(row.created_at) },
              { label: 'added by', cell: (row) => row.created_by },
              {
                label: '',
                cell: (row) =>
                  may('manage_users') &&
                  row.name !== me?.name &&
                  h('button', { type: 'button', onclick: () => remove(row) }, 'Remove…'),
              },
            ],
            users,
            { key: (row) => row.name, caption: 'Users' },
          ),
        ),
        section(
          'Groups',
          {},
          groups.length
            ? table(
                [
                  { label: 'group', cell: (row) => h('b', row.name) },
                  { label: 'members', kind: 'wide', cell: (row) => (row.members ?? []).join(', ') },
                ],
                groups,
                { key: (row) => row.name, caption: 'Groups' },
              )
            : h('p.faint', 'No group exists.'),
        ),
        section(
          'Delegations',
          {},
          delegations.length
            ? table(
                [
                  { label: 'delegator', cell: (row) => row.from },
                  { label: 'delegate', cell: (row) => row.to },
                  { label: 'roles', cell: (row) => (row.roles.length ? row.roles.map(words).join(', ') : 'all') },
                  { label: 'until', cell: (row) => time(row.until) },
                  { label: 'status', cell: (row) => state(row.state) },
                  { label: 'reason', kind: 'wide', cell: (row) => row.reason },
                ],
                delegations,
                { caption: 'Delegations' },
              )
            : h('p.faint', 'No delegation exists.'),
        ),
      ),
    { every: 15_000, failed: (problem) => show(root, trouble(problem)) },
  );
}
