// The platform policy: the current version, its history, differences, and the effects of a new text.

import { h, show } from './dom.js';
import { get, getOr, may, post } from './api.js';
import { change, field, typed } from './dialog.js';
import { time } from './format.js';
import { watch } from './live.js';
import {
  command,
  empty,
  heading,
  id,
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
import { here, place, refine } from './route.js';

export const title = 'Policies';

export function render(root) {
  const {
    parts: [, name],
    params,
  } = here();
  show(
    root,
    heading('Policies', {
      about:
        'The platform policy sets quotas, terms and approvers. A version never changes; each decision records its version.',
    }),
    slot('history'),
    slot('text'),
    slot('try'),
  );
  if (may('publish_policy') && !into(root, 'try').firstChild) show(into(root, 'try'), attempt());
  if (!into(root, 'text').firstChild) show(into(root, 'text'), loading());
  const against = params.against;
  return watch(
    async (signal) => {
      const current = await get('/v1/policies/current', {}, { signal });
      const [changes, shown, other] = await Promise.all([
        getOr({ items: [] }, '/v1/policies', { limit: 200 }, { signal }),
        name && name !== 'current' ? get(`/v1/policies/${encodeURIComponent(name)}`, {}, { signal }) : current,
        against ? getOr(null, `/v1/policies/${encodeURIComponent(against)}`, {}, { signal }) : null,
      ]);
      return { current, changes: changes.items, shown, other };
    },
    (seen) => {
      show(into(root, 'history'), history(seen));
      show(into(root, 'text'), seen.other ? compared(seen) : text(seen));
    },
    { every: 15_000, failed: (problem) => show(into(root, 'text'), trouble(problem)) },
  );
}

const BUILT_IN = [1, 2];

function history({ current, changes, shown }) {
  const versions = [...new Set([...BUILT_IN, ...changes.map((change) => change.version), current.id])].sort(
    (a, b) => a - b,
  );
  const option = (version, chosen) =>
    h(
      'option',
      { value: version, selected: version === chosen },
      `version ${version}${version === current.id ? ', in force' : ''}`,
    );
  return section(
    'Versions',
    { aside: state('in force', { as: 'alive', label: `version ${current.id} is in force` }) },
    h(
      'div.filters',
      h(
        'label',
        h('span', 'show'),
        h(
          'select',
          {
            onchange: (event) => {
              location.hash = place('policies', event.target.value);
            },
          },
          versions.map((version) => option(version, shown.id)),
        ),
      ),
      h(
        'label',
        h('span', 'compared with'),
        h(
          'select',
          { onchange: (event) => refine({ against: event.target.value }) },
          h('option', { value: '' }, 'nothing'),
          versions
            .filter((version) => version !== shown.id)
            .map((version) => option(version, Number(here().params.against))),
        ),
      ),
    ),
    changes.length
      ? table(
          [
            { label: 'number', kind: 'number', cell: (row) => row.id },
            {
              label: 'published',
              cell: (row) => h('a', { href: place('policies', row.version) }, `version ${row.version}`),
            },
            { label: 'replaces', cell: (row) => `version ${row.before}` },
            { label: 'author', cell: (row) => row.author },
            { label: 'when', cell: (row) => time(row.effective_from) },
            { label: 'digest', cell: (row) => id(row.digest, { digits: 18 }) },
            {
              label: '',
              cell: (row) => h('a', { href: place('policies', row.version, { against: row.before }) }, 'Show changes'),
            },
          ],
          changes,
          { caption: 'History' },
        )
      : empty(
          'No policy was published: the built-in one is in force.',
          h('code', 'tenure policy publish my-policy.yaml --dry-run'),
        ),
  );
}

function text({ shown }) {
  return section(
    `Version ${shown.id}`,
    {
      key: 'text',
      aside: [shown.author && `by ${shown.author}`, shown.published_at && [' ', time(shown.published_at)]],
    },
    h(
      'pre.numbered',
      { tabindex: '0' },
      shown.text.split('\n').map((line, at) => h('span', { key: `${at}`, 'data-line': String(at + 1) }, `${line}\n`)),
    ),
  );
}

/** The difference of two texts, by their longest common lines. */
export function lines(before, after) {
  const [a, b] = [before.split('\n'), after.split('\n')];
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push([' ', a[i]]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) {
      out.push(['−', a[i]]);
      i += 1;
    } else {
      out.push(['+', b[j]]);
      j += 1;
    }
  }
  return out;
}

function compared({ shown, other }) {
  const all = lines(other.text, shown.text);
  const near = all.map((_, at) => all.slice(Math.max(0, at - 3), at + 4).some(([sign]) => sign !== ' '));
  const changed = all.filter(([sign]) => sign !== ' ').length;
  const rows = all.flatMap(([sign, line], at) =>
    near[at]
      ? [h(`span.${{ ' ': 'same', '+': 'added', '−': 'gone' }[sign]}`, { key: `${at}` }, `${sign} ${line}\n`)]
      : near[at - 1]
        ? [h('span.cut', { key: `cut ${at}` }, '⋯\n')]
        : [],
  );
  return section(
    `From version ${other.id} to version ${shown.id}`,
    { key: 'diff', note: `${changed} lines differ. The built-in policy provides everything that a published policy omits.` },
    h('pre.numbered', { tabindex: '0' }, rows),
    command(`tenure policy diff version-${other.id}.yaml version-${shown.id}.yaml`),
  );
}

/** Publishes the previewed text. */
function publish(tried) {
  change('Publish policy', {
    preview: 'New decisions use the new version. Open executions keep their terms.',
    label: 'Publish policy',
    danger: true,
    confirm: 'publish',
    cli: () => 'tenure policy publish my-policy.yaml',
    does: (_, { key }) => post('/v1/policies', tried, { key, type: 'application/yaml' }),
    done: ({ status, body }) =>
      status === 202 ? `A second person must confirm: tenure proposals second ${body.proposal}` : 'Policy published.',
  });
}

/** Previews a policy text: its errors with their positions, or its effects. */
function attempt() {
  const answer = h('div.answer', { 'aria-live': 'polite' });
  const form = h(
    'form',
    {
      onsubmit: async (event) => {
        event.preventDefault();
        const { text: tried } = typed(form);
        try {
          const { body } = await post('/v1/policies:plan', tried, { type: 'application/yaml' });
          show(
            answer,
            h(
              'div.preview',
              h(
                'p',
                h('b', 'The policy is valid. '),
                `${body.untouched?.length ?? 0} open executions would keep their terms.`,
              ),
              more('Effects', json(body)),
              command('tenure policy publish my-policy.yaml'),
              h(
                'button.danger',
                { type: 'button', 'data-order': 'publish', onclick: () => publish(tried) },
                'Publish policy…',
              ),
            ),
          );
        } catch (problem) {
          show(answer, trouble(problem));
        }
      },
    },
    field({
      name: 'text',
      label: 'Text',
      kind: 'area',
      rows: 8,
      required: true,
      hint: 'policy: platform\nversion: 3\n…',
    }),
    h('div.buttons', h('button', { type: 'submit' }, 'Preview (changes nothing)')),
    answer,
  );
  return section(
    'Preview a policy',
    { note: 'Runs all checks of a publication, including the policy’s own examples. Publishes nothing.' },
    form,
  );
}
