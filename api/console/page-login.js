// Signing in: through the provider of the house, or with a token that is pasted. Either is kept in this tab alone.

import { h, show } from './dom.js';
import { signIn } from './api.js';
import { typed } from './dialog.js';
import { trouble } from './components.js';
import { leave, offered } from './signin.js';

export function login(root, then, problem) {
  const answer = h('div.answer', { 'aria-live': 'polite' }, problem && trouble(problem));
  const provider = h('div.provider', { hidden: true });
  const button = h('button.primary', { type: 'submit' }, 'Sign in');
  show(
    root,
    h(
      'main.login',
      { id: 'main', key: 'login', tabindex: '-1' },
      h('div.brand', h('span.mark', { 'aria-hidden': 'true' }, 'T'), h('b', 'Tenure')),
      h('h1', 'Sign in'),
      provider,
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
  offered().then((oidc) => oidc?.browser && through(provider, oidc, answer));
}

/** The button that leaves for the provider, once the server has said that there is one. */
function through(place, oidc, answer) {
  const go = async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      await leave();
    } catch (refused) {
      show(answer, trouble(refused));
      button.disabled = false;
    }
  };
  const button = h('button.primary', { type: 'button', onclick: go }, `Sign in with ${host(oidc.issuer)}`);
  show(place, button, h('p.faint', 'or with a token:'));
  place.hidden = false;
  if (!place.closest('main').querySelector('input').value) button.focus();
}

function host(issuer) {
  try {
    return new URL(issuer).host;
  } catch {
    return 'your provider';
  }
}
