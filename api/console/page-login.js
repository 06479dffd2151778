// Sign-in with an identity provider, or with a pasted token. The token is stored in this tab only.

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
          h('b', 'First sign-in: '),
          'the server wrote the administrator’s token to ',
          h('code', 'admin.token'),
          ' in its data folder (',
          h('code', './tenure-data/admin.token'),
          ' by default).',
        ),
        h(
          'p',
          h('b', 'Other users: '),
          'an administrator adds a user with ',
          h('code', 'tenure user add NAME --role ROLE'),
          ', which prints the token.',
        ),
        h('p.faint', 'The token is stored in this tab until you close it, and sent only to this server.'),
      ),
    ),
  );
  root.querySelector('input').focus();
  offered().then((oidc) => oidc?.browser && through(provider, oidc, answer));
}

/** The button to the identity provider, if the server has one. */
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
    return 'your identity provider';
  }
}
