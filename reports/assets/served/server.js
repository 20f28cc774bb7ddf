// The simulator of the server that this page came from: how it is asked, and what becomes of its
// answers. It stands in the place of the one inside a report, and asks nobody else.
  // Why a page may not be right any more.
  var STALE = "Refused: the scenario has changed since this page was made. Load the page again.";

  // What is set is held against this.
  var OWN = { name: "the scenario", cases: "as the scenario has it" };

  // What a server said, or why nothing came.
  var answered = function (asked, tell) {
    asked.then(function (response) { return response.json(); }).then(tell, function (error) {
      tell({ error: "the server does not answer (" + error.message + "); is it still running?" });
    });
  };

  // What is turned stands in the page's address, by the names and values that people see: so the
  // page is the same when it is loaded again or come back to. A name or a value that the scenario has
  // no more is passed over.
  var turned = function (place, knobs) {
    var inputs = knobs.map(function (_, at) { return place.querySelector("#what-if-" + at); });
    if (inputs.indexOf(null) >= 0) { return function () {}; }
    var name = function (input) { return input.dataset.group + ": " + input.dataset.name; };
    var nominal = inputs.map(function (input) { return input.value; });
    var asked = new URLSearchParams(location.search);
    var set = inputs.filter(function (input, at) {
      var stop = knobs[at].stops.findIndex(function (stop) {
        return stop.shown === asked.get(name(input));
      });
      if (stop < 0) { return false; }
      input.value = String(stop);
      return input.value !== nominal[at];
    });
    set.forEach(function (input) { input.dispatchEvent(new Event("input")); });
    return function () {
      var now = new URLSearchParams();
      inputs.forEach(function (input, at) {
        var stop = knobs[at].stops[input.value];
        if (input.value !== nominal[at]) { now.append(name(input), stop.shown); }
      });
      var query = now.toString();
      history.replaceState(null, "", location.pathname + (query && "?" + query) + location.hash);
    };
  };

  // Loads what can be turned, and gives back how to ask for more; `tell` hears each answer.
  var pool = function (place, tell) {
    place.dataset.runs = "server";
    // Of which scenario the page is: that of the first answer.
    var own = null;
    var keep = null;
    var ask = function (how) {
      var started = performance.now();
      answered(fetch("/what-if", how), function (message) {
        var all = message.ok && (message.ok.answer || message.ok);
        var ok = all && { cases: all.cases, command: all.command, warnings: all.warnings,
          knobs: message.ok.knobs, beyond: message.ok.beyond };
        own = own || (all && all.fingerprint);
        tell({ error: message.error, ok: ok, stale: !!all && all.fingerprint !== own,
          ms: performance.now() - started });
        if (ok && ok.knobs && !keep) { keep = turned(place, ok.knobs); }
      });
    };
    ask({ cache: "no-store" });
    return function (message) {
      if (keep) { keep(); }
      ask({ method: "POST", headers: { "content-type": "application/json" },
        body: JSON.stringify(message.set) });
    };
  };
