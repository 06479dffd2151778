// Paginated lists that are kept up to date. The page and the filters are in the URL.

import { h, show, settle } from './dom.js';
import { get } from './api.js';
import { watch } from './live.js';
import { empty, loading, table, trouble } from './components.js';
import { here, place, refine } from './route.js';

/**
 * Shows the items of `path` in `root`. `params` go to the server; `columns`, `key`, `href` as for `table`; `none` is shown for an empty list; `pick(items)`
 * filters loaded items; `above(items)` is drawn above the table. `size` is the page size; `hears` as for `watch`.
 */
export function list(
  root,
  { path, params = {}, columns, key, href, none, pick = (items) => items, above, size = 50, every = 4000, caption, hears },
) {
  const { cursor } = here().params;
  if (!root.firstChild) show(root, loading());
  const draw = (page) => {
    const items = pick(page.items);
    const left = page.items.length - items.length;
    show(
      root,
      above && h('div', { key: 'above' }, above(items, page)),
      items.length > 0
        ? table(columns, items, { key, href, caption })
        : h(
            'div',
            { key: 'none' },
            left
              ? empty('No item of this page matches.', `The filter above hides ${left} items.`)
              : (none ?? empty('The list is empty.')),
          ),
      pages(page, cursor),
    );
    settle(root);
  };
  return watch((signal) => get(path, { ...params, cursor, limit: size }, { signal }), draw, {
    every,
    hears,
    failed: (problem) => show(root, trouble(problem), cursor && pages({ next: null }, cursor)),
  });
}

function pages(page, cursor) {
  if (!cursor && !page.next) return null;
  const now = here();
  const at = (to) => place(...now.parts, { ...now.params, cursor: to });
  return h(
    'nav.pages',
    { key: 'pages', 'aria-label': 'Pages' },
    cursor && h('a', { href: at('') }, '« first page'),
    cursor && h('button', { type: 'button', onclick: () => history.back() }, '‹ previous page'),
    page.partial && h('span.faint', 'This page stopped at the search limit; the next page continues.'),
    page.next && h('a', { href: at(page.next), rel: 'next' }, 'next page ›'),
  );
}

/**
 * Filter fields of a list, stored in the URL. `fields` are `{name, label, kind, options, hint, wide}`; `kind` is `text` (the default), `select`, `date` or
 * `check`.
 */
export function filters(fields, { onhelp } = {}) {
  const { params } = here();
  const set = (name, value) => refine({ [name]: value, cursor: '' });
  return h(
    'form.filters',
    { key: 'filters', role: 'search', onsubmit: (event) => event.preventDefault() },
    fields.map((field) =>
      h(
        `label${field.wide ? '.wide' : ''}`,
        { key: field.name },
        h('span', field.label),
        input(field, params[field.name] ?? '', set),
      ),
    ),
    Object.keys(params).some((name) => name !== 'cursor' && fields.some((field) => field.name === name)) &&
      h(
        'button',
        {
          type: 'button',
          onclick: () => {
            location.hash = place(...here().parts);
          },
        },
        'Clear',
      ),
    onhelp,
  );
}

function input(field, value, set) {
  if (field.kind === 'select') {
    const option = ([to, label]) => h('option', { value: to, selected: to === value }, label);
    return h(
      'select',
      { name: field.name, onchange: (event) => set(field.name, event.target.value) },
      [['', 'all'], ...field.options.map((item) => (Array.isArray(item) ? item : [item, item.replace(/_/g, ' ')]))].map(
        option,
      ),
    );
  }
  if (field.kind === 'check') {
    return h('input', {
      type: 'checkbox',
      name: field.name,
      checked: value === 'yes',
      onchange: (event) => set(field.name, event.target.checked ? 'yes' : ''),
    });
  }
  let timer = 0;
  const later = (event) => {
    const { value: to } = event.target;
    clearTimeout(timer);
    timer = setTimeout(() => set(field.name, to.trim()), field.kind === 'date' ? 0 : 350);
  };
  return h('input', {
    type: field.kind === 'date' ? 'date' : 'search',
    name: field.name,
    value,
    placeholder: field.hint,
    autocomplete: 'off',
    spellcheck: 'false',
    list: field.list,
    oninput: later,
    'data-search': field.wide ? '' : undefined,
  });
}
