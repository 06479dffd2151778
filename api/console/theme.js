// Before anything is drawn: the theme that was chosen, if one was. A classic script, so that no page flashes.
(function () {
  try {
    const chosen = localStorage.getItem('tenure.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch {
    /* storage may be forbidden; then the system's theme holds */
  }
})();
