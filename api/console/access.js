// Who may do what: the policies of access in force, those that were, and whether somebody may do something.

import { h, show } from './dom.js';
import { get, getOr, me } from './api.js';
import { field, quoted, typed } from './dialog.js';
import { time, words } from './format.js';
import { watch } from './live.js';
import { command, id, into, loading, more, section, slot, state, table, trouble } from './components.js';

/** Whether they may, why, and what would have to be otherwise. */
function answered(seen) {
  return h(
    'div.preview',
    h(
      'p',
      state(seen.allows ? 'permitted' : 'refused', { as: seen.allows ? 'alive' : 'refused' }),
      ` ${words(seen.action)}: ${seen.why}.`,
    ),
    !seen.allows && seen.may.length > 0 && h('p', `By their roles these may: ${seen.may.map(words).join(', ')}.`),
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
    field({ name: 'action', label: 'Action', required: true, hint: 'hold_store', note: 'such as change_quota; the shipped policies below name them all' }),
    h('div.buttons', h('button', { type: 'submit' }, 'May they?')),
    answer,
  );
  return section('May they?', { note: 'Asked as if they called now, from an address that is not known.' }, form);
}

function policies({ current, versions }) {
  const lines = (text) => h('pre', { tabindex: '0' }, text);
  return section(
    'Policies of access',
    {
      aside: ['version ', id(current.id, { digits: 12 })],
      note: 'What no policy permits is refused; what one forbids is refused whatever others permit. A house writes its own into the file that access.policies names.',
    },
    current.text ? lines(current.text) : h('p.faint', 'The house adds none: the shipped ones hold.'),
    more('The shipped ones', lines(current.shipped ?? '')),
    versions.length > 0 &&
      table(
        [
          { label: 'version', cell: (row) => id(row.id, { digits: 12 }) },
          { label: 'since', cell: (row) => time(row.since) },
          { label: 'stands', cell: (row) => state(row.in_force ? 'in force' : 'over', { as: row.in_force ? 'alive' : 'over' }) },
          { label: 'file', kind: 'wide', cell: (row) => row.file },
        ],
        versions,
        { key: (row) => row.id, caption: 'What the house had in force' },
      ),
  );
}

/** Who may do what. */
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
