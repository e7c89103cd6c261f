// Tooltips at once and beside the pointer, also by touch. Without this the browser shows the same titles by itself.
(function () {
  var tip = document.getElementById('tip');
  document.querySelectorAll('.hit').forEach(function (hit) {
    var title = hit.querySelector('title');
    if (title === null) return;
    var text = title.textContent;
    hit.setAttribute('aria-label', text);
    title.remove();
    function show(e) {
      tip.textContent = text;
      tip.style.display = 'block';
      var box = tip.getBoundingClientRect();
      tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - box.width - 6)) + 'px';
      tip.style.top = Math.max(4, Math.min(e.clientY + 14, innerHeight - box.height - 6)) + 'px';
    }
    hit.addEventListener('pointermove', show);
    hit.addEventListener('pointerdown', show);
    hit.addEventListener('pointerleave', function () { tip.style.display = 'none'; });
  });
  // Where a style sheet cannot open them for printing.
  addEventListener('beforeprint', function () {
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
  });
})();
