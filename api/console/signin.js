// Signing in through the identity provider. What proves that it was this tab that began stays in this tab.

import { Problem, ask, get, post } from './api.js';
import { here } from './route.js';

const VERIFIER = 'tenure.verifier';
const BACK = 'tenure.back';

const plain = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');

/** What the server offers: `{issuer, client_id, browser}`, or nothing. */
export async function offered() {
  try {
    return (await get('/v1/login')).oidc;
  } catch {
    return null;
  }
}

/** Leaves for the provider; it sends the browser back to `#/signed-in`. */
export async function leave() {
  if (!crypto.subtle) {
    throw new Problem(0, {
      title: 'This browser does not sign in here',
      detail: 'Browsers do so over https, or on this machine, alone.',
      remedy: 'open the console at its https address',
    });
  }
  const verifier = plain(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  sessionStorage.setItem(VERIFIER, verifier);
  sessionStorage.setItem(BACK, location.hash);
  location.assign(`/login?challenge=${plain(new Uint8Array(digest))}`);
}

/** Whether the browser has just come back from the provider. */
export function isBack() {
  return here().parts[0] === 'signed-in';
}

/** The token of whoever came back. What stands in the address is taken out of it, and of the history, first. */
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
      detail: params.problem ?? 'The provider sent nothing back.',
      remedy: 'sign in again, or with a token',
    });
  }
  const { body } = await post('/v1/sessions', { code: params.code, verifier });
  return body.token;
}

/** Ends the session; a token that an admin gave is none, and stays. */
export async function end() {
  try {
    await ask('DELETE', '/v1/sessions/mine');
  } catch {
    /* then it ends by itself */
  }
}
