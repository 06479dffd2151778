// The API reference: /openapi.json as a page. All content comes from that document.

import { h, show } from './dom.js';

const METHODS = ['get', 'post', 'put', 'delete'];
/** The depth to which nested fields are shown; deeper types show only their name. */
const DEPTH = 3;

const state = { api: null, wanted: '' };

function deref(schema) {
  const name = schema?.$ref?.split('/').pop();
  return name ? (state.api.components.schemas[name] ?? {}) : (schema ?? {});
}

function nameOf(schema) {
  return schema?.$ref?.split('/').pop();
}

/** The type of a value, in a few words. */
function kind(schema) {
  if (schema === true || schema === undefined) return 'anything';
  const named = nameOf(schema);
  if (named) return named;
  const either = schema.anyOf ?? schema.oneOf;
  if (either) {
    const constants = either.filter((one) => one.const !== undefined).map((one) => one.const);
    if (constants.length === either.length) return constants.join(' | ');
    return either.map(kind).join(' or ');
  }
  if (schema.enum) return schema.enum.join(' | ');
  if (schema.const !== undefined) return String(schema.const);
  const types = [schema.type ?? 'anything'].flat();
  const words = types.map((type) => {
    if (type === 'array') return `list of ${kind(schema.items)}`;
    if (type === 'object' && schema.additionalProperties && schema.additionalProperties !== true) {
      return `object of ${kind(schema.additionalProperties)}`;
    }
    return schema.format === 'date-time' && type === 'string' ? 'moment' : type;
  });
  return words.join(' or ');
}

/** The schema whose fields are shown: that of a list's items, of a reference, or of a nullable type. */
function inner(schema) {
  if (!schema || schema === true) return null;
  const found = deref(schema);
  if (found.properties || found.oneOf?.some((one) => one.properties)) return found;
  if (found.items) return inner(found.items);
  const either = (found.anyOf ?? []).find((one) => one.type !== 'null');
  if (either) return inner(either);
  if (typeof found.additionalProperties === 'object') return inner(found.additionalProperties);
  return null;
}

function fields(schema, depth) {
  const found = inner(schema);
  if (!found || depth === 0) return null;
  const variants = found.properties ? [found] : found.oneOf.filter((one) => one.properties);
  return variants.map((variant) =>
    h(
      'ul.fields',
      {},
      Object.entries(variant.properties).map(([name, field]) =>
        h(
          'li',
          {},
          h('code', {}, name),
          ' ',
          h('span.kind', {}, kind(field)),
          (variant.required ?? []).includes(name) ? h('span.must', {}, ' required') : null,
          field.description ? [' ', field.description] : null,
          fields(field, depth - 1),
        ),
      ),
    ),
  );
}

/** An example value of a schema. */
function sample(schema, name = 'text', depth = 6) {
  if (!schema || schema === true || depth === 0) return {};
  const found = deref(schema);
  if (found.examples) return found.examples[0];
  if (found.default !== undefined && found.default !== null) return found.default;
  if (found.const !== undefined) return found.const;
  if (found.enum) return found.enum[0];
  const either = found.anyOf ?? found.oneOf;
  if (either) return sample(either.find((one) => one.type !== 'null'), name, depth - 1);
  const type = [found.type ?? (found.properties ? 'object' : 'null')].flat()[0];
  if (type === 'object') {
    const entries = Object.entries(found.properties ?? {});
    const must = entries.filter(([field]) => (found.required ?? []).includes(field));
    return Object.fromEntries((must.length ? must : entries.slice(0, 2)).map(([field, of]) => [field, sample(of, field, depth - 1)]));
  }
  if (type === 'array') return [sample(found.items, name, depth - 1)];
  if (type === 'integer' || type === 'number') return found.minimum ?? 1;
  if (type === 'boolean') return true;
  if (type === 'string') return found.format === 'date-time' ? '2026-12-01T00:00:00Z' : name.toUpperCase();
  return null;
}

function shared(parameter) {
  return parameter.$ref ? state.api.components.parameters[nameOf(parameter)] : parameter;
}

function curl(method, path, operation) {
  const address = path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase());
  const lines = [`curl ${method === 'get' ? '' : `-X ${method.toUpperCase()} `}"$SERVER${address}"`];
  if (operation.security.length) lines.push('-H "Authorization: Bearer $TOKEN"');
  const takesKey = operation.parameters.some((parameter) => nameOf(parameter) === 'idempotencyKey');
  if (takesKey) lines.push('-H "Idempotency-Key: $(uuidgen)"');
  const content = Object.entries(operation.requestBody?.content ?? {});
  if (content.length) {
    const [media, { schema }] = content[0];
    lines.push(`-H 'Content-Type: ${media}'`);
    lines.push(schema.type === 'string' ? '--data-binary @FILE' : `--data '${JSON.stringify(sample(schema))}'`);
  }
  return lines.join(' \\\n  ');
}

function table(heads, rows) {
  if (!rows.length) return null;
  return h('table', {}, h('thead', {}, h('tr', {}, heads.map((head) => h('th', {}, head)))), h('tbody', {}, rows));
}

function parameters(operation) {
  const row = (parameter) =>
    h(
      'tr',
      {},
      h('td', {}, h('code', {}, parameter.name)),
      h('td', {}, parameter.in, parameter.required ? ', required' : ''),
      h('td', {}, kind(parameter.schema)),
      h('td', {}, parameter.description ?? ''),
    );
  const rows = operation.parameters.map(shared).map(row);
  return rows.length ? h('div', {}, h('h3', {}, 'Parameters'), table(['name', 'where', 'what', ''], rows)) : null;
}

