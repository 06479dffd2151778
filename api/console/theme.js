// Applies the stored theme before the page is drawn. A classic script, so that the page does not flash.
(function () {
  try {
    const chosen = localStorage.getItem('tenure.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch {
    /* storage may be forbidden; then the system's theme is used */
  }
})();
