// How far sweeps are: asked of the server that this page came from, and of nobody else.
(function () {
  "use strict";
  var place = document.querySelector(".sweeps");
  if (!place) { return; }
  var status = place.querySelector("[role=status]");
  var rows = [].slice.call(place.querySelectorAll("tbody tr"));
  var show = function (sweeps) {
    var same = sweeps.length === rows.length && sweeps.every(function (sweep, at) {
      return sweep.name === rows[at].cells[0].textContent;
    });
    // One has begun or come to its end: there are other results as well.
    if (!same) { location.reload(); return; }
    sweeps.forEach(function (sweep, at) {
      [sweep.done, sweep.rate, sweep.left].forEach(function (text, index) {
        rows[at].cells[index + 2].textContent = text;
      });
    });
    status.textContent = "";
  };
  setInterval(function () {
    fetch("/sweeps", { cache: "no-store" }).then(function (response) {
      return response.json();
    }).then(function (message) { if (message.ok) { show(message.ok); } }, function () {
      status.textContent = "The server does not answer.";
    });
  }, 2000);
}());