function body(operation) {
  if (!operation.requestBody) return null;
  return h(
    'div',
    {},
    h('h3', {}, operation.requestBody.required ? 'Body' : 'Body (optional)'),
    Object.entries(operation.requestBody.content).map(([media, { schema }]) => [
      h('p', {}, h('code', {}, media), ' ', h('span.kind', {}, schema.type === 'string' ? '' : kind(schema))),
      fields(schema, DEPTH),
    ]),
  );
}

function answers(operation) {
  const rows = Object.entries(operation.responses).map(([status, response]) => {
    const said = Object.entries(response.content ?? {}).filter(([media]) => media !== 'application/problem+json');
    const codes = (response['x-tenure-codes'] ?? []).map((code) => [h('a', { href: `#problems/${code}` }, h('code', {}, code)), ' ']);
    return h(
      'tr',
      {},
      h('td', {}, h('code', {}, status)),
      h('td', {}, said.map(([media, { schema }]) => h('div', {}, h('code', {}, media), ' ', kind(schema), fields(schema, DEPTH))), codes),
    );
  });
  return h('div', {}, h('h3', {}, 'Answers'), table(['status', 'with'], rows));
}

function detail(method, path, operation) {
  return [
    h('p.for', {}, operation.description),
    parameters(operation),
    body(operation),
    h('div', {}, h('h3', {}, 'Example'), h('pre', {}, curl(method, path, operation))),
    answers(operation),
  ];
}

function open(event, method, path, operation) {
  const place = event.currentTarget.querySelector(':scope > div');
  if (event.currentTarget.open && !place.hasChildNodes()) show(place, detail(method, path, operation));
}

function operation(method, path, operation) {
  return h(
    'details.operation',
    { id: operation.operationId, key: operation.operationId, ontoggle: (event) => open(event, method, path, operation) },
    h('summary', {}, h('span', { class: `method ${method}` }, method.toUpperCase()), h('code', {}, path), h('span', {}, operation.summary)),
    h('div', { still: operation.operationId }),
  );
}

function wanted(path, operation) {
  const text = `${path} ${operation.operationId} ${operation.summary}`.toLowerCase();
  return state.wanted.split(/\s+/).every((word) => text.includes(word));
}

function sections() {
  const byTag = new Map(state.api.tags.map(({ name }) => [name, []]));
  for (const [path, item] of Object.entries(state.api.paths)) {
    for (const method of METHODS) {
      const found = item[method];
      if (found && wanted(path, found)) byTag.get(found.tags[0]).push(operation(method, path, found));
    }
  }
  return [...byTag].filter(([, all]) => all.length);
}

function problems() {
  const row = (problem) =>
    h(
      'tr',
      { id: `problems/${problem.code}`, key: problem.code },
      h('td', {}, h('code', {}, problem.code)),
      h('td', {}, String(problem.status)),
      h('td', {}, problem.title),
      h('td', {}, problem.remedy),
    );
  return h(
    'section',
    { id: 'problems', key: 'problems' },
    h('h2', {}, 'Problems'),
    table(['code', 'status', 'title', 'remedy'], state.api['x-tenure-problems'].map(row)),
  );
}

function draw() {
  const found = sections();
  const search = h('input', {
    type: 'search',
    placeholder: 'Filter',
    'aria-label': 'Filter the routes',
    value: state.wanted,
    oninput: (event) => {
      state.wanted = event.currentTarget.value.toLowerCase().trim();
      draw();
    },
  });
  show(
    document.getElementById('page'),
    h(
      'div.reference',
      {},
      h(
        'nav',
        { 'aria-label': 'Subjects' },
        h('a', { href: '/' }, 'To the console'),
        search,
        h('ul', {}, found.map(([name]) => h('li', {}, h('a', { href: `#of-${name}` }, name))), h('li', {}, h('a', { href: '#problems' }, 'problems'))),
      ),
      h(
        'main',
        { id: 'main', tabindex: '-1' },
        h('h1', {}, `${state.api.info.title} ${state.api.info.version}: API reference`),
        h('p', {}, state.api.info.description),
        h('p', {}, 'For programs: ', h('a', { href: '/openapi.json' }, '/openapi.json'), ' (OpenAPI ', state.api.openapi, ').'),
        found.map(([name, all]) => h('section', { id: `of-${name}`, key: name }, h('h2', {}, name), all)),
        problems(),
      ),
    ),
  );
}

/** Scrolls to the operation in the URL, and opens it. */
function go() {
  const meant = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  document.querySelectorAll('tr.meant').forEach((row) => row.classList.remove('meant'));
  if (!meant) return;
  if (meant.matches('details')) meant.open = true;
  if (meant.matches('tr')) meant.classList.add('meant');
  meant.scrollIntoView();
}

async function start() {
  const app = document.getElementById('page');
  try {
    const answer = await fetch('/openapi.json');
    if (!answer.ok) throw new Error(`the server returned ${answer.status}`);
    state.api = await answer.json();
  } catch (error) {
    show(app, h('p', { role: 'alert' }, `Cannot load the description: ${error.message}. Reload the page.`));
    return;
  }
  draw();
  go();
  addEventListener('hashchange', go);
}

start();
