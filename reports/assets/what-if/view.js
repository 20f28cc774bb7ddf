// What comes of the cases: a table and a chart beside what the report says. No text becomes markup.
  var make = function (name, text, parent, more) {
    var made = document.createElement(name);
    made.textContent = text;
    Object.keys(more || {}).forEach(function (key) { made.setAttribute(key, more[key]); });
    if (parent) { parent.appendChild(made); }
    return made;
  };

  var change = function (now, then) {
    if (now.value === null || then.value === null || then.value === 0) { return "-"; }
    var percent = 100 * (now.value / then.value - 1);
    if (now.value === then.value) { return "same"; }
    var size = Math.abs(percent);
    return (percent < 0 ? "\u2212" : "+") + size.toFixed(size < 10 ? 2 : 1) + " %";
  };
  // The figures that cases have: those of the first that ran, as they are set or as reported.
  var named = function (cases) {
    var ran = cases.filter(function (one) { return one.figures.length > 0; })[0];
    return ran ? ran.figures : [{ name: "result" }];
  };
  var table = function (place, cases) {
    var caption = "Cases as they are set, and as " + OWN.name + " has them";
    var box = make("div", "", place,
      { class: "wide", role: "region", tabindex: "0", "aria-label": caption });
    return function (now) {
      var figures = named(now.concat(cases));
      box.textContent = "";
      var whole = make("table", "", box);
      make("caption", caption, whole);
      var head = make("tr", "", make("thead", "", whole));
      make("th", "case", head, { scope: "col" });
      figures.forEach(function (figure) {
        [figure.name + ", as set", OWN.cases, "change"].forEach(function (text) {
          make("th", text, head, { scope: "col", class: "number" });
        });
      });
      var body = make("tbody", "", whole);
      now.forEach(function (one, at) {
        var row = make("tr", "", body);
        make("th", (at + 1) + " " + one.called, row, { scope: "row" });
        figures.forEach(function (_, index) {
          var figure = one.figures[index], then = cases[at].figures[index];
          var said = figure && then ? change(figure, then) : figure || then ? "-" : "same";
          var look = "number set" + (said === "same" ? "" : " differs");
          make("td", figure ? figure.shown : "out of memory", row, { class: look,
            title: one.oom || "", "data-value": figure ? String(figure.value) : "" });
          make("td", then ? then.shown : "out of memory", row, { class: "number" });
          make("td", said, row, { class: look });
        });
      });
    };
  };

  var BLUE = "#0b5394";
  var SIZES = [["TiB", 1099511627776], ["GiB", 1073741824], ["MiB", 1048576], ["B", 1]];
  var TIMES = [["s", 1000], ["ms", 1], ["us", 0.001], ["ns", 0.000001]];

  // The first figure against the last, which is the peak of memory: as reported, and as set.
  var chart = function (place, cases) {
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
    var scrolls = { class: "chart", role: "region", tabindex: "0", "aria-label": "Chart" };
    var box = make("div", "", make("figure", "", place), scrolls);
    var whole = place.querySelector("svg");
    ["width", "height", "aria-hidden"].forEach(function (name) { whole.removeAttribute(name); });
    whole.setAttribute("viewBox", "0 0 " + width + " " + height);
    whole.setAttribute("aria-label", "Chart of the table below: hollow circles are " + OWN.name +
      "'s cases, filled ones the same cases as they are set");
    make("div", "", box, { class: "sheet" }).appendChild(whole);
    var points = function (list) {
      return list.map(function (one) {
        var y = one.figures[0];
        var x = one.figures[one.figures.length - 1];
        return y && y.value !== null ? { x: x.value, y: y.value, called: one.called } : null;
      });
    };
    var then = points(cases);
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
      var names = named(list.concat(cases));
      var largest = function (key) {
        return Math.max.apply(null, all.map(function (one) { return one[key]; })) * 1.05 || 1;
      };
      var most = { x: largest("x"), y: largest("y") };
      var xUnit = unitOf(most.x, SIZES);
      var yUnit = unitOf(most.y, TIMES);
      var wide = width - edge.left - edge.right;
      var high = height - edge.top - edge.bottom;
      var x = function (value) { return edge.left + wide * value / most.x; };
      var y = function (value) { return height - edge.bottom - high * value / most.y; };
      ticks(most.x / xUnit[1]).forEach(function (tick) {
        var at = x(tick * xUnit[1]);
        draw("line", { x1: at, x2: at, y1: edge.top, y2: height - edge.bottom }, whole);
        var below = { x: at, y: height - edge.bottom + 18, "text-anchor": "middle" };
        draw("text", below, whole, String(tick));
      });
      ticks(most.y / yUnit[1]).forEach(function (tick) {
        var at = y(tick * yUnit[1]);
        draw("line", { x1: edge.left, x2: width - edge.right, y1: at, y2: at }, whole);
        var beside = { x: edge.left - 8, y: at + 4, "text-anchor": "end" };
        draw("text", beside, whole, String(tick));
      });
      var title = function (x, y, name, unit, angle) {
        var turn = "rotate(" + angle + " " + x + " " + y + ")";
        var at = { x: x, y: y, "text-anchor": "middle", transform: turn };
        draw("text", at, whole, name + " (" + unit[0] + ")");
      };
      title((edge.left + width) / 2, height - 8, names[names.length - 1].name, xUnit, 0);
      title(14, height / 2, names[0].name, yUnit, -90);
      var texts = {};
      then.forEach(function (old, at) {
        var one = now[at];
        if (old && one) {
          draw("line", { x1: x(old.x), y1: y(old.y), x2: x(one.x), y2: y(one.y), class: "way set" }, whole);
        }
        if (old) {
          draw("circle", { cx: x(old.x), cy: y(old.y), r: 6, fill: "none", stroke: BLUE }, whole);
        }
        if (!one) { return; }
        var dot = { cx: x(one.x), cy: y(one.y), r: 4.5, fill: BLUE, class: "set" };
        draw("title", {}, draw("circle", dot, whole), one.called);
        // Those in one place have one text.
        var near = [dot.cx, dot.cy].map(function (to) { return Math.round(to / 9); }).join();
        var beside = { x: dot.cx + 9, y: dot.cy - 6, class: "number set" };
        texts[near] = texts[near] || draw("text", beside, whole);
        texts[near].append(texts[near].textContent ? ", " : "", String(at + 1));
      });
    };
  };

