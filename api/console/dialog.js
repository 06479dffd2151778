// Confirmation dialogs for changes: the effect, the reason, and the result.

import { h, show } from './dom.js';
import { keys } from './api.js';
import { refreshSoon } from './live.js';
import { command, toast, trouble } from './components.js';

/** Opens a dialog. `content(close)` draws it. After it closes, the previous element has the focus. */
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
    h('span', label, !required && h('i.faint', ' (optional)')),
    control(),
    note && h('small', { id: `note-${name}` }, note),
  );
}

/** Returns the values of a form, by field name. */
export function typed(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
}

/**
 * Asks for confirmation and makes a change. `preview` is the effect, `fields` are the inputs, `cli(values)` is the command line, `does(values, {key})` makes
 * the change, `done(answer)` describes the result. `confirm` is a word to type first. `danger` colours the button.
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
        confirm && field({ name: 'confirm', label: `Type ${confirm} to confirm`, required: true }),
        answer,
        h('div.buttons', button, h('button', { type: 'button', onclick: close }, 'Go back')),
        cli && h('details.more', h('summary', 'Command line'), line),
      );
      if (cli) show(line, command(cli(typed(form))));
      return form;
    },
    { wide },
  );
}

/** The reason of a change: a field of most dialogs. */
export const WHY = {
  name: 'reason',
  label: 'Reason',
  kind: 'area',
  rows: 2,
  required: true,
  hint: 'for the journal and the audit',
};

/** Quotes a text as one word of a shell. */
export function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replace(/'/g, `'\\''`)}'`;
}
