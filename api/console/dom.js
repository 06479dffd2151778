// Builds and updates the document. Text from the server becomes a text node or an attribute, never markup. The console parses no HTML, and the page's policy
// (`require-trusted-types-for 'script'`) forbids it.

const SVG = 'http://www.w3.org/2000/svg';

/** Allowed link targets: the console, this server, and files made by the console. */
const LINKS = /^(#|\/(?!\/)|blob:)/;

/** Characters that end, reverse or hide text, as in `foreign_text.rs`. Line ends and tabs are kept. */
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Attributes with text for readers. */
const READ = ['title', 'aria-label', 'alt', 'placeholder'];

/** Returns external text with such characters escaped. */
function visible(text) {
  return String(text).replace(UNSAFE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

function dispatch(event) {
  const handler = event.currentTarget.__on?.[event.type];
  if (handler) handler(event);
}

function put(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true || child === '') continue;
    if (Array.isArray(child)) put(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

function make(node, classes, attributes, children) {
  if (classes.length) node.setAttribute('class', classes.join(' '));
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'key') node.__key = String(value);
    else if (name === 'still') node.__still = String(value);
    else if (name === 'after') node.__after = value;
    else if (name === 'vars') for (const [property, to] of Object.entries(value)) node.style.setProperty(property, to);
    else if (name.startsWith('on') && typeof value === 'function') listen(node, name.slice(2), value);
    else if (name === 'class')
      node.setAttribute('class', [node.getAttribute('class'), value].filter(Boolean).join(' '));
    else if (name === 'value') {
      node.value = value;
      node.setAttribute('value', value);
    } else if (name === 'href' && !LINKS.test(String(value))) continue;
    else if (READ.includes(name)) node.setAttribute(name, visible(value));
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  put(node, children);
  return node;
}

function listen(node, type, handler) {
  node.__on ??= {};
  if (!node.__on[type]) node.addEventListener(type, dispatch);
  node.__on[type] = handler;
}

/** Creates an element: `h('td.number', { title: 'exact' }, text, otherNode)`. Skips undefined, null and false. */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split('.');
  if (attributes instanceof Node || typeof attributes !== 'object' || Array.isArray(attributes)) {
    return make(document.createElement(name), classes, null, [attributes, ...children]);
  }
  return make(document.createElement(name), classes, attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  const [name, ...classes] = tag.split('.');
  return make(document.createElementNS(SVG, name), classes, attributes, children);
}

/** Replaces the children of `parent` by `children`, and reuses equal nodes: focus, scrolling, input and open parts are kept. */
export function show(parent, ...children) {
  const fresh = document.createDocumentFragment();
  put(fresh, children);
  morphChildren(parent, fresh);
}

function keyOf(node) {
  return node.__key ?? (node.nodeType === Node.ELEMENT_NODE ? node.id || undefined : undefined);
}

function alike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function morphChildren(parent, fresh) {
  const keyed = new Map();
  for (const old of parent.childNodes) if (keyOf(old) !== undefined) keyed.set(keyOf(old), old);
  let at = parent.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    let found = key !== undefined ? keyed.get(key) : at;
    while (key === undefined && found && keyOf(found) !== undefined) found = found.nextSibling;
    if (found && alike(found, wanted)) {
      if (found !== at) parent.insertBefore(found, at);
      else at = at.nextSibling;
      morph(found, wanted);
    } else {
      parent.insertBefore(wanted, at);
    }
    if (key !== undefined) keyed.delete(key);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  // Keeps a node with the same `still` value unchanged: a diagram, a canvas, a form with input.
  if (fresh.__still !== undefined && old.__still === fresh.__still) return;
  old.__still = fresh.__still;
  old.__after = fresh.__after;
  for (const { name } of [...old.attributes]) {
    if (name === 'open' || name === 'style' || fresh.hasAttribute(name)) continue;
    old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== 'style' && name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && fresh.style && old.style.cssText !== fresh.style.cssText) {
    for (const property of [...fresh.style]) old.style.setProperty(property, fresh.style.getPropertyValue(property));
  }
  for (const [type, handler] of Object.entries(fresh.__on ?? {})) listen(old, type, handler);
  const isField = old.matches('input, textarea, select');
  // Keeps the field in which the user types.
  if (isField && old === document.activeElement) return;
  morphChildren(old, fresh);
  if (!isField) return;
  if (old.value !== fresh.value) old.value = fresh.value;
  if (old.checked !== fresh.checked) old.checked = fresh.checked;
}

/** Runs the callbacks of diagrams after they were added to the document. */
export function settle(root) {
  for (const node of root.querySelectorAll('*')) {
    const after = node.__after;
    if (after) {
      node.__after = undefined;
      after(node);
    }
  }
}
