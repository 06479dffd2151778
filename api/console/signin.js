// Sign-in with an identity provider. The proof that this tab started it stays in this tab.

import { Problem, ask, get, post } from './api.js';
import { here } from './route.js';

const VERIFIER = 'tenure.verifier';
const BACK = 'tenure.back';

const plain = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');

/** Returns the sign-in offer of the server: `{issuer, client_id, browser}`, or nothing. */
export async function offered() {
  try {
    return (await get('/v1/login')).oidc;
  } catch {
    return null;
  }
}

/** Redirects to the identity provider, which returns the browser to `#/signed-in`. */
export async function leave() {
  if (!crypto.subtle) {
    throw new Problem(0, {
      title: 'This browser cannot sign in here',
      detail: 'Browsers need https, or a server on the same machine.',
      remedy: 'open the console at its https URL',
    });
  }
  const verifier = plain(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  sessionStorage.setItem(VERIFIER, verifier);
  sessionStorage.setItem(BACK, location.hash);
  location.assign(`/login?challenge=${plain(new Uint8Array(digest))}`);
}

/** Returns true if the browser has just returned from the identity provider. */
export function isBack() {
  return here().parts[0] === 'signed-in';
}

/** Returns the token after a sign-in. First removes the code from the URL and the history. */
export async function cameBack() {
  const { params } = here();
  const verifier = sessionStorage.getItem(VERIFIER) ?? '';
  const back = sessionStorage.getItem(BACK) ?? '';
  sessionStorage.removeItem(VERIFIER);
  sessionStorage.removeItem(BACK);
  history.replaceState(null, '', back.startsWith('#/') && !back.startsWith('#/signed-in') ? back : '#/');
  if (params.problem || !params.code) {
    throw new Problem(401, {
      title: 'You are not signed in',
      detail: params.problem ?? 'The identity provider sent no answer.',
      remedy: 'sign in again, or use a token',
    });
  }
  const { body } = await post('/v1/sessions', { code: params.code, verifier });
  return body.token;
}

/** Ends the session; a token from an admin is not a session and stays valid. */
export async function end() {
  try {
    await ask('DELETE', '/v1/sessions/mine');
  } catch {
    /* then it expires */
  }
}
