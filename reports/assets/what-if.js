// Sliders of a page that holds a simulator: they set values, the simulator runs, and what comes of
// it is shown beside what the report says. Nothing is sent, nothing is stored, and no text becomes
// markup.
(function () {
  "use strict";
  var place = document.querySelector(".what-if");
  var make = function (name, text, parent, more) {
    var made = document.createElement(name);
    made.textContent = text;
    Object.keys(more || {}).forEach(function (key) { made.setAttribute(key, more[key]); });
    if (parent) { parent.appendChild(made); }
    return made;
  };

  // What runs beside the page, in a worker where the browser gives one: it is written out as text
  // for that, so it uses nothing from outside. It takes {module, files} once, then {set}, and tells
  // {loaded} or {answer} with the milliseconds of the run, or {error}.
  var engine = function (tell) {
    var kept = null;
    var calls = null;
    var bytesOf = function (base64) {
      var text = atob(base64);
      var bytes = new Uint8Array(text.length);
      for (var at = 0; at < text.length; at += 1) { bytes[at] = text.charCodeAt(at); }
      return bytes;
    };
    var said = function (length) {
      var bytes = new Uint8Array(calls.memory.buffer, calls.output(), length);
      return new TextDecoder().decode(bytes.slice());
    };
    var call = function (name, bytes) {
      var started = performance.now();
      try {
        var room = calls.input(bytes.length);
        new Uint8Array(calls.memory.buffer, room, bytes.length).set(bytes);
        var answer = JSON.parse(said(calls[name]()));
        answer.ms = performance.now() - started;
        return answer;
      } catch (trap) {
        // What trapped is not called again: the next question loads it anew.
        var why = String(trap);
        try { why = said(calls.fault()) || why; } catch (worse) { why = String(trap); }
        calls = null;
        return { error: "internal fault of the simulator: " + why, ms: 0 };
      }
    };
    var load = function () {
      return WebAssembly.instantiate(kept.module, {}).then(function (made) {
        calls = (made.instance || made).exports;
        return call("load", kept.files);
      });
    };
    return function (message) {
      var work;
      if (message.module) {
        var packed = new Blob([bytesOf(message.module)]).stream();
        var unpacked = new Response(packed.pipeThrough(new DecompressionStream("gzip")));
        work = unpacked.arrayBuffer().then(function (bytes) {
          return WebAssembly.compile(bytes);
        }).then(function (module) {
          kept = { module: module, files: bytesOf(message.files) };
          return load();
        });
      } else {
        work = (calls ? Promise.resolve({}) : load()).then(function (loaded) {
          if (loaded.error) { return loaded; }
          return call("run", new TextEncoder().encode(JSON.stringify(message.set)));
        });
      }
      work.then(tell, function (error) { tell({ error: String(error), ms: 0 }); });
    };
  };

  // Calls `ready` with how to ask: of a worker, or of the page itself where there is none.
  var start = function (tell, ready) {
    var here = function () {
      place.dataset.runs = "page";
      var take = engine(tell);
      ready(function (message) { setTimeout(take, 20, message); });
    };
    try {
      var text = "\"use strict\"; onmessage = function (event) { take(event.data); };\n" +
        "var take = (" + engine.toString() + ")(function (told) { postMessage(told); });";
      var url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      var worker = new Worker(url);
      var answered = false;
      worker.onmessage = function (event) {
        answered = true;
        tell(event.data);
      };
      worker.onerror = function (event) {
        event.preventDefault();
        if (answered) { tell({ error: String(event.message), ms: 0 }); } else { here(); }
      };
      place.dataset.runs = "worker";
      ready(function (message) { worker.postMessage(message); });
    } catch (none) {
      here();
    }
  };

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

  var change = function (now, then) {
    if (now.value === null || then.value === null || then.value === 0) { return "-"; }
    var percent = 100 * (now.value / then.value - 1);
    if (now.value === then.value) { return "same"; }
    return (percent < 0 ? "\u2212" : "+") + Math.abs(percent).toFixed(Math.abs(percent) < 10 ? 2 : 1) + " %";
  };
  var table = function (cases) {
    var sample = cases.filter(function (one) { return one.figures.length > 0; })[0];
    var names = sample ? sample.figures.map(function (figure) { return figure.name; }) : [];
    var caption = "Cases as they are set, and as the report has them";
    var box = make("div", "", place, { class: "wide", role: "region", tabindex: "0", "aria-label": caption });
    var whole = make("table", "", box);
    make("caption", caption, whole);
    var head = make("tr", "", make("thead", "", whole));
    make("th", "case", head, { scope: "col" });
    names.forEach(function (name) {
      [name + ", as set", "as reported", "change"].forEach(function (text) {
        make("th", text, head, { scope: "col", class: "number" });
      });
    });
    var body = make("tbody", "", whole);
    var rows = cases.map(function (one, at) {
      var row = make("tr", "", body);
      make("th", (at + 1) + " " + one.label, row, { scope: "row" });
      return names.map(function (_, index) {
        var now = make("td", "", row, { class: "number" });
        var then = one.figures[index];
        make("td", then ? then.shown : "out of memory", row, { class: "number" });
        return [now, make("td", "", row, { class: "number" })];
      });
    });
    return function (now) {
      now.forEach(function (one, at) {
        rows[at].forEach(function (cells, index) {
          var figure = one.figures[index];
          var then = cases[at].figures[index];
          cells[0].textContent = figure ? figure.shown : "out of memory";
          cells[0].title = one.oom || "";
          cells[0].dataset.value = figure ? String(figure.value) : "";
          cells[1].textContent = figure && then ? change(figure, then) : figure || then ? "-" : "same";
          var differs = cells[1].textContent !== "same";
          cells.forEach(function (cell) { cell.classList.toggle("differs", differs); });
        });
      });
    };
  };

  // The first figure against the last, which is the peak of memory: as reported, and as set.
  var chart = function (cases) {
    var width = 720;
    var height = 360;
    var edge = { left: 70, right: 20, top: 16, bottom: 46 };
    var draw = function (name, more, parent, text) {
      var made = document.createElementNS(whole.namespaceURI, name);
      Object.keys(more).forEach(function (key) { made.setAttribute(key, more[key]); });
      if (text) { made.textContent = text; }
      parent.appendChild(made);
      return made;
    };
    var box = make("div", "", make("figure", "", place), { class: "chart" });
    var sheet = make("div", "", box, { class: "sheet" });
    var whole = place.querySelector("svg");
    whole.removeAttribute("width");
    whole.removeAttribute("height");
    whole.removeAttribute("aria-hidden");
    whole.setAttribute("viewBox", "0 0 " + width + " " + height);
    whole.setAttribute("aria-label", "Chart of the table below: hollow circles are the report's " +
      "cases, filled ones the same cases as they are set");
    sheet.appendChild(whole);
    var points = function (list) {
      return list.map(function (one) {
        var y = one.figures[0];
        var x = one.figures[one.figures.length - 1];
        return y && y.value !== null ? { x: x.value, y: y.value, label: one.label } : null;
      });
    };
    var then = points(cases);
    var names = (cases.filter(function (one) { return one.figures.length > 0; })[0] || { figures: [] }).figures;
    var unitOf = function (most, units) {
      return units.filter(function (unit) { return most >= unit[1]; })[0] || units[units.length - 1];
    };
    var ticks = function (most) {
      var rough = most / 5;
      var ten = Math.pow(10, Math.floor(Math.log10(rough)));
      var step = [1, 2, 5, 10].map(function (times) { return times * ten; })
        .filter(function (size) { return size >= rough; })[0];
      var all = [];
      for (var at = 0; at <= most; at += step) { all.push(Number(at.toPrecision(6))); }
      return all;
    };
    return function (list) {
      whole.textContent = "";
      var now = points(list);
      var all = then.concat(now).filter(Boolean);
      if (all.length === 0) { return; }
      var most = function (key) { return Math.max.apply(null, all.map(function (one) { return one[key]; })) * 1.05 || 1; };
      var xUnit = unitOf(most("x"), [["TiB", 1099511627776], ["GiB", 1073741824], ["MiB", 1048576], ["B", 1]]);
      var yUnit = unitOf(most("y"), [["s", 1000], ["ms", 1], ["us", 0.001], ["ns", 0.000001]]);
      var x = function (value) { return edge.left + (width - edge.left - edge.right) * value / most("x"); };
      var y = function (value) { return height - edge.bottom - (height - edge.top - edge.bottom) * value / most("y"); };
      ticks(most("x") / xUnit[1]).forEach(function (tick) {
        var at = x(tick * xUnit[1]);
        draw("line", { x1: at, x2: at, y1: edge.top, y2: height - edge.bottom, stroke: "#e0e0e0" }, whole);
        draw("text", { x: at, y: height - edge.bottom + 18, "text-anchor": "middle" }, whole, String(tick));
      });
      ticks(most("y") / yUnit[1]).forEach(function (tick) {
        var at = y(tick * yUnit[1]);
        draw("line", { x1: edge.left, x2: width - edge.right, y1: at, y2: at, stroke: "#e0e0e0" }, whole);
        draw("text", { x: edge.left - 8, y: at + 4, "text-anchor": "end" }, whole, String(tick));
      });
      draw("text", { x: (edge.left + width) / 2, y: height - 8, "text-anchor": "middle" }, whole,
        names[names.length - 1].name + " (" + xUnit[0] + ")");
      draw("text", { x: 14, y: height / 2, "text-anchor": "middle", transform: "rotate(-90 14 " + height / 2 + ")" },
        whole, names[0].name + " (" + yUnit[0] + ")");
      then.forEach(function (old, at) {
        var one = now[at];
        if (old && one) {
          draw("line", { x1: x(old.x), y1: y(old.y), x2: x(one.x), y2: y(one.y), stroke: "#787878", "stroke-dasharray": "3 3" }, whole);
        }
        if (old) { draw("circle", { cx: x(old.x), cy: y(old.y), r: 6, fill: "none", stroke: "#0b5394", "stroke-width": 2 }, whole); }
        if (!one) { return; }
        var mark = draw("circle", { class: "now", cx: x(one.x), cy: y(one.y), r: 4.5, fill: "#0b5394" }, whole);
        draw("title", {}, mark, one.label);
        draw("text", { x: x(one.x) + 9, y: y(one.y) - 6, "font-weight": "600" }, whole, String(at + 1));
      });
    };
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
        input.dataset.set = JSON.stringify(stop.set);
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
      set: function () { return all.reduce(function (list, one) { return list.concat(one.set()); }, []); },
      back: function () { all.forEach(function (one) { one.back(); }); }
    };
  };

  // The line for a terminal, with a button that copies it.
  var command = function () {
    var bar = make("p", "The same from the command line: ", place, { class: "command" });
    var code = make("code", "", bar);
    var button = make("button", "Copy", make("span", " ", bar), { type: "button", "aria-label": "Copy the command" });
    var said = make("span", "", bar, { role: "status" });
    button.addEventListener("click", function () {
      var tell = function (text) { return function () { said.textContent = text; }; };
      var refused = tell(" the browser refused to copy");
      if (!navigator.clipboard) { refused(); return; }
      navigator.clipboard.writeText(code.textContent).then(tell(" copied"), refused);
    });
    return function (text) {
      code.textContent = text;
      said.textContent = "";
    };
  };

  var status = make("p", "The simulator is starting.", place, { role: "status", class: "said plain" });
  place.querySelector(".note").remove();
  var fail = function (state, text) {
    place.dataset.state = state;
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
    if (busy) {
      waiting = true;
      return;
    }
    busy = true;
    ask({ set: page.knobs.set() });
  };
  var show = function (answer, ms) {
    page.table(answer.cases);
    page.chart(answer.cases);
    page.command(answer.command);
    place.dataset.ms = ms.toFixed(1);
    var count = answer.cases.length === 1 ? "1 case" : answer.cases.length + " cases";
    say(count + " in " + Math.max(1, Math.round(ms)) + " ms, exact.");
  };
  var build = function (loaded) {
    if (!agrees(loaded.answer.cases)) {
      fail("refused", "Refused: the simulator in this page does not give the numbers of this report. " +
        "Build it again (cargo xtask what-if) and run the scenario again.");
      return;
    }
    page = {};
    page.knobs = sliders(loaded.knobs, turn);
    var reset = make("button", "Reset all", make("div", "", place, { class: "reset" }), { type: "button" });
    reset.addEventListener("click", function () {
      page.knobs.back();
      turn();
    });
    place.appendChild(status);
    page.chart = chart(loaded.answer.cases);
    page.table = table(loaded.answer.cases);
    page.command = command();
    return true;
  };
  var told = function (message) {
    busy = false;
    if (message.error) {
      clearTimeout(later);
      fail(page ? "error" : "failed", page ? "Refused: " + message.error : "The sliders cannot be had: " + message.error);
    } else if (page) {
      show(message.ok, message.ms);
      place.dataset.state = "ready";
    } else if (build(message.ok)) {
      show(message.ok.answer, message.ms);
      place.dataset.state = "ready";
    }
    if (waiting && page) {
      waiting = false;
      turn();
    }
  };
  start(told, function (how) {
    var text = function (id) { return document.getElementById(id).textContent; };
    ask = how;
    how({ module: text("what-if-module"), files: text("what-if-files") });
  });
}());
