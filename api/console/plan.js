// A plan as approvers see it: created, changed, evicted and destroyed objects line by line, then the details.

import { h } from './dom.js';
import { id, more, json } from './components.js';
import { bytes, many, number, resource, words } from './format.js';

const scalar = (value) => value === null || typeof value !== 'object';

/** A name of the API, such as `dedicated_nodes`, in words; other text unchanged. */
const named = (text) => (/^[a-z]+(_[a-z]+)+$/.test(text) ? words(text) : text);

/** Any value, as text or as nested facts. */
export function told(value) {
  if (value === null || value === undefined || value === '') return h('span.faint', 'none');
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return number(value, 3);
  if (typeof value === 'string') return /^sha256:/.test(value) ? id(value, { digits: 14 }) : named(value);
  if (Array.isArray(value)) {
    if (!value.length) return h('span.faint', 'none');
    return value.every(scalar)
      ? value.map(String).join(', ')
      : h(
          'ul.plain',
          value.map((item) => h('li', told(item))),
        );
  }
  const entries = Object.entries(value).filter(([, item]) => item !== null && item !== '');
  if (!entries.length) return h('span.faint', 'none');
  if (entries.every(([, item]) => scalar(item)))
    return entries
      .map(([name, item]) => `${words(name)} ${typeof item === 'boolean' ? (item ? 'yes' : 'no') : named(String(item))}`)
      .join(', ');
  return h(
    'dl.facts.inner',
    entries.map(([name, item]) => h('div', h('dt', words(name)), h('dd', told(item)))),
  );
}

/** `{"queue": {"workspace": "research", …}}` as type and name. */
function object(item) {
  const [[kind, about]] = Object.entries(item);
  if (scalar(about)) return [words(kind), String(about)];
  if (Array.isArray(about)) return [words(kind), about.join(', ')];
  const { workspace, ...rest } = about;
  if (!workspace && !Object.keys(rest).length) return [words(kind), h('span.faint', "the tenant's")];
  return [words(kind), workspace ? `${workspace}` : '', Object.keys(rest).length ? brief(rest) : null];
}

/** Bytes in a suitable unit, because plans use the units of Kubernetes; and times from milliseconds. */
function amount(name, item) {
  if (typeof item !== 'number') return undefined;
  if (/^(requests\.|limits\.)?(memory|storage)$/.test(name)) return bytes(item);
  return /(^|_)at$/.test(name) && item > 1e12 ? moment(item) : undefined;
}

