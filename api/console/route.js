// The place in the console: `#/executions?filter=open` as `{parts: ['executions'], params: {filter: 'open'}}`. The URL contains all of it, so it can be
// bookmarked; browsers do not send it to the server.

export function here() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(plain);
  return { parts, params: Object.fromEntries(new URLSearchParams(query)) };
}

function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the URL of a place: `place('executions', id)`, `place('executions', { filter: 'open' })`. */
export function place(...said) {
  const params = said.length && typeof said.at(-1) === 'object' ? said.pop() : {};
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  const path = said.map((part) => String(part).split('/').map(encodeURIComponent).join('/')).join('/');
  return `#/${path}${text ? `?${text}` : ''}`;
}

export function go(...said) {
  location.hash = place(...said);
}

/** Changes parameters of the URL without a new entry in the history. */
export function refine(params) {
  const now = here();
  history.replaceState(null, '', place(...now.parts, { ...now.params, ...params }));
  dispatchEvent(new HashChangeEvent('hashchange'));
}
