// A plan as people decide on it: what is made, changed, evicted and destroyed, line by line, before the small print.

import { h } from './dom.js';
import { id, more, json } from './components.js';
import { bytes, many, number, resource, words } from './format.js';

const scalar = (value) => value === null || typeof value !== 'object';

/** A name of the API, such as `dedicated_nodes`, in words; any other text as it is. */
const named = (text) => (/^[a-z]+(_[a-z]+)+$/.test(text) ? words(text) : text);

/** Any value as text or as nested facts. */
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

/** `{"queue": {"workspace": "research", …}}` as what it is and which. */
function object(item) {
  const [[kind, about]] = Object.entries(item);
  if (scalar(about)) return [words(kind), String(about)];
  if (Array.isArray(about)) return [words(kind), about.join(', ')];
  const { workspace, ...rest } = about;
  if (!workspace && !Object.keys(rest).length) return [words(kind), h('span.faint', "the tenant's")];
  return [words(kind), workspace ? `${workspace}` : '', Object.keys(rest).length ? brief(rest) : null];
}

/**
 * An amount of memory or storage in bytes, in the unit that suits, since plans name them as Kubernetes does; and a moment, which plans have in
 * milliseconds.
 */
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

/** Lines for what differs between two values. */
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
  return `${number(price.cents_per_month / 100, 2)} a month, by the policy’s prices${class_}`;
}

/** What `destroys` and `nodes` of a plan say is gone for good, after what is known not to count. */
function destroyed({ destroys, nodes = [], sanitise }) {
  const exceptions = (destroys?.exceptions ?? []).map((why) => line('~', 'will not count', why));
  const things = (destroys?.things ?? []).map((thing) => line('×', 'destroy', thing.thing ?? told(thing), thing.uid));
  const wiped = [...(Array.isArray(nodes) ? nodes : []), { sanitise }]
    .filter((node) => node?.sanitise)
    .map(({ sanitise }) =>
      line('×', 'sanitise', sanitise.node, `drives: ${sanitise.drives}, GPU memory: ${sanitise.gpu_memory}`),
    );
  return [...exceptions, ...things, ...wiped];
}

/** Whether something is gone for good when this plan is carried out. */
export function destroys(plan) {
  return Boolean(plan?.decides?.destroys) || destroyed(plan?.decides ?? {}).length > 0;
}

/** What carries `before` and `after` of its own, by name: terms that change with it. */
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
];

/** Why it is asked for: what caused it, and which bounds it is beyond. */
function reasons({ cause, breaches = [] }) {
  return [
    cause && [
      'Because of',
      scalar(cause)
        ? cause
        : `${words(cause.kind ?? 'this')}: ${Object.entries(cause)
            .filter(([name]) => name !== 'kind')
            .map(([name, value]) => `${words(name)} ${value}`)
            .join(', ')}`,
    ],
    breaches.length > 0 && [
      'Beyond its bounds',
      breaches
        .map(
          (breach) =>
            `${words(breach.breach)}: ${breach.victims} of ${breach.capacity} ${resource(String(breach.kind).split('/')[0])} is more than ${breach.percent} %`,
        )
        .join('; '),
    ],
  ].filter(Boolean);
}

/** Who would give way and who not, and why. */
export function candidates(explanation) {
  const all = explanation?.candidates ?? [];
  if (!all.length) return null;
  const why = {
    taken: 'gives way',
    policy: 'protected by policy',
    not_needed: 'is not needed',
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

/** The plan: what happens, then the terms, then what may still vary. */
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
    group('Destroyed for good', gone, 'Nothing of this comes back.'),
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
    group('Made', made),
    placement(plan.placement),
    more('The plan as it is signed', json(decides)),
  );
}

/** Where it would go: may vary, and is not part of what is agreed to. */
function placement(placed) {
  if (!placed) return null;
  const { proposed, explanation, ...rest } = placed;
  const nodes = proposed?.nodes ? Object.entries(proposed.nodes) : [];
  const others = Object.entries(rest).filter(([, value]) => value !== null);
  if (!nodes.length && !explanation && !others.length) return null;
  return h(
    'section.group',
    { key: 'placement' },
    h('h3', explanation ? 'Who was considered' : 'Proposed placement'),
    h('p.note', 'May still vary inside what is agreed to; it is not part of the digest.'),
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