const moment = (millis) => `${new Date(millis).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** A value in one line: `hold yes; quotas: nominal 32, lending limit 8`. */
export function brief(value) {
  if (value === null || value === undefined || value === '') return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (scalar(value)) return named(String(value));
  if (!Object.keys(value).length) return 'none';
  if (Array.isArray(value)) return value.map(brief).join(value.every(scalar) ? ', ' : '; ');
  const entries = Object.entries(value).filter(([, item]) => item !== null);
  return entries
    .map(([name, item]) => `${words(name)}${scalar(item) ? ' ' : ': '}${amount(name, item) ?? brief(item)}`)
    .join(entries.every(([, item]) => scalar(item)) ? ', ' : '; ');
}

function line(sign, kind, which, rest) {
  const tone = { '+': 'add', '~': 'alter', '−': 'take', '×': 'destroy' }[sign];
  return h(
    `li.${tone}`,
    h('span.sign', { 'aria-hidden': 'true' }, sign),
    h('span.kind', kind),
    h('span.which', which, rest && h('span.rest', rest)),
  );
}

function group(title, lines, note) {
  if (!lines.length) return null;
  const shown = lines.slice(0, 40);
  return h(
    'section.group',
    { key: title },
    h('h3', `${title} `, h('span.count', String(lines.length))),
    note && h('p.note', note),
    h('ul.diff', shown),
    lines.length > shown.length && more(`${lines.length - shown.length} more`, h('ul.diff', lines.slice(40))),
  );
}

/** The lines for the differences of two values. */
function differences(before, after, path = '') {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (scalar(before) || scalar(after) || Array.isArray(before) || Array.isArray(after)) {
    return [line('~', words(path) || 'value', h('span', h('del', brief(before)), ' → ', h('ins', brief(after))))];
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) =>
    differences(before[name] ?? null, after[name] ?? null, path ? `${path}.${name}` : name),
  );
}

function price(price) {
  if (!price || price.cents_per_month === undefined) return null;
  const class_ = price.class ? ` (${words(price.class)})` : '';
  return `${number(price.cents_per_month / 100, 2)} per month at the policy’s prices${class_}`;
}

/** The permanently destroyed objects of a plan, after the known exceptions. */
function destroyed({ destroys, nodes = [], sanitise }) {
  const exceptions = (destroys?.exceptions ?? []).map((why) => line('~', 'not covered', why));
  const things = (destroys?.things ?? []).map((thing) => line('×', 'destroy', thing.thing ?? told(thing), thing.uid));
  const wiped = [...(Array.isArray(nodes) ? nodes : []), { sanitise }]
    .filter((node) => node?.sanitise)
    .map(({ sanitise }) =>
      line('×', 'sanitise', sanitise.node, `drives: ${sanitise.drives}, GPU memory: ${sanitise.gpu_memory}`),
    );
  return [...exceptions, ...things, ...wiped];
}

/** Returns true if the plan destroys data permanently. */
export function destroys(plan) {
  return Boolean(plan?.decides?.destroys) || destroyed(plan?.decides ?? {}).length > 0;
}

/** The changed terms with their own `before` and `after`, by name. */
function inner(decides) {
  const own = Object.entries(decides).filter(
    ([, value]) => value && typeof value === 'object' && value.before !== undefined && value.after !== undefined,
  );
  const spaces = (Array.isArray(decides.workspaces) ? decides.workspaces : [])
    .filter((one) => one?.before && one?.after)
    .map((one) => [`workspace ${one.name}`, one]);
  return [...own, ...spaces].flatMap(([name, value]) => differences(value.before, value.after, name));
}

const TOLD = [
  'approvals',
  'objects',
  'price',
  'policy',
  'before',
  'after',
  'evictions',
  'destroys',
  'nodes',
  'kind',
  'tenant',
  'simulated',
  'breaches',
  'cause',
  'sanitise',
  'changes_since_last_inventory',
];

/** The cause of the request, and the exceeded bounds. */
function reasons({ cause, breaches = [] }) {
  return [
    cause && [
      'Cause',
      scalar(cause)
        ? cause
        : `${words(cause.kind ?? 'this')}: ${Object.entries(cause)
            .filter(([name]) => name !== 'kind')
            .map(([name, value]) => `${words(name)} ${value}`)
            .join(', ')}`,
    ],
    breaches.length > 0 && [
      'Exceeds',
      breaches
        .map(
          (breach) =>
            `${words(breach.breach)}: ${breach.victims} of ${breach.capacity} ${resource(String(breach.kind).split('/')[0])} is more than ${breach.percent} %`,
        )
        .join('; '),
    ],
  ].filter(Boolean);
}

/** The candidates of a reclaim with their verdicts. */
export function candidates(explanation) {
  const all = explanation?.candidates ?? [];
  if (!all.length) return null;
  const why = {
    taken: 'evicted',
    policy: 'protected by policy',
    not_needed: 'not needed',
    protected: 'protected',
  };
  return h(
    'ul.candidates',
    all.map((candidate) =>
      h(
        `li${candidate.verdict === 'taken' ? '.taken' : ''}`,
        h('b', candidate.workload),
        ` of ${candidate.workspace}: `,
        why[candidate.verdict] ?? words(candidate.verdict),
        candidate.reason && h('span.faint', ` (${words(candidate.reason)})`),
      ),
    ),
  );
}

/** The plan: effects, terms, then the parts that may still vary. */
export function shown(plan) {
  if (!plan) return h('p.faint', 'There is no plan.');
  const decides = plan.decides ?? {};
  const made = (decides.objects ?? []).map((item) => line('+', ...object(item)));
  const altered = [
    ...(decides.before && decides.after ? differences(decides.before, decides.after) : []),
    ...inner(decides),
  ];
  const evicted = (decides.evictions ?? []).map((victim) =>
    line(
      '−',
      'evict',
      `${victim.tenant}/${victim.evict}`,
      `${victim.workspace}, ${victim.class}; notice ${victim.grace_seconds} s, checkpoint: ${victim.checkpoint}, scrub: ${victim.scrub}`,
    ),
  );
  const gone = destroyed(decides);
  const since = (decides.changes_since_last_inventory ?? []).map((change) => line('~', 'changed', change));
  const terms = Object.entries(decides).filter(
    ([name, value]) =>
      !TOLD.includes(name) &&
      value !== null &&
      value?.before === undefined &&
      !(name === 'workspaces' && value.some((one) => one?.before || made.length > 0)),
  );
  return h(
    'div.plan',
    reasons(decides).length > 0 &&
      h(
        'dl.facts',
        reasons(decides).map(([name, value]) => h('div', h('dt', name), h('dd', value))),
      ),
    group('Changed since the last inventory', since, 'An earlier plan did not show this.'),
    group('Permanently destroyed', gone, 'These objects cannot be restored.'),
    group('Evicted', evicted),
    group('Changed', altered),
    terms.length + (decides.price ? 1 : 0) > 0 &&
      h(
        'section.group',
        { key: 'terms' },
        h('h3', 'Terms'),
        h(
          'dl.facts',
          decides.price && h('div', h('dt', 'price'), h('dd', price(decides.price))),
          terms.map(([name, value]) => h('div', h('dt', words(name)), h('dd', told(value)))),
          decides.policy &&
            h('div', h('dt', 'policy'), h('dd', `${decides.policy.name} version ${decides.policy.version}`)),
        ),
      ),
    group('Created', made),
    placement(plan.placement),
    more('Signed plan', json(decides)),
  );
}

/** The proposed placement: it may vary, and approvals do not cover it. */
function placement(placed) {
  if (!placed) return null;
  const { proposed, explanation, ...rest } = placed;
  const nodes = proposed?.nodes ? Object.entries(proposed.nodes) : [];
  const others = Object.entries(rest).filter(([, value]) => value !== null);
  if (!nodes.length && !explanation && !others.length) return null;
  return h(
    'section.group',
    { key: 'placement' },
    h('h3', explanation ? 'Candidates' : 'Proposed placement'),
    h('p.note', 'May still change; the digest does not cover it.'),
    nodes.length > 0 &&
      h(
        'p',
        `${proposed.cluster}: ${many(nodes.length, 'node')}, ${number(nodes.reduce((sum, [, gpus]) => sum + Number(gpus), 0))} GPUs — `,
        nodes
          .slice(0, 12)
          .map(([node]) => node)
          .join(', '),
        nodes.length > 12 && ` and ${nodes.length - 12} more`,
      ),
    candidates(explanation),
    others.length > 0 &&
      h(
        'dl.facts',
        others.map(([name, value]) => h('div', h('dt', words(name)), h('dd', brief(value)))),
      ),
  );
}
