// Signing in: a token is pasted, and kept in this tab alone.

import { h, show } from './dom.js';
import { signIn } from './api.js';
import { typed } from './ask.js';
import { trouble } from './parts.js';

export function login(root, then, problem) {
  const answer = h('div.answer', { 'aria-live': 'polite' }, problem && trouble(problem));
  const button = h('button.primary', { type: 'submit' }, 'Sign in');
  show(
    root,
    h(
      'main.login',
      { id: 'main', key: 'login', tabindex: '-1' },
      h('div.brand', h('span.mark', { 'aria-hidden': 'true' }, 'T'), h('b', 'Tenure')),
      h('h1', 'Sign in'),
      h(
        'form',
        {
          onsubmit: async (event) => {
            event.preventDefault();
            const { token } = typed(event.currentTarget);
            button.disabled = true;
            show(answer);
            try {
              await signIn(token);
              then();
            } catch (refused) {
              show(answer, trouble(refused));
            }
            button.disabled = false;
          },
        },
        h(
          'label.field',
          h('span', 'Token'),
          h('input', {
            name: 'token',
            type: 'password',
            required: true,
            autocomplete: 'off',
            spellcheck: 'false',
            placeholder: 'tn_…',
            'aria-describedby': 'where',
          }),
        ),
        answer,
        button,
      ),
      h(
        'div.where',
        { id: 'where' },
        h(
          'p',
          h('b', 'The first time: '),
          'the administrator’s token was printed once when the server started first, and is kept in ',
          h('code', 'admin.token'),
          ' of its data folder (',
          h('code', './tenure-data/admin.token'),
          ' unless told otherwise).',
        ),
        h(
          'p',
          h('b', 'Everybody else: '),
          'an administrator makes a user with ',
          h('code', 'tenure user add NAME --role ROLE'),
          ', which prints the token.',
        ),
        h('p.faint', 'It is kept in this tab until it is closed, and sent to this server alone.'),
      ),
    ),
  );
  root.querySelector('input').focus();
}
