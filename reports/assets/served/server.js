// The simulator of the server that this page came from: how it is asked, and what becomes of its
// answers. It stands in the place of the one inside a report, and asks nobody else.
  // Why a page may not be right any more.
  var STALE = "Refused: the scenario has changed since this page was made. Load the page again.";

  // What a server said, or why nothing came.
  var answered = function (asked, tell) {
    asked.then(function (response) { return response.json(); }).then(tell, function (error) {
      tell({ error: "the server does not answer (" + error.message + "); is it still running?" });
    });
  };

  // Loads what can be turned, and gives back how to ask for more; `tell` hears each answer.
  var pool = function (place, tell) {
    place.dataset.runs = "server";
    // Of which scenario the page is: that of the first answer.
    var own = null;
    var ask = function (how) {
      var started = performance.now();
      answered(fetch("/what-if", how), function (message) {
        var all = message.ok && (message.ok.answer || message.ok);
        var ok = all && { cases: all.cases, command: all.command, knobs: message.ok.knobs };
        own = own || (all && all.fingerprint);
        tell({ error: message.error, ok: ok, stale: !!all && all.fingerprint !== own,
          ms: performance.now() - started });
      });
    };
    ask({ cache: "no-store" });
    return function (message) {
      ask({ method: "POST", headers: { "content-type": "application/json" },
        body: JSON.stringify(message.set) });
    };
  };
