// Dialogs that ask before something is changed: what will happen, why it is done, and what came of it.

import { h, show } from './dom.js';
import { keys } from './api.js';
import { refreshSoon } from './live.js';
import { command, toast, trouble } from './components.js';

/** Opens a dialog. `content(close)` draws it; whoever opened it has the focus again afterwards. */
export function dialog(title, content, { wide = false } = {}) {
  const before = document.activeElement;
  const close = () => box.close();
  const body = h('div.body');
  const box = h(
    `dialog${wide ? '.wide' : ''}`,
    {
      'aria-labelledby': 'dialog-title',
      onclose: () => {
        box.remove();
        before?.focus?.();
      },
      onclick: (event) => {
        if (event.target === box) close();
      },
    },
    h(
      'div.row',
      h('h2', { id: 'dialog-title' }, title),
      h('button.close', { type: 'button', 'aria-label': 'Close', onclick: close }, '×'),
    ),
    body,
  );
  document.getElementById('dialogs').append(box);
  show(body, content(close, body));
  box.showModal();
  body.querySelector('textarea, input, select')?.focus();
  return { box, body, close };
}

/** A field of a form. `kind` is `text` (the default), `area`, `number` or `select` with `options`. */
export function field({
  name,
  label,
  kind = 'text',
  hint,
  value = '',
  required,
  options = [],
  rows = 3,
  note,
  oninput,
}) {
  const common = { name, required, 'aria-describedby': note ? `note-${name}` : undefined, oninput, onchange: oninput };
  const control = () => {
    if (kind === 'area') return h('textarea', { ...common, rows, placeholder: hint }, value);
    if (kind === 'select') {
      return h(
        'select',
        common,
        options.map((option) => {
          const [to, text] = Array.isArray(option) ? option : [option, option];
          return h('option', { value: to, selected: to === value }, text);
        }),
      );
    }
    return h('input', { ...common, type: kind, value, placeholder: hint, autocomplete: 'off', spellcheck: 'false' });
  };
  return h(
    'label.field',
    h('span', label, !required && h('i.faint', ' (may be left out)')),
    control(),
    note && h('small', { id: `note-${name}` }, note),
  );
}

/** What was typed into a form, by name. */
export function typed(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
}

/**
 * Asks, and then does it. `preview` says what will happen, `fields` what has to be said, `cli(values)` the same as a command line, `does(values,
 * {key})` does it, `done(answer)` says what came of it. `confirm` is a word that has to be typed first. `danger` colours the button.
 */
export function change(title, { preview, fields = [], cli, does, done, label, confirm, danger = false, wide = false }) {
  const keyOf = keys();
  return dialog(
    title,
    (close) => {
      const answer = h('div.answer', { 'aria-live': 'polite' });
      const line = h('div.line');
      const button = h(
        `button.primary${danger ? '.danger' : ''}`,
        { type: 'submit', disabled: Boolean(confirm) },
        label ?? title,
      );
      const form = h(
        'form',
        {
          onsubmit: async (event) => {
            event.preventDefault();
            button.disabled = true;
            show(answer);
            try {
              const values = typed(form);
              const said = await does(values, { key: keyOf(values) });
              close();
              toast(done ? done(said) : 'Done.');
              refreshSoon();
            } catch (problem) {
              show(answer, trouble(problem));
              button.disabled = false;
            }
          },
          oninput: () => {
            const values = typed(form);
            if (confirm) button.disabled = values.confirm !== confirm;
            if (cli) show(line, command(cli(values)));
          },
        },
        preview && h('div.preview', preview),
        fields.map(field),
        confirm && field({ name: 'confirm', label: `Type ${confirm} to go on`, required: true }),
        answer,
        h('div.buttons', button, h('button', { type: 'button', onclick: close }, 'Leave it')),
        cli && h('details.more', h('summary', 'The same on the command line'), line),
      );
      if (cli) show(line, command(cli(typed(form))));
      return form;
    },
    { wide },
  );
}

/** Why something is done: a field that most changes have. */
export const WHY = {
  name: 'reason',
  label: 'Why',
  kind: 'area',
  rows: 2,
  required: true,
  hint: 'for the journal and the audit',
};

/** A text as one word of a shell. */
export function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replace(/'/g, `'\\''`)}'`;
}
