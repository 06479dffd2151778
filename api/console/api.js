// The client of the server's `/v1`: bearer token, and answers as RFC 9457 problems.

const TOKEN = 'tenure.token';

let signedOut = () => {};
let token = read();
/** The user, from `/v1/me`: `{name, roles, tenant, may, seats}`. */
export let me = null;

function read() {
  try {
    return sessionStorage.getItem(TOKEN) ?? '';
  } catch {
    return '';
  }
}

export function hasToken() {
  return token !== '';
}

/** Called when the server rejects the token. */
export function onSignedOut(then) {
  signedOut = then;
}

export function forget() {
  token = '';
  me = null;
  try {
    sessionStorage.removeItem(TOKEN);
  } catch {
    /* nothing is stored */
  }
}

/** Signs in: stores the token in this tab after the server has accepted it. */
export async function signIn(candidate) {
  const before = token;
  token = candidate;
  try {
    await whoAmI();
  } catch (problem) {
    token = before;
    throw problem;
  }
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    /* then until the page is closed */
  }
}

export async function whoAmI() {
  me = await get('/v1/me');
}

/** Returns true if the user has a permission, such as `repair`. */
export function may(verb) {
  return Boolean(me?.may?.includes(verb));
}

/** Returns true if the user belongs to the operator, and is not bound to a tenant. */
export function isStaff() {
  return Boolean(me) && !me.tenant;
}

/** An error answer. */
export class Problem extends Error {
  constructor(status, body, requestId) {
    super(body.detail ?? body.title ?? 'the server gave no reason');
    this.status = status;
    this.title = body.title ?? 'The request failed';
    this.detail = body.detail ?? '';
    this.code = body.code ?? '';
    this.remedy = body.remedy ?? '';
    this.errors = body.errors ?? [];
    this.body = body;
    this.requestId = requestId ?? '';
  }
}

const UNREACHED = {
  title: 'The server does not answer',
  detail: 'No answer; the server may be down, or unreachable from here.',
  remedy: 'the console retries automatically; `tenure serve` starts a server',
};

async function problemOf(answer) {
  const text = await answer.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    body = { title: `The server answered ${answer.status}`, detail: text.slice(0, 500) };
  }
  return new Problem(answer.status, body, answer.headers.get('x-request-id'));
}

/** Returns the health checks of the server; a 503 has the same content. Callers without permission get only the names of failed checks. */
export async function readiness(signal) {
  const sees = may('read_metrics');
  const headers = sees ? { authorization: `Bearer ${token}` } : {};
  const asked = { signal, headers, cache: 'no-store', credentials: 'omit' };
  let answer;
  try {
    answer = await fetch(sees ? '/readyz?verbose' : '/readyz', asked);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, UNREACHED);
  }
  if (!answer.ok && answer.status !== 503) throw await problemOf(answer);
  if (sees) return answer.json();
  const failing = answer.ok ? [] : (await answer.text()).split('\n').filter(Boolean);
  return { ready: answer.ok, checks: failing.map((line) => ({ name: line.split(':')[0], ok: false, says: 'failing' })) };
}

/** Sends a request and returns the answer; throws a `Problem`. */
export async function ask(method, path, { body, headers = {}, signal, type = 'application/json', accept } = {}) {
  const asked = { method, signal, cache: 'no-store', credentials: 'omit', headers: { ...headers } };
  if (token && path.startsWith('/v1/')) asked.headers.authorization = `Bearer ${token}`;
  if (accept) asked.headers.accept = accept;
  if (body !== undefined) {
    asked.body = typeof body === 'string' ? body : JSON.stringify(body);
    asked.headers['content-type'] = type;
  }
  let answer;
  try {
    answer = await fetch(path, asked);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, UNREACHED);
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  if (answer.status === 401 && me) {
    forget();
    signedOut(problem);
  }
  throw problem;
}

/** Returns `path` with all parameters that have a value. */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export async function get(path, params, options) {
  const answer = await ask('GET', address(path, params), options);
  return answer.json();
}

/** Returns the answer, or `otherwise` if the user may not read it, so that the rest of the page is drawn. */
export async function getOr(otherwise, path, params, options) {
  try {
    return await get(path, params, options);
  } catch (problem) {
    if (problem instanceof Problem && (problem.status === 403 || problem.status === 404)) return otherwise;
    throw problem;
  }
}

/** Sends a change. `key` identifies the request, so that a repetition has no second effect; `match` is the required revision. */
export async function post(path, body = {}, { key, match, method = 'POST', ...more } = {}) {
  const headers = {};
  if (key && method === 'POST') headers['idempotency-key'] = key;
  if (match !== undefined) headers['if-match'] = `"${match}"`;
  const answer = await ask(method, path, { body, headers, ...more });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : null };
}

/** A unique key. */
function drawKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Keys for a form: the same content gets the same key, so that a repetition has no second effect. */
export function keys() {
  const drawn = new Map();
  return (content) => {
    const text = JSON.stringify(content);
    if (!drawn.has(text)) drawn.set(text, drawKey());
    return drawn.get(text);
  };
}
