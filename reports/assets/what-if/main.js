// Sliders: they set values, the simulator runs, and what comes of it is shown beside what the report
// says. Nothing is stored.
  var place = document.querySelector(".what-if");
  // Equal, but for the last bit that reading a decimal may lose: a picosecond more is far from it.
  var equal = function (a, b) {
    return a === b || (a !== null && b !== null && Math.abs(a - b) <= 1e-13 * Math.abs(b));
  };
  var agrees = function (cases) {
    var own = JSON.parse(place.dataset.nominal);
    return own.length === cases.length && own.every(function (figures, at) {
      var found = cases[at].figures;
      if (figures === null) { return cases[at].oom !== null; }
      return figures.length === found.length && figures.every(function (value, index) {
        return equal(found[index].value, value);
      });
    });
  };

  // The sliders by what they belong to; `turned` is called when one moves. Gives back how to read
  // what is set and how to put all back.
  var sliders = function (knobs, turned) {
    var groups = {};
    var area = make("div", "", place, { class: "knobs" });
    var all = knobs.map(function (knob, at) {
      if (!groups[knob.group]) {
        var count = Object.keys(groups).length;
        var fold = make("details", "", area, count < 4 ? { open: "" } : {});
        make("summary", knob.group, fold);
        groups[knob.group] = make("div", "", fold, { role: "group", "aria-label": knob.group });
      }
      var line = make("div", "", groups[knob.group], { class: "knob" });
      var id = "what-if-" + at;
      make("label", knob.name, line, { for: id });
      var input = make("input", "", line, { type: "range", id: id, min: "0", step: "1",
        max: String(knob.stops.length - 1), "data-name": knob.name, "data-group": knob.group });
      var value = make("output", "", line, { for: id });
      var show = function () {
        var stop = knob.stops[input.value];
        value.textContent = stop.shown;
        value.classList.toggle("differs", stop.set.length > 0);
        input.setAttribute("aria-valuetext", stop.shown);
      };
      var back = function () {
        input.value = String(knob.nominal);
        show();
      };
      input.addEventListener("input", function () {
        show();
        turned();
      });
      back();
      return { back: back, set: function () { return knob.stops[input.value].set; } };
    });
    return {
      set: function () {
        return all.reduce(function (list, one) { return list.concat(one.set()); }, []);
      },
      back: function () { all.forEach(function (one) { one.back(); }); }
    };
  };

  // The line for a terminal, with a button that copies it.
  var command = function () {
    var bar = make("p", "The same from the command line: ", place, { class: "command" });
    var code = make("code", "", bar);
    var button = make("button", "Copy", make("span", " ", bar),
      { type: "button", "aria-label": "Copy the command" });
    var said = make("span", "", bar, { role: "status" });
    button.addEventListener("click", function () {
      var tell = function (text) { return function () { said.textContent = text; }; };
      var refused = tell(" the browser refused to copy");
      if (!navigator.clipboard) { refused(); return; }
      navigator.clipboard.writeText(code.textContent).then(tell(" copied"), refused);
    });
    return function (text) { code.textContent = text; };
  };

  var status = make("p", "The simulator is starting.", place, { role: "status", class: "said plain" });
  place.querySelector(".note").remove();
  var fail = function (state, text) {
    place.dataset.state = state;
    clearTimeout(later);
    status.className = "said bad";
    status.textContent = text;
  };
  var ask = null;
  var page = null;
  var busy = true;
  var waiting = false;
  var later = null;
  var say = function (text) {
    // A screen reader hears the last of many, not each on the way.
    clearTimeout(later);
    later = setTimeout(function () {
      status.className = "said plain";
      status.textContent = text;
    }, 300);
  };
  var turn = function () {
    place.dataset.state = "running";
    waiting = busy;
    if (!busy) { ask({ set: page.knobs.set() }); }
    busy = true;
  };
  var show = function (answer, ms) {
    page.table(answer.cases);
    page.chart(answer.cases);
    page.command(answer.command);
    page.warned.hidden = answer.warnings.length === 0;
    page.warned.textContent = "The command warns of this machine: " + answer.warnings.join("; ");
    place.dataset.ms = ms.toFixed(1);
    var count = answer.cases.length === 1 ? "1 case" : answer.cases.length + " cases";
    say(count + ", all exact; the answer took " + Math.max(1, Math.round(ms)) + " ms.");
  };
  var build = function (loaded) {
    page = { knobs: sliders(loaded.knobs, turn) };
    if (loaded.beyond) { make("p", loaded.beyond + " more numbers can be set by --set only.", place); }
    var bar = make("div", "", place, { class: "reset" });
    var reset = make("button", "Reset all", bar, { type: "button" });
    reset.addEventListener("click", function () { page.knobs.back(); turn(); });
    place.appendChild(status);
    page.chart = chart(place, loaded.cases);
    page.table = table(place, loaded.cases);
    page.command = command();
    page.warned = make("p", "", place, { class: "said note set" });
  };
  var told = function (message) {
    busy = false;
    if (message.error) {
      var what = page ? "Refused: " : "The sliders cannot be had: ";
      fail(page ? "error" : "failed", what + message.error);
    } else if (message.stale || !(page || agrees(message.ok.cases))) {
      // No figure of what was made of another scenario is one of this.
      place.replaceChildren(status);
      fail("refused", STALE);
    } else {
      if (!page) { build(message.ok); }
      show(message.ok, message.ms);
      place.dataset.state = "ready";
    }
    if (waiting && page) { turn(); }
  };
  ask = pool(place, told);
