// Fetches the page again and swaps its content, so that what a reader has opened, selected or scrolled to
// stays as it is. Without JavaScript the page reloads as a whole.
(function () {
  'use strict';
  var seconds = Number(document.body.dataset.refresh) || 5;
  var failures = 0;

  function busy() {
    return document.hidden || String(window.getSelection()) !== '';
  }

  function each(root, selector, f) {
    Array.prototype.forEach.call(root.querySelectorAll(selector), f);
  }

  function swap(text) {
    var next = new DOMParser().parseFromString(text, 'text/html');
    each(document, 'details[id]', function (old) {
      var fresh = next.getElementById(old.id);
      if (fresh) { fresh.open = old.open; }
    });
    var scrolled = {};
    each(document, '.scroll[id]', function (el) { scrolled[el.id] = el.scrollLeft; });
    var focused = document.activeElement && document.activeElement.closest('details[id]');
    var id = document.activeElement && document.activeElement.tagName === 'SUMMARY' && focused ? focused.id : '';
    document.title = next.title;
    ['main', '#asof', 'link[rel=icon]'].forEach(function (selector) {
      var a = document.querySelector(selector), b = next.querySelector(selector);
      if (a && b) { a.replaceWith(b); }
    });
    Object.keys(scrolled).forEach(function (key) {
      var el = document.getElementById(key);
      if (el) { el.scrollLeft = scrolled[key]; }
    });
    var again = id && document.getElementById(id);
    if (again) { again.querySelector('summary').focus(); }
  }

  function show(ok) {
    failures = ok ? 0 : failures + 1;
    var stale = document.getElementById('stale');
    if (stale) { stale.hidden = failures < 2; }
  }

  function refresh() {
    if (busy()) { return later(); }
    fetch(location.href, { headers: { Accept: 'text/html' }, cache: 'no-store' }).then(function (res) {
      if (!res.ok) { throw new Error(String(res.status)); }
      return res.text();
    }).then(function (text) { swap(text); show(true); }, function () { show(false); }).then(later, later);
  }

  function later() { window.setTimeout(refresh, 1000 * seconds); }

  later();
})();
