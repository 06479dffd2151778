// The access policies in force, their history, and a check of a user's permissions.

import { h, show } from './dom.js';
import { get, getOr, me } from './api.js';
import { field, quoted, typed } from './dialog.js';
import { time, words } from './format.js';
import { watch } from './live.js';
import { command, id, into, loading, more, section, slot, state, table, trouble } from './components.js';

/** The result of a check: the answer, the reason, and the roles that may do it. */
function answered(seen) {
  return h(
    'div.preview',
    h(
      'p',
      state(seen.allows ? 'permitted' : 'refused', { as: seen.allows ? 'alive' : 'refused' }),
      ` ${words(seen.action)}: ${seen.why}.`,
    ),
    !seen.allows && seen.may.length > 0 && h('p', `Allowed roles: ${seen.may.map(words).join(', ')}.`),
  );
}

function question() {
  const answer = h('div.answer', { 'aria-live': 'polite' });
  const form = h(
    'form',
    {
      onsubmit: async (event) => {
        event.preventDefault();
        const { user, action } = typed(form);
        try {
          const seen = await get('/v1/access', { user, action });
          show(answer, answered(seen), command(`tenure access explain ${quoted(action)} --user ${quoted(user)}`));
        } catch (problem) {
          show(answer, trouble(problem));
        }
      },
    },
    field({ name: 'user', label: 'User', required: true, hint: me?.name ?? 'olga' }),
    field({ name: 'action', label: 'Action', required: true, hint: 'hold_store', note: 'such as change_quota; the built-in policies below list all actions' }),
    h('div.buttons', h('button', { type: 'submit' }, 'Check permission')),
    answer,
  );
  return section('Check a permission', { note: 'The check assumes a call from an unknown address now.' }, form);
}

function policies({ current, versions }) {
  const lines = (text) => h('pre', { tabindex: '0' }, text);
  return section(
    'Access policies',
    {
      aside: ['version ', id(current.id, { digits: 12 })],
      note: 'Requests without a permit are rejected; a forbid overrides every permit. The file at access.policies adds the operator’s own policies.',
    },
    current.text ? lines(current.text) : h('p.faint', 'The operator has added no policies; only the built-in ones apply.'),
    more('Built-in policies', lines(current.shipped ?? '')),
    versions.length > 0 &&
      table(
        [
          { label: 'version', cell: (row) => id(row.id, { digits: 12 }) },
          { label: 'since', cell: (row) => time(row.since) },
          { label: 'status', cell: (row) => state(row.in_force ? 'in force' : 'over', { as: row.in_force ? 'alive' : 'over' }) },
          { label: 'file', kind: 'wide', cell: (row) => row.file },
        ],
        versions,
        { key: (row) => row.id, caption: 'History of the operator’s policies' },
      ),
  );
}

/** The page of access policies. */
export function access(root) {
  if (!into(root, 'access-question')) show(root, slot('access-question'), slot('access-policies'));
  show(into(root, 'access-question'), question());
  show(into(root, 'access-policies'), loading());
  return watch(
    async (signal) => {
      const [current, versions] = await Promise.all([
        get('/v1/access-policies/current', {}, { signal }),
        getOr({ items: [] }, '/v1/access-policies', { limit: 100 }, { signal }),
      ]);
      return { current, versions: versions.items };
    },
    (seen) => show(into(root, 'access-policies'), policies(seen)),
    { every: 15_000, failed: (problem) => show(into(root, 'access-policies'), trouble(problem)) },
  );
}
